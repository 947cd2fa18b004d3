package signature_test

import (
	"testing"

	"github.com/posthorn/posthorn/signature"
)

func TestStandard_BuiltInSchemesAreValid(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range signature.Schemes() {
		if err := s.Validate(); err != nil {
			t.Errorf("%s %s: %v", s.Name, s.Variant, err)
		}
		if id := s.Name + "/" + s.Variant; seen[id] {
			t.Errorf("%s occurs twice", id)
		} else {
			seen[id] = true
		}
	}
	if _, ok := signature.Lookup("stripe", "nothing"); ok {
		t.Error("an unknown variant is found")
	}
	if _, ok := signature.Lookup("", ""); ok {
		t.Error("an unknown name is found")
	}
}

func TestStandard_SchemesAreCopies(t *testing.T) {
	t.Parallel()
	signature.Schemes()[0].Algorithms[0] = "changed"
	if signature.Schemes()[0].Algorithms[0] != signature.HMACSHA256 {
		t.Error("a caller changed the built-in rows")
	}
}

func TestStandard_ValidateRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*signature.Scheme){
		"no text":             func(s *signature.Scheme) { s.Signed = "" },
		"no body":             func(s *signature.Scheme) { s.Signed = "{id}.{t}" },
		"two bodies":          func(s *signature.Scheme) { s.Signed = "{id}.{t}.{body}{body}" },
		"two IDs":             func(s *signature.Scheme) { s.Signed = "{id}.{t}.{id}.{body}" },
		"two times":           func(s *signature.Scheme) { s.Signed = "{id}.{t}.{t}.{body}" },
		"unknown placeholder": func(s *signature.Scheme) { s.Signed = "{id}.{t}.{url}.{body}" },
		"open brace":          func(s *signature.Scheme) { s.Signed = "{id}.{t}.{body}{t" },
		"id unsigned":         func(s *signature.Scheme) { s.Signed = "{t}.{body}" },
		"id without header":   func(s *signature.Scheme) { s.IDHeader = "" },
		"time unsigned":       func(s *signature.Scheme) { s.Signed = "{id}.{body}" },
		"time without header": func(s *signature.Scheme) { s.TimestampHeader = "" },
		"no signature header": func(s *signature.Scheme) { s.SignatureHeader = "" },
		"no algorithm":        func(s *signature.Scheme) { s.Algorithms = nil },
		"unknown algorithm":   func(s *signature.Scheme) { s.Algorithms = []signature.Algorithm{"md5"} },
		"unknown key form":    func(s *signature.Scheme) { s.KeyForm = "" },
		"unknown form":        func(s *signature.Scheme) { s.Form = "xml" },
		"no tolerance":        func(s *signature.Scheme) { s.Tolerance = 0 },
		"negative tolerance":  func(s *signature.Scheme) { s.Tolerance = -1 },
		"Ed25519 in hex":      func(s *signature.Scheme) { s.Form = signature.FormHex },
		"two timestamp places": func(s *signature.Scheme) {
			s.Form, s.Algorithms = signature.FormTimestampedHex, []signature.Algorithm{signature.HMACSHA256}
		},
	} {
		s := lookup(t, "standardwebhooks", "")
		change(&s)
		if err := s.Validate(); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// A scheme is data: one that no provider here uses works without further code.
func TestStandard_SchemeOfOnesOwn(t *testing.T) {
	t.Parallel()
	s := signature.Scheme{
		Name: "own", Signed: "v0:{t}:{body}/{id}", Form: signature.FormHex,
		Algorithms: []signature.Algorithm{signature.HMACSHA256}, KeyForm: signature.KeyBase64, SecretPrefix: "own_", Tolerance: 10e9,
		IDHeader: "X-Id", TimestampHeader: "X-Time", SignatureHeader: "X-Sign",
	}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	k := mustKey(t, s, "own_AAEC")
	msg := signature.Message{ID: "a.b", Timestamp: sentUnix, Body: []byte("x")} // nothing follows the ID, so a dot is harmless
	req := signedRequest(t, s, msg, k)
	// printf 'v0:1767225600:x/a.b' | openssl dgst -sha256 -mac HMAC -macopt hexkey:000102
	if got := req.Header.Get("X-Sign"); got != "8bd7e165e9c8313041d9a1d6894b7fb6d1913deb29f4e4f01edd2753d2b5f34d" {
		t.Errorf("got %s", got)
	}
	if err := s.Verify(req, []signature.Key{k}, sentAt(), s.Tolerance); err != nil {
		t.Error(err)
	}
}
