package send

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/webhook"
)

// secretOf makes the text of a signing secret, valid until expires if given.
func secretOf(n byte, expires ...time.Time) webhook.SigningSecret {
	s := webhook.SigningSecret{ID: "sec_" + strconv.Itoa(int(n)), Text: webhook.NewSecretText("whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{n}, 32)))}
	if len(expires) > 0 {
		s.ExpiresAt = expires[0]
	}
	return s
}

// checkStandard is a Standard Webhooks verifier of its own: it shares no code
// with what signs. It returns how many signatures fit the key.
func checkStandard(r rawRequest, key []byte, now time.Time) (int, error) {
	one := func(name string) (string, error) {
		values := r.header(name)
		if len(values) != 1 {
			return "", fmt.Errorf("%s: %q", name, values)
		}
		return values[0], nil
	}
	id, err1 := one("webhook-id")
	stamp, err2 := one("webhook-timestamp")
	signatures, err3 := one("webhook-signature")
	seconds, err4 := strconv.ParseInt(stamp, 10, 64)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return 0, err
	}
	if age := now.Unix() - seconds; age < -300 || age > 300 {
		return 0, fmt.Errorf("the timestamp is %d s old", age)
	}
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, stamp, r.body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	fits := 0
	for s := range strings.SplitSeq(signatures, " ") {
		if s == want {
			fits++
		}
	}
	return fits, nil
}

func composer(t testing.TB, c *contract.Contract, own []webhook.Header, secrets ...webhook.SigningSecret) *Composer {
	t.Helper()
	m, err := NewComposer(c, "Posthorn/test", own, secrets)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func header(t testing.TB, m *Composer, id string, try int, now time.Time, body []byte) http.Header {
	t.Helper()
	h, err := m.Header(id, try, now, body)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// signatureOf finds the header by the name that the contract writes.
func signatureOf(h http.Header) string {
	for name, values := range h {
		if name == "webhook-signature" {
			return values[0]
		}
	}
	return ""
}

func createdAt() time.Time {
	return time.Date(2026, 3, 4, 7, 6, 7, 8_000_000, time.FixedZone("", 2*60*60))
}

func TestFault_B22_DataKeepsItsBytes(t *testing.T) {
	t.Parallel()
	data := `{ "z":1, "a":"<b>&\u00e9 é \/ \u2028","n":1.0,"e":1e3,"big":12345678901234567890 }` + "\n"
	got := string(AppendBody([]byte("kept"), standard(t), Parts{EventID: "e", EventType: "a.b", CreatedAt: createdAt(), Data: []byte(data)}))
	if want := `kept{"type":"a.b","timestamp":"2026-03-04T05:06:07.008Z","data":` + data + "}"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestSend_EnvelopeOfEachSource(t *testing.T) {
	t.Parallel()
	c := standard(t)
	c.Body.Fields = []contract.Field{
		{Name: "data", From: contract.FromEventData}, {Name: "id", From: contract.FromEventID}, {Name: "at", From: contract.FromEventCreatedAt},
		{Name: `odd "name" <é>`, From: contract.FromEventType}, {Name: "tenant", From: contract.FromTenantID}, {Name: "webhookId", From: contract.FromWebhookID},
		{Name: "runId", From: contract.FromRunID}, {Name: "counts", From: contract.FromRunCounts}, {Name: "pageToken", From: contract.FromPageToken},
		{Name: "pageUrl", From: contract.FromPageURL}, {Name: "sentAt", From: contract.FromSentAt},
	}
	p := Parts{
		TenantID: "t\"1", EventID: "evt<1>&", EventType: "a\\b\n\xff", CreatedAt: time.Date(2026, 1, 1, 0, 0, 0, 999_999_999, time.UTC),
		Data: []byte("null"), WebhookID: "w\u2028", RunID: "r", RunCounts: []byte("3.0"), PageToken: "pt", PageURL: "https://p/", SentAt: createdAt(),
	}
	got := AppendBody(nil, c, p)
	var read map[string]any
	if err := json.Unmarshal(got, &read); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	for name, want := range map[string]any{
		"data": nil, "id": p.EventID, "at": "2026-01-01T00:00:00.999Z", `odd "name" <é>`: "a\\b\n\ufffd", "tenant": p.TenantID, "webhookId": p.WebhookID,
		"runId": "r", "counts": 3.0, "pageToken": "pt", "pageUrl": "https://p/", "sentAt": "2026-03-04T05:06:07.008Z",
	} {
		if read[name] != want {
			t.Errorf("%s is %q, want %q", name, read[name], want)
		}
	}
	if !bytes.HasPrefix(got, []byte(`{"data":null,"id":"evt<1>&","at":`)) {
		t.Errorf("the order or the escapes: %s", got)
	}
}

func TestContract_E3_MillisecondsAlways(t *testing.T) {
	t.Parallel()
	c := standard(t)
	c.Body.Fields = []contract.Field{{Name: "at", From: contract.FromEventCreatedAt}}
	for nanos, want := range map[int]string{0: "00.000Z", 500_000_000: "00.500Z", 1_000: "00.000Z", 999_999_999: "00.999Z"} {
		got := string(AppendBody(nil, c, Parts{CreatedAt: time.Date(2026, 1, 1, 0, 0, 0, nanos, time.UTC)}))
		if got != `{"at":"2026-01-01T00:00:`+want+`"}` {
			t.Errorf("%d ns: %s", nanos, got)
		}
	}
}

// randomData is JSON with odd spaces and values.
func randomData(random *rand.Rand) []byte {
	samples := []string{`"x"`, ` { } `, "[]", "\n[ 1 ,\t2.50, -0, 1E+2 ]\r\n", `{"é":"\ud83d\ude00 😀","b":[{}]}`, "true", "null", "12345678901234567890123"}
	var parts []string
	for range 1 + random.IntN(8) {
		parts = append(parts, samples[random.IntN(len(samples))])
	}
	if len(parts) == 1 {
		return []byte(parts[0])
	}
	return []byte("[" + strings.Repeat(" ", random.IntN(3)) + strings.Join(parts, " , ") + "]")
}

// What an independent verifier sees of 200 random bodies, over the wire and on
// attempts 1, 2 and 5.
func TestFault_B24_SignedIsWhatIsSent(t *testing.T) {
	t.Parallel()
	server := newReceiver(t, answering(answerOK))
	s := loopbackSender(t)
	c := standard(t)
	m := composer(t, c, nil, secretOf(1), secretOf(2))
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Unix(1_800_000_000, 0)
	tries := []int{1, 2, 5}
	var bodies []string
	for i := range 200 {
		data := randomData(random)
		if i == 0 {
			data = []byte(`"` + strings.Repeat("ab<>&", 1<<20/5) + `"`)
		}
		body := AppendBody(nil, c, Parts{EventType: "a", CreatedAt: createdAt(), Data: data})
		bodies = append(bodies, string(body))
		for _, try := range tries {
			r := post(t, server.url())
			r.Body, r.Header = body, header(t, m, fmt.Sprintf("evt_%d", i), try, now, body)
			delivered.check(t, "signed", s.Send(t.Context(), r))
		}
	}
	requests := server.got()
	if len(requests) != len(bodies)*len(tries) {
		t.Fatalf("%d requests", len(requests))
	}
	for i, r := range requests {
		event := i / len(tries)
		if r.body != bodies[event] || r.header("webhook-id")[0] != fmt.Sprintf("evt_%d", event) {
			t.Fatalf("request %d: another body or ID", i)
		}
		for n := range byte(4) {
			fits, err := checkStandard(r, bytes.Repeat([]byte{n}, 32), now)
			if want := (n == 1 || n == 2); err != nil || (fits == 1) != want || fits > 1 {
				t.Fatalf("request %d, secret %d: %d signatures fit, %v", i, n, fits, err)
			}
		}
	}
}

func TestFault_B25_FreshTimestampEachTry(t *testing.T) {
	t.Parallel()
	m := composer(t, standard(t), nil, secretOf(1))
	body := []byte(`{"type":"a"}`)
	at := time.Unix(1_800_000_000, 999_000_000)
	seen := map[string]bool{}
	for try := 1; try <= 4; try++ {
		h := header(t, m, "evt_1", try, at, body)
		r := rawRequest{body: string(body)}
		for name, values := range h {
			r.headers += name + ": " + values[0] + "\r\n"
		}
		if fits, err := checkStandard(r, bytes.Repeat([]byte{1}, 32), at); err != nil || fits != 1 {
			t.Errorf("try %d: %d signatures fit, %v", try, fits, err)
		}
		if stamp := r.header("webhook-timestamp")[0]; stamp != strconv.FormatInt(at.Unix(), 10) || r.header("webhook-id")[0] != "evt_1" {
			t.Errorf("try %d: timestamp %s, ID %s", try, stamp, r.header("webhook-id"))
		}
		seen[r.header("webhook-signature")[0]] = true
		at = at.Add(6 * time.Minute)
	}
	if len(seen) != 4 {
		t.Errorf("%d signatures for 4 tries", len(seen))
	}
}

// After a rotation both secrets sign, newest first, until the overlap ends.
func TestSend_SecretsSignUntilTheyExpire(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	m := composer(t, standard(t), nil, secretOf(2), secretOf(1, now))
	count := func(at time.Time) int {
		return len(strings.Split(signatureOf(header(t, m, "evt_1", 1, at, nil)), " "))
	}
	if before, at := count(now.Add(-time.Nanosecond)), count(now); before != 2 || at != 1 {
		t.Errorf("%d signatures before the end, %d at it", before, at)
	}
	none := composer(t, standard(t), nil, secretOf(1, now))
	if h, err := none.Header("evt_1", 1, now, nil); err == nil || h != nil {
		t.Errorf("signed without a secret: %v", h)
	}
	if _, err := composer(t, standard(t), nil).Header("evt_1", 1, now, nil); err == nil {
		t.Error("signed without any secret")
	}
}

func timestampedHex(t *testing.T) *contract.Contract {
	t.Helper()
	c := standard(t)
	c.Name = "hexed"
	c.Signature = contract.Signature{Header: "Hexed-Signature", Form: "timestamped-hex", Signed: "{t}.{body}", Algorithms: []string{"hmac-sha256"}, Key: "text", Tolerance: c.Signature.Tolerance}
	c.Headers = []contract.Field{{Name: "Hexed-Webhook-Id", From: contract.FromWebhookID}, {Name: "Hexed-Delivery-Attempt", From: contract.FromAttempt}}
	return c
}

func TestContract_S3_HeadersOfATimestampedForm(t *testing.T) {
	t.Parallel()
	m := composer(t, timestampedHex(t), nil, secretOf(1))
	now := time.Unix(1_800_000_000, 0)
	h := header(t, m, "dlv.1", 7, now, []byte("body"))
	mac := hmac.New(sha256.New, []byte(secretOf(1).Text.Reveal()))
	_, _ = mac.Write([]byte("1800000000.body"))
	for name, want := range map[string]string{
		"Hexed-Signature":        "t=1800000000,v1=" + hex.EncodeToString(mac.Sum(nil)),
		"Hexed-Webhook-Id":       "dlv.1",
		"Hexed-Delivery-Attempt": "7",
		"Content-Type":           "application/json",
		"User-Agent":             "Posthorn/test",
	} {
		if got := h[name]; len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if len(h) != 5 {
		t.Errorf("there are others: %v", h)
	}
}

func own(pairs ...string) []webhook.Header {
	var list []webhook.Header
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, webhook.Header{Name: pairs[i], Value: webhook.NewSecretText(pairs[i+1])})
	}
	return list
}

func TestFault_B84_OwnHeadersOnTheWire(t *testing.T) {
	t.Parallel()
	server := newReceiver(t, answering(answerOK))
	s := loopbackSender(t)
	m := composer(t, timestampedHex(t), own("Authorization", "Bearer a", "x-lower", "b c\td", "user-agent", "mine", "hexed-webhook-id", "stolen"), secretOf(1))
	r := post(t, server.url())
	r.Header = header(t, m, "w1", 1, time.Unix(1_800_000_000, 0), r.Body)
	for range 2 {
		delivered.check(t, "own headers", s.Send(t.Context(), r))
	}
	for _, got := range server.got() {
		for name, want := range map[string]string{"Authorization": "Bearer a", "x-lower": "b c\td", "User-Agent": "mine", "Hexed-Webhook-Id": "w1"} {
			if h := got.header(name); len(h) != 1 || h[0] != want {
				t.Errorf("%s: %q, want %q", name, h, want)
			}
		}
		if !strings.Contains(got.headers, "\r\nx-lower: ") && !strings.HasPrefix(got.headers, "x-lower: ") {
			t.Errorf("the name was rewritten: %s", got.headers)
		}
	}
}

func TestFault_B84_BadRowsStopTheComposer(t *testing.T) {
	t.Parallel()
	for _, headers := range [][]webhook.Header{
		own("X-A", "a\r\nX-Injected: 1"), own("Content-Length", "1"), own("Host", "x"), own("X-A", "1", "x-a", "2"), own("", "1"), own("webhook-signature", "v1,x", "X-B", "é"),
	} {
		if _, err := NewComposer(standard(t), "x", headers, []webhook.SigningSecret{secretOf(1)}); err == nil {
			t.Errorf("%q is taken", headers[0].Name)
		}
	}
	secret := webhook.SigningSecret{ID: "sec_x", Text: webhook.NewSecretText("whsec_S3CRET!")}
	_, err := NewComposer(standard(t), "x", nil, []webhook.SigningSecret{secret})
	if err == nil || strings.Contains(err.Error(), "S3CRET") || !strings.Contains(err.Error(), "sec_x") {
		t.Errorf("a bad secret: %v", err)
	}
	c := standard(t)
	c.Headers = c.Headers[1:] // {id} is signed and no header bears it
	if _, err := NewComposer(c, "x", nil, []webhook.SigningSecret{secretOf(1)}); err == nil {
		t.Error("a contract that can't be verified is taken")
	}
}

// One composer serves all lanes of an endpoint.
func TestSend_ComposerIsShared(t *testing.T) {
	t.Parallel()
	m := composer(t, standard(t), own("X-A", "1"), secretOf(1))
	now := time.Unix(1_800_000_000, 0)
	body := []byte("{}")
	want := signatureOf(header(t, m, "evt_1", 1, now, body))
	done := make(chan string)
	for range 8 {
		go func() {
			h, err := m.Header("evt_1", 1, now, body)
			if err != nil {
				done <- err.Error()
				return
			}
			h["X-Mine"] = []string{"x"} // a caller's own map
			done <- signatureOf(h)
		}()
	}
	for range 8 {
		if got := <-done; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if h := header(t, m, "evt_1", 1, now, body); h["X-Mine"] != nil {
		t.Error("a caller's header stays")
	}
}
