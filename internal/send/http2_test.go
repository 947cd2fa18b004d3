package send

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/posthorn/posthorn/internal/webhook"
)

func http2Sender(t *testing.T, ca *authority) *Sender {
	t.Helper()
	return newSender(t, Config{Allow: networks(t, "127.0.0.1"), Resolver: answers("127.0.0.1"), RootCAs: ca.pool()})
}

func TestSend_HTTP2(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	var mu sync.Mutex
	seen := map[string]int{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		seen[fmt.Sprintf("%s %s %s %s %s", r.Proto, r.Method, r.RequestURI, r.Host, body)]++
		mu.Unlock()
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write(repeated("x", 100_000))
	}))
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{Certificates: []tls.Certificate{ca.issue(t, leaf("r.example"))}} //nolint:gosec // because what the server offers is the test
	server.StartTLS()
	defer server.Close()
	host := "r.example:" + server.URL[len("https://127.0.0.1:"):]
	s := http2Sender(t, ca)
	for _, target := range []string{"/a?b=%7e", "//x|y?"} {
		got := s.Send(t.Context(), post(t, "https://"+host+target))
		want{kind: webhook.KindClientError, status: 418, response: string(repeated("x", 4096)), truncated: true, message: "418"}.check(t, target, got)
		mu.Lock()
		if key := "HTTP/2.0 POST " + target + " " + host + ` {"a":1}`; seen[key] != 1 {
			t.Errorf("want %q, got %v", key, seen)
		}
		mu.Unlock()
	}
	s.Close()
}

// goawayServer speaks HTTP/2 over TLS and serves so many streams of each
// connection; then it does what nginx does at its keepalive_requests.
type goawayServer struct {
	events  int // that the test sends; all must come
	perConn uint32
	refuse  bool // RST_STREAM with REFUSED_STREAM for the streams over that
	early   bool // GOAWAY when the last stream begins, not when it ends
	bodies  atomic.Int32
	size    int
}

func (g *goawayServer) serve(c *rawConn) {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c.reader, preface); err != nil {
		return
	}
	framer := http2.NewFramer(c.Conn, c.reader)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_ = framer.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 100})
	_ = framer.WriteWindowUpdate(0, 1<<24)
	bodies := map[uint32]*bytes.Buffer{}
	served := uint32(0)
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				_ = framer.WritePing(true, f.Data)
			}
		case *http2.MetaHeadersFrame:
			if uint32(len(bodies)) == g.perConn {
				if g.refuse {
					_ = framer.WriteRSTStream(f.StreamID, http2.ErrCodeRefusedStream)
				}
				continue
			}
			bodies[f.StreamID] = new(bytes.Buffer)
			if uint32(len(bodies)) == g.perConn && g.early {
				_ = framer.WriteGoAway(f.StreamID, http2.ErrCodeNo, nil)
			}
		case *http2.DataFrame:
			body := bodies[f.StreamID]
			if body == nil {
				continue
			}
			body.Write(f.Data())
			if !f.StreamEnded() {
				_ = framer.WriteWindowUpdate(f.StreamID, 1<<20)
				continue
			}
			if body.Len() == g.size {
				g.bodies.Add(1)
			}
			var block bytes.Buffer
			_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: "204"})
			_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: f.StreamID, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
			if served++; served == g.perConn {
				if !g.early {
					_ = framer.WriteGoAway(f.StreamID, http2.ErrCodeNo, nil)
				}
				if !g.refuse {
					c.untilClosed() // the client leaves when its streams are done
					return
				}
			}
		}
	}
}

// buffered reads from a pipe all the time, as a kernel would. Without it both sides
// of HTTP/2 may wait for each other to read.
type buffered struct {
	net.Conn
	mu   sync.Mutex
	more *sync.Cond
	buf  bytes.Buffer
	err  error
}

