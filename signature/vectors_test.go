package signature_test

import (
	"encoding/json"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/posthorn/posthorn/signature"
)

// vector is one row of testdata/vectors.json. Most are published by the
// providers or were made with other implementations; "source" says which.
type vector struct {
	Provider  string       `json:"provider"`
	Scheme    string       `json:"scheme"` // the variant
	Name      string       `json:"name"`
	Secret    string       `json:"secret"`
	Headers   vectorHeader `json:"headers"`
	Body      []byte       `json:"body_base64"`
	Now       int64        `json:"now_unix"`
	Tolerance *int64       `json:"tolerance_s"`
	Valid     bool         `json:"valid"`
	Reason    string       `json:"reason"` // of an invalid one; "secret" if ParseKey refuses
}

// vectorHeader holds each name in the spelling of the file. A list is a header
// that occurs more than once.
type vectorHeader http.Header

func (h *vectorHeader) UnmarshalJSON(data []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	*h = vectorHeader{}
	for name, value := range raw {
		values := make([]string, 1)
		if json.Unmarshal(value, &values[0]) != nil {
			if err := json.Unmarshal(value, &values); err != nil {
				return err
			}
		}
		(*h)[name] = values
	}
	return nil
}

// canonical returns the headers as net/http would hold them.
func (h vectorHeader) canonical() http.Header {
	out := http.Header{}
	for name, values := range h {
		for _, v := range values {
			out.Add(name, v)
		}
	}
	return out
}

func loadVectors(t testing.TB) []vector {
	t.Helper()
	data, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	return vectors
}

// lookup returns a built-in scheme that the test takes for granted.
func lookup(t testing.TB, name, variant string) signature.Scheme {
	t.Helper()
	s, ok := signature.Lookup(name, variant)
	if !ok {
		t.Fatalf("no scheme %q, variant %q", name, variant)
	}
	return s
}

func (v vector) verify(s signature.Scheme, h http.Header) error {
	key, err := s.ParseKey(v.Secret)
	if err != nil {
		return err
	}
	tolerance := s.Tolerance
	if v.Tolerance != nil {
		tolerance = time.Duration(*v.Tolerance) * time.Second
	}
	req := signature.Request{Header: h, Body: v.Body}
	return s.Verify(req, []signature.Key{key}, time.Unix(v.Now, 0), tolerance)
}

// wantReason reports whether err is the refusal that the reason names; "" is none.
func wantReason(t *testing.T, err error, reason string) {
	t.Helper()
	got := ""
	if r, ok := reasonOf(err); ok {
		got = string(r)
	} else if err != nil {
		got = "secret"
	}
	if got != reason {
		t.Errorf("got %q (%v), want %q", got, err, reason)
	}
}

func TestStandard_Vectors(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, v := range loadVectors(t) {
		seen[v.Provider+"/"+v.Scheme] = true
		t.Run(v.Provider+v.Scheme+"/"+v.Name, func(t *testing.T) {
			t.Parallel()
			if v.Valid != (v.Reason == "") {
				t.Fatalf("the vector says valid=%t and reason %q", v.Valid, v.Reason)
			}
			s := lookup(t, v.Provider, v.Scheme)
			wantReason(t, v.verify(s, v.Headers.canonical()), v.Reason)
			// Header maps of other origin keep the sender's spelling.
			wantReason(t, v.verify(s, http.Header(v.Headers)), v.Reason)
		})
	}
	for _, s := range signature.Schemes() {
		if !seen[s.Name+"/"+s.Variant] {
			t.Errorf("scheme %s %s has no vector", s.Name, s.Variant)
		}
	}
}

// A signature of ours is byte for byte the published one.
func TestStandard_SignsAsPublished(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, v := range loadVectors(t) {
		s := lookup(t, v.Provider, v.Scheme)
		key, err := s.ParseKey(v.Secret)
		h := v.Headers.canonical()
		want := h.Get(s.SignatureHeader)
		message, ok := messageOf(s, h, v.Body)
		if !v.Valid || err != nil || !ok {
			continue
		}
		got, err := s.AppendSignature(nil, message, key)
		if err == nil && len(got) == len(want) { // one signature, nothing skipped
			checked++
			if string(got) != want {
				t.Errorf("%s/%s: got %s, want %s", v.Provider, v.Name, got, want)
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d vectors were signed again", checked)
	}
}
