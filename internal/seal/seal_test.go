package seal

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
)

var row = []byte("endpoint-secret|acme|ep_1|sec_1")

func keyOf(fill byte) []byte { return bytes.Repeat([]byte{fill}, KeySize) }

func ring(t testing.TB, fills ...byte) *Keyring {
	t.Helper()
	var old [][]byte
	for _, f := range fills[1:] {
		old = append(old, keyOf(f))
	}
	r, err := New(keyOf(fills[0]), old...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func seal(t testing.TB, r *Keyring, plain string) []byte {
	t.Helper()
	sealed, err := r.Seal([]byte(plain), row)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func TestSeal_OpensOnlyInItsRow(t *testing.T) {
	t.Parallel()
	r := ring(t, 1)
	for _, plain := range []string{"", "whsec_secret", strings.Repeat("x", 1<<16)} {
		sealed := seal(t, r, plain)
		if plain != "" && bytes.Contains(sealed, []byte(plain)) {
			t.Fatal("the plain text is in the sealed one")
		}
		opened, err := r.Open(sealed, row)
		if err != nil || string(opened) != plain {
			t.Fatalf("opened %q, %v", opened, err)
		}
		for _, other := range []string{"", "endpoint-secret|acme|ep_1|sec_2", "endpoint-secret|acme|ep_1|sec_1|"} {
			if _, err := r.Open(sealed, []byte(other)); !errors.Is(err, ErrDamaged) {
				t.Fatalf("in row %q: %v", other, err)
			}
		}
	}
	if bytes.Equal(seal(t, r, "same"), seal(t, r, "same")) {
		t.Fatal("the same secret is sealed to the same bytes")
	}
	if _, err := r.Seal([]byte("x"), nil); err == nil {
		t.Fatal("sealed for no row")
	}
}

func TestOpen_EveryChangedBitIsSeen(t *testing.T) {
	t.Parallel()
	r := ring(t, 1, 2)
	sealed := seal(t, r, "whsec_secret")
	for i := range sealed {
		for bit := range 8 {
			wrong := bytes.Clone(sealed)
			wrong[i] ^= 1 << bit
			if _, err := r.Open(wrong, row); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrUnknownKey) {
				t.Fatalf("bit %d of byte %d: %v", bit, i, err)
			}
		}
		if _, err := r.Open(sealed[:i], row); err == nil {
			t.Fatalf("cut to %d bytes it opens", i)
		}
	}
	if _, err := r.Open(nil, row); !errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
}

func TestKeyring_Rotation(t *testing.T) {
	t.Parallel()
	before, after, wrong := ring(t, 1), ring(t, 2, 1), ring(t, 3)
	sealed := seal(t, before, "whsec_secret")
	if before.NeedsReseal(sealed) || !after.NeedsReseal(sealed) || !before.NeedsReseal(nil) {
		t.Fatal("NeedsReseal")
	}
	opened, err := after.Open(sealed, row)
	if err != nil || string(opened) != "whsec_secret" {
		t.Fatalf("an old key: %q, %v", opened, err)
	}
	again := seal(t, after, string(opened))
	if after.NeedsReseal(again) {
		t.Fatal("sealed anew it still needs it")
	}
	if _, err := before.Open(again, row); !errors.Is(err, ErrUnknownKey) {
		t.Fatalf("a key that is not at hand: %v", err)
	}
	if !before.Matches(before.Fingerprint()) || !after.Matches(before.Fingerprint()) || before.Matches(after.Fingerprint()) {
		t.Fatal("Matches: current and old keys, no newer ones")
	}
	if wrong.Matches(before.Fingerprint()) || before.Matches(nil) {
		t.Fatal("a wrong key matches")
	}
}

func TestKeyring_NothingTellsTheKey(t *testing.T) {
	t.Parallel()
	raw := []byte("0123456789abcdefghijklmnopqrstuv")
	r, err := New(raw)
	if err != nil {
		t.Fatal(err)
	}
	sealed := seal(t, r, "x")
	_, damaged := r.Open(sealed[:12], row)
	_, unknown := ring(t, 1).Open(sealed, row)
	_, short := New(raw[:31])
	_, parsed := ParseKey(string(raw))
	shown := fmt.Sprintf("%s %s %s %s %x", damaged, unknown, short, parsed, append(r.Fingerprint(), sealed...))
	for _, part := range []string{string(raw[:8]), fmt.Sprintf("%x", raw[:4]), base64.StdEncoding.EncodeToString(raw)[:8]} {
		if strings.Contains(shown, part) {
			t.Fatalf("%q is shown", part)
		}
	}
}

func TestParseKey(t *testing.T) {
	t.Parallel()
	raw := bytes.Repeat([]byte{0xFB, 0xEF}, KeySize/2)
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		key, err := ParseKey(" " + enc.EncodeToString(raw) + "\n")
		if err != nil || !bytes.Equal(key, raw) {
			t.Errorf("%x, %v", key, err)
		}
	}
	good := base64.StdEncoding.EncodeToString(raw)
	for _, text := range []string{"", "x", good[:40], good + good, good[:20] + "\n" + good[20:], good[:20] + "!" + good[21:], strings.Repeat("ab", 32)} {
		if _, err := ParseKey(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if _, err := New(keyOf(1), keyOf(2)[:16]); err == nil {
		t.Error("a short old key is taken")
	}
}

// What was sealed by an earlier version must open for ever.
func TestOpen_KnownText(t *testing.T) {
	t.Parallel()
	sealed, err := base64.StdEncoding.DecodeString(known)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := ring(t, 1).Open(sealed, row)
	if err != nil || string(opened) != "whsec_secret" {
		t.Fatalf("opened %q, %v", opened, err)
	}
}

const known = "AVHlJNu6DieBp+g/cgVxFYsKQR8EPzG0qCWn/FBh+IbYzUWnv1VzxnncFkXiUMld4Q=="

func FuzzOpen(f *testing.F) {
	r := ring(f, 1, 2)
	f.Add(seal(f, r, "whsec_secret"), []byte("other"))
	f.Fuzz(func(t *testing.T, sealed, associated []byte) {
		if _, err := r.Open(sealed, associated); err == nil && !bytes.Equal(associated, row) {
			t.Fatal("opened what nobody sealed")
		}
		r.NeedsReseal(sealed)
		again, err := r.Seal(sealed, append(associated, 'x'))
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := r.Open(again, append(associated, 'x')); err != nil || !bytes.Equal(plain, sealed) {
			t.Fatalf("sealed and opened: %v", err)
		}
	})
}
