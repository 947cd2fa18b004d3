package signature_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/posthorn/posthorn/signature"
)

func TestStandard_OneEntryForEachKeyInOrder(t *testing.T) {
	t.Parallel()
	s := lookup(t, "standardwebhooks", "")
	secret, public, err := signature.GenerateEd25519(bytes.NewReader(bytes.Repeat([]byte{7}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	a, b, e := mustKey(t, s, secretA), mustKey(t, s, secretB), mustKey(t, s, secret)
	value, err := s.AppendSignature([]byte("kept "), testMessage(), a, e, b)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(value), " ")
	if len(parts) != 4 || parts[0] != "kept" || !strings.HasPrefix(parts[1], "v1,") || !strings.HasPrefix(parts[2], "v1a,") || !strings.HasPrefix(parts[3], "v1,") {
		t.Fatalf("got %s", value)
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(parts[2], "v1a,"))
	if err != nil {
		t.Fatal(err)
	}
	pub, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(public, "whpk_"))
	if err != nil || !ed25519.Verify(pub, []byte(`evt_1.1767225600.{"n":1}`), raw) {
		t.Errorf("the Ed25519 signature is not over id.timestamp.body (%v)", err)
	}
	req := signedRequest(t, s, testMessage(), a, e, b)
	for _, k := range []signature.Key{a, b, e, mustKey(t, s, public)} {
		if err := s.Verify(req, []signature.Key{k}, sentAt(), s.Tolerance); err != nil {
			t.Errorf("%v: %v", k, err)
		}
	}
}

func TestStandard_SetHeaders(t *testing.T) {
	t.Parallel()
	s := lookup(t, "svix", "")
	h := http.Header{"Svix-Id": {"old", "older"}, "Other": {"x"}}
	if err := s.SetHeaders(h, testMessage(), mustKey(t, s, secretA)); err != nil {
		t.Fatal(err)
	}
	if len(h) != 4 || len(h["Svix-Id"]) != 1 || h.Get("svix-id") != "evt_1" || h.Get("svix-timestamp") != "1767225600" || h.Get("Other") != "x" {
		t.Errorf("got %v", h)
	}
	msg := testMessage()
	msg.ID = "evt.1"
	empty := http.Header{}
	if err := s.SetHeaders(empty, msg, mustKey(t, s, secretA)); err == nil || len(empty) != 0 {
		t.Errorf("an ID with a dot: %v, headers %v", err, empty)
	}
}

func TestStandard_WhatCannotBeSigned(t *testing.T) {
	t.Parallel()
	standard, stripe := lookup(t, "standardwebhooks", ""), lookup(t, "stripe", "")
	a := mustKey(t, standard, secretA)
	secret, public, err := signature.GenerateEd25519(bytes.NewReader(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(*signature.Message)) signature.Message {
		m := testMessage()
		change(&m)
		return m
	}
	noBody := standard
	noBody.Signed = "{id}.{t}"
	unknown := standard
	unknown.Signed = "{id}.{t}.{body}{url}"
	for _, tc := range []struct {
		name   string
		scheme signature.Scheme
		msg    signature.Message
		keys   []signature.Key
		want   error // nil: any
	}{
		{"no key", standard, testMessage(), nil, signature.ErrNoKey},
		{"the zero key", standard, testMessage(), []signature.Key{a, {}}, signature.ErrNoKey},
		{"a public key", standard, testMessage(), []signature.Key{mustKey(t, standard, public)}, signature.ErrPublicKey},
		{"Ed25519 where there is none", stripe, testMessage(), []signature.Key{mustKey(t, standard, secret)}, signature.ErrOtherKey},
		{"two keys, one place", lookup(t, "stripe", "hmac-hex"), testMessage(), []signature.Key{a, a}, signature.ErrOneKey},
		{"before 1970", standard, with(func(m *signature.Message) { m.Timestamp = -1 }), []signature.Key{a}, signature.ErrTimestamp},
		{"13 digits", stripe, with(func(m *signature.Message) { m.Timestamp = 1_000_000_000_000 }), []signature.Key{a}, signature.ErrTimestamp},
		{"no ID", standard, with(func(m *signature.Message) { m.ID = "" }), []signature.Key{a}, nil},
		{"a dot in the ID", standard, with(func(m *signature.Message) { m.ID = "a.b" }), []signature.Key{a}, nil},
		{"a space at the end of the ID", standard, with(func(m *signature.Message) { m.ID = "a " }), []signature.Key{a}, nil},
		{"a line break in the ID", standard, with(func(m *signature.Message) { m.ID = "a\r\nX: 1" }), []signature.Key{a}, nil},
		{"an ID that is not ASCII", standard, with(func(m *signature.Message) { m.ID = "é" }), []signature.Key{a}, nil},
		{"an ID longer than is read", standard, with(func(m *signature.Message) { m.ID = strings.Repeat("a", 8193) }), []signature.Key{a}, nil},
		{"a text without the body", noBody, testMessage(), []signature.Key{a}, nil},
		{"a text without the body, Ed25519", noBody, testMessage(), []signature.Key{mustKey(t, standard, secret)}, nil},
		{"an unknown placeholder", unknown, testMessage(), []signature.Key{a}, nil},
	} {
		got, err := tc.scheme.AppendSignature([]byte("kept"), tc.msg, tc.keys...)
		if err == nil || tc.want != nil && !errors.Is(err, tc.want) || string(got) != "kept" {
			t.Errorf("%s: got %q, %v", tc.name, got, err)
		}
	}
}

// What is not signed does not matter: Elido's scheme has no ID in its text.
func TestStandard_UnsignedFieldsAreIgnored(t *testing.T) {
	t.Parallel()
	msg := testMessage()
	msg.ID = "any.thing\n"
	s := lookup(t, "elido", "")
	if _, err := s.AppendSignature(nil, msg, mustKey(t, s, secretA)); err != nil {
		t.Error(err)
	}
	msg.Timestamp = -1 << 63
	s = lookup(t, "stripe", "hmac-hex")
	if _, err := s.AppendSignature(nil, msg, mustKey(t, s, secretA)); err != nil {
		t.Error(err)
	}
}

// One Key serves many goroutines at once (the race detector watches). The body
// is long, so that they do overlap.
func TestStandard_KeysAreSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	s := lookup(t, "standardwebhooks", "")
	k := mustKey(t, s, secretA)
	msg := testMessage()
	msg.Body = bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	want, err := s.AppendSignature(nil, msg, k)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				got, err := s.AppendSignature(nil, msg, k)
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("got %s, %v, want %s", got, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
}
