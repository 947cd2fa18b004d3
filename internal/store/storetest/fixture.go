package storetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// start is when tests begin unless they say otherwise. Its milliseconds are not
// round on purpose.
func start() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 123e6, time.UTC) }

const (
	contractName     = "standard"
	contractRevision = "r1"
	eventType        = "link.created"
)

// fixture is an opened store with what tests need to speak to it.
type fixture struct {
	*testing.T
	store.Store
	db    Database
	opts  Options
	heard *changes
	now   time.Time
	// dueClock is what the store tells due times by; it stands until a test moves it.
	dueClock dueClock
	ctx      context.Context //nolint:containedctx // because it is the test's own
}

func newFixture(t *testing.T, factory Factory, opts Options) *fixture {
	f := &fixture{T: t, db: factory(t), opts: opts, heard: &changes{}, now: start(), ctx: t.Context()}
	f.opts.Now = f.now
	f.dueClock.ms.Store(f.now.UnixMilli())
	f.opts.DueNow = f.dueClock.now
	f.opts.OnChange = f.heard.add
	if f.opts.Contract == nil {
		f.opts.Contract = Builtin
	}
	f.Store = f.db.Open(t, f.opts)
	return f
}

// dueClock is a clock that tests set.
type dueClock struct{ ms atomic.Int64 }

func (c *dueClock) now() time.Time { return time.UnixMilli(c.ms.Load()).UTC() }

// restart closes the store and opens the same data again.
func (f *fixture) restart() {
	f.Helper()
	f.ok(f.Close())
	f.heard.clear()
	f.Store = f.db.Open(f.T, f.opts)
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatalf("unexpected error: %v", err)
	}
}

// fails checks that err is want.
func (f *fixture) fails(err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Fatalf("error is %v, want %v", err, want)
	}
}

// same compares two values, secrets by their text.
func (f *fixture) same(what string, got, want any) {
	f.Helper()
	secrets := cmp.Comparer(func(a, b webhook.SecretText) bool { return a.Reveal() == b.Reveal() })
	if diff := cmp.Diff(want, got, secrets); diff != "" {
		f.Fatalf("%s differs (-want +got):\n%s", what, diff)
	}
}

// changes records what the store tells.
type changes struct {
	// slow lets others run before a change is noted.
	slow bool
	mu   sync.Mutex
	all  []store.Change
}

func (c *changes) add(change store.Change) {
	for range 200 {
		if c.slow {
			runtime.Gosched()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, change)
}

func (c *changes) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = nil
}

// since returns the changes told after the first n.
func (c *changes) since(n int) []store.Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all[n:])
}

func (c *changes) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all)
}

// newEndpoint is an endpoint as a caller would create it.
func newEndpoint(tenant, id string, now time.Time) *webhook.Endpoint {
	return &webhook.Endpoint{
		ID: id, Tenant: tenant, URL: "https://hooks.example.com/" + id, Events: []string{"*"},
		Contract: contractName,
		State:    webhook.EndpointActive, StateSince: now, CreatedAt: now, MaxInFlight: 16,
	}
}

func (f *fixture) tenant(id string) {
	f.Helper()
	f.ok(f.CreateTenant(f.ctx, webhook.Tenant{ID: id, DefaultContract: contractName, CreatedAt: f.now}))
}

// endpoint creates an endpoint of the default tenant.
func (f *fixture) endpoint(id string) *webhook.Endpoint {
	f.Helper()
	return f.endpointOf(webhook.DefaultTenant, id)
}

func (f *fixture) endpointOf(tenant, id string) *webhook.Endpoint {
	f.Helper()
	e, err := f.CreateEndpoint(f.ctx, newEndpoint(tenant, id, f.now))
	f.ok(err)
	return e
}

// revision reads a tenant's revision.
func (f *fixture) revision(tenant string) int64 {
	f.Helper()
	_, revisions, err := f.LoadSubscriptions(f.ctx)
	f.ok(err)
	rev, found := revisions[tenant]
	if !found {
		f.Fatalf("tenant %q has no revision", tenant)
	}
	return rev
}

// event is an event for some endpoints of one tenant, matched just now.
func (f *fixture) event(targets ...*webhook.Endpoint) store.AcceptParams {
	f.Helper()
	tenant := webhook.DefaultTenant
	if len(targets) > 0 {
		tenant = targets[0].Tenant
	}
	return newEvent(tenant, f.revision(tenant), f.now, targets...)
}

func newEvent(tenant string, revision int64, now time.Time, targets ...*webhook.Endpoint) store.AcceptParams {
	p := store.AcceptParams{Tenant: tenant, Revision: revision, Type: eventType, ContentType: "application/json", Now: now}
	for _, e := range targets {
		p.Targets = append(p.Targets, store.Target{Endpoint: e.Key, Contract: e.Contract, ContractRevision: contractRevision})
	}
	setData(&p, `{"n":1}`)
	return p
}

// setData gives an event its payload and the fingerprint that goes with it.
func setData(p *store.AcceptParams, data string) {
	p.Data = []byte(data)
	p.Fingerprint = sha256.Sum256([]byte(p.Type + "\x00" + data))
}

// accept takes events in; each must be accepted.
func (f *fixture) accept(events ...store.AcceptParams) []store.AcceptResult {
	f.Helper()
	results, err := f.Accept(f.ctx, events)
	f.ok(err)
	if len(results) != len(events) {
		f.Fatalf("%d results for %d events", len(results), len(events))
	}
	for _, r := range results {
		f.ok(r.Err)
	}
	return results
}

