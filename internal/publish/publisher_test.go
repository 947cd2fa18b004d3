package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/posthorn/posthorn/internal/clock"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// fakeStore accepts in memory by the rules of store.Acceptor.
type fakeStore struct {
	mu       sync.Mutex
	revision map[string]int64
	known    map[string]store.AcceptParams
	made     int
	batches  []int
	// rematches: stale events are matched again here, as the real store does.
	rematches bool
	// before runs ahead of each call; its error is the call's.
	before func(call int, events []store.AcceptParams) error
}

func (f *fakeStore) Accept(_ context.Context, events []store.AcceptParams) ([]store.AcceptResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.batches = append(f.batches, len(events))
	if f.before != nil {
		if err := f.before(len(f.batches), events); err != nil {
			return nil, err
		}
	}
	results := make([]store.AcceptResult, len(events))
	for i := range events {
		results[i] = f.accept(&events[i])
	}
	return results, nil
}

func (f *fakeStore) accept(p *store.AcceptParams) store.AcceptResult {
	revision, ok := f.revision[p.Tenant]
	if !ok {
		return store.AcceptResult{Err: store.ErrNotFound}
	}
	key := p.Tenant + " " + p.ID
	if first, ok := f.known[key]; ok && p.ID != "" {
		if first.Fingerprint != p.Fingerprint {
			return store.AcceptResult{Err: &store.ConflictError{FirstAcceptedAt: first.Now}}
		}
		return store.AcceptResult{ID: p.ID, Deliveries: len(first.Targets), Replayed: true}
	}
	if !p.ExpiresAt.IsZero() && !p.ExpiresAt.After(p.Now) {
		return store.AcceptResult{Err: store.ErrExpired}
	}
	if p.Revision != revision && f.rematches {
		m := p.Rematch()
		p.Revision, p.Targets, p.Keys = m.Revision, m.Targets, m.Keys
	}
	if p.Revision != revision {
		return store.AcceptResult{Err: store.ErrStale}
	}
	f.made++
	r := store.AcceptResult{ID: p.ID, Deliveries: len(p.Targets)}
	if p.ID == "" {
		r.ID = fmt.Sprint("evt_", f.made)
	}
	f.known[p.Tenant+" "+r.ID] = *p
	for _, t := range p.Targets {
		r.Fresh = append(r.Fresh, store.Work{Endpoint: t.Endpoint, EventID: r.ID})
	}
	return r
}

// bench is a publisher on a fake store, with what it handed over.
type bench struct {
	*Publisher
	store    *fakeStore
	registry *Registry
	offered  []store.Work
	unknown  []webhook.EndpointKey
}

func newBench(endpoints ...*webhook.Endpoint) *bench {
	b := &bench{
		store:    &fakeStore{revision: map[string]int64{"default": 1, "acme": 7}, known: map[string]store.AcceptParams{}},
		registry: loaded(endpoints...),
	}
	b.Publisher = New(Config{
		Store: b.store, Registry: b.registry, Clock: clock.Start(),
		Offer:   func(fresh []store.Work) { b.offered = append(b.offered, fresh...) },
		Unknown: func(keys []webhook.EndpointKey) { b.unknown = append(b.unknown, keys...) },
	})
	return b
}

// publish publishes bodies and says in short what came of each.
func (b *bench) publish(t *testing.T, tenant string, bodies ...string) []string {
	t.Helper()
	var events []Event
	for _, body := range bodies {
		events = append(events, mustParse(t, body))
	}
	results, err := b.Publish(t.Context(), tenant, events)
	if err != nil {
		t.Fatal(err)
	}
	var short []string
	for _, r := range results {
		short = append(short, summary(r))
	}
	return short
}

