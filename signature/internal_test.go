package signature

import (
	"encoding/base64"
	"strings"
	"testing"
)

// A secret that parses is the one text of its bytes: written again, it is the
// same. Otherwise two texts would stand for one key.
func FuzzParseKeyWritesAgain(f *testing.F) {
	for _, seed := range []string{
		"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AA==", "whsec_AB==", "whsec_\nAA==", "whsec_AA",
		"whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=", "whsk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "whsk_", "é", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, secret string) {
		for _, s := range Schemes() {
			k, err := s.ParseKey(secret)
			if err != nil {
				if k != (Key{}) {
					t.Fatal("a key comes with an error")
				}
				continue
			}
			var again string
			m := k.material
			switch {
			case m.hmac != nil && s.KeyForm == KeyText:
				again = string(m.hmac.secret)
			case m.hmac != nil:
				again = base64.StdEncoding.EncodeToString(m.hmac.secret)
				if strings.HasPrefix(secret, s.SecretPrefix) { // it may be left out
					again = s.SecretPrefix + again
				}
			case m.private == nil:
				again = k.PublicText()
			default: // written as the seed or as seed and public key
				again = prefixPrivate + base64.StdEncoding.EncodeToString(m.private)
				if len(secret) < len(again) {
					again = prefixPrivate + base64.StdEncoding.EncodeToString(m.private.Seed())
				}
			}
			if again != secret {
				t.Fatalf("%s: %q was read, %q is written", s.Name, secret, again)
			}
		}
	})
}
