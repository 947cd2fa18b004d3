package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/internal/auth"
)

// TestRoutes_UnknownAndWrongMethod: problem documents, also for what the mux
// would answer by itself.
func TestRoutes_UnknownAndWrongMethod(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, path := range []string{"/", "/v1", "/v1/", "/v1/nothing", "/v2/events", "/v1//events", "/v1/endpoints/", "/v1/endpoints/../events", "/v1/events/x/y/z", "/docs/", "/docs/none.js", "/metrics"} {
		f.send(to("GET", path, "").with("Authorization", "")).problem(404, "not_found")
	}
	for method, path := range map[string]string{"PUT": "/v1/events", "DELETE": "/v1/endpoints", "OPTIONS": "/v1/endpoints", "FOO": "/v1/deliveries", "POST": "/healthz", "TRACE": "/v1/limits"} {
		got := f.send(to(method, path, "")).problem(405, "method_not_allowed")
		if allow := got.header.Get("Allow"); allow == "" || strings.Contains(allow, method) {
			t.Errorf("%s %s: Allow is %q", method, path, allow)
		}
	}
	for _, id := range []string{"%00", "%ff", "a%2Fb", strings.Repeat("x", 5000), "%2e%2e"} {
		f.send(to("GET", "/v1/endpoints/"+id, "")).problem(404, "not_found")
	}
	if got := f.send(to("HEAD", "/v1/endpoints", "")); got.status != 200 {
		t.Errorf("HEAD is answered with %d", got.status)
	}
}

// TestBodies_Types: no body is {} and needs no type; else the type is looked at.
func TestBodies_Types(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.send(to("PUT", "/v1/endpoints/crm", plainEndpoint)).is(201)
	pause := func(body, media string) got {
		return f.send(to("POST", "/v1/endpoints/crm/pause", body).with("Content-Type", media))
	}
	pause("", "").is(200)
	pause("", "text/plain").is(200)
	pause("{}", "application/json").is(200)
	pause("{}", "application/json; charset=UTF-8").is(200)
	pause("{}", "").problem(415, "unsupported_type")
	pause("{}", "text/plain").problem(415, "unsupported_type")
	pause("{}", "application/merge-patch+json").problem(415, "unsupported_type")
	pause("null", "application/json").problem(422, "invalid_field").faultAt("", "invalid_field")
	f.send(to("POST", "/v1/endpoints/crm/pause", "{}").with("Content-Encoding", "gzip")).problem(415, "unsupported_type")
	f.send(to("POST", "/v1/endpoints/crm/pause", "{}").with("Content-Encoding", "identity")).is(200)
	for _, broken := range []string{"{", "{}{}", "{}x", `{"a":1,"a":2}`, "{\"a\":\"\xff\"}", "\xef\xbb\xbf{}", "nul", `{"a":"secret-text",}`} {
		got := pause(broken, "application/json").problem(400, "invalid_body")
		if strings.Contains(got.raw, "secret-text") {
			t.Errorf("the body is repeated: %s", got.raw)
		}
	}
	pause(`{"a":"`+strings.Repeat("x", 300<<10)+`"}`, "application/json").problem(413, "too_large").faultAt("", "too_large")
	f.send(to("GET", "/v1/endpoints/crm", "{}").with("Content-Type", "text/plain")).is(200)
}

// served is the API behind the server that it is meant to run in.
func (f *fixture) served() (address string) {
	f.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	server := HTTPServer(f.api, slog.New(slog.DiscardHandler))
	go func() { _ = server.Serve(listener) }()
	f.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String()
}

// early is an answer that came before its request was whole.
type early struct {
	status int
	closes bool
	body   string
}

// half sends the beginning of a request and returns the answer that comes
// although the rest never does.
func (f *fixture) half(address, request string) early {
	f.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, request); err != nil {
		f.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		f.Fatalf("no answer: %v", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		f.Fatalf("the answer breaks off: %v", err)
	}
	return early{answer.StatusCode, answer.Close, string(text)}
}

