package signature

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What is read of a request's headers at most, so that nobody without a secret
// can make a receiver work (fault B93). Two algorithms and ten old secrets
// beside the current one still fit.
const (
	maxHeaderLen = 8192
	maxEntries   = 24
)

// Request is what is verified, as it came over the wire.
type Request struct {
	Header http.Header
	Body   []byte // the raw bytes, before any decoding
}

// Verify returns nil if the request bears a signature that one of the keys made
// over exactly these bytes, and a timestamp within the tolerance of now, edges
// included, in whole seconds; else a [*VerifyError]. A receiver without a wish
// of its own passes s.Tolerance. Without a signed timestamp, now and tolerance
// do not matter (rule R3).
//
// It is strict where libraries are lenient: each header exactly once, the
// timestamp 1 to 12 digits, signed as the header shows it, one text for each
// signature. Versions that it does not know are skipped, and every signature is
// tried with every key. It compares in constant time and never panics.
func (s Scheme) Verify(req Request, keys []Key, now time.Time, tolerance time.Duration) error {
	if err := s.Validate(); err != nil {
		return refuse(ReasonBadScheme, "")
	}
	c, err := s.readClaim(req.Header)
	if err != nil {
		return err
	}
	if s.signs(placeholderTime) {
		if err := c.checkAge(now, tolerance, s.timestampHeader()); err != nil {
			return err
		}
	}
	return s.match(c, req.Body, keys)
}

func refuse(reason Reason, header string) error {
	return &VerifyError{Reason: reason, Header: header}
}

// claim is what the headers say, not yet believed.
type claim struct {
	id      string
	seconds string
	entries []entry
}

// entry is one signature of the header, of a known version and the right length.
type entry struct {
	algorithm Algorithm
	text      string
}

// readClaim reads the headers. Everything malformed is refused here, before
// anything is computed.
func (s Scheme) readClaim(h http.Header) (claim, error) {
	var c claim
	var err error
	if s.IDHeader != "" {
		if c.id, err = single(h, s.IDHeader); err != nil {
			return claim{}, err
		}
		if separator := s.idSeparator(); separator != "" && strings.Contains(c.id, separator) {
			return claim{}, refuse(ReasonMalformedID, s.IDHeader)
		}
	}
	if s.TimestampHeader != "" {
		if c.seconds, err = single(h, s.TimestampHeader); err != nil {
			return claim{}, err
		}
	}
	value, err := single(h, s.SignatureHeader)
	if err != nil {
		return claim{}, err
	}
	if reason := s.parseSignatures(value, &c); reason != "" {
		return claim{}, refuse(reason, s.SignatureHeader)
	}
	if s.signs(placeholderTime) && !isTimestamp(c.seconds) {
		return claim{}, refuse(ReasonMalformedTimestamp, s.timestampHeader())
	}
	if len(c.entries) == 0 {
		return claim{}, refuse(ReasonNoSignature, s.SignatureHeader)
	}
	return c, nil
}

// single returns the value of a header that must be there exactly once. Header
// maps that were not filled by net/http may hold other spellings of the name;
// they count too, else a second value could hide in one.
func single(h http.Header, name string) (string, error) {
	value, count := "", 0
	for key, values := range h {
		if strings.EqualFold(key, name) && len(values) > 0 {
			value = values[0]
			count += len(values)
		}
	}
	switch {
	case count > 1:
		return "", refuse(ReasonRepeatedHeader, name)
	case value == "":
		return "", refuse(ReasonMissingHeader, name)
	case len(value) > maxHeaderLen:
		return "", refuse(ReasonTooLarge, name)
	}
	return value, nil
}

