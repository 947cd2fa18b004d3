package send

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/posthorn/posthorn/internal/webhook"
)

// maxRetryAfter is longer than any date or number of seconds; what is longer
// counts as unreadable.
const maxRetryAfter = 64

// readAnswer fills out from an answer with complete headers and closes it. Nothing
// that happens to the body changes what the status says.
func (s *Sender) readAnswer(ctx context.Context, answer *http.Response, r Request, out *webhook.Outcome) {
	defer answer.Body.Close()
	if answer.ProtoMajor == 2 {
		// While a part of the request still waits for the server, net/http does not
		// look at ctx here, and reading would go on for ever.
		stop := context.AfterFunc(ctx, func() { _ = answer.Body.Close() })
		defer stop()
	}
	out.StatusCode = answer.StatusCode
	out.Kind = r.Contract.Classify(answer.StatusCode)
	out.Message = statusText(answer.StatusCode, out.Kind)
	if values := answer.Header["Retry-After"]; len(values) == 1 && len(values[0]) <= maxRetryAfter {
		out.RetryAfter = values[0]
	}
	if answer.StatusCode == http.StatusSwitchingProtocols {
		return // what follows is another protocol and no body
	}
	s.readBody(answer.Body, r, out)
	if out.ResponseBroken {
		out.Phase = webhook.PhaseBody
		if out.Message == "" {
			out.Message = "Delivered by its status; the answer's body was cut off or did not end in time."
		}
	}
}

// readBody reads at most r.Read bytes, and one more to see whether they were all.
func (s *Sender) readBody(body io.Reader, r Request, out *webhook.Outcome) {
	buf := s.takeBuffer(r.Read + 1)
	defer s.buffers.Put(buf)
	n := 0
	for n < len(*buf) {
		m, err := body.Read((*buf)[n:])
		n += m
		if err == io.EOF {
			break
		}
		if err != nil {
			out.ResponseBroken = true
			break
		}
	}
	kept := min(n, r.Read, r.Keep)
	out.ResponseTruncated = n > kept
	if kept > 0 {
		out.Response = bytes.Clone((*buf)[:kept])
	}
}

func (s *Sender) takeBuffer(size int) *[]byte {
	buf, ok := s.buffers.Get().(*[]byte)
	if !ok {
		buf = new([]byte)
	}
	*buf = slices.Grow((*buf)[:0], size)[:size]
	return buf
}

// statusText is "" for a success.
func statusText(status int, kind webhook.FailureKind) string {
	if kind == webhook.KindNone {
		return ""
	}
	text := fmt.Sprintf("The server answered with status %d", status)
	if name := http.StatusText(status); name != "" {
		text += " (" + name + ")"
	}
	if kind == webhook.KindRedirect {
		return text + "; redirects are not followed."
	}
	return text + "."
}
