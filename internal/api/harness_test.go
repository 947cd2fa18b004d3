package api

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/auth"
	"github.com/posthorn/posthorn/internal/catalog"
	"github.com/posthorn/posthorn/internal/clock"
	"github.com/posthorn/posthorn/internal/pagetoken"
	"github.com/posthorn/posthorn/internal/publish"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/store/sqlite"
	"github.com/posthorn/posthorn/internal/webhook"
)

const adminKey = "an-admin-key-of-at-least-thirty-two-characters"

// plainSealer stands in for encryption at rest, which is not the API's business.
type plainSealer struct{}

func (plainSealer) Seal(plain, _ []byte) ([]byte, error)  { return append([]byte("x"), plain...), nil }
func (plainSealer) Open(sealed, _ []byte) ([]byte, error) { return sealed[1:], nil }
func (plainSealer) Fingerprint() []byte                   { return []byte("f") }
func (plainSealer) Matches(f []byte) bool                 { return string(f) == "f" }
func (plainSealer) NeedsReseal([]byte) bool               { return false }

// promises are the built-in contracts and those that were stored, as a server has
// them in memory.
type promises struct {
	mu      sync.Mutex
	current map[string]Contract
	known   map[string]*contract.Contract
}

func newPromises() *promises {
	p := &promises{current: map[string]Contract{}, known: map[string]*contract.Contract{}}
	for _, name := range contract.BuiltinNames() {
		c, _ := contract.Builtin(name)
		p.current[name] = Contract{Contract: c, Revision: c.Revision(), Builtin: true}
		p.known[name+" "+c.Revision()] = c
	}
	return p
}

func (p *promises) apply(change store.Change) {
	r := change.Contract
	if r == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c, err := contract.Parse([]byte(r.Text))
	if err != nil {
		return
	}
	p.known[r.Name+" "+r.Revision] = c
	if r.Current {
		p.current[r.Name] = Contract{Contract: c, Revision: r.Revision, Text: r.Text, CreatedAt: r.CreatedAt}
	} else if p.current[r.Name].Revision == r.Revision {
		delete(p.current, r.Name)
	}
}

func (p *promises) Lookup(name string) (Contract, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, ok := p.current[name]
	return found, ok
}

func (p *promises) Names() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.current))
}

func (p *promises) Current(name string) (*contract.Contract, string) {
	found, _ := p.Lookup(name)
	return found.Contract, found.Revision
}

func (p *promises) Promised(name, revision string) *contract.Contract {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[name+" "+revision]
}

// logBuffer keeps what was logged.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// fixture is the API over a real store, with what tests need to speak to it.
// Every answer is compared with the OpenAPI document.
type fixture struct {
	testing.TB
	api *API
	db  *sqlite.DB
	log *logBuffer
	// offered are the deliveries that publishing handed over.
	offered *[]store.Work
	// told are those that a change told of: what is sent again.
	told   *[]store.Work
	tokens *pagetoken.Codec
	// document is the description, compiled schemas by operation and status.
	document map[string]any
	compiler *jsonschema.Compiler
	mu       sync.Mutex
}

