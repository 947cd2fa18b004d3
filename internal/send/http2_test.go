package send

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
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
			ca := newAuthority(t)
			server.size = 32 << 10
			receiver := newTLSServerWith(t, &tls.Config{Certificates: []tls.Certificate{ca.issue(t, leaf("r.example"))}, NextProtos: []string{"h2"}}, server.serve) //nolint:gosec // because what the server offers is the test
			s := http2Sender(t, ca)
			r := post(t, receiver.tlsURL("r.example"))
			r.Body = repeated("0123456789abcdef", server.size)
			const atOnce = 20
			var all sync.WaitGroup
			for range atOnce {
				all.Go(func() {
					for range server.events / atOnce {
						got := s.Send(t.Context(), r)
						want{status: 204}.check(t, name, got)
						if got.Duration > r.Timeout/2 {
							t.Errorf("it took %v", got.Duration)
						}
					}
				})
			}
			all.Wait()
			if n := server.bodies.Load(); int(n) != server.events {
				t.Errorf("%d whole bodies for %d events", n, server.events)
			}
		})
	}
}

// A server that refuses everything fails the attempt, within its time.
func TestFault_B29_RefusesEverything(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	receiver := newTLSServerWith(t, &tls.Config{Certificates: []tls.Certificate{ca.issue(t, leaf("r.example"))}, NextProtos: []string{"h2"}}, //nolint:gosec // because what the server offers is the test
		(&goawayServer{refuse: true}).serve)
	r := post(t, receiver.tlsURL("r.example"))
	r.Timeout = 300 * time.Millisecond
	got := http2Sender(t, ca).Send(t.Context(), r)
	want{kind: webhook.KindTimeout, phase: webhook.PhaseHeaders, message: "ran out"}.check(t, "refused", got)
}
