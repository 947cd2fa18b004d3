package send

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/posthorn/posthorn/internal/clock"
	"github.com/posthorn/posthorn/internal/webhook"
)

const (
	// idleTimeout closes pooled connections.
	idleTimeout = 30 * time.Second
	// maxAnswerHeaders bounds the header bytes of one answer (B34).
	maxAnswerHeaders = 64 << 10
	// A stream's window and a connection's bound what an HTTP/2 server can make
	// us hold of bodies that nobody reads.
	maxStreamBuffer     = 64 << 10
	maxConnectionBuffer = 1 << 20
	// A silent HTTP/2 connection is probed, or requests would go on to a server
	// that is gone until TCP gives up.
	pingAfter   = 10 * time.Second
	pingTimeout = 5 * time.Second
	// writeTimeout ends an HTTP/2 connection whose other side reads nothing: whoever
	// writes to it holds up all of its streams, and no time but this ends that.
	writeTimeout = 5 * time.Second
)

// Config is what a Sender is made from. The zero value sends to public addresses
// only.
type Config struct {
	// Resolver looks names up; nil for Go's own, after the system's DNS settings.
	Resolver Resolver
	// Allow opens networks that the guard refuses.
	Allow Networks
	// Own lists, at the time of each dial, addresses that are never called
	// whatever Allow says: our listeners and the database (N28). May be nil.
	Own func() []netip.AddrPort
	// RootCAs judges the servers' certificates; nil for the system's.
	RootCAs *x509.CertPool
	// Wall stamps the start of each attempt; nil for the machine's clock.
	Wall func() time.Time
	// Connect connects to an address that the guard has passed; nil dials TCP, where
	// the socket itself is judged once more.
	Connect func(ctx context.Context, target netip.AddrPort) (net.Conn, error)
	// MaxIdle and MaxIdlePerHost bound the pooled connections; 0 for 2,048 and 256.
	MaxIdle        int
	MaxIdlePerHost int
}

// Sender makes attempts over HTTP/1.1 and HTTP/2 on pooled connections. It is
// safe for concurrent use. Redirects are never followed, proxies of the
// environment never used (B85), certificates always verified (B86).
type Sender struct {
	config  Config
	clock   *clock.Clock // its Now measures; stamps come from config.Wall
	dialler *dialler
	pooled  *http.Transport
	buffers sync.Pool // of *[]byte, for reading answers
}

// New makes a Sender.
func New(config Config) *Sender {
	if config.Resolver == nil {
		config.Resolver = &net.Resolver{PreferGo: true}
	}
	c := clock.Start()
	if config.Wall == nil {
		config.Wall = c.Wall
	}
	if config.MaxIdle == 0 {
		config.MaxIdle = 2048
	}
	if config.MaxIdlePerHost == 0 {
		config.MaxIdlePerHost = 256
	}
	s := &Sender{config: config, clock: c}
	s.dialler = &dialler{
		now:      c.Now,
		resolver: config.Resolver,
		guard:    newGuard(config.Allow, config.Own),
		tls:      &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: config.RootCAs, NextProtos: []string{"h2", "http/1.1"}},
	}
	s.dialler.connect = config.Connect
	if s.dialler.connect == nil {
		s.dialler.connect = s.dialler.connectTCP
	}
	s.pooled = s.newTransport()
	return s
}

// newTransport makes a transport with a pool of its own.
func (s *Sender) newTransport() *http.Transport {
	return &http.Transport{
		DialContext:            s.dialler.dialPlain,
		DialTLSContext:         s.dialler.dialTLS,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		MaxIdleConns:           s.config.MaxIdle,
		MaxIdleConnsPerHost:    s.config.MaxIdlePerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxAnswerHeaders,
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream:     maxStreamBuffer,
			MaxReceiveBufferPerConnection: maxConnectionBuffer,
			SendPingTimeout:               pingAfter,
			PingTimeout:                   pingTimeout,
			WriteByteTimeout:              writeTimeout,
		},
	}
}

// Close drops the idle connections. Attempts under way may end.
func (s *Sender) Close() { s.pooled.CloseIdleConnections() }

// Classifier says what a status means; a *contract.Contract is one.
type Classifier interface {
	Classify(status int) webhook.FailureKind
}

// Request is one attempt to make. Header and Body must not be changed any more,
// not after Send either: a connection may still be writing them.
type Request struct {
	// URL in the form that webhook.ParseEndpointURL returns.
	URL string
	// Header in its final form, signed; see Composer.
	Header http.Header
	Body   []byte
	// Timeout runs from the start to complete answer headers, and bounds the
	// reading of the answer's body too.
	Timeout time.Duration
	// Read and Keep bound, in bytes, what is read of the answer's body and what
	// the outcome holds of it.
	Read, Keep int
	Contract   Classifier
}

// Send makes one attempt by POST. The status decides, whatever the body then
// does (S1). The end of ctx is taken for a shutdown: unless complete headers had
// come, the outcome is no attempt. Within an attempt the request goes out once
// more, on a new connection, where [try.repeatable] says so.
func (s *Sender) Send(ctx context.Context, r Request) webhook.Outcome {
	start := s.clock.Now()
	out := webhook.Outcome{StartedAt: s.config.Wall()}
	deadline := start.Add(r.Timeout)
	timed, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()

	if f := s.exchange(timed, r, deadline, &out); f != nil {
		if ctx.Err() != nil {
			f = ours(webhook.FaultShutdown).at(f.address)
		}
		out.Kind, out.Fault, out.Phase, out.Message, out.Address = f.kind, f.fault, f.phase, f.text, f.address
	}
	if out.Fault == webhook.FaultHandles {
		// Pooled connections to hosts that nobody writes to just now may hold all
		// the handles there are, for as long as they idle.
		s.pooled.CloseIdleConnections()
	}
	out.Duration = max(s.clock.Now().Sub(start), time.Microsecond)
	return out
}

// exchange sends the request, repeats it where that is right, and reads the
// answer into out.
func (s *Sender) exchange(ctx context.Context, r Request, deadline time.Time, out *webhook.Outcome) *failure {
	u, err := parseURL(r.URL)
	if err != nil || r.Timeout <= 0 {
		return ours(webhook.FaultPrepare)
	}
	answer, t, err := roundTrip(ctx, s.pooled, u, r, deadline) //nolint:bodyclose // because readAnswer closes it
	if err != nil && ctx.Err() == nil && t.repeatable(err) {
		fresh := s.newTransport()
		defer fresh.CloseIdleConnections()
		answer, t, err = roundTrip(ctx, fresh, u, r, deadline) //nolint:bodyclose // because readAnswer closes it
	}
	if err != nil && ctx.Err() != nil {
		return timedOut(t.phase(), r.Timeout).at(t.address())
	}
	if err != nil {
		return t.failed(err)
	}
	out.Address = t.address()
	s.readAnswer(ctx, answer, r, out)
	return nil
}

func roundTrip(ctx context.Context, transport *http.Transport, u *url.URL, r Request, deadline time.Time) (*http.Response, *try, error) {
	t := newTry(ctx, r.Timeout, deadline)
	answer, err := transport.RoundTrip(newRequest(t, u, r))
	return answer, t, err
}