func newFixture(t testing.TB, change ...func(*Config)) *fixture {
	t.Helper()
	f := &fixture{TB: t, log: &logBuffer{}, offered: &[]store.Work{}, told: &[]store.Work{}}
	all := newPromises()
	subscriptions := publish.NewRegistry(all)
	var keys *auth.Authenticator
	ticks := clock.Start()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir(), Sealer: plainSealer{}, Now: ticks.Wall(), Contract: all.Promised, OnChange: func(c store.Change) {
		all.apply(c)
		subscriptions.Apply(c)
		if keys != nil {
			keys.Apply(c)
		}
		f.note(f.told, c.Accepted)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	f.db = db
	endpoints, revisions, err := db.LoadSubscriptions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	subscriptions.Load(endpoints, revisions)
	keys, err = auth.New(auth.Config{Keys: db, Tenants: db, AdminKey: adminKey, Clock: ticks})
	if err != nil {
		t.Fatal(err)
	}
	if f.tokens, err = pagetoken.New(bytes.Repeat([]byte("p"), 32)); err != nil {
		t.Fatal(err)
	}
	texts, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Texts: texts.For("en"), Store: db, Match: subscriptions.Match, Auth: keys, Contracts: all, DefaultContract: contract.Standard, Clock: ticks, Rand: rand.Reader,
		Publisher: publish.New(publish.Config{Store: db, Registry: subscriptions, Clock: ticks, Offer: func(w []store.Work) { f.note(f.offered, w) }}),
		Offer:     func(w []store.Work) { f.note(f.offered, w) }, PageTokens: f.tokens,
		Render: render, CursorKey: bytes.Repeat([]byte("k"), 32), PublicURL: "http://127.0.0.1:8080", Version: "test",
		Log: slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range change {
		c(&cfg)
	}
	if f.api, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(f.api.document, &f.document); err != nil {
		t.Fatal(err)
	}
	f.compiler = jsonschema.NewCompiler()
	f.compiler.AssertFormat()
	if err := f.compiler.AddResource("mem:///openapi.json", f.document); err != nil {
		t.Fatal(err)
	}
	return f
}

// render does in short what the sending side does.
func render(d *webhook.Delivery, ev *webhook.Event, e *webhook.Endpoint) (Sent, error) {
	sent := Sent{Headers: []SentHeader{
		{Header: webhook.Header{Name: "content-type", Value: webhook.NewSecretText("application/json")}},
		{Header: webhook.Header{Name: "webhook-id", Value: webhook.NewSecretText(d.WebhookID)}},
	}}
	if e != nil {
		for _, h := range e.Headers {
			sent.Headers = append(sent.Headers, SentHeader{h, true})
		}
	}
	if ev != nil {
		sent.Body = slices.Concat([]byte(`{"type":"`+ev.Type+`","data":`), ev.Data, []byte("}"))
	}
	return sent, nil
}

// answer is what came back.
type got struct {
	*fixture
	status int
	header http.Header
	raw    string
	json   map[string]any
}

// ask is a request in the making.
type ask struct {
	method, path string
	body         string
	header       http.Header
}

func to(method, path, body string) *ask {
	a := &ask{method: method, path: path, body: body, header: http.Header{"Authorization": {"Bearer " + adminKey}}}
	if body != "" {
		a.header.Set("Content-Type", "application/json")
	}
	return a
}

// with sets a header; "" takes it away.
func (a *ask) with(name, value string) *ask {
	if value == "" {
		a.header.Del(name)
	} else {
		a.header.Set(name, value)
	}
	return a
}

func (a *ask) key(key string) *ask { return a.with("Authorization", "Bearer "+key) }

// request makes what is sent.
func (a *ask) request(f *fixture) *http.Request {
	var body io.Reader
	if a.body != "" {
		body = strings.NewReader(a.body)
	}
	r := httptest.NewRequestWithContext(f.Context(), a.method, a.path, body)
	maps.Copy(r.Header, a.header)
	return r
}

func (f *fixture) send(a *ask) got {
	f.Helper()
	w := httptest.NewRecorder()
	f.api.ServeHTTP(w, a.request(f))
	out := got{fixture: f, status: w.Code, header: w.Header(), raw: w.Body.String()}
	f.conforms(a, &out)
	return out
}

// conforms holds an answer against the description: the status, the body's
// schema, and no member that is not described.
func (f *fixture) conforms(a *ask, out *got) {
	f.Helper()
	media := out.header.Get("Content-Type")
	if media == mediaJSON || strings.HasSuffix(media, "+json") {
		if err := json.Unmarshal([]byte(out.raw), &out.json); err != nil {
			f.Fatalf("%s %s: the answer is no JSON: %v\n%s", a.method, a.path, err, out.raw)
		}
	}
	op := f.operationFor(a)
	if op == nil {
		return // a route that does not exist, or a page
	}
	responses := op["responses"].(map[string]any)
	described, ok := responses[strconv.Itoa(out.status)].(map[string]any)
	if !ok {
		f.Fatalf("%s %s answered %d, which is not described: %s", a.method, a.path, out.status, out.raw)
	}
	content, _ := described["content"].(map[string]any)
	if len(content) == 0 {
		if out.raw != "" {
			f.Fatalf("%s %s answered a body where none is described: %s", a.method, a.path, out.raw)
		}
		return
	}
	if content[media] == nil {
		f.Fatalf("%s %s answered as %q, which is not described", a.method, a.path, media)
	}
	if out.json != nil {
		pointer := "/paths/" + strings.ReplaceAll(op["x-path"].(string), "/", "~1") + "/" + strings.ToLower(a.method) +
			"/responses/" + strconv.Itoa(out.status) + "/content/" + strings.ReplaceAll(media, "/", "~1") + "/schema"
		f.fits(pointer, out.json)
	}
}

// fits validates a value against a schema of the document.
func (f *fixture) fits(pointer string, v any) {
	f.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.compiler.Compile("mem:///openapi.json#" + pointer)
	if err != nil {
		f.Fatalf("the schema at %s: %v", pointer, err)
	}
	if err := s.Validate(v); err != nil {
		text, _ := json.MarshalIndent(v, "", "  ")
		f.Fatalf("does not fit the schema at %s: %v\n%s", pointer, err, text)
	}
}

// operationFor finds the described operation of a request; nil when none is.
func (f *fixture) operationFor(a *ask) map[string]any {
	path, _, _ := strings.Cut(a.path, "?")
	for _, alias := range []string{"/v1/webhooks", "/api/public/v1/webhooks"} {
		if rest, ok := strings.CutPrefix(path, alias); ok {
			path = "/v1/endpoints" + rest
		}
	}
	var found map[string]any
	for described, item := range f.document["paths"].(map[string]any) {
		if !samePath(described, path) {
			continue
		}
		if op, ok := item.(map[string]any)[strings.ToLower(a.method)].(map[string]any); ok && (found == nil || described == path) {
			op["x-path"] = described
			found = op
		}
	}
	return found
}

func samePath(described, path string) bool {
	want, have := strings.Split(described, "/"), strings.Split(path, "/")
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if want[i] != have[i] && !strings.HasPrefix(want[i], "{") || have[i] == "" && want[i] != "" {
			return false
		}
	}
	return true
}

