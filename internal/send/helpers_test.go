package send

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// public is an address that the guard lets pass; tests never really dial it.
	public = "93.184.215.14"
	// patience is for what should come at once but may be slow on a busy machine.
	patience = 30 * time.Second
)

func standard(t testing.TB) *contract.Contract {
	t.Helper()
	c, ok := contract.Builtin(contract.Standard)
	if !ok {
		t.Fatal("the standard contract is missing")
	}
	return c
}

// standardOnce is read-only.
var standardOnce = sync.OnceValues(func() (*contract.Contract, bool) { return contract.Builtin(contract.Standard) })

func networks(t testing.TB, entries ...string) Networks {
	t.Helper()
	n, err := ParseNetworks(entries)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// resolverFunc is a Resolver made of a function of the host.
type resolverFunc func(ctx context.Context, host string) ([]netip.Addr, error)

func (f resolverFunc) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	return f(ctx, host)
}

// answers resolves every name to these addresses.
func answers(texts ...string) Resolver {
	return resolverFunc(func(context.Context, string) ([]netip.Addr, error) {
		addrs := make([]netip.Addr, len(texts))
		for i, a := range texts {
			addrs[i] = netip.MustParseAddr(a)
		}
		return addrs, nil
	})
}

// loopbackSender may call 127.0.0.1, which every name resolves to.
func loopbackSender(t testing.TB) *Sender {
	t.Helper()
	return newSender(t, Config{Allow: networks(t, "127.0.0.1"), Resolver: answers("127.0.0.1")})
}

func newSender(t testing.TB, c Config) *Sender {
	t.Helper()
	s := New(c)
	t.Cleanup(s.Close)
	return s
}

// hookedSender connects by the function in place of the network. Names resolve
// to a public address unless the configuration has a resolver.
func hookedSender(t testing.TB, c Config, connect func(context.Context, netip.AddrPort) (net.Conn, error)) *Sender {
	t.Helper()
	if c.Resolver == nil {
		c.Resolver = answers(public)
	}
	s := newSender(t, c)
	s.dialler.connect = connect
	return s
}

// post is a request with the standard contract's limits and a small body.
func post(t testing.TB, url string) Request {
	t.Helper()
	c, ok := standardOnce()
	if !ok {
		t.Fatal("the standard contract is missing")
	}
	return Request{
		URL: url, Body: []byte(`{"a":1}`), Timeout: patience, Read: 4096, Keep: 4096, Contract: c,
		Header: http.Header{"Content-Type": {"application/json"}, "User-Agent": {"test"}},
	}
}

// rawRequest is one request as its bytes came.
type rawRequest struct {
	line    string
	headers string // with the line ends
	body    string
	conn    int // number of the connection, from 1
}

// header returns all values of a header, whatever its case.
func (r rawRequest) header(name string) []string {
	var values []string
	for line := range strings.SplitSeq(r.headers, "\r\n") {
		if n, v, _ := strings.Cut(line, ": "); strings.EqualFold(n, name) {
			values = append(values, v)
		}
	}
	return values
}

func readRequest(br *bufio.Reader) (rawRequest, error) {
	var r rawRequest
	var err error
	if r.line, err = br.ReadString('\n'); err != nil {
		return r, err
	}
	r.line = strings.TrimSuffix(r.line, "\r\n")
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			return r, err
		}
		if line == "\r\n" {
			break
		}
		r.headers += line
	}
	length := 0
	if l := r.header("Content-Length"); len(l) == 1 {
		length, _ = strconv.Atoi(l[0])
	}
	body := make([]byte, length)
	_, err = io.ReadFull(br, body)
	r.body = string(body)
	return r, err
}

// receiver is a raw-socket server on loopback that records what it got.
type receiver struct {
	listener net.Listener
	wait     sync.WaitGroup
	mu       sync.Mutex
	requests []rawRequest
	conns    []net.Conn
}

