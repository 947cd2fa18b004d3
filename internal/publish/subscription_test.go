package publish

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/transform"
	"github.com/posthorn/posthorn/internal/webhook"
)

// counted is the real filters, with counts of what they did.
type counted struct {
	*transform.Filters
	decoded, compiled int
	broken            bool
}

func (c *counted) Decode(data []byte) any {
	c.decoded++
	return c.Filters.Decode(data)
}

func (c *counted) Filter(expr string) (func(any) (bool, error), error) {
	c.compiled++
	if c.broken {
		return nil, errors.New("no such function any more")
	}
	return c.Filters.Filter(expr)
}

// filtering is a registry with filters, and what it logs.
func filtering(t testing.TB, endpoints ...*webhook.Endpoint) (*Registry, *counted, *bytes.Buffer) {
	t.Helper()
	f, err := transform.New(transform.Config{})
	if err != nil {
		t.Fatal(err)
	}
	filters, log := &counted{Filters: f}, &bytes.Buffer{}
	r := NewRegistry(builtins(), WithFilters(filters, slog.New(slog.NewTextHandler(log, nil))))
	r.Load(endpoints, map[string]int64{"default": 1, "acme": 7})
	return r, filters, log
}

func filtered(key webhook.EndpointKey, filter string, events ...string) *webhook.Endpoint {
	e := endpoint(key, "default", events...)
	e.Filter = filter
	return e
}

func keysTaking(targets []store.Target) []webhook.EndpointKey {
	keys := []webhook.EndpointKey{}
	for _, t := range targets {
		keys = append(keys, t.Endpoint)
	}
	return keys
}

func TestFilters_NarrowWhatATypeMatches(t *testing.T) {
	t.Parallel()
	r, filters, _ := filtering(t,
		filtered(1, `data.amount > 100`, "*"), filtered(2, ``, "order.*"), filtered(3, `data.amount <= 100`, "*"),
		filtered(4, `data.amount > 100`, "*"), filtered(5, `data.missing == 1`, "*"), filtered(6, `event.id == "e1" && event.tenant == "default"`, "*"),
		filtered(7, `data.amount > 100`, "order.paid"), filtered(8, `data.amount > 100`, "other"))
	p := store.AcceptParams{Tenant: "default", ID: "e1", Type: "order.paid", Data: []byte(`{"amount":150}`), Now: noon}
	r.Match(&p)
	if got := keysTaking(p.Targets); !slices.Equal(got, []webhook.EndpointKey{1, 2, 4, 6, 7}) || p.Keys != nil {
		t.Fatalf("targets %v, keys %v", got, p.Keys)
	}
	if filters.decoded != 1 {
		t.Errorf("the data was decoded %d times for seven endpoints", filters.decoded)
	}
	// The store matches again in its transaction: what is known is not asked anew.
	r.Apply(store.Change{Tenant: "default", Revision: 2, Endpoint: filtered(9, `data.amount == 150`, "*")})
	m := p.Rematch()
	if got := keysTaking(m.Targets); m.Revision != 2 || !slices.Equal(got, []webhook.EndpointKey{1, 2, 4, 6, 7, 9}) {
		t.Fatalf("matched again: %v at %d", got, m.Revision)
	}
	if filters.decoded != 1 {
		t.Errorf("the data was decoded %d times", filters.decoded)
	}
	small := store.AcceptParams{Tenant: "default", Type: "order.paid", Data: []byte(`{"amount":50}`), Now: noon}
	r.Match(&small)
	if got := keysTaking(small.Targets); !slices.Equal(got, []webhook.EndpointKey{2, 3}) {
		t.Fatalf("targets %v", got)
	}
	if filters.compiled != 5 {
		t.Errorf("%d expressions were compiled: those of a type nobody sent, or one twice", filters.compiled)
	}
}