// newBuffered reads until stop is closed; nil is never.
func newBuffered(conn net.Conn, stop <-chan struct{}) *buffered {
	b := &buffered{Conn: conn}
	b.more = sync.NewCond(&b.mu)
	go func() {
		chunk := make([]byte, 32<<10)
		for b.err == nil {
			select {
			case <-stop:
				return
			default:
			}
			n, err := conn.Read(chunk)
			b.mu.Lock()
			b.buf.Write(chunk[:n])
			b.err = err
			b.mu.Unlock()
			b.more.Signal()
		}
	}()
	return b
}

func (b *buffered) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.buf.Len() == 0 && b.err == nil {
		b.more.Wait()
	}
	if b.buf.Len() == 0 {
		return 0, b.err
	}
	return b.buf.Read(p)
}

// overTLS makes a piped server speak TLS with a certificate for r.example and the
// sender trust it. It must be called in the bubble, whose time the certificate's
// validity begins with.
func overTLS(t *testing.T, s *Sender, network *pipes, protocol string, script func(*rawConn)) {
	t.Helper()
	overTLSUntil(t, s, network, protocol, nil, script)
}

// overTLSUntil is overTLS with a server whose kernel reads until stop is closed.
func overTLSUntil(t *testing.T, s *Sender, network *pipes, protocol string, stop <-chan struct{}, script func(*rawConn)) {
	t.Helper()
	ca := newAuthority(t)
	config := &tls.Config{Certificates: []tls.Certificate{ca.issue(t, leaf("r.example"))}, NextProtos: []string{protocol}} //nolint:gosec // because what the server offers is the test
	s.dialler.tls.RootCAs = ca.pool()
	s.dialler.connect = network.connect
	receiver := new(receiver)
	network.serve = func(conn net.Conn, _ *bufio.Reader) {
		secure := tls.Server(newBuffered(conn, stop), config)
		script(&rawConn{Conn: secure, receiver: receiver, reader: bufio.NewReader(secure)})
	}
}

// In virtual time, so that a repeat that waits is seen.
func TestFault_B29_GracefulGoaway(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]*goawayServer{
		"after each stream":              {events: 200, perConn: 1},
		"when the stream begins":         {events: 60, perConn: 1, early: true},
		"after ten streams":              {events: 60, perConn: 10},
		"after each, the rest refused":   {events: 60, perConn: 1, refuse: true},
		"at the tenth, the rest refused": {events: 60, perConn: 10, refuse: true, early: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server.size = 32 << 10
			r := post(t, "https://r.example/hook")
			r.Body = repeated("0123456789abcdef", server.size)
			synctest.Test(t, func(t *testing.T) {
				s := New(Config{Resolver: answers(public)})
				network := new(pipes)
				overTLS(t, s, network, "h2", server.serve)
				const atOnce = 20
				var all sync.WaitGroup
				for range atOnce {
					all.Go(func() {
						for range server.events / atOnce {
							got := s.Send(t.Context(), r)
							want{status: 204}.check(t, name, got)
							if got.Duration > time.Millisecond {
								t.Errorf("it took %v", got.Duration)
							}
						}
					})
				}
				all.Wait()
				s.Close()
				// No connection stays, though the server closes none.
				done := time.Now()
				network.wait.Wait()
				if lasted := time.Since(done); lasted > leash {
					t.Errorf("a connection lasted %v longer", lasted)
				}
			})
			if n := server.bodies.Load(); int(n) != server.events {
				t.Errorf("%d whole bodies for %d events", n, server.events)
			}
		})
	}
}

// A server that refuses everything fails the attempt soon.
func TestFault_B29_RefusesEverything(t *testing.T) {
	t.Parallel()
	r := post(t, "https://r.example/hook")
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Resolver: answers(public)})
		network := new(pipes)
		overTLS(t, s, network, "h2", (&goawayServer{refuse: true}).serve)
		got := s.Send(t.Context(), r)
		if got.Kind != webhook.KindNetwork || !strings.Contains(got.Message, "without processing it") || got.Duration > 2*time.Second {
			t.Errorf("%+v", got)
		}
		s.Close()
		network.wait.Wait()
	})
}
