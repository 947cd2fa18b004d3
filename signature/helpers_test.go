package signature_test

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/signature"
)

// Secrets and a time for tests.
const (
	secretA  = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	secretB  = "whsec_IB8eHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgE="
	sentUnix = 1767225600
)

func sentAt() time.Time { return time.Unix(sentUnix, 0) }

func testMessage() signature.Message {
	return signature.Message{ID: "evt_1", Timestamp: sentUnix, Body: []byte(`{"n":1}`)}
}

func reasonOf(err error) (signature.Reason, bool) {
	if v, ok := errors.AsType[*signature.VerifyError](err); ok {
		return v.Reason, true
	}
	return "", false
}

func mustKey(t testing.TB, s signature.Scheme, secret string) signature.Key {
	t.Helper()
	k, err := s.ParseKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// signedRequest returns the request that a sender with these keys would make.
func signedRequest(t testing.TB, s signature.Scheme, msg signature.Message, keys ...signature.Key) signature.Request {
	t.Helper()
	h := http.Header{}
	if err := s.SetHeaders(h, msg, keys...); err != nil {
		t.Fatal(err)
	}
	return signature.Request{Header: h, Body: msg.Body}
}

// messageOf reads the message back out of the headers; false if it can't have
// been one of ours, such as a timestamp with a leading zero.
func messageOf(s signature.Scheme, h http.Header, body []byte) (signature.Message, bool) {
	msg := signature.Message{Body: body}
	if s.IDHeader != "" {
		msg.ID = h.Get(s.IDHeader)
	}
	if !strings.Contains(s.Signed, "{t}") {
		return msg, true
	}
	text := h.Get(s.TimestampHeader)
	if s.Form == signature.FormTimestampedHex {
		head, _, _ := strings.Cut(h.Get(s.SignatureHeader), ",")
		text, _ = strings.CutPrefix(head, "t=")
		if text == head {
			return msg, false // the timestamp stands behind the signature
		}
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	msg.Timestamp = seconds
	return msg, err == nil && strconv.FormatInt(seconds, 10) == text
}

// eachScheme calls f in a subtest for each built-in scheme.
func eachScheme(t *testing.T, f func(t *testing.T, s signature.Scheme)) {
	t.Helper()
	for _, s := range signature.Schemes() {
		t.Run(strings.TrimSuffix(s.Name+"/"+s.Variant, "/"), func(t *testing.T) {
			t.Parallel()
			f(t, s)
		})
	}
}
