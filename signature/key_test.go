package signature_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/posthorn/posthorn/signature"
)

func TestStandard_ParseKey(t *testing.T) {
	t.Parallel()
	seed := bytes.Repeat([]byte{9}, 32)
	secret, public, err := signature.GenerateEd25519(bytes.NewReader(seed))
	if err != nil {
		t.Fatal(err)
	}
	whsk := func(b []byte) string { return "whsk_" + base64.StdEncoding.EncodeToString(b) }
	for _, tc := range []struct {
		name, scheme, secret string
		algorithm            signature.Algorithm // "" is an error
		size                 int
	}{
		{"with prefix", "standardwebhooks", secretA, signature.HMACSHA256, 32},
		{"without prefix", "standardwebhooks", strings.TrimPrefix(secretA, "whsec_"), signature.HMACSHA256, 32},
		{"short, as some providers issue", "svix", "whsec_plJ3nmyCDGBKInavdOK15jsl", signature.HMACSHA256, 18},
		{"text with prefix", "stripe", "whsec_test_secret", signature.HMACSHA256, 17},
		{"text that looks like a private key", "signals", "whsk_1", signature.HMACSHA256, 6},
		{"seed", "standardwebhooks", whsk(seed), signature.Ed25519, 32},
		{"seed and public key", "svix", secret, signature.Ed25519, 32},
		{"public key", "standardwebhooks", public, signature.Ed25519, 32},

		{"empty", "standardwebhooks", "", "", 0},
		{"empty text", "elido", "", "", 0},
		{"prefix only", "standardwebhooks", "whsec_", "", 0},
		{"prefix twice", "standardwebhooks", "whsec_" + secretA, "", 0},
		{"no padding", "standardwebhooks", strings.TrimRight(secretA, "="), "", 0},
		{"line break inside", "standardwebhooks", secretA[:20] + "\n" + secretA[20:], "", 0},
		{"line break at the end", "standardwebhooks", secretA + "\n", "", 0},
		{"URL alphabet", "standardwebhooks", "whsec_-_-_", "", 0},
		{"stray bits", "standardwebhooks", "whsec_AAB=", "", 0},
		{"not ASCII", "standardwebhooks", "whsec_é", "", 0},
		{"31 bytes", "standardwebhooks", whsk(seed[1:]), "", 0},
		{"33 bytes", "standardwebhooks", whsk(append([]byte{1}, seed...)), "", 0},
		{"halves of two keys", "standardwebhooks", whsk(append(seed[:32:32], seed...)), "", 0},
		{"short public key", "standardwebhooks", "whpk_AAAA", "", 0},
		{"no base64 behind whsk_", "standardwebhooks", "whsk_?", "", 0},
		{"Ed25519 where there is none", "petify", secret, "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			k, err := lookup(t, tc.scheme, "").ParseKey(tc.secret)
			if (err != nil) != (tc.algorithm == "") || k.Algorithm() != tc.algorithm || k.Len() != tc.size {
				t.Fatalf("got %v of %d bytes, %v", k, k.Len(), err)
			}
			if err != nil && len(tc.secret) > 5 {
				for i := range len(tc.secret) - 5 {
					if piece := tc.secret[i : i+6]; strings.Contains(err.Error(), piece) && piece != "whsec_" {
						t.Fatalf("%q of the secret is in the error: %v", piece, err)
					}
				}
			}
		})
	}
}

func TestStandard_KeyOfAnAlgorithmTheSchemeLacks(t *testing.T) {
	t.Parallel()
	s := lookup(t, "standardwebhooks", "")
	s.Algorithms = []signature.Algorithm{signature.Ed25519}
	if k, err := s.ParseKey(secretA); err == nil {
		t.Errorf("an HMAC secret is read as %v", k)
	}
}

func TestStandard_GeneratedSecretsParse(t *testing.T) {
	t.Parallel()
	s := lookup(t, "standardwebhooks", "")
	for n := 24; n <= 64; n++ {
		text, err := signature.GenerateSecret(bytes.NewReader(bytes.Repeat([]byte{0xfb}, n)), "whsec_", n)
		if err != nil {
			t.Fatal(err)
		}
		if k := mustKey(t, s, text); k.Len() != n || !strings.HasPrefix(text, "whsec_") {
			t.Errorf("%d bytes: %s", n, text)
		}
	}
	// A reader may give little at a time.
	whole, err1 := signature.GenerateSecret(bytes.NewReader(bytes.Repeat([]byte{0xfb}, 24)), "", 24)
	slowly, err2 := signature.GenerateSecret(iotest.OneByteReader(bytes.NewReader(bytes.Repeat([]byte{0xfb}, 24))), "", 24)
	if slowly != whole || err1 != nil || err2 != nil {
		t.Errorf("slowly: %q, %v, want %q, %v", slowly, err2, whole, err1)
	}
	for _, n := range []int{-1, 0, 23, 65} {
		if text, err := signature.GenerateSecret(bytes.NewReader(make([]byte, 100)), "whsec_", n); err == nil || text != "" {
			t.Errorf("%d bytes are accepted", n)
		}
	}
	short := iotest.DataErrReader(bytes.NewReader(make([]byte, 23)))
	if text, err := signature.GenerateSecret(short, "whsec_", 24); err == nil || text != "" {
		t.Errorf("too little randomness gives %q", text)
	}
	broken := errors.New("no entropy")
	if secret, public, err := signature.GenerateEd25519(iotest.ErrReader(broken)); !errors.Is(err, broken) || secret+public != "" {
		t.Errorf("got %q %q %v", secret, public, err)
	}
}

func TestStandard_PublicText(t *testing.T) {
	t.Parallel()
	s := lookup(t, "standardwebhooks", "")
	secret, public, err := signature.GenerateEd25519(bytes.NewReader(bytes.Repeat([]byte{3}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{secret: public, public: public, secretA: ""} {
		if got := mustKey(t, s, text).PublicText(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if (signature.Key{}).PublicText() != "" {
		t.Error("the zero key has a public text")
	}
}

// Printed, logged or encoded in any way, alone or inside something, a key shows
// nothing of the secret.
func TestStandard_KeysAreRedacted(t *testing.T) {
	t.Parallel()
	const secret = "VERY SECRET TEXT"
	k := mustKey(t, lookup(t, "stripe", ""), secret)
	type holder struct {
		Public signature.Key
		hidden signature.Key
		List   []signature.Key
		Map    map[signature.Key]*signature.Key
	}
	h := holder{k, k, []signature.Key{k}, map[signature.Key]*signature.Key{k: &k}}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%p"} {
		fmt.Fprintf(&out, verb+verb+verb+"\n", k, &k, h)
		if got := fmt.Sprintf(verb, k); got != k.String() && verb != "%p" {
			t.Errorf("%s prints %s", verb, got)
		}
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "key", k, "holder", h)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "key", k, "holder", h)
	if got := slog.AnyValue(k).Resolve(); got.Kind() != slog.KindString || got.String() != k.String() {
		t.Errorf("slog resolves it to %v", got)
	}
	for _, encode := range []func(any) ([]byte, error){json.Marshal, xml.Marshal} {
		data, err := encode(k)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(data)
	}
	data, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(data)
	_ = h.hidden
	for _, form := range []string{secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret), fmt.Sprint([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret))} {
		if strings.Contains(out.String(), strings.Trim(form, "[]")) {
			t.Errorf("%s is in the output", form)
		}
	}
	if !strings.Contains(out.String(), "redacted") {
		t.Error("nothing was printed")
	}
}
