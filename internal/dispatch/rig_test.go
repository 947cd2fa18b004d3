package dispatch

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/clock"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tester is what *testing.T and *rapid.T have in common.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// request is one request that the receiver saw.
type request struct {
	ref      webhook.Ref
	endpoint webhook.EndpointKey
	try      int
	url      string
	data     string
	at       time.Time
}

// receiver is the Sender of the tests: it answers by a function, and refuses two
// requests at a time for one delivery.
type receiver struct {
	t      tester
	mu     sync.Mutex
	seen   []request
	open   map[webhook.Ref]int
	onWire map[webhook.EndpointKey]int
	most   map[webhook.EndpointKey]int
	answer func(ctx context.Context, s Shot) webhook.Outcome
	onSend func(s Shot)
}

// Attempt implements Sender.
func (r *receiver) Attempt(ctx context.Context, s Shot) webhook.Outcome {
	key := s.Endpoint.Key
	r.mu.Lock()
	r.seen = append(r.seen, request{
		ref: s.Work.Ref, endpoint: key, try: s.Try, url: s.Endpoint.URL, data: string(s.Work.Data), at: time.Now(),
	})
	r.open[s.Work.Ref]++
	if r.open[s.Work.Ref] > 1 {
		r.t.Errorf("two requests at once for delivery %d", s.Work.Ref)
	}
	r.onWire[key]++
	r.most[key] = max(r.most[key], r.onWire[key])
	answer, onSend := r.answer, r.onSend
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.open[s.Work.Ref]--
		r.onWire[key]--
		r.mu.Unlock()
	}()
	if onSend != nil {
		onSend(s)
	}
	start := time.Now()
	o := answer(ctx, s)
	if o.StartedAt.IsZero() {
		o.StartedAt = start
	}
	o.Duration = max(time.Since(start), time.Microsecond)
	return o
}

func (r *receiver) requests() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

func (r *receiver) set(answer func(context.Context, Shot) webhook.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// standard is read once: reading YAML is what would take the time here.
var standard = sync.OnceValue(func() *contract.Contract {
	c, _ := contract.Builtin(contract.Standard)
	return c
})

var builtin = sync.OnceValue(func() map[string]*contract.Contract {
	all := map[string]*contract.Contract{"plain": plain(), "gated": gated()}
	for _, name := range []string{contract.Standard, "signals", "elido", "petify"} {
		all[name], _ = contract.Builtin(name)
	}
	return all
})

// under chooses an endpoint's contract.
func under(name string) func(*webhook.Endpoint) {
	return func(e *webhook.Endpoint) { e.Contract = name }
}

// sameURL lets endpoints share a URL.
func sameURL(e *webhook.Endpoint) { e.URL = "https://shared.example/" }

// oneByOne lets an endpoint have one request at a time, so that order shows.
func oneByOne(e *webhook.Endpoint) { e.MaxInFlight = 1 }

func status(code int) webhook.Outcome {
	c := standard()
	return webhook.Outcome{Kind: c.Classify(code), StatusCode: code, Phase: webhook.PhaseNone}
}

func always(code int) func(context.Context, Shot) webhook.Outcome {
	return func(context.Context, Shot) webhook.Outcome { return status(code) }
}

// after answers with code once takes has passed, or is cut.
func after(takes time.Duration, code int) func(context.Context, Shot) webhook.Outcome {
	return func(ctx context.Context, _ Shot) webhook.Outcome {
		select {
		case <-time.After(takes):
			return status(code)
		case <-ctx.Done():
			return webhook.Outcome{Kind: webhook.KindNetwork, Fault: webhook.FaultShutdown}
		}
	}
}

func hang(ctx context.Context, _ Shot) webhook.Outcome {
	<-ctx.Done()
	return webhook.Outcome{Kind: webhook.KindNetwork, Fault: webhook.FaultShutdown}
}

// rig is a database, a receiver, and one process at a time.
type rig struct {
	t    tester
	db   *fakeDB
	recv *receiver
	clk  *clock.Clock
	cfg  Config
	logs *logBuffer

	mu      sync.Mutex
	session *session
	d       *Dispatcher
	stop    context.CancelFunc
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// bubble runs a test in virtual time with a started rig.
func bubble(t *testing.T, cfg Config, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, cfg)
		defer r.close()
		test(r)
	})
}

func newRig(t tester, cfg Config) *rig {
	ctx, stop := context.WithCancel(context.Background())
	r := &rig{
		t: t, db: newFakeDB(ctx), clk: clock.Start(), cfg: cfg, stop: stop, logs: &logBuffer{},
		recv: &receiver{
			t: t, open: map[webhook.Ref]int{}, onWire: map[webhook.EndpointKey]int{},
			most: map[webhook.EndpointKey]int{}, answer: always(200),
		},
	}
	r.db.onChange = func(ch store.Change) {
		if d := r.dispatcher(); d != nil {
			d.Apply(ch)
		}
	}
	return r
}

func (r *rig) dispatcher() *Dispatcher {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.d
}