// send takes in one event for one endpoint and returns its delivery.
func (f *fixture) send(e *webhook.Endpoint) store.Work {
	f.Helper()
	return f.accept(f.event(e))[0].Fresh[0]
}

// sendMany takes in n events for one endpoint in one call.
func (f *fixture) sendMany(e *webhook.Endpoint, n int) []store.Work {
	f.Helper()
	events := make([]store.AcceptParams, n)
	for i := range events {
		events[i] = newEvent(e.Tenant, 0, f.now, e)
		setData(&events[i], fmt.Sprintf(`{"n":%d}`, i))
	}
	rev := f.revision(e.Tenant)
	for i := range events {
		events[i].Revision = rev
	}
	var all []store.Work
	for _, r := range f.accept(events...) {
		all = append(all, r.Fresh...)
	}
	return all
}

// attempt is a counted try of a delivery that ended at now.
func attempt(w *store.Work, now time.Time, status int) *webhook.Attempt {
	return &webhook.Attempt{
		Round: w.Round, Try: w.Attempts + 1, Counted: true, At: now.Add(-50 * time.Millisecond), Duration: 50 * time.Millisecond,
		StatusCode: status, Address: "192.0.2.7:443", Response: []byte("answer"),
	}
}

// success is the outcome of a try that was answered with 200.
func (f *fixture) success(w store.Work) store.RecordParams {
	return store.RecordParams{
		Ref: w.Ref, Tenant: w.Tenant, Endpoint: w.Endpoint, Round: w.Round, Attempts: w.Attempts,
		Attempt: attempt(&w, f.now, 200), Status: contract.StatusDelivered, Counts: true, Now: f.now,
	}
}

// failure is the outcome of a try that was answered with 500 and is repeated.
func (f *fixture) failure(w store.Work, next time.Time) store.RecordParams {
	p := f.success(w)
	p.Attempt.StatusCode, p.Attempt.FailureKind, p.Attempt.Error = 500, contract.KindHTTPStatus, "the endpoint answered 500"
	p.Status, p.Reason, p.FailureKind, p.NextAt = contract.StatusPending, webhook.WhyRetry, contract.KindHTTPStatus, next
	return p
}

// end is the outcome of a failed try that was the last.
func (f *fixture) end(w store.Work, status contract.Status, why webhook.Reason) store.RecordParams {
	p := f.failure(w, time.Time{})
	p.Status, p.Reason = status, why
	return p
}

// recording is what Record will answer.
type recording struct {
	result store.RecordResult
	err    error
}

// begin submits an outcome.
func (f *fixture) begin(p store.RecordParams) <-chan recording {
	answered := make(chan recording, 2) // room for the second call that must not come
	f.Record(p, func(r store.RecordResult, err error) { answered <- recording{r, err} })
	return answered
}

// record submits an outcome and waits for its commit.
func (f *fixture) record(p store.RecordParams) store.RecordResult {
	f.Helper()
	r := <-f.begin(p)
	f.ok(r.err)
	return r.result
}

// window reads everything that is due at now.
func (f *fixture) window(e *webhook.Endpoint, now time.Time) store.Window {
	f.Helper()
	w, err := f.ReadWindow(f.ctx, store.WindowParams{Endpoint: e.Key, Now: now, Limit: 1000, Bytes: 1 << 20, MaxData: 1 << 20})
	f.ok(err)
	return w
}

// due are the positions of what is due at now.
func (f *fixture) due(e *webhook.Endpoint, now time.Time) []webhook.Ref {
	f.Helper()
	return refs(f.window(e, now).Work)
}

func refs(work []store.Work) []webhook.Ref {
	var all []webhook.Ref
	for _, w := range work {
		all = append(all, w.Ref)
	}
	return all
}

// delivery reads a delivery as a caller sees it.
func (f *fixture) delivery(w store.Work) *webhook.Delivery {
	f.Helper()
	d, err := f.GetDelivery(f.ctx, w.Tenant, w.DeliveryID)
	f.ok(err)
	return d
}

func (f *fixture) attempts(w store.Work) []webhook.Attempt {
	f.Helper()
	all, err := f.ListAttempts(f.ctx, w.Tenant, w.DeliveryID)
	f.ok(err)
	return all
}

func (f *fixture) getEndpoint(e *webhook.Endpoint) *webhook.Endpoint {
	f.Helper()
	got, err := f.GetEndpoint(f.ctx, e.Tenant, e.ID)
	f.ok(err)
	return got
}

// change updates an endpoint.
func (f *fixture) change(e *webhook.Endpoint, change func(*webhook.Endpoint)) *webhook.Endpoint {
	f.Helper()
	after, err := f.UpdateEndpoint(f.ctx, e.Tenant, e.ID, f.now, func(e *webhook.Endpoint) (store.EndpointUpdate, error) {
		change(e)
		return store.EndpointUpdate{}, nil
	})
	f.ok(err)
	return after
}

// countEvents counts a tenant's events.
func (f *fixture) countEvents(tenant string) int {
	f.Helper()
	n := 0
	for page := (store.Page{Limit: 250}); ; {
		listed, err := f.ListEvents(f.ctx, tenant, store.EventFilter{}, page)
		f.ok(err)
		n += len(listed.Items)
		if page.After = listed.Next; listed.Next == 0 {
			return n
		}
	}
}
