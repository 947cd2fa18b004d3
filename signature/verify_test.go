package signature_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/signature"
)

func TestContract_E5_ElidoSignature(t *testing.T) {
	t.Parallel()
	s := lookup(t, "elido", "")
	// The key is the secret's text as it stands: it may even be no base64.
	for _, secret := range []string{secretA, "whsec_", "whsec_€ not base64"} {
		k := mustKey(t, s, secret)
		if k.Len() != len(secret) {
			t.Errorf("the key has %d bytes, the text %d", k.Len(), len(secret))
		}
		req := signedRequest(t, s, testMessage(), k)
		value := req.Header.Get("Elido-Signature")
		digest, ok := strings.CutPrefix(value, "t=1767225600,v1=")
		if !ok || len(digest) != 64 || len(req.Header) != 1 {
			t.Errorf("headers are %v", req.Header)
		}
		if err := s.Verify(req, []signature.Key{k}, sentAt(), s.Tolerance); err != nil {
			t.Error(err)
		}
		// A later version stands beside the old one; older receivers skip it.
		req.Header.Set("Elido-Signature", value+",v2=later")
		if err := s.Verify(req, []signature.Key{k}, sentAt(), s.Tolerance); err != nil {
			t.Error(err)
		}
	}
	if s.Tolerance != 5*time.Minute {
		t.Errorf("tolerance is %v", s.Tolerance)
	}
}

func TestReceive_R3_RepeatedHeaderIsRefused(t *testing.T) {
	t.Parallel()
	eachScheme(t, func(t *testing.T, s signature.Scheme) {
		k := mustKey(t, s, secretA)
		good := signedRequest(t, s, testMessage(), k)
		for name, values := range good.Header {
			for _, other := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
				req := signature.Request{Header: good.Header.Clone(), Body: good.Body}
				req.Header[other] = append(req.Header[other], values[0])
				if other != name { // two spellings, one value each
					req.Header[other] = []string{values[0]}
				}
				err := s.Verify(req, []signature.Key{k}, sentAt(), s.Tolerance)
				if !errors.Is(err, signature.ReasonRepeatedHeader) {
					t.Errorf("%s and %s: %v", name, other, err)
				}
				var v *signature.VerifyError
				if !errors.As(err, &v) || !strings.EqualFold(v.Header, name) {
					t.Errorf("the error does not name the header %s: %v", name, err)
				}
			}
		}
	})
}

