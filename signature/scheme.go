package signature

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Scheme says how one provider signs its webhooks. It is plain data: it can be
// looked up ([Lookup]), or filled in from a file, then checked with
// [Scheme.Validate].
type Scheme struct {
	// Name is the provider, for example "stripe".
	Name string
	// Variant tells several schemes of one provider apart; empty for the main one.
	Variant string

	// Signed is the template of the signed text. "{body}" stands for the raw
	// body and occurs once; "{id}" and "{t}" stand for the header texts of the
	// webhook's ID and of the timestamp, and occur once or not at all.
	Signed string
	// Algorithms lists what the scheme signs with. The key decides which one is
	// used, see [Scheme.ParseKey].
	Algorithms []Algorithm
	// KeyForm says how the text of a secret becomes the bytes of an HMAC key.
	KeyForm KeyForm
	// SecretPrefix may precede the base64 of an HMAC key; [KeyText] ignores it.
	SecretPrefix string

	// IDHeader carries the ID; it is set exactly if "{id}" is signed.
	IDHeader string
	// TimestampHeader carries the timestamp if "{t}" is signed and the
	// signature header itself does not carry it.
	TimestampHeader string
	// SignatureHeader carries the signatures.
	SignatureHeader string
	// Form is the layout of SignatureHeader.
	Form Form

	// Tolerance is how far the signed timestamp may be from the receiver's
	// clock, in both directions, if the receiver has no wish of its own.
	Tolerance time.Duration
}

// Algorithm is a way to sign.
type Algorithm string

// The algorithms.
const (
	HMACSHA256 Algorithm = "hmac-sha256" // RFC 2104 with SHA-256
	Ed25519    Algorithm = "ed25519"     // RFC 8032, pure Ed25519
)

// KeyForm says how the text of a secret becomes the bytes of an HMAC key. The
// same prefix "whsec_" means different things at different providers, so the
// form is never guessed from the secret.
type KeyForm string

// The key forms.
const (
	// KeyText takes the bytes of the secret's text as it stands, prefix included.
	KeyText KeyForm = "text"
	// KeyBase64 decodes the part after [Scheme].SecretPrefix; the prefix may be absent.
	KeyBase64 KeyForm = "base64"
)

// Form is the layout of the signature header.
type Form string

// The forms.
const (
	// FormStandard is "v1,<base64> v1a,<base64>": entries separated by single
	// spaces, v1 for HMAC-SHA256 and v1a for Ed25519 (Standard Webhooks).
	FormStandard Form = "standard"
	// FormTimestampedHex is "t=<unix seconds>,v1=<hex>[,v1=<hex>]" with
	// HMAC-SHA256 (contract rule E5).
	FormTimestampedHex Form = "timestamped-hex"
	// FormHex is one HMAC-SHA256 in hex and nothing else.
	FormHex Form = "hex"
)

// What a template may contain besides literal text.
const (
	placeholderBody = "{body}"
	placeholderID   = "{id}"
	placeholderTime = "{t}"
)

var errTemplate = errors.New("signed text: {body} must occur once, and nothing but {id}, {t} and {body} may stand in braces")

// Validate reports what makes the scheme unusable or unsafe. The schemes of
// this package are valid.
func (s Scheme) Validate() error {
	if err := s.validateTemplate(); err != nil {
		return err
	}
	if s.KeyForm != KeyText && s.KeyForm != KeyBase64 {
		return fmt.Errorf("key form %q is not known: text or base64", s.KeyForm)
	}
	if s.SignatureHeader == "" {
		return errors.New("the signature header has no name")
	}
	if s.signs(placeholderID) != (s.IDHeader != "") {
		return errors.New("an ID header belongs to a signed text with {id}, and only there")
	}
	if s.Tolerance < 0 || s.signs(placeholderTime) && s.Tolerance == 0 {
		return errors.New("a signed timestamp needs a tolerance above zero")
	}
	return s.validateForm()
}

// validateTemplate refuses above all a text without the body: its signature
// would fit any body.
func (s Scheme) validateTemplate() error {
	if strings.Count(s.Signed, placeholderID) > 1 || strings.Count(s.Signed, placeholderTime) > 1 {
		return errors.New("signed text: {id} and {t} may occur once")
	}
	_, err := s.signedText(envelope{}, nil)
	return err
}

func (s Scheme) validateForm() error {
	known := []Algorithm{HMACSHA256}
	timed := s.TimestampHeader != ""
	switch s.Form {
	case FormStandard:
		known = append(known, Ed25519)
	case FormTimestampedHex:
		if timed {
			return errors.New("the form timestamped-hex carries the timestamp itself and takes no timestamp header")
		}
		timed = true
	case FormHex:
	default:
		return fmt.Errorf("form %q is not known: standard, timestamped-hex or hex", s.Form)
	}
	if s.signs(placeholderTime) != timed {
		return errors.New("a timestamp belongs to a signed text with {t}, and only there")
	}
	if len(s.Algorithms) == 0 {
		return errors.New("no algorithm is named")
	}
	for _, a := range s.Algorithms {
		if !slices.Contains(known, a) {
			return fmt.Errorf("algorithm %q can't be used with the form %s", a, s.Form)
		}
	}
	return nil
}

// signs tells whether the signed text contains the placeholder.
func (s Scheme) signs(placeholder string) bool {
	return strings.Contains(s.Signed, placeholder)
}

// allows tells whether the scheme uses the algorithm.
func (s Scheme) allows(a Algorithm) bool {
	return slices.Contains(s.Algorithms, a)
}

// idSeparator returns the literal text after the ID. An ID that contained it
// could be read in two ways: id "a", t "1" and id "a.1" would sign alike.
func (s Scheme) idSeparator() string {
	_, rest, _ := strings.Cut(s.Signed, placeholderID)
	separator, _, _ := strings.Cut(rest, "{")
	return separator
}
