package receiver_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/internal/cli/receiver"
	"github.com/posthorn/posthorn/signature"
)

const secret = "s3cret"

func at() time.Time { return time.Unix(1767225600, 0) }

// start serves a receiver that answers with the list and reports to got.
func start(t *testing.T, list string, done chan struct{}, got chan *receiver.Request) string {
	t.Helper()
	answers, err := receiver.ParseAnswers(list)
	if err != nil {
		t.Fatal(err)
	}
	scheme, _ := signature.Lookup("stripe", "")
	key, err := scheme.ParseKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	sequence := receiver.NewSequence(answers)
	srv := httptest.NewServer(&receiver.Receiver{
		Now: at,
		Verifier: func(r *http.Request) *receiver.Verifier {
			if r.URL.Path == "/unchecked" {
				return nil
			}
			return &receiver.Verifier{Scheme: scheme, Keys: []signature.Key{key}, Tolerance: scheme.Tolerance}
		},
		Decide: func(*http.Request, *receiver.Request) receiver.Reply {
			return receiver.Reply{Answer: sequence.Next(), Header: http.Header{"X-Test": {"yes"}}, Body: []byte("body")}
		},
		Report: func(r *receiver.Request, _ receiver.Reply) { got <- r },
		Done:   done,
	})
	t.Cleanup(srv.Close)
	return srv.URL
}

// reply is an answer that was read to its end.
type reply struct {
	status int
	header http.Header
	body   string
}

// post sends a body with a signature over signed.
func post(t *testing.T, url, body, signed string) (reply, error) {
	t.Helper()
	scheme, _ := signature.Lookup("stripe", "")
	key, err := scheme.ParseKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if err := scheme.SetHeaders(req.Header, signature.Message{Timestamp: at().Unix(), Body: []byte(signed)}, key); err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(text)}, err
}

func TestReceiver_ChecksAndAnswers(t *testing.T) {
	t.Parallel()
	got := make(chan *receiver.Request, 1)
	url := start(t, "429:retry-after=7,204", nil, got)
	resp, err := post(t, url+"/hook?a=1", `{"n":1}`, `{"n":1}`)
	if err != nil {
		t.Fatal(err)
	}
	if resp.status != 429 || resp.header.Get("Retry-After") != "7" || resp.header.Get("X-Test") != "yes" || resp.body != "body" {
		t.Errorf("got %+v", resp)
	}
	if r := <-got; !r.Checked || r.Refused != nil || r.Path != "/hook?a=1" || string(r.Body) != `{"n":1}` || !r.At.Equal(at()) {
		t.Errorf("got %+v", r)
	}
	// A changed byte is noticed; without a verifier nothing is checked.
	if _, err := post(t, url, `{"n":2}`, `{"n":1}`); err != nil {
		t.Fatal(err)
	}
	if r := <-got; !errors.Is(r.Refused, signature.ReasonNoMatch) {
		t.Errorf("got %v", r.Refused)
	}
	if _, err := post(t, url+"/unchecked", `{"n":2}`, `{"n":1}`); err != nil {
		t.Fatal(err)
	}
	if r := <-got; r.Checked || r.Refused != nil {
		t.Errorf("got %+v", r)
	}
}

func TestReceiver_HangsUntilItsEnd(t *testing.T) {
	t.Parallel()
	done, got := make(chan struct{}), make(chan *receiver.Request, 1)
	url := start(t, "timeout", done, got)
	result := make(chan error, 1)
	go func() {
		_, err := post(t, url, "{}", "{}")
		result <- err
	}()
	<-got // it hangs now
	close(done)
	if err := <-result; err == nil {
		t.Error("a request that hung got an answer")
	}
}

func TestReceiver_BoundsTheBody(t *testing.T) {
	t.Parallel()
	url := start(t, "200", nil, make(chan *receiver.Request, 1))
	resp, err := post(t, url, strings.Repeat("x", receiver.MaxBody+1), "")
	if err == nil && resp.status != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", resp.status)
	}
}