// A type that only plain endpoints take costs no filter, and a filter that asks
// for nothing in the data leaves it alone.
func TestFilters_DataIsDecodedOnlyForThoseThatReadIt(t *testing.T) {
	t.Parallel()
	r, filters, _ := filtering(t, filtered(1, `type == "b"`, "b"), filtered(2, ``, "a"), filtered(3, `data.n == 1`, "c"))
	for _, eventType := range []string{"a", "b"} {
		if got := matched(r, "default", eventType); len(got) != 1 {
			t.Fatalf("%s: %v", eventType, got)
		}
	}
	if filters.decoded != 0 || filters.compiled != 1 {
		t.Fatalf("decoded %d times, compiled %d", filters.decoded, filters.compiled)
	}
}

func TestFilters_OneThatCanNotBeUsedAnyMoreLosesNothing(t *testing.T) {
	t.Parallel()
	r, filters, log := filtering(t, filtered(1, `data.n == 1`, "*"))
	filters.broken = true
	for range 3 {
		if got := matched(r, "default", "a"); len(got) != 1 {
			t.Fatalf("%v", got)
		}
	}
	if strings.Count(log.String(), "endpoint=ep_1") != 1 || strings.Contains(log.String(), "data.n") {
		t.Fatalf("logged: %s", log)
	}
}

func TestEngine_N19_FiltersApplyToOperationalEventsToo(t *testing.T) {
	t.Parallel()
	r, _, _ := filtering(t, filtered(1, `data.reason == "gone"`, "endpoint.*"), filtered(2, `data.reason == "person"`, "endpoint.*"))
	p, err := Operational(r.Match, "default", webhook.TypeEndpointDisabled, map[string]string{"reason": "gone"}, noon, noon)
	if err != nil || !slices.Equal(keysTaking(p.Targets), []webhook.EndpointKey{1}) {
		t.Fatalf("%+v, %v", p.Targets, err)
	}
}

func TestContract_P5_WhatComesWhileOffIsSkippedOrHeld(t *testing.T) {
	t.Parallel()
	var endpoints []*webhook.Endpoint
	for i, name := range []string{"standard", "petify", "signals", "elido"} {
		for n, state := range []webhook.EndpointState{webhook.EndpointActive, webhook.EndpointPaused, webhook.EndpointDisabled} {
			e := under(webhook.EndpointKey(10*i+n), name, "*")
			e.State = state
			endpoints = append(endpoints, e)
		}
	}
	_, targets := match(loaded(endpoints...), "default", "a")
	for _, target := range targets {
		if want := target.Endpoint == 11 || target.Endpoint == 12; target.Skip != want {
			t.Errorf("endpoint %d under %s: skip is %v", target.Endpoint, target.Contract, target.Skip)
		}
	}
	if len(targets) != 12 {
		t.Fatalf("%d targets", len(targets))
	}
}

// Each change of an endpoint that matching depends on holds from the next match
// on, and the others leave what was worked out.
func TestEngine_N2_ChangesOfWhatEndpointsWant(t *testing.T) {
	t.Parallel()
	base := under(1, "petify", "*")
	r, _, _ := filtering(t, base)
	next := func(change func(*webhook.Endpoint)) store.AcceptParams {
		e := *base
		change(&e)
		r.Apply(store.Change{Tenant: "default", Revision: 2, Endpoint: &e})
		p := store.AcceptParams{Tenant: "default", Type: "a", OrderingKey: "k", Data: []byte(`{"n":1}`), Now: noon}
		r.Match(&p)
		return p
	}
	if p := next(func(e *webhook.Endpoint) { e.State = webhook.EndpointPaused }); !p.Targets[0].Skip {
		t.Error("a pause is not seen")
	}
	if p := next(func(*webhook.Endpoint) {}); p.Targets[0].Skip {
		t.Error("resuming is not seen")
	}
	until := noon.Add(time.Hour)
	if p := next(func(e *webhook.Endpoint) { e.Health.DegradedUntil = until }); !p.Targets[0].DegradedUntil.Equal(until) {
		t.Error("the mark is not seen")
	}
	if p := next(func(e *webhook.Endpoint) { e.Filter = `data.n == 2` }); len(p.Targets) != 0 {
		t.Error("a filter is not seen")
	}
	if p := next(func(e *webhook.Endpoint) { e.Filter = `data.n == 1` }); len(p.Targets) != 1 {
		t.Error("another filter is not seen")
	}
	if p := next(func(*webhook.Endpoint) {}); len(p.Targets) != 1 || p.Keys != nil {
		t.Error("that the filter is gone is not seen")
	}
	if p := next(func(e *webhook.Endpoint) { e.Ordering = &webhook.Ordering{} }); !slices.Equal(p.Keys, []string{"k"}) {
		t.Error("an order is not seen")
	}
	if p := next(func(e *webhook.Endpoint) { e.Contract = "elido" }); p.Targets[0].Contract != "elido" || !slices.Equal(p.Keys, []string{"k"}) {
		t.Error("another contract is not seen")
	}
	worked := r.snapshot("default").matcher
	next(func(e *webhook.Endpoint) { e.Contract, e.Description, e.Version = "elido", "other", 9 })
	if r.snapshot("default").matcher != worked {
		t.Error("a description made matching start anew")
	}
}