// TestFault_B95_RefusedBeforeTheBody: without a good key not one byte of the body
// is waited for, and the connection ends instead of being drained.
func TestFault_B95_RefusedBeforeTheBody(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	address := f.served()
	good := "Authorization: Bearer " + adminKey + "\r\n"
	for _, c := range []struct {
		name, head string
		status     int
	}{
		{"no key", "POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", 401},
		{"wrong key, 2 GiB", "POST /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer nobody\r\nContent-Length: 2147483648\r\n\r\n", 401},
		{"no such route", "POST /v1/nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n", 404},
		{"health with a body", "GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 200},
		{"the page with a body", "GET /docs HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n", 200},
		{"a list with a body", "GET /v1/events HTTP/1.1\r\nHost: x\r\n" + good + "Content-Length: 10\r\n\r\n", 200},
		{"good key, 2 GiB", "POST /v1/events HTTP/1.1\r\nHost: x\r\n" + good + "Content-Type: application/json\r\nContent-Length: 2147483648\r\n\r\n", 413},
		{"gzip", "POST /v1/events HTTP/1.1\r\nHost: x\r\n" + good + "Content-Type: application/json\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n", 415},
		{"unknown parameter", "POST /v1/endpoints?x=1 HTTP/1.1\r\nHost: x\r\n" + good + "Content-Type: application/json\r\nContent-Length: 10\r\n\r\n", 422},
	} {
		began := time.Now()
		answer := f.half(address, c.head)
		if answer.status != c.status || !answer.closes {
			t.Errorf("%s: answered %d, closes %v", c.name, answer.status, answer.closes)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: the answer took %v", c.name, took)
		}
	}
	if answer := f.half(address, "GET /healthz HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 1<<20)+"\r\n\r\n"); answer.status != 431 {
		t.Errorf("a header of 1 MiB is answered with %d", answer.status)
	}
}

// TestFault_B95_SlowBodyEnds: a body that never comes to its end is refused when
// its time is over, and the connection is kept after a good one.
func TestFault_B95_SlowBodyEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, op := range f.api.operations() {
		if op.body != nil && (op.body.timeout <= 0 || op.body.timeout > time.Minute || op.body.limit <= 0) {
			t.Errorf("%s: the body has %v and %d bytes", op.id, op.body.timeout, op.body.limit)
		}
	}
	op := &operation{id: "slow", method: "POST", path: "/slow", body: f.api.schemas.emptyBody(), handle: func(*call) (reply, error) { return reply{status: 204}, nil }}
	op.body.timeout = 200 * time.Millisecond
	f.api.mux.Handle("POST /slow", f.api.serve(op))
	address := f.served()
	answer := f.half(address, "POST /slow HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{")
	if answer.status != 408 || !answer.closes || !strings.Contains(answer.body, `"code":"request_timeout"`) {
		t.Errorf("answered %+v", answer)
	}

	// After a good body the connection goes on without the deadline.
	deadlines := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/slow", strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/json")
	f.api.ServeHTTP(deadlines, r)
	if deadlines.Code != 204 || len(deadlines.set) != 2 || deadlines.set[0].IsZero() || !deadlines.set[1].IsZero() || deadlines.Header().Get("Connection") != "" {
		t.Errorf("answered %d, deadlines %v", deadlines.Code, deadlines.set)
	}
}

// deadlineRecorder records the deadlines that are set on a connection.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlineRecorder) SetReadDeadline(at time.Time) error {
	d.set = append(d.set, at)
	return nil
}

// endless is a body without end, which counts what is read of it.
type endless struct{ n int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.n += len(p)
	return len(p), nil
}

// TestFault_B95_EndlessBody: of a body whose length nobody said, one byte
// more than its limit is read, to see that it goes on.
func TestFault_B95_EndlessBody(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, c := range []struct {
		path, media string
		limit       int
	}{
		{"/v1/events", "application/json", f.api.cfg.Limits.BodyBytes()}, {"/v1/events", "application/x-ndjson", 16 << 20}, {"/v1/endpoints", "application/json", controlBodyLimit},
	} {
		body := &endless{}
		r := httptest.NewRequestWithContext(t.Context(), "POST", c.path, body)
		r.Header.Set("Authorization", "Bearer "+adminKey)
		r.Header.Set("Content-Type", c.media)
		w := httptest.NewRecorder()
		f.api.ServeHTTP(w, r)
		if w.Code != 413 || body.n > c.limit+1 || w.Header().Get("Connection") != "close" {
			t.Errorf("%s as %s: answered %d after %d bytes", c.path, c.media, w.Code, body.n)
		}
	}
}

