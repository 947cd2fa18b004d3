package cli_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/posthorn/posthorn/internal/cli"
	"github.com/posthorn/posthorn/internal/config"
)

// result is what a command came to.
type result struct {
	code        int
	out, errors string
}

// program is a posthorn inside the test: no environment but env.
type program struct {
	env       map[string]string
	stdin     string
	newServer cli.NewServer
}

func (p program) run(ctx context.Context, args ...string) result {
	var out, errs safeBuffer
	code := cli.Run(ctx, &cli.Process{
		Args: args, Stdin: strings.NewReader(p.stdin), Stdout: &out, Stderr: &errs, NewServer: p.newServer,
		Env: func(name string) (string, bool) { v, ok := p.env[name]; return v, ok },
	})
	return result{code, out.String(), errs.String()}
}

// safeBuffer is a buffer that several goroutines may write to.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(text)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// api is a server that answers as the test says and remembers what it got.
type api struct {
	*httptest.Server
	requests []string // method, path with query, body
	headers  []http.Header
}

// newAPI answers every request with the answers, one after the other, the last
// for ever. An answer is a status, a space and a body.
func newAPI(t *testing.T, answers ...string) *api {
	t.Helper()
	a := &api{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.requests = append(a.requests, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
		a.headers = append(a.headers, r.Header)
		answer := answers[min(len(a.requests), len(answers))-1]
		status, text, _ := strings.Cut(answer, " ")
		w.Header().Set("Content-Type", "application/problem+json")
		code := 0
		for _, digit := range status {
			code = code*10 + int(digit-'0')
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(a.Close)
	return a
}

// run calls the API with a command.
func (a *api) run(t *testing.T, args ...string) result {
	t.Helper()
	return program{env: map[string]string{"POSTHORN_SERVER": a.URL, "POSTHORN_KEY": "phk_test"}}.run(t.Context(), args...)
}

func (r result) want(t *testing.T, code int, out, errs string) {
	t.Helper()
	if r.code != code || r.out != out || r.errors != errs {
		t.Errorf("exit code %d, want %d\nstandard output:\n%s\nwant:\n%s\nstandard error:\n%s\nwant:\n%s", r.code, code, r.out, out, r.errors, errs)
	}
}

var _ cli.Server = (*stub)(nil)

// stub is a server that only says that it runs.
type stub struct {
	settings config.Server
	startErr error
	waitErr  error
	ended    chan struct{}
	stopped  bool
}

func (s *stub) Start(context.Context) error { return s.startErr }
func (s *stub) Addr() string                { return "127.0.0.1:4321" }
func (s *stub) AdminKey() string            { return strings.Repeat("k", 32) }
func (s *stub) Wait() error                 { <-s.ended; return s.waitErr }
func (s *stub) Stop(context.Context) error {
	s.stopped = true
	close(s.ended)
	return nil
}