// newReceiver serves each connection by the script, which may read requests with
// next; the connection is closed after it.
func newReceiver(t testing.TB, script func(c *rawConn)) *receiver {
	t.Helper()
	return serveOn(t, listen(t), script)
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func serveOn(t testing.TB, l net.Listener, script func(c *rawConn)) *receiver {
	r := &receiver{listener: l}
	r.wait.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.conns = append(r.conns, conn)
			number := len(r.conns)
			r.mu.Unlock()
			r.wait.Go(func() {
				defer func() { _ = conn.Close() }()
				script(&rawConn{Conn: conn, receiver: r, number: number, reader: bufio.NewReader(conn)})
			})
		}
	})
	t.Cleanup(r.close)
	return r
}

func (r *receiver) close() {
	_ = r.listener.Close()
	r.mu.Lock()
	for _, c := range r.conns {
		_ = c.Close()
	}
	r.mu.Unlock()
	r.wait.Wait()
}

func (r *receiver) port() string {
	_, port, _ := net.SplitHostPort(r.listener.Addr().String())
	return port
}

// url is the receiver's under a name, which loopbackSender resolves.
func (r *receiver) url() string { return "http://r.example:" + r.port() + "/hook" }

func (r *receiver) got() []rawRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]rawRequest(nil), r.requests...)
}

func (r *receiver) connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.conns)
}

// rawConn is one connection at a receiver.
type rawConn struct {
	net.Conn
	receiver *receiver
	number   int
	reader   *bufio.Reader
}

// next reads one request; false when the connection is at its end.
func (c *rawConn) next() (rawRequest, bool) {
	r, err := readRequest(c.reader)
	if err != nil {
		return r, false
	}
	r.conn = c.number
	c.receiver.mu.Lock()
	c.receiver.requests = append(c.receiver.requests, r)
	c.receiver.mu.Unlock()
	return r, true
}

func (c *rawConn) write(text string) { _, _ = io.WriteString(c, text) }

// untilClosed waits until the other side closes.
func (c *rawConn) untilClosed() { _, _ = io.Copy(io.Discard, c.reader) }

// reset ends the connection with an RST.
func (c *rawConn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// answering gives every request the same answer and keeps the connection.
func answering(answer string) func(*rawConn) {
	return func(c *rawConn) {
		for {
			if _, ok := c.next(); !ok {
				return
			}
			c.write(answer)
		}
	}
}

const answerOK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// want is what a test expects of an outcome; zero fields must be zero.
type want struct {
	kind      webhook.FailureKind
	fault     webhook.Fault
	phase     webhook.Phase
	status    int
	response  string
	truncated bool
	broken    bool
	message   string // a part of it
}

func (w want) check(t *testing.T, what string, got webhook.Outcome) {
	t.Helper()
	g := want{
		got.Kind, got.Fault, got.Phase, got.StatusCode, string(got.Response), got.ResponseTruncated, got.ResponseBroken, w.message,
	}
	if g != w {
		t.Errorf("%s:\n got %+v\nwant %+v\n(%q)", what, g, w, got.Message)
	}
	if !strings.Contains(got.Message, w.message) || (w.message == "") != (got.Message == "") {
		t.Errorf("%s: the message is %q, want %q in it", what, got.Message, w.message)
	}
	if got.Duration < time.Microsecond || got.StartedAt.IsZero() {
		t.Errorf("%s: duration %v, started at %v", what, got.Duration, got.StartedAt)
	}
}

var delivered = want{status: 200, response: "ok"}

// pipes is a network in memory: each connect makes a pipe that serve answers.
type pipes struct {
	serve func(conn net.Conn, br *bufio.Reader)
	wait  sync.WaitGroup
	mu    sync.Mutex
	made  []netip.AddrPort
}

func (p *pipes) connect(_ context.Context, target netip.AddrPort) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made = append(p.made, target)
	client, server := net.Pipe()
	p.wait.Go(func() {
		defer func() { _ = server.Close() }()
		p.serve(server, bufio.NewReader(server))
	})
	return client, nil
}

func (p *pipes) targets() []netip.AddrPort {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]netip.AddrPort(nil), p.made...)
}

var errTest = errors.New("an error that no outcome may show")

func repeated(text string, size int) []byte { return bytes.Repeat([]byte(text), size/len(text)) }
