package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthorn/posthorn/client"
	"github.com/posthorn/posthorn/internal/config"
	"github.com/posthorn/posthorn/internal/webhook"
)

// virtual is a whole server in a bubble of virtual time: API, publishing, lanes,
// sending over HTTP/1.1 and the real database, but with pipes in the place of
// sockets, so that days pass in an instant. Make one inside synctest.Test.
type virtual struct {
	caller
	app *App
	dir string
	net *virtualNet
}

// virtualAddress is where receivers are; the path tells them apart.
const virtualAddress = "http://127.0.0.1:9"

// inVirtualTime runs a test with a server in a bubble.
func inVirtualTime(t *testing.T, test func(t *testing.T, v *virtual)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &virtual{dir: t.TempDir(), net: newVirtualNet(t)}
		defer v.net.close()
		v.start(t)
		defer v.stop()
		test(t, v)
	})
}

func (v *virtual) start(t testing.TB) {
	t.Helper()
	cfg := config.Server{
		Data: v.dir, Listen: "127.0.0.1:1", PublicURL: "https://hooks.example.com", Dev: true, TimeLapse: 1,
		AllowNetworks: []string{"127.0.0.1"}, ShutdownGrace: time.Second,
		Secrets: config.Secrets{AdminKey: webhook.NewSecretText(operatorKey)},
	}
	var err error
	log := &text{}
	v.app, err = New(cfg, Options{Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	v.app.seams.connect = v.net.connect
	if err := v.app.openStore(t.Context()); err != nil {
		t.Fatal(err)
	}
	handler, err := v.app.openRest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v.caller = caller{t, &client.Client{
		BaseURL: "http://posthorn.test", Key: operatorKey, HTTP: &http.Client{Transport: handlerTransport{handler}},
	}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the server's log:\n%s", log)
		}
	})
}

func (v *virtual) stop() {
	v.t.Helper()
	if err := v.app.Stop(context.Background()); err != nil {
		v.t.Error(err)
	}
}

// restart ends the server in order and starts another on the same data.
func (v *virtual) restart() {
	v.t.Helper()
	t := v.t
	v.stop()
	v.start(t)
}

// pass lets virtual time go by, and waits until everything has come to rest.
func (v *virtual) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// handlerTransport is the way to the API without a socket.
type handlerTransport struct{ handler http.Handler }

func (h handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	in := r.Clone(r.Context())
	in.RequestURI = r.URL.RequestURI()
	if in.Body == nil {
		in.Body = http.NoBody
	}
	h.handler.ServeHTTP(w, in)
	return w.Result(), nil
}

// hit is a request that arrived.
type hit struct {
	at     time.Time
	header http.Header
	body   []byte
}

// virtualNet is the receivers' side: one HTTP server that takes pipes.
type virtualNet struct {
	t        testing.TB
	server   *http.Server
	incoming chan net.Conn
	closed   chan struct{}

	mu      sync.Mutex
	answers map[string]http.HandlerFunc
	hits    map[string][]hit
	refuses bool
}

func newVirtualNet(t testing.TB) *virtualNet {
	n := &virtualNet{t: t, incoming: make(chan net.Conn), closed: make(chan struct{}), answers: map[string]http.HandlerFunc{}, hits: map[string][]hit{}}
	n.server = &http.Server{Handler: http.HandlerFunc(n.take), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	go func() { _ = n.server.Serve(n) }()
	return n
}

// on says how a path answers from now on.
func (n *virtualNet) on(path string, answer http.HandlerFunc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answers[path] = answer
}

// status answers with a status and headers in pairs.
func answers(status int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
	}
}

// script answers with one status after the other; the last one stays.
func script(statuses ...int) http.HandlerFunc {
	var mu sync.Mutex
	return func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		status := statuses[0]
		if len(statuses) > 1 {
			statuses = statuses[1:]
		}
		mu.Unlock()
		w.WriteHeader(status)
	}
}

// refuse says whether connections are refused from now on.
func (n *virtualNet) refuse(yes bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuses = yes
}

// at lists what arrived at a path, oldest first.
func (n *virtualNet) at(path string) []hit {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.hits[path])
}

func (n *virtualNet) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	n.mu.Lock()
	n.hits[r.URL.Path] = append(n.hits[r.URL.Path], hit{time.Now(), r.Header.Clone(), body})
	answer := n.answers[r.URL.Path]
	n.mu.Unlock()
	if answer == nil {
		return // 200
	}
	answer(w, r)
}

func (n *virtualNet) connect(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
	n.mu.Lock()
	refuses := n.refuses
	n.mu.Unlock()
	if refuses {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	near, far := net.Pipe()
	select {
	case n.incoming <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (n *virtualNet) Accept() (net.Conn, error) {
	select {
	case c := <-n.incoming:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (n *virtualNet) Close() error { return nil }

// Addr implements net.Listener.
func (n *virtualNet) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9} }

func (n *virtualNet) close() {
	close(n.closed)
	_ = n.server.Close()
}