// A contract's change holds at once for all tenants whose endpoints follow it.
func TestEngine_N2_AContractsChangeHoldsFromTheNextMatchOn(t *testing.T) {
	t.Parallel()
	known := builtins()
	own := *known.named["standard"]
	own.Name = "own"
	known.named["own"] = &own
	r := NewRegistry(known)
	off := under(2, "own", "*")
	off.State = webhook.EndpointPaused
	elsewhere := under(3, "own", "*")
	elsewhere.Tenant = "acme"
	apart := under(4, "standard", "*")
	apart.Tenant = "apart"
	r.Load([]*webhook.Endpoint{under(1, "standard", "*"), off, elsewhere, apart}, map[string]int64{"default": 1, "acme": 7, "apart": 3})
	for _, tenant := range []string{"default", "acme", "apart"} {
		match(r, tenant, "a") // all is worked out
	}
	untouched := r.snapshot("apart").matcher

	changed := own
	changed.Off.New, changed.Order = contract.FateSkip, contract.Order{Mode: "strict", Key: []string{"data.k"}}
	known.named["own"], known.revision = &changed, "r2"
	r.Apply(store.Change{Contract: &store.ContractRevision{Name: "own", Revision: "r2"}, Revisions: map[string]int64{"default": 2, "acme": 8, "new": 5}})

	p := store.AcceptParams{Tenant: "default", Type: "a", Data: []byte(`{"k":"k1"}`)}
	r.Match(&p)
	want := []store.Target{
		{Endpoint: 1, Contract: "standard", ContractRevision: "r1"}, {Endpoint: 2, Contract: "own", ContractRevision: "r2", Skip: true},
	}
	if diff := cmp.Diff(want, p.Targets); diff != "" || p.Revision != 2 || !slices.Equal(p.Keys, []string{"", "k1"}) {
		t.Errorf("revision %d, keys %v: %s", p.Revision, p.Keys, diff)
	}
	if revision, targets := match(r, "acme", "a"); revision != 8 || targets[0].ContractRevision != "r2" || targets[0].Skip {
		t.Errorf("another tenant: %d, %+v", revision, targets)
	}
	if revision, _ := match(r, "apart", "a"); revision != 3 || r.snapshot("apart").matcher != untouched {
		t.Error("a tenant that does not follow it was concerned")
	}
	if revision, _ := match(r, "new", "a"); revision != 5 {
		t.Errorf("a tenant without endpoints has revision %d", revision)
	}
	if e, ok := r.Endpoint(2); !ok || e != off {
		t.Error("the endpoint is gone")
	}
}

func TestRegistry_Explain(t *testing.T) {
	t.Parallel()
	off := filtered(4, `data.n == 1`, "*")
	off.State = webhook.EndpointDisabled
	r, _, _ := filtering(t, filtered(1, ``, "a"), filtered(2, ``, "b"), filtered(3, `data.n == 2`, "a"), off, filtered(5, `data.x == 1`, "a"),
		filtered(6, `data.l.all(x, data.l.all(y, x + y > 0))`, "a"))
	data := `{"n":1,"l":[` + strings.Repeat("1,", 2000) + `1]}`
	got := map[webhook.EndpointKey]Why{}
	for _, e := range r.Explain("default", &webhook.Event{Tenant: "default", Type: "a", Data: []byte(data)}) {
		got[e.Endpoint.Key] = e.Why
	}
	want := map[webhook.EndpointKey]Why{1: WhyMatched, 2: WhyNotSubscribed, 3: WhyFilteredOut, 4: WhyOff, 5: WhyNoValue, 6: WhyFilterBudget}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	if n := len(r.Explain("nobody", &webhook.Event{})); n != 0 {
		t.Fatalf("%d endpoints of nobody", n)
	}
}

