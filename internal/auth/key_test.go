package auth

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/internal/webhook"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func makeKey(t testing.TB, tenant string, scopes ...webhook.Scope) (string, webhook.APIKey) {
	t.Helper()
	text, key, err := NewKey(rand.Reader, tenant, scopes, "a name", noon, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return text, key
}

func TestNewKey_FormAndHash(t *testing.T) {
	t.Parallel()
	text, key := makeKey(t, "acme", webhook.ScopePublish, webhook.ScopeRead)
	if !strings.HasPrefix(text, "phk_"+key.ID+"_") || len(text) != keyLength || strings.ToLower(text) != text {
		t.Fatalf("the key has another form")
	}
	if key.Hash != sha256.Sum256([]byte(text)) || key.Tenant != "acme" || key.Name != "a name" || !key.CreatedAt.Equal(noon) {
		t.Fatalf("%+v", key)
	}
	if id, form := readKey(text); form != formKey || id != key.ID {
		t.Fatalf("read as %q, %v", id, form)
	}
	if other, _ := makeKey(t, "acme", webhook.ScopeRead); other == text {
		t.Fatal("two keys are the same")
	}
	if _, _, err := NewKey(iotest{}, "acme", []webhook.Scope{webhook.ScopeRead}, "", noon, time.Time{}); err == nil {
		t.Fatal("a key was made without randomness")
	}
}

type iotest struct{}

func (iotest) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestReadKey_EveryTypingErrorIsSeen(t *testing.T) {
	t.Parallel()
	text, _ := makeKey(t, "acme", webhook.ScopeRead)
	for i := len(keyPrefix); i < len(text); i++ {
		for _, c := range []byte("a7_A\xff") {
			if text[i] == c {
				continue
			}
			wrong := []byte(text)
			wrong[i] = c
			if _, form := readKey(string(wrong)); form != formMistake {
				t.Fatalf("a wrong character at %d passes", i)
			}
		}
		if i+1 < len(text) && text[i] != text[i+1] {
			swapped := []byte(text)
			swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
			if _, form := readKey(string(swapped)); form != formMistake {
				t.Fatalf("two swapped characters at %d pass", i)
			}
		}
		if _, form := readKey(text[:i]); form != formMistake {
			t.Fatalf("a key cut at %d passes", i)
		}
	}
	if _, form := readKey(text + "a"); form != formMistake {
		t.Fatal("a longer key passes")
	}
	for _, other := range []string{"", "phk", "sk_live", "PHK_" + text[4:]} {
		if _, form := readKey(other); form != formOther {
			t.Fatalf("%q is taken for a key", other)
		}
	}
}

func TestNewKey_Rules(t *testing.T) {
	t.Parallel()
	scopes := func(s ...webhook.Scope) []webhook.Scope { return s }
	tests := []struct {
		tenant    string
		scopes    []webhook.Scope
		name      string
		expiresAt time.Time
		pointer   string
	}{
		{"acme", scopes(), "", time.Time{}, "/scopes"},
		{"acme", scopes("root"), "", time.Time{}, "/scopes"},
		{"acme", scopes("read", "read"), "", time.Time{}, "/scopes"},
		{"acme", scopes("read", "operator"), "", time.Time{}, "/scopes"},
		{"", scopes("read"), "", time.Time{}, "/scopes"},
		{"", scopes("operator", "read"), "", time.Time{}, "/scopes"},
		{"acme", scopes("read"), strings.Repeat("x", maxKeyName+1), time.Time{}, "/name"},
		{"acme", scopes("read"), "\xff", time.Time{}, "/name"},
		{"acme", scopes("read"), "", noon, "/expires_at"},
		{"acme", scopes("publish", "read", "manage"), "", noon.Add(1), ""},
		{"", scopes("operator"), "", time.Time{}, ""},
	}
	for _, tt := range tests {
		_, _, err := NewKey(rand.Reader, tt.tenant, tt.scopes, tt.name, noon, tt.expiresAt)
		pointer := ""
		if p, ok := webhook.AsProblem(err); ok {
			pointer = p.Fields[0].Pointer
		}
		if pointer != tt.pointer || err != nil && pointer == "" {
			t.Errorf("%+v: got %v", tt, err)
		}
	}
}

func TestValidAdminKey(t *testing.T) {
	t.Parallel()
	letters := strings.Repeat("k", 32)
	for _, good := range []string{letters, strings.Repeat("~", 256), letters + " !\"#", "phk_" + letters} {
		if !webhook.ValidAdminKey(good) {
			t.Errorf("%q is refused", good)
		}
	}
	for _, bad := range []string{"", letters[1:], strings.Repeat("k", 257), letters + " ", " " + letters, letters + "\n", letters + "é", letters + "\x7f", letters + "\x00k"} {
		if webhook.ValidAdminKey(bad) {
			t.Errorf("%q is taken", bad)
		}
	}
	made, err := NewAdminKey(rand.Reader)
	if err != nil || !webhook.ValidAdminKey(made) {
		t.Fatalf("a made admin key is not valid: %v", err)
	}
	if _, err := NewAdminKey(bytes.NewReader(nil)); !errors.Is(err, io.EOF) {
		t.Fatalf("got %v", err)
	}
}