// parseSignatures reads the signature header into the claim. It returns "" or
// why the header is refused as a whole.
func (s Scheme) parseSignatures(value string, c *claim) Reason {
	separator, assign := " ", ","
	switch s.Form {
	case FormStandard:
	case FormTimestampedHex:
		separator, assign = ",", "="
	case FormHex:
		s.addEntry(c, HMACSHA256, value)
		return ""
	}
	if strings.Count(value, separator) >= maxEntries {
		return ReasonTooLarge
	}
	timestamps := 0
	for item := range strings.SplitSeq(value, separator) {
		label, text, _ := strings.Cut(item, assign)
		switch {
		case label == "v1":
			s.addEntry(c, HMACSHA256, text)
		case label == "v1a":
			s.addEntry(c, Ed25519, text)
		case label == "t" && s.Form == FormTimestampedHex:
			c.seconds = text
			timestamps++
		}
	}
	if timestamps > 1 {
		return ReasonMalformedTimestamp
	}
	return ""
}

// addEntry adds a signature if its length is that of one; else it can't match.
func (s Scheme) addEntry(c *claim, a Algorithm, text string) {
	size := sha256.Size
	if a == Ed25519 {
		size = ed25519.SignatureSize
	}
	if s.allows(a) && len(text) == s.Form.encodedLen(size) {
		c.entries = append(c.entries, entry{algorithm: a, text: text})
	}
}

// timestampHeader names the header that the timestamp comes in.
func (s Scheme) timestampHeader() string {
	if s.TimestampHeader != "" {
		return s.TimestampHeader
	}
	return s.SignatureHeader
}

// isTimestamp accepts ^[0-9]{1,12}$.
func isTimestamp(text string) bool {
	if text == "" || len(text) > maxTimestampDigits {
		return false
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return true
}

// checkAge compares whole seconds: twelve digits of them do not fit in a
// time.Duration.
func (c claim) checkAge(now time.Time, tolerance time.Duration, header string) error {
	seconds, err := strconv.ParseInt(c.seconds, 10, 64)
	if err != nil {
		return refuse(ReasonMalformedTimestamp, header)
	}
	age, allowed := now.Unix()-seconds, int64(tolerance/time.Second)
	switch {
	case age > allowed:
		return refuse(ReasonTooOld, header)
	case -age > allowed:
		return refuse(ReasonTooNew, header)
	}
	return nil
}

// match tries every entry with every key of its algorithm. Which of them fits
// is no secret, so it may stop at the first.
func (s Scheme) match(c claim, body []byte, keys []Key) error {
	env := envelope{id: c.id, seconds: []byte(c.seconds)}
	usable := false
	for _, k := range keys {
		if k.material == nil || !s.allows(k.Algorithm()) {
			continue
		}
		usable = true
		fits, err := s.fits(c.entries, k, env, body)
		if err != nil {
			return refuse(ReasonBadScheme, "")
		}
		if fits {
			return nil
		}
	}
	if !usable {
		return refuse(ReasonNoKey, "")
	}
	return refuse(ReasonNoMatch, s.SignatureHeader)
}

// fits tells whether the key made one of the entries. Nothing is computed for a
// key without an entry of its algorithm.
func (s Scheme) fits(entries []entry, k Key, env envelope, body []byte) (bool, error) {
	algorithm := k.Algorithm()
	hasAlgorithm := func(e entry) bool { return e.algorithm == algorithm }
	if !slices.ContainsFunc(entries, hasAlgorithm) {
		return false, nil
	}
	if k.material.hmac != nil {
		want, err := s.appendHMAC(nil, k.material.hmac, env, body)
		return err == nil && slices.ContainsFunc(entries, func(e entry) bool {
			return hasAlgorithm(e) && subtle.ConstantTimeCompare(want, []byte(e.text)) == 1
		}), err
	}
	text, err := s.signedText(env, body)
	return err == nil && slices.ContainsFunc(entries, func(e entry) bool {
		return hasAlgorithm(e) && verifyEd25519(k.material.public, text, e.text)
	}), err
}

func verifyEd25519(public ed25519.PublicKey, text []byte, signature string) bool {
	raw, err := base64.StdEncoding.Strict().DecodeString(signature)
	return err == nil && len(raw) == ed25519.SignatureSize && ed25519.Verify(public, text, raw)
}
