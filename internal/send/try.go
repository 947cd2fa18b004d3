package send

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/posthorn/posthorn/internal/webhook"
)

// try follows one request through one transport: how far its dial came, and once
// it has a connection, what became of that. The transport calls from several
// goroutines, some of them after the request has ended.
//
// It is the request's context, so that dials find it: the transport takes the
// cancellation off a dial's context and leaves the values.
type try struct {
	context.Context
	timeout  time.Duration
	deadline time.Time
	trace    httptrace.ClientTrace

	dialStep atomic.Pointer[step]
	// peer is the connection that the request went to, nil before. The rest says
	// what happened on it.
	peer     atomic.Pointer[peer]
	reused   atomic.Bool
	wrote    atomic.Bool
	answered atomic.Bool // a byte of an answer came
}

// step is how far a dial came.
type step struct {
	phase   webhook.Phase
	address string
}

type tryKey struct{}

func newTry(ctx context.Context, timeout time.Duration, deadline time.Time) *try {
	t := &try{timeout: timeout, deadline: deadline}
	t.trace = httptrace.ClientTrace{GotConn: t.gotConn, WroteRequest: t.wroteRequest, GotFirstResponseByte: t.gotFirstByte}
	t.Context = httptrace.WithClientTrace(ctx, &t.trace)
	return t
}

// Value implements context.Context.
func (t *try) Value(key any) any {
	if key == (tryKey{}) {
		return t
	}
	return t.Context.Value(key)
}

// tryOf returns the try that a dial belongs to.
func tryOf(ctx context.Context) *try {
	t, _ := ctx.Value(tryKey{}).(*try)
	return t
}

func (t *try) reach(phase webhook.Phase, address string) { t.dialStep.Store(&step{phase, address}) }

// gotConn may be called again: the transport itself changes to another
// connection when nothing was written to the first.
func (t *try) gotConn(info httptrace.GotConnInfo) {
	conn := info.Conn
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	p, ok := conn.(*peer)
	if ok {
		p.touch()
	}
	t.reused.Store(info.Reused)
	t.wrote.Store(false)
	t.answered.Store(false)
	t.peer.Store(p)
}

func (t *try) wroteRequest(info httptrace.WroteRequestInfo) { t.wrote.Store(info.Err == nil) }

func (t *try) gotFirstByte() { t.answered.Store(true) }

// phase is how far the request came.
func (t *try) phase() webhook.Phase {
	switch {
	case t.peer.Load() == nil:
		if s := t.dialStep.Load(); s != nil {
			return s.phase
		}
		return webhook.PhaseNone
	case t.wrote.Load() || t.answered.Load():
		return webhook.PhaseHeaders
	default:
		return webhook.PhaseWrite
	}
}

// address is whom the request went to, or was to go to.
func (t *try) address() string {
	if p := t.peer.Load(); p != nil {
		return p.address
	}
	if s := t.dialStep.Load(); s != nil {
		return s.address
	}
	return ""
}

// errUnprocessed stops the transport from repeating a request of which the
// server said that it did nothing with it.
var errUnprocessed = errors.New("the server refused the request unprocessed")

// repeatable tells whether the request may go out once more, on a connection of
// its own: the server said that it did nothing with it, or a reused connection
// ended without one byte of answer (B28), or bytes came on it that are no answer
// and so are left over from the one before (B75).
func (t *try) repeatable(err error) bool {
	if errors.Is(err, errUnprocessed) {
		return true
	}
	return t.peer.Load() != nil && t.reused.Load() && (!t.answered.Load() || isLeftover(err))
}

// isLeftover tells whether what came does not begin with a status line. net/http
// has no type for this.
func isLeftover(err error) bool { return strings.Contains(err.Error(), "malformed HTTP ") }

// isConnectionEnd tells whether err is the end of a connection rather than
// something wrong with what came over it.
func isConnectionEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isReset(err)
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNABORTED)
}

// failed puts the end of a request into words, when its time was not over.
func (t *try) failed(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	p, phase := t.peer.Load(), t.phase()
	if phase == webhook.PhaseNone {
		return ours(webhook.FaultPrepare) // refused before a connection was looked for
	}
	// Under TLS 1.3 a server judges the client's certificate after the handshake.
	asked := p != nil && p.asks.Load() && !t.answered.Load()
	if asked || isRemoteAlert(err) || errors.Is(err, http.ErrSchemeMismatch) {
		return tlsFailure(err, asked).at(t.address())
	}
	return network(phase, exchangeText(err, t.answered.Load())).at(t.address())
}

func exchangeText(err error, answered bool) string {
	switch {
	case isReset(err):
		return "The server reset the connection before it had sent complete answer headers."
	case !answered && errors.Is(err, errUnprocessed):
		return "The server refused the request without processing it."
	case !answered:
		return "The server closed the connection without an answer."
	case isConnectionEnd(err):
		return "The server closed the connection before it had sent complete answer headers."
	case strings.Contains(err.Error(), "headers exceeded"), strings.Contains(err.Error(), "header list larger"):
		return "The headers of the server's answer are too long."
	}
	return "The server's answer is no valid HTTP."
}