func TestReceive_R3_EverySignatureIsTriedWithEveryKey(t *testing.T) {
	t.Parallel()
	eachScheme(t, func(t *testing.T, s signature.Scheme) {
		if s.Form == signature.FormHex {
			return // this form holds one signature
		}
		a, b, c := mustKey(t, s, secretA), mustKey(t, s, secretB), mustKey(t, s, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
		req := signedRequest(t, s, testMessage(), a, b)
		for _, keys := range [][]signature.Key{{a}, {b}, {c, b}, {c, a}, {{}, c, c, b}} {
			if err := s.Verify(req, keys, sentAt(), s.Tolerance); err != nil {
				t.Errorf("%d keys: %v", len(keys), err)
			}
		}
		err := s.Verify(req, []signature.Key{c}, sentAt(), s.Tolerance)
		if !errors.Is(err, signature.ReasonNoMatch) {
			t.Errorf("another secret: %v", err)
		}
	})
}

func TestReceive_R3_TimeWindowOnlyWhereTimeIsSigned(t *testing.T) {
	t.Parallel()
	eachScheme(t, func(t *testing.T, s signature.Scheme) {
		k := mustKey(t, s, secretA)
		req := signedRequest(t, s, testMessage(), k)
		signed := strings.Contains(s.Signed, "{t}")
		for _, tc := range []struct {
			shift     time.Duration
			tolerance time.Duration
			reason    signature.Reason
		}{
			{0, 0, ""},
			{300 * time.Second, 300 * time.Second, ""},
			{300*time.Second + 999*time.Millisecond, 300 * time.Second, ""}, // whole seconds
			{301 * time.Second, 300 * time.Second, signature.ReasonTooOld},
			{-300 * time.Second, 300 * time.Second, ""},
			{-300*time.Second - time.Millisecond, 300 * time.Second, signature.ReasonTooNew},
			{time.Second, 0, signature.ReasonTooOld},
			{0, -time.Second, signature.ReasonTooOld},
			{math.MaxInt64, math.MaxInt64, ""},
		} {
			want := tc.reason
			if !signed {
				want = ""
			}
			err := s.Verify(req, []signature.Key{k}, sentAt().Add(tc.shift), tc.tolerance)
			wantReason(t, err, string(want))
		}
		if signed {
			var never time.Time // the year 1, more than a time.Duration away
			wantReason(t, s.Verify(req, []signature.Key{k}, never, math.MaxInt64), "too_new")
		}
	})
}

func TestReceive_R3_NoKeyNoScheme(t *testing.T) {
	t.Parallel()
	standard, petify := lookup(t, "standardwebhooks", ""), lookup(t, "petify", "")
	k := mustKey(t, standard, secretA)
	_, public, err := signature.GenerateEd25519(bytes.NewReader(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	req := signedRequest(t, standard, testMessage(), k)
	for _, tc := range []struct {
		name   string
		scheme signature.Scheme
		keys   []signature.Key
		reason signature.Reason
	}{
		{"no keys", standard, nil, signature.ReasonNoKey},
		{"the zero key", standard, make([]signature.Key, 2), signature.ReasonNoKey},
		{"a key of an algorithm that is not the scheme's", petify, []signature.Key{mustKey(t, standard, public)}, signature.ReasonNoKey},
		{"the zero scheme", signature.Scheme{}, []signature.Key{k}, signature.ReasonBadScheme},
	} {
		if got, _ := reasonOf(tc.scheme.Verify(req, tc.keys, sentAt(), time.Hour)); got != tc.reason {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.reason)
		}
	}
}

// Every scheme refuses what is bad with a fixed text in which nothing that was
// computed, received or kept secret appears.
func TestFault_B93_RefusalsTellNothing(t *testing.T) {
	t.Parallel()
	eachScheme(t, func(t *testing.T, s signature.Scheme) {
		k := mustKey(t, s, secretA)
		good := signedRequest(t, s, testMessage(), k)
		value := good.Header.Get(s.SignatureHeader)
		flipped := strings.Replace(value, value[len(value)-6:], "000000", 1)
		entries := strings.Repeat("v1,AAAA ", 999) + value
		if s.Form == signature.FormTimestampedHex {
			entries = value + strings.Repeat(",v1=00", 999)
		}
		for _, tc := range []struct {
			name    string
			values  []string
			reasons []signature.Reason
		}{
			{"bad", []string{flipped}, []signature.Reason{signature.ReasonNoMatch}},
			{"missing", nil, []signature.Reason{signature.ReasonMissingHeader}},
			{"empty", []string{""}, []signature.Reason{signature.ReasonMissingHeader}},
			{"too short", []string{value[:len(value)-1]}, []signature.Reason{signature.ReasonNoSignature}},
			{"too long", []string{value + "0"}, []signature.Reason{signature.ReasonNoSignature}},
			{"not ASCII", []string{"v1,é"}, []signature.Reason{signature.ReasonNoSignature, signature.ReasonMalformedTimestamp}},
			{"not UTF-8", []string{"\xff\x00=,\xfe"}, []signature.Reason{signature.ReasonNoSignature, signature.ReasonMalformedTimestamp}},
			{"a thousand, one of them good", []string{entries}, []signature.Reason{signature.ReasonTooLarge, signature.ReasonNoSignature}},
			{"a megabyte", []string{value + strings.Repeat("0", 1<<20)}, []signature.Reason{signature.ReasonTooLarge}},
		} {
			req := signature.Request{Header: good.Header.Clone(), Body: good.Body}
			req.Header[http.CanonicalHeaderKey(s.SignatureHeader)] = tc.values
			err := s.Verify(req, []signature.Key{k}, sentAt(), s.Tolerance)
			reason, _ := reasonOf(err)
			if !slices.Contains(tc.reasons, reason) {
				t.Errorf("%s: got %q, want one of %q", tc.name, reason, tc.reasons)
				continue
			}
			if err.Error() != s.SignatureHeader+": "+reason.Error() {
				t.Errorf("%s: the text is not the fixed one: %v", tc.name, err)
			}
		}
		if err := s.Verify(good, []signature.Key{k}, sentAt(), s.Tolerance); err != nil {
			t.Errorf("the good one: %v", err)
		}
	})
}

// The work that a request without a valid signature causes is bounded, however
// many signatures it brings: at the limit each key computes one HMAC.
// Not parallel: testing.AllocsPerRun counts the whole process.
func TestFault_B93_BoundedWork(t *testing.T) {
	s := lookup(t, "standardwebhooks", "")
	k := mustKey(t, s, secretA)
	wrong := "v1," + strings.Repeat("A", 43) + "="
	refused := func(n int) (signature.Reason, float64) {
		req := signedRequest(t, s, testMessage(), k)
		req.Header.Set(s.SignatureHeader, strings.TrimSuffix(strings.Repeat(wrong+" ", n), " "))
		reason, _ := reasonOf(s.Verify(req, []signature.Key{k}, sentAt(), s.Tolerance))
		return reason, testing.AllocsPerRun(10, func() {
			_ = s.Verify(req, []signature.Key{k}, sentAt(), s.Tolerance)
		})
	}
	if reason, _ := refused(24); reason != signature.ReasonNoMatch {
		t.Errorf("24 entries: %q", reason)
	}
	few, many := 0.0, 0.0
	_, few = refused(1)
	for _, n := range []int{25, 170, 1000, 100_000} {
		var reason signature.Reason
		if reason, many = refused(n); reason != signature.ReasonTooLarge || many > few {
			t.Errorf("%d entries: %q after %.0f allocations (one entry: %.0f)", n, reason, many, few)
		}
	}
}

// Other texts of the same signature bytes are refused, so that a signature is
// one text and nothing can be changed on the way.
func TestStandard_OneTextForEachSignature(t *testing.T) {
	t.Parallel()
	s := lookup(t, "standardwebhooks", "")
	secret, public, err := signature.GenerateEd25519(bytes.NewReader(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]string{{secretA, secretA}, {secret, public}} {
		req := signedRequest(t, s, testMessage(), mustKey(t, s, pair[0]))
		value := req.Header.Get(s.SignatureHeader)
		label, text, _ := strings.Cut(value, ",")
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		digits := "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
		last := strings.TrimRight(text, "=")
		trailing := last[:len(last)-1] + string(digits[strings.IndexByte(digits, last[len(last)-1])|1]) + text[len(last):]
		for _, other := range []string{
			base64.RawStdEncoding.EncodeToString(raw), base64.URLEncoding.EncodeToString(raw) + "\n",
			text[:10] + "\n" + text[10:], " " + text, hex.EncodeToString(raw), trailing, text + "," + text,
		} {
			if other == text {
				t.Fatal("the other text is the same")
			}
			req.Header.Set(s.SignatureHeader, label+","+other)
			if err := s.Verify(req, []signature.Key{mustKey(t, s, pair[1])}, sentAt(), s.Tolerance); err == nil {
				t.Errorf("%q passes for %q", other, text)
			}
		}
	}
}

// Labels of one form mean nothing in another, nor does an algorithm that the
// scheme does not use.
func TestStandard_ForeignEntriesAreSkipped(t *testing.T) {
	t.Parallel()
	standard, petify := lookup(t, "standardwebhooks", ""), lookup(t, "petify", "")
	k := mustKey(t, standard, secretA)
	req := signedRequest(t, standard, testMessage(), k)
	req.Header.Set("webhook-signature", "t,1 "+req.Header.Get("webhook-signature"))
	wantReason(t, standard.Verify(req, []signature.Key{k}, sentAt(), time.Minute), "")

	req.Header.Set("webhook-signature", "v1a,"+strings.Repeat("A", 86)+"==")
	wantReason(t, petify.Verify(req, []signature.Key{k}, sentAt(), time.Minute), "no_signature")
	wantReason(t, standard.Verify(req, []signature.Key{k}, sentAt(), time.Minute), "no_match")
}

func TestReasonsHaveTexts(t *testing.T) {
	t.Parallel()
	texts := map[string]signature.Reason{}
	for _, r := range []signature.Reason{
		signature.ReasonBadScheme, signature.ReasonNoKey, signature.ReasonMissingHeader, signature.ReasonRepeatedHeader,
		signature.ReasonTooLarge, signature.ReasonMalformedID, signature.ReasonMalformedTimestamp,
		signature.ReasonNoSignature, signature.ReasonTooOld, signature.ReasonTooNew, signature.ReasonNoMatch,
	} {
		if other, taken := texts[r.Error()]; taken || r.Error() == signature.Reason("").Error() {
			t.Errorf("%q has the text of %q", r, other)
		}
		texts[r.Error()] = r
		var asReason signature.Reason
		if !errors.As(error(&signature.VerifyError{Reason: r}), &asReason) || asReason != r {
			t.Errorf("errors.As does not find %q", r)
		}
	}
}