func summary(r Result) string {
	if p, ok := webhook.AsProblem(r.Err); ok {
		return string(p.Code)
	}
	if r.Err != nil {
		return "internal"
	}
	text := fmt.Sprint(r.ID, " ", r.Deliveries)
	if r.Replayed {
		text += " replayed"
	}
	return text
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func TestFault_B68_SameIDOtherContent(t *testing.T) {
	t.Parallel()
	b := newBench(endpoint(1, "default", "*"), endpoint(2, "acme", "*"))
	body := `{"id":"k1","type":"a","data":{"n":1}}`
	expect(t, b.publish(t, "default", body), "k1 1")
	expect(t, b.publish(t, "default", `{"id":"k1","type":"a","data":{"n":2}}`), "conflict_id")
	expect(t, b.publish(t, "default", `{"id":"k1","type":"a","data":{ "n":1 }}`), "conflict_id")
	expect(t, b.publish(t, "default", `{"id":"k1","type":"b","data":{"n":1}}`), "conflict_id")
	expect(t, b.publish(t, "default", ` { "type":"a", "data":{"n":1}, "id":"k1"}`), "k1 1 replayed")
	expect(t, b.publish(t, "acme", body), "k1 1")
	if len(b.offered) != 2 {
		t.Fatalf("%d deliveries were handed over; repeats and conflicts have none", len(b.offered))
	}

	r, err := b.Publish(t.Context(), "default", []Event{mustParse(t, `{"id":"k1","type":"b","data":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	var conflict *store.ConflictError
	p, _ := webhook.AsProblem(r[0].Err)
	at := b.store.known["default k1"].Now
	if !errors.As(r[0].Err, &conflict) || !r[0].FirstAcceptedAt.Equal(at) || !strings.Contains(p.Detail, at.UTC().Format("2006-01-02T15:04:05.000Z")) {
		t.Fatalf("first_accepted_at is not told: %v", p)
	}
}

// What one call of the store carries is bounded by rows: many endpoints make few
// events a long commit.
func TestEngine_N25_ACallIsBoundedByRows(t *testing.T) {
	t.Parallel()
	var endpoints []*webhook.Endpoint
	for key := range webhook.EndpointKey(200) {
		endpoints = append(endpoints, endpoint(key+1, "default", "a"))
	}
	for key := range webhook.EndpointKey(600) {
		endpoints = append(endpoints, endpoint(key+1001, "default", "wide"))
	}
	b := newBench(endpoints...)
	var bodies []string
	for _, eventType := range []string{"a", "a", "a", "wide", "none", "a"} {
		bodies = append(bodies, `{"type":"`+eventType+`","data":1}`)
	}
	b.publish(t, "default", bodies...)
	if !slices.Equal(b.store.batches, []int{2, 1, 1, 2}) {
		t.Fatalf("batches %v", b.store.batches)
	}
}

func TestEngine_N3_RepeatsWithinOneRequest(t *testing.T) {
	t.Parallel()
	b := newBench(endpoint(1, "default", "*"))
	expect(t, b.publish(t, "default",
		`{"id":"x","type":"a","data":1}`, `{"id":"x","type":"a","data":1}`, `{"id":"x","type":"a","data":2}`, `{"type":"a","data":1}`),
		"x 1", "x 1 replayed", "conflict_id", "evt_2 1")
	var bodies, want []string
	for range maxBatch + 1 {
		bodies, want = append(bodies, `{"id":"y","type":"a","data":1}`), append(want, "y 1 replayed")
	}
	want[0] = "y 1"
	expect(t, b.publish(t, "default", bodies...), want...)
	if !slices.Equal(b.store.batches, []int{4, 100, 1}) {
		t.Fatalf("batches %v", b.store.batches)
	}
}

func TestEngine_N2_StaleMatchesAreMadeAgain(t *testing.T) {
	t.Parallel()
	b := newBench(endpoint(1, "default", "a"))
	b.store.before = func(call int, _ []store.AcceptParams) error {
		if call == 1 { // a change commits between the match and the acceptance
			b.store.revision["default"] = 2
			b.registry.Apply(store.Change{Tenant: "default", Revision: 2, Endpoint: endpoint(2, "default", "a")})
		}
		return nil
	}
	expect(t, b.publish(t, "default", `{"id":"x","type":"a","data":1}`, `{"id":"x","type":"a","data":1}`), "x 2", "x 2 replayed")
	if len(b.offered) != 2 || b.offered[1].Endpoint != 2 {
		t.Fatalf("handed over: %+v", b.offered)
	}

	b.store.before = func(int, []store.AcceptParams) error {
		b.store.revision["default"]++ // and nobody tells the registry
		return nil
	}
	b.store.batches = nil
	expect(t, b.publish(t, "default", `{"type":"a","data":1}`), "overloaded")
	if len(b.store.batches) != maxMatches {
		t.Fatalf("%d tries", len(b.store.batches))
	}
}

func TestEngine_N2_OnlyStaleEventsAreSentAgain(t *testing.T) {
	t.Parallel()
	b := newBench(endpoint(1, "default", "a"))
	expect(t, b.publish(t, "default", `{"id":"old","type":"a","data":1}`), "old 1")
	b.store.revision["default"] = 2
	b.store.before = func(call int, events []store.AcceptParams) error {
		if call == 3 {
			if len(events) != 1 || events[0].ID != "new" {
				t.Errorf("sent again: %+v", events)
			}
		}
		b.registry.Apply(store.Change{Tenant: "default", Revision: 2})
		return nil
	}
	expect(t, b.publish(t, "default", `{"id":"old","type":"a","data":1}`, `{"id":"new","type":"a","data":1}`), "old 1 replayed", "new 1")
}

func TestEngine_N1_NothingIsHandedOverAfterAnUnknownCommit(t *testing.T) {
	t.Parallel()
	b := newBench(endpoint(1, "default", "a"), endpoint(2, "default", "*"), endpoint(3, "default", "b"))
	b.store.before = func(int, []store.AcceptParams) error { return fmt.Errorf("commit: %w", store.ErrUnknown) }
	expect(t, b.publish(t, "default", `{"type":"a","data":1}`, `{"type":"c","data":1}`), "not_ready", "not_ready")
	if len(b.offered) != 0 || !slices.Equal(b.unknown, []webhook.EndpointKey{1, 2}) {
		t.Fatalf("handed over %v, lanes to read %v", b.offered, b.unknown)
	}
}

func TestEngine_N5_OverloadInTheMiddleRefusesTheRest(t *testing.T) {
	t.Parallel()
	b := newBench(endpoint(1, "default", "a"))
	b.store.before = func(call int, _ []store.AcceptParams) error {
		if call == 2 {
			return store.ErrOverloaded
		}
		return nil
	}
	var bodies, want []string
	for i := range 250 {
		bodies = append(bodies, `{"type":"a","data":1}`)
		if i < maxBatch {
			want = append(want, fmt.Sprintf("evt_%d 1", i+1))
		} else {
			want = append(want, "overloaded")
		}
	}
	expect(t, b.publish(t, "default", bodies...), want...)
	if len(b.store.batches) != 2 || len(b.offered) != maxBatch || len(b.unknown) != 0 {
		t.Fatalf("batches %v, %d handed over", b.store.batches, len(b.offered))
	}
}

func TestPublish_StoreErrors(t *testing.T) {
	t.Parallel()
	b := newBench()
	expect(t, b.publish(t, "nobody", `{"type":"a","data":1}`), "not_found")
	for err, want := range map[error]string{
		store.ErrClosed: "not_ready", errors.New("disk on fire"): "internal", context.DeadlineExceeded: "internal",
	} {
		b.store.before = func(int, []store.AcceptParams) error { return err }
		expect(t, b.publish(t, "default", `{"type":"a","data":1}`), want)
	}
	b.store.before = func(int, []store.AcceptParams) error { return store.ErrUnknown }
	events := make([]Event, maxBatch+1)
	results, err := b.Publish(t.Context(), "default", events)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := webhook.AsProblem(results[0].Err)
	last, _ := webhook.AsProblem(results[maxBatch].Err)
	if first.Detail == last.Detail || last.Code != webhook.CodeNotReady {
		t.Fatal("what was not tried must not be called unknown")
	}

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Publish(gone, "default", events); !errors.Is(err, context.Canceled) {
		t.Fatalf("canceled before the start: %v", err)
	}
}

func BenchmarkPublish(b *testing.B) {
	p := New(Config{Store: discard{}, Registry: loaded(endpoint(1, "default", "*")), Clock: clock.Start()})
	events := []Event{{Type: "link.clicked", Data: kibibyte()}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Publish(b.Context(), "default", events); err != nil {
			b.Fatal(err)
		}
	}
}

// discard accepts everything at no cost.
type discard struct{}

func (discard) Accept(_ context.Context, events []store.AcceptParams) ([]store.AcceptResult, error) {
	return make([]store.AcceptResult, len(events)), nil
}