// TestFault_B95_BrokenBody: a body that breaks off is refused, not taken for whole.
func TestFault_B95_BrokenBody(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/events", io.MultiReader(strings.NewReader(`{"type":"a.b","data":1}`), failingReader{}))
	r.Header.Set("Authorization", "Bearer "+adminKey)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	f.api.ServeHTTP(w, r)
	if w.Code != 400 || !strings.Contains(w.Body.String(), `"code":"invalid_body"`) {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
	if got := f.send(to("GET", "/v1/events", "")).is(200).items(); len(got) != 0 {
		t.Errorf("a half body was accepted: %v", got)
	}
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

// watchedBody tells whether anybody read from it.
type watchedBody struct{ read bool }

func (b *watchedBody) Read([]byte) (int, error) {
	b.read = true
	return 0, io.EOF
}

// failingAuth is an authenticator whose store fails.
type failingAuth struct{ Authenticator }

func (failingAuth) Authenticate(context.Context, string) (auth.Identity, error) {
	return auth.Identity{}, errors.New("looking up a key: disk on fire")
}

// TestFault_B95_BodyIsReadLast: nothing is read for any refusal that does not
// need the body.
func TestFault_B95_BodyIsReadLast(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	failing := newFixture(t, func(c *Config) { c.Auth = failingAuth{c.Auth} })
	for _, c := range []struct {
		f      *fixture
		path   string
		header map[string]string
		status int
	}{
		{f, "/v1/events", map[string]string{"Authorization": ""}, 401},
		{f, "/v1/events", map[string]string{"Authorization": "Basic x"}, 401},
		{failing, "/v1/events", nil, 500},
		{f, "/v1/events", map[string]string{"Posthorn-Tenant": "nobody"}, 404},
		{f, "/v1/events", map[string]string{"Content-Type": "text/plain"}, 415},
		{f, "/v1/events?x=1", nil, 422},
		{f, "/v1/nothing", nil, 404},
	} {
		body := &watchedBody{}
		r := httptest.NewRequestWithContext(t.Context(), "POST", c.path, body)
		r.Header.Set("Authorization", "Bearer "+adminKey)
		r.Header.Set("Content-Type", "application/json")
		for name, v := range c.header {
			r.Header.Set(name, v)
		}
		w := httptest.NewRecorder()
		c.f.api.ServeHTTP(w, r)
		if w.Code != c.status || body.read || w.Header().Get("Connection") != "close" {
			t.Errorf("%s %v: answered %d, body read: %v, %v", c.path, c.header, w.Code, body.read, w.Header())
		}
	}
}

// TestServer_Readiness: all checks are run and named; a failed one is logged, its
// text not shown.
func TestServer_Readiness(t *testing.T) {
	t.Parallel()
	failing := false
	f := newFixture(t, func(c *Config) {
		c.Ready = []Check{
			{"store", func(context.Context) error { return nil }},
			{"lanes", func(context.Context) error {
				if failing {
					return errors.New("stuck at secret-place")
				}
				return nil
			}},
		}
	})
	ask := func() got { return f.send(to("GET", "/readyz", "").with("Authorization", "")) }
	if got := ask().is(200); fmt.Sprint(got.json["checks"]) != "map[lanes:ok store:ok]" || got.json["status"] != "ready" {
		t.Errorf("ready as %s", got.raw)
	}
	failing = true
	got := ask().problem(503, "not_ready")
	if fmt.Sprint(got.json["checks"]) != "map[lanes:failed store:ok]" || got.header.Get("Retry-After") == "" || strings.Contains(got.raw, "secret-place") {
		t.Errorf("not ready as %s", got.raw)
	}
	if !strings.Contains(f.log.String(), "secret-place") {
		t.Error("the cause is not logged")
	}
	f.send(to("GET", "/healthz", "").with("Authorization", "")).is(200)
}

// TestServer_Limits: the limits that errors name are all shown.
func TestServer_Limits(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.Limits.EventBytes = 1000 })
	got := f.send(to("GET", "/v1/limits", "")).is(200)
	if got.json["event_bytes"] != 1000.0 || got.json["ndjson_lines"] != 1000.0 || got.json["endpoint_patterns"] != 50.0 || got.json["deliver_at_ahead"] != 2592000.0 {
		t.Errorf("limits are %s", got.raw)
	}
	f.send(to("POST", "/v1/events", `{"type":"a.b","data":"`+strings.Repeat("x", 1000)+`"}`)).problem(413, "too_large")
}

// TestServer_Metrics: with a key only, and only where there are metrics.
func TestServer_Metrics(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) {
		c.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, "up 1\n")
		})
	})
	f.send(to("GET", "/metrics", "").with("Authorization", "")).problem(401, "unauthorized")
	if got := f.send(to("GET", "/metrics", "")).is(200); got.raw != "up 1\n" {
		t.Errorf("metrics are %q", got.raw)
	}
}

// TestDocs_StrictPolicy: the page and its files come from the binary, under a
// policy that lets nothing else in, and hold nothing from elsewhere.
func TestDocs_StrictPolicy(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for path, media := range map[string]string{"/docs": "text/html", "/docs/docs.js": "text/javascript", "/docs/docs.css": "text/css"} {
		got := f.send(to("GET", path, "").with("Authorization", "")).is(200)
		policy := got.header.Get("Content-Security-Policy")
		if !strings.HasPrefix(got.header.Get("Content-Type"), media) || !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: %v", path, got.header)
		}
		for _, foreign := range []string{"http://", "https://", "//cdn", "innerHTML", "eval(", "style=", "onclick"} {
			if strings.Contains(got.raw, foreign) {
				t.Errorf("%s holds %q", path, foreign)
			}
		}
	}
	for _, row := range refusals() {
		if row.Title == "" || !strings.HasSuffix(row.Meaning, ".") || row.Status < 400 {
			t.Errorf("the row of %s is not whole", row.Code)
		}
	}
}

// TestNew_RefusesWhatIsMissing: a wrong configuration is no API.
func TestNew_RefusesWhatIsMissing(t *testing.T) {
	t.Parallel()
	good := newFixture(t).api.cfg
	for name, spoil := range map[string]func(*Config){
		"store": func(c *Config) { c.Store = nil }, "clock": func(c *Config) { c.Clock = nil }, "key": func(c *Config) { c.CursorKey = []byte("short") },
		"contract": func(c *Config) { c.DefaultContract = "nope" }, "render": func(c *Config) { c.Render = nil },
	} {
		cfg := good
		spoil(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("an API without a %s was made", name)
		}
	}
}