// start starts a process.
func (r *rig) start() *Dispatcher {
	r.t.Helper()
	contracts := builtin()
	cfg := r.cfg
	s := &session{db: r.db}
	cfg.Store, cfg.Send, cfg.Clock = s, r.recv, r.clk
	cfg.Contracts = func(name, _ string) *contract.Contract { return contracts[name] }
	cfg.Match = r.match
	if cfg.Random == nil {
		cfg.Random = func() float64 { return 0.5 } // no jitter
	}
	cfg.Log = slog.New(slog.NewTextHandler(r.logs, nil))
	d := New(cfg)
	r.mu.Lock()
	r.session, r.d = s, d
	r.mu.Unlock()
	var endpoints []*webhook.Endpoint
	r.db.set(func() {
		for _, e := range r.db.endpoints {
			endpoints = append(endpoints, e)
		}
	})
	d.Load(endpoints)
	if err := d.Start(context.Background()); err != nil {
		r.t.Fatalf("start: %v", err)
	}
	return d
}

// match matches as a registry does that learns of each commit in its order.
func (r *rig) match(p *store.AcceptParams) {
	eventType := p.Type
	match := func() store.Matched { return r.db.match(eventType) }
	m := match()
	p.Revision, p.Targets, p.Keys, p.Rematch = m.Revision, m.Targets, m.Keys, match
}

// kill ends the process as kill -9 does.
func (r *rig) kill() {
	r.session.kill()
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_ = r.d.Drain(gone)
	r.mu.Lock()
	r.d = nil
	r.mu.Unlock()
}

func (r *rig) drain(grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	err := r.d.Drain(ctx)
	r.session.kill()
	r.mu.Lock()
	r.d = nil
	r.mu.Unlock()
	return err
}

func (r *rig) close() {
	if r.dispatcher() != nil {
		r.kill()
	}
	r.stop()
	time.Sleep(time.Minute) // time stands still once the test returned
}

// endpoint creates an endpoint under the contract standard.
func (r *rig) endpoint(key webhook.EndpointKey, change ...func(*webhook.Endpoint)) webhook.EndpointKey {
	e := &webhook.Endpoint{
		Key: key, ID: fmt.Sprintf("ep_%d", key), Tenant: "default", URL: fmt.Sprintf("https://%d.example/", key),
		Events: []string{"*"}, Contract: contract.Standard,
		State: webhook.EndpointActive, MaxInFlight: 128, Version: 1,
	}
	for _, c := range change {
		c(e)
	}
	r.db.addEndpoint(e)
	return key
}

// commit accepts n deliveries without handing them over.
func (r *rig) commit(n int, t template) []store.Work {
	if t.due.IsZero() {
		t.due = r.clk.Now().Round(0)
	}
	if t.data == nil {
		t.data = []byte(`{"a":1}`)
	}
	ts := make([]template, n)
	for i := range ts {
		ts[i] = t
	}
	return r.db.accept(ts...)
}

// publish accepts n deliveries and hands them over.
func (r *rig) publish(n int, key webhook.EndpointKey) []store.Work {
	works := r.commit(n, template{endpoint: key})
	r.d.Offer(works)
	return works
}

// plain is a contract of three attempts without jitter or stops.
func plain() *contract.Contract {
	p := *standard()
	p.Name = "plain"
	p.Schedule = contract.Schedule{Waits: []contract.Duration{0, contract.Duration(time.Second), contract.Duration(time.Minute)}}
	p.Stop, p.Exhausted.Emit = nil, nil
	return &p
}

// gated is plain with a gate for each URL.
func gated() *contract.Contract {
	c := *plain()
	c.Name = "gated"
	c.Gate = contract.Gate{
		Any: true, Scope: "url",
		PassedBy: []contract.Trigger{contract.TriggerTest, contract.TriggerResend, contract.TriggerRedelivery},
	}
	return &c
}

// wantCounts checks how many deliveries have each status.
func (r *rig) wantCounts(want map[contract.Status]int) {
	r.t.Helper()
	if got := r.db.count(); !equalCounts(got, want) {
		r.t.Errorf("statuses %v, want %v", got, want)
	}
}

func equalCounts(a, b map[contract.Status]int) bool {
	for _, s := range contract.Statuses() {
		if a[s] != b[s] {
			return false
		}
	}
	return true
}

func (r *rig) wantRequests(n int) []request {
	r.t.Helper()
	got := r.recv.requests()
	if len(got) != n {
		r.t.Fatalf("%d requests, want %d", len(got), n)
	}
	return got
}

// wantRising checks that requests went out in the order of acceptance.
func (r *rig) wantRising(got []request) {
	r.t.Helper()
	for i := 1; i < len(got); i++ {
		if got[i].ref <= got[i-1].ref {
			r.t.Errorf("delivery %d went out after %d", got[i].ref, got[i-1].ref)
		}
	}
}

func refs(works []store.Work) []webhook.Ref {
	out := make([]webhook.Ref, len(works))
	for i := range works {
		out[i] = works[i].Ref
	}
	return out
}