func TestRegistry_WouldTake(t *testing.T) {
	t.Parallel()
	e := filtered(1, `data.n == 1`, "a", "endpoint.*")
	e.Contract, e.State = "petify", webhook.EndpointPaused
	e.Ordering = &webhook.Ordering{From: []string{"data.k"}}
	r, filters, _ := filtering(t, e)
	event := &webhook.Event{Type: "a", Data: []byte(`{"n":1,"k":"k1"}`)}
	target, key, ok := r.WouldTake(event, e)
	if diff := cmp.Diff(store.Target{Endpoint: 1, Contract: "petify", ContractRevision: "r1"}, target); diff != "" || key != "k1" || !ok {
		t.Fatalf("%q, %v: %s", key, ok, diff)
	}
	changed := *e // the store may know of a change before the registry does
	changed.Filter = `data.n == 2`
	for name, refused := range map[string]func() bool{
		"its filter":  func() bool { _, _, ok := r.WouldTake(event, &changed); return ok },
		"the type":    func() bool { _, _, ok := r.WouldTake(&webhook.Event{Type: "b", Data: event.Data}, e); return ok },
		"erased":      func() bool { _, _, ok := r.WouldTake(&webhook.Event{Type: "a", Erased: true}, e); return ok },
		"other value": func() bool { _, _, ok := r.WouldTake(&webhook.Event{Type: "a", Data: []byte(`{}`)}, e); return ok },
	} {
		if refused() {
			t.Errorf("taken in spite of %s", name)
		}
	}
	before := filters.compiled
	r.WouldTake(event, e)
	if filters.compiled != before {
		t.Error("what is compiled was compiled again")
	}
}

func TestRegistry_TryFilter(t *testing.T) {
	t.Parallel()
	r, _, _ := filtering(t)
	events := []*webhook.Event{
		{ID: "1", Type: "a", Data: []byte(`{"n":1}`)}, {ID: "2", Type: "a", Data: []byte(`{"n":2}`)}, {ID: "3", Type: "b", Data: []byte(`{}`)},
	}
	tried, err := r.TryFilter(`data.n == 1`, events)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, one := range tried {
		got = append(got, fmt.Sprint(one.Event.ID, " ", one.Matched, " ", one.Why))
	}
	if want := []string{"1 true matched", "2 false filtered_out", "3 false filter_no_value"}; !slices.Equal(got, want) {
		t.Fatalf("%q", got)
	}
	if _, err := r.TryFilter(`data.n ==`, events); err == nil || err.Error() != r.CheckFilter(`data.n ==`).Error() {
		t.Fatalf("%v", err)
	}
	if err := r.CheckFilter(`data.n == 1`); err != nil {
		t.Fatal(err)
	}
	if p, ok := webhook.AsProblem(loaded().CheckFilter(`true`)); !ok || p.Code != webhook.CodeInvalidField {
		t.Fatalf("without filters: %v", p)
	}
}

func BenchmarkMatchFiltered(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		var endpoints []*webhook.Endpoint
		for i := range n {
			e := filtered(webhook.EndpointKey(i+1), fmt.Sprintf(`data.link.id == "x" || data.n > %d`, i), "*")
			endpoints = append(endpoints, e)
		}
		r, _, _ := filtering(b, endpoints...)
		p := &store.AcceptParams{Tenant: "default", Type: "a", Data: []byte(`{"link":{"id":"lnk_1"},"n":10,"text":"` + strings.Repeat("t", 900) + `"}`), Now: noon}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.Match(p)
			}
		})
	}
}
