package signature_test

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/signature"
)

// What is signed with any of several keys verifies, for each of them; with one
// byte changed it does not.
func FuzzSignThenVerify(f *testing.F) {
	f.Add("evt_1", int64(sentUnix), []byte(`{"n":1}`), []byte("a secret of 24 bytes ..."), []byte("another"), uint(3), byte(1))
	f.Add("evt_2mQk:job-7", int64(0), []byte{}, []byte{0}, []byte{0, 0, 1}, uint(0), byte(0x80))
	f.Add("a", int64(999_999_999_999), []byte("\xff\x00."), []byte("x"), []byte("y"), uint(1<<20), byte(255))
	f.Fuzz(func(t *testing.T, id string, seconds int64, body, secret1, secret2 []byte, at uint, change byte) {
		for _, s := range signature.Schemes() {
			keys := fuzzKeys(t, s, secret1, secret2)
			msg := signature.Message{ID: id, Timestamp: seconds, Body: body}
			h := http.Header{}
			if len(keys) == 0 || s.SetHeaders(h, msg, keys...) != nil {
				continue // not a message or secret that can be signed
			}
			req, now := signature.Request{Header: h, Body: body}, time.Unix(seconds, 0)
			for _, k := range keys {
				if err := s.Verify(req, []signature.Key{k}, now, 0); err != nil {
					t.Fatalf("%s: %v with %v", s.Name, err, h)
				}
			}
			refuseChanged(t, s, req, keys, now, at, change)
		}
	})
}

// fuzzKeys makes keys of all the scheme's algorithms out of arbitrary bytes.
func fuzzKeys(t *testing.T, s signature.Scheme, secrets ...[]byte) []signature.Key {
	var keys []signature.Key
	for _, raw := range secrets {
		text := string(raw)
		if s.KeyForm == signature.KeyBase64 {
			text = base64.StdEncoding.EncodeToString(raw)
		}
		if k, err := s.ParseKey(text); err == nil {
			keys = append(keys, k)
		}
	}
	if s.Form == signature.FormHex && len(keys) > 1 {
		keys = keys[:1]
	}
	if slices.Contains(s.Algorithms, signature.Ed25519) && len(secrets[0]) > 0 {
		secret, _, err := signature.GenerateEd25519(bytes.NewReader(bytes.Repeat(secrets[0], 32)))
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, mustKey(t, s, secret))
	}
	return keys
}

// refuseChanged changes one byte of the body, and of each signed header.
func refuseChanged(t *testing.T, s signature.Scheme, req signature.Request, keys []signature.Key, now time.Time, at uint, change byte) {
	if change == 0 {
		return
	}
	flip := func(text string) string {
		b := []byte(text)
		b[at%uint(len(b))] ^= change
		return string(b)
	}
	changed := []signature.Request{}
	if len(req.Body) > 0 {
		changed = append(changed, signature.Request{Header: req.Header, Body: []byte(flip(string(req.Body)))})
	}
	for _, name := range []string{s.IDHeader, s.TimestampHeader} {
		if name != "" {
			h := req.Header.Clone()
			h.Set(name, flip(h.Get(name)))
			changed = append(changed, signature.Request{Header: h, Body: req.Body})
		}
	}
	if s.Form == signature.FormTimestampedHex {
		h := req.Header.Clone()
		timestamp, rest, _ := strings.Cut(strings.TrimPrefix(h.Get(s.SignatureHeader), "t="), ",")
		h.Set(s.SignatureHeader, "t="+flip(timestamp)+","+rest)
		changed = append(changed, signature.Request{Header: h, Body: req.Body})
	}
	for _, r := range changed {
		if err := s.Verify(r, keys, now, 1<<62); err == nil {
			t.Fatalf("%s: changed, yet accepted: %v %q", s.Name, r.Header, r.Body)
		}
	}
}

// Verify takes any headers without panicking, refuses long ones unread, and
// accepts a header only if it holds the very text that the key signs.
func FuzzVerify(f *testing.F) {
	for _, v := range loadVectors(f) {
		s := lookup(f, v.Provider, v.Scheme)
		h := v.Headers.canonical()
		f.Add(h.Get(s.IDHeader), h.Get(s.TimestampHeader), h.Get(s.SignatureHeader), v.Body, v.Now, v.Secret)
	}
	f.Fuzz(func(t *testing.T, id, timestamp, value string, body []byte, now int64, secret string) {
		for _, s := range signature.Schemes() {
			key, err := s.ParseKey(secret)
			if err != nil {
				continue
			}
			h := http.Header{}
			for name, text := range map[string]string{s.IDHeader: id, s.TimestampHeader: timestamp, s.SignatureHeader: value} {
				if name != "" {
					h.Set(name, text)
				}
			}
			err = s.Verify(signature.Request{Header: h, Body: body}, []signature.Key{key}, time.Unix(now, 0), s.Tolerance)
			if err != nil {
				if _, ok := reasonOf(err); !ok {
					t.Fatalf("%s: an error without a reason: %v", s.Name, err)
				}
				continue
			}
			separator := map[signature.Form]string{signature.FormStandard: " ", signature.FormTimestampedHex: ",", signature.FormHex: "\x00"}
			if len(value) > 8192 || strings.Count(value, separator[s.Form]) >= 24 {
				t.Fatalf("%s: %q is accepted, more than should be read", s.Name, value)
			}
			acceptedIsSigned(t, s, h, body, key)
		}
	})
}

// acceptedIsSigned signs the accepted message again and looks for the result in
// the header.
func acceptedIsSigned(t *testing.T, s signature.Scheme, h http.Header, body []byte, key signature.Key) {
	msg, ok := messageOf(s, h, body)
	if !ok {
		return // a timestamp with a leading zero or after the signature; we make none
	}
	text, err := s.AppendSignature(nil, msg, key)
	if err != nil {
		return // a public key, or an ID that we would not send
	}
	value := h.Get(s.SignatureHeader)
	if s.Form == signature.FormTimestampedHex {
		_, after, _ := bytes.Cut(text, []byte(","))
		text = after
	}
	if !strings.Contains(value, string(text)) {
		t.Fatalf("%s: %q was accepted, signing gives %q", s.Name, value, text)
	}
}
