package receiver

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/posthorn/posthorn/signature"
)

// MaxBody is the largest body that is taken, in bytes.
const MaxBody = 16 << 20

// Verifier checks requests.
type Verifier struct {
	Scheme    signature.Scheme
	Keys      []signature.Key
	Tolerance time.Duration
}

// Verify checks one request as it came.
func (v *Verifier) Verify(header http.Header, body []byte, now time.Time) error {
	return v.Scheme.Verify(signature.Request{Header: header, Body: body}, v.Keys, now, v.Tolerance)
}

// Request is one request as it was received.
type Request struct {
	At     time.Time
	Method string
	Path   string // with the query
	Header http.Header
	Body   []byte
	// Checked is true when there was a Verifier; Refused is then why the
	// signature is bad, nil for a good one.
	Checked bool
	Refused error
}

// Reply is what the receiver does about a request.
type Reply struct {
	Answer Answer
	// Header and Body go with a status; both may be empty.
	Header http.Header
	Body   []byte
}

// Receiver is an http.Handler. Fill in the fields before the first request.
type Receiver struct {
	// Now stamps requests and judges timestamps.
	Now func() time.Time
	// Verifier of a request; nil, or returning nil, checks nothing.
	Verifier func(*http.Request) *Verifier
	// Decide says what a request gets. It is called once for each, concurrently.
	Decide func(*http.Request, *Request) Reply
	// Report is told of each request and its answer, before the answer is sent;
	// may be nil.
	Report func(*Request, Reply)
	// Done ends requests that hang.
	Done <-chan struct{}
}

// ServeHTTP implements http.Handler.
func (s *Receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}
		return
	}
	got := &Request{At: s.Now(), Method: r.Method, Path: r.URL.RequestURI(), Header: r.Header, Body: body}
	if s.Verifier != nil {
		if v := s.Verifier(r); v != nil {
			got.Checked, got.Refused = true, v.Verify(r.Header, body, got.At)
		}
	}
	reply := s.Decide(r, got)
	if s.Report != nil {
		s.Report(got, reply)
	}
	s.reply(w, r, reply)
}

func (s *Receiver) reply(w http.ResponseWriter, r *http.Request, reply Reply) {
	if reply.Answer.Kind == KindTimeout {
		select {
		case <-r.Context().Done():
		case <-s.Done:
		}
		panic(http.ErrAbortHandler) // no answer at all, not an empty 200
	}
	maps.Copy(w.Header(), reply.Header)
	if reply.Answer.RetryAfter != "" {
		w.Header().Set("Retry-After", reply.Answer.RetryAfter)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(reply.Body)))
	w.WriteHeader(reply.Answer.Status)
	_, _ = w.Write(reply.Body)
}