// is checks the status.
func (g got) is(status int) got {
	g.Helper()
	if g.status != status {
		g.Fatalf("status is %d, want %d: %s", g.status, status, g.raw)
	}
	return g
}

// problem checks that the answer is a problem document of this code.
func (g got) problem(status int, code string) got {
	g.Helper()
	g.is(status)
	if g.header.Get("Content-Type") != "application/problem+json" {
		g.Fatalf("the refusal is %q", g.header.Get("Content-Type"))
	}
	if g.json["code"] != code || g.json["status"] != float64(status) || g.json["type"] != "/docs#"+code {
		g.Fatalf("problem is %s, want code %s", g.raw, code)
	}
	return g
}

// faultAt checks that a fault points here, and returns it.
func (g got) faultAt(pointer, code string) map[string]any {
	g.Helper()
	for _, one := range g.json["errors"].([]any) {
		fault := one.(map[string]any)
		if fault["pointer"] == pointer && fault["code"] == code {
			if fault["detail"] == "" || fault["allowed"] == "" {
				g.Fatalf("the fault at %s does not say what was wrong and what is allowed: %v", pointer, fault)
			}
			return fault
		}
	}
	g.Fatalf("no fault %s at %q: %s", code, pointer, g.raw)
	return nil
}

func (g got) text(name string) string {
	g.Helper()
	text, ok := g.json[name].(string)
	if !ok {
		g.Fatalf("%s is %v: %s", name, g.json[name], g.raw)
	}
	return text
}

func (g got) items() []map[string]any {
	g.Helper()
	var out []map[string]any
	for _, one := range g.json["data"].([]any) {
		out = append(out, one.(map[string]any))
	}
	return out
}

// tenant makes a tenant and a key for it with all scopes.
func (f *fixture) tenant(id string) (key string) {
	f.Helper()
	f.send(to("PUT", "/v1/tenants/"+id, `{}`)).is(201)
	return f.send(to("POST", "/v1/tenants/"+id+"/keys", `{"scopes":["publish","read","manage"]}`)).is(201).text("key")
}

// endpoint makes an endpoint for all events.
func (f *fixture) endpoint(key string) (id string) {
	f.Helper()
	return f.send(to("POST", "/v1/endpoints", `{"url":"https://example.com/hook","events":["*"]}`).key(key)).is(201).text("id")
}

// publish accepts an event.
func (f *fixture) publish(key, body string) (id string) {
	f.Helper()
	return f.send(to("POST", "/v1/events", body).key(key)).is(202).text("id")
}

// record books the outcome of a try of the delivery that was offered last.
func (f *fixture) record(w store.Work, p store.RecordParams) {
	f.Helper()
	p.Ref, p.Tenant, p.Endpoint, p.Round, p.Attempts = w.Ref, w.Tenant, w.Endpoint, w.Round, w.Attempts
	done := make(chan error, 1)
	f.db.Record(p, func(_ store.RecordResult, err error) { done <- err })
	select {
	case err := <-done:
		if err != nil {
			f.Fatal(err)
		}
	case <-time.After(10 * time.Second):
		f.Fatal("recording takes too long")
	}
}

// note keeps what was handed over.
func (f *fixture) note(to *[]store.Work, w []store.Work) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*to = append(*to, w...)
}

func (f *fixture) lastOffered() store.Work {
	f.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(*f.offered) == 0 {
		f.Fatal("nothing was handed over")
	}
	return (*f.offered)[len(*f.offered)-1]
}
