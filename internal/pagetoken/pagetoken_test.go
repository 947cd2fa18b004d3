package pagetoken_test

import (
	"bytes"
	"encoding/base64"
	"math"
	"strings"
	"testing"

	"github.com/posthorn/posthorn/internal/pagetoken"
	"github.com/posthorn/posthorn/internal/webhook"
)

func codec(t *testing.T, fill string) *pagetoken.Codec {
	t.Helper()
	c, err := pagetoken.New(bytes.Repeat([]byte(fill), 32))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestContract_S13_TokenIsStateless: the same bytes for the same delivery, from
// whichever process, another one for each other delivery.
func TestContract_S13_TokenIsStateless(t *testing.T) {
	t.Parallel()
	a, b := codec(t, "a"), codec(t, "a")
	seen := map[string]bool{}
	for _, ref := range []webhook.Ref{0, 1, 2, 3, 1 << 40, math.MaxInt64} {
		token := a.Issue(ref)
		if token != b.Issue(ref) || seen[token] || strings.ContainsAny(token, "+/=") {
			t.Errorf("delivery %d has the token %s", ref, token)
		}
		seen[token] = true
		if got, ok := b.Parse(token); !ok || got != ref {
			t.Errorf("%s reads as %d, %v; want %d", token, got, ok, ref)
		}
	}
	// What receivers see does not tell how much an installation sends.
	one, two := a.Issue(1), a.Issue(2)
	if one[2:11] == two[2:11] {
		t.Errorf("neighbours look alike: %s and %s", one, two)
	}
	if _, err := pagetoken.New(make([]byte, 31)); err == nil {
		t.Error("a short key is taken")
	}
}

// TestContract_S13_ForgedTokens: no bit of a token can be changed, none comes
// from another installation, and only one text is each token's.
func TestContract_S13_ForgedTokens(t *testing.T) {
	t.Parallel()
	c := codec(t, "a")
	token := c.Issue(4711)
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(raw) * 8 {
		forged := bytes.Clone(raw)
		forged[i/8] ^= 1 << (i % 8)
		if ref, ok := c.Parse(base64.RawURLEncoding.EncodeToString(forged)); ok {
			t.Errorf("bit %d changed: reads as %d", i, ref)
		}
	}
	for _, text := range []string{"", "x", token[1:], token + "A", token + "=", token + "\n", " " + token, codec(t, "b").Issue(4711)} {
		if ref, ok := c.Parse(text); ok {
			t.Errorf("%q reads as %d", text, ref)
		}
	}
	// The last character has spare bits: another one would be the same bytes.
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(digits, token[len(token)-1])
	if ref, ok := c.Parse(token[:len(token)-1] + string(digits[last^1])); ok {
		t.Errorf("another text of the same bytes reads as %d", ref)
	}
}
