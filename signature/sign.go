package signature

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// maxTimestampDigits bounds a timestamp in Unix seconds on both sides; twelve
// digits reach the year 33658.
const (
	maxTimestampDigits = 12
	maxTimestamp       = 999_999_999_999
)

// Message is what is signed. Fields that the scheme does not sign are ignored.
type Message struct {
	ID        string // the webhook's ID, visible ASCII
	Timestamp int64  // the time of the attempt, Unix seconds
	Body      []byte // the raw bytes that will be sent
}

// What stops a message from being signed.
var (
	ErrNoKey     = errors.New("sign: no signing secret is given")
	ErrPublicKey = errors.New("sign: a public key can verify but not sign")
	ErrOtherKey  = errors.New("sign: the key's algorithm is not one of the scheme's")
	ErrOneKey    = errors.New("sign: this form of header holds one signature, so it takes one key")
	ErrTimestamp = errors.New("sign: the timestamp must be Unix seconds from 0 to 999999999999")
)

// AppendSignature appends the value of the signature header to dst: one entry
// for each key, in the order given, so that receivers with the old and with the
// new secret both accept it during a rotation. A key signs with its own
// algorithm. If there is an error, dst comes back as it was.
func (s Scheme) AppendSignature(dst []byte, msg Message, keys ...Key) ([]byte, error) {
	if len(keys) == 0 {
		return dst, ErrNoKey
	}
	if s.Form == FormHex && len(keys) > 1 {
		return dst, ErrOneKey
	}
	if err := s.checkMessage(msg); err != nil {
		return dst, err
	}
	var digits [maxTimestampDigits]byte
	seconds := strconv.AppendInt(digits[:0], msg.Timestamp, 10)
	out := dst
	if s.Form == FormTimestampedHex {
		out = append(append(out, "t="...), seconds...)
	}
	for i, k := range keys {
		var err error
		out = s.Form.appendLabel(out, k.Algorithm(), i == 0)
		if out, err = s.appendSigned(out, k, envelope{msg.ID, seconds}, msg.Body); err != nil {
			return dst, err
		}
	}
	return out, nil
}

// SetHeaders sets the headers that the scheme signs with: ID and timestamp
// where it has such headers, and the signature. If there is an error, h stays
// as it was.
func (s Scheme) SetHeaders(h http.Header, msg Message, keys ...Key) error {
	value, err := s.AppendSignature(nil, msg, keys...)
	if err != nil {
		return err
	}
	if s.IDHeader != "" {
		h.Set(s.IDHeader, msg.ID)
	}
	if s.TimestampHeader != "" {
		h.Set(s.TimestampHeader, strconv.FormatInt(msg.Timestamp, 10))
	}
	h.Set(s.SignatureHeader, string(value))
	return nil
}

// checkMessage keeps the signed text unambiguous and the ID fit for a header.
func (s Scheme) checkMessage(msg Message) error {
	if s.signs(placeholderTime) && (msg.Timestamp < 0 || msg.Timestamp > maxTimestamp) {
		return ErrTimestamp
	}
	if !s.signs(placeholderID) {
		return nil
	}
	if msg.ID == "" || len(msg.ID) > maxHeaderLen {
		return fmt.Errorf("sign: the ID must have 1 to %d characters", maxHeaderLen)
	}
	if separator := s.idSeparator(); separator != "" && strings.Contains(msg.ID, separator) {
		return fmt.Errorf("sign: the ID must not contain %q, which ends it in the signed text", separator)
	}
	for i := range len(msg.ID) {
		if msg.ID[i] <= ' ' || msg.ID[i] > '~' {
			return errors.New("sign: the ID must be visible ASCII, without spaces")
		}
	}
	return nil
}

// envelope is what is signed besides the body, as the headers show it.
type envelope struct {
	id      string
	seconds []byte
}

// appendSigned appends the signature that the key makes, in the form's encoding.
func (s Scheme) appendSigned(dst []byte, k Key, env envelope, body []byte) ([]byte, error) {
	if k.material == nil {
		return dst, ErrNoKey
	}
	if !s.allows(k.Algorithm()) {
		return dst, ErrOtherKey
	}
	if k.material.hmac != nil {
		return s.appendHMAC(dst, k.material.hmac, env, body)
	}
	if k.material.private == nil {
		return dst, ErrPublicKey
	}
	text, err := s.signedText(env, body)
	if err != nil {
		return dst, err
	}
	return s.Form.appendEncoded(dst, ed25519.Sign(k.material.private, text)), nil
}

// appendHMAC appends the encoded HMAC. The body is fed to it where it lies.
func (s Scheme) appendHMAC(dst []byte, key *hmacKey, env envelope, body []byte) ([]byte, error) {
	before, after, found := strings.Cut(s.Signed, placeholderBody)
	if !found {
		return dst, errTemplate // else the signature would fit any body
	}
	state := key.take()
	defer key.give(state)
	text, err := appendExpanded(state.text[:0], before, env)
	if err != nil {
		return dst, err
	}
	middle := len(text)
	if text, err = appendExpanded(text, after, env); err != nil {
		return dst, err
	}
	// A hash never returns an error (hash.Hash).
	_, _ = state.mac.Write(text[:middle])
	_, _ = state.mac.Write(body)
	_, _ = state.mac.Write(text[middle:])
	state.text, state.sum = text, state.mac.Sum(state.sum[:0])
	return s.Form.appendEncoded(dst, state.sum), nil
}

// signedText returns the whole signed text in one piece, which Ed25519 needs.
func (s Scheme) signedText(env envelope, body []byte) ([]byte, error) {
	before, after, found := strings.Cut(s.Signed, placeholderBody)
	if !found {
		return nil, errTemplate
	}
	text := make([]byte, 0, len(s.Signed)+len(env.id)+len(env.seconds)+len(body))
	text, err := appendExpanded(text, before, env)
	if err != nil {
		return nil, err
	}
	return appendExpanded(append(text, body...), after, env)
}

// appendExpanded appends a part of the template with its placeholders filled in.
func appendExpanded(dst []byte, part string, env envelope) ([]byte, error) {
	for part != "" {
		literal, rest, found := strings.Cut(part, "{")
		dst = append(dst, literal...)
		if !found {
			break
		}
		name, tail, found := strings.Cut(rest, "}")
		switch {
		case found && name == "id":
			dst = append(dst, env.id...)
		case found && name == "t":
			dst = append(dst, env.seconds...)
		default:
			return dst, errTemplate
		}
		part = tail
	}
	return dst, nil
}

// appendLabel appends what stands in the header before a signature.
func (f Form) appendLabel(dst []byte, a Algorithm, first bool) []byte {
	switch f {
	case FormStandard:
		if !first {
			dst = append(dst, ' ')
		}
		if a == Ed25519 {
			return append(dst, "v1a,"...)
		}
		return append(dst, "v1,"...)
	case FormTimestampedHex:
		return append(dst, ",v1="...)
	case FormHex:
	}
	return dst
}

// appendEncoded appends the text of a signature.
func (f Form) appendEncoded(dst, signature []byte) []byte {
	if f == FormStandard {
		return base64.StdEncoding.AppendEncode(dst, signature)
	}
	return hex.AppendEncode(dst, signature)
}

// encodedLen returns the length of the text that appendEncoded makes.
func (f Form) encodedLen(n int) int {
	if f == FormStandard {
		return base64.StdEncoding.EncodedLen(n)
	}
	return hex.EncodedLen(n)
}
