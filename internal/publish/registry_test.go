package publish

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func endpoint(key webhook.EndpointKey, tenant string, events ...string) *webhook.Endpoint {
	return &webhook.Endpoint{
		Key: key, ID: fmt.Sprint("ep_", key), Tenant: tenant, Events: events, Contract: "standard",
		State: webhook.EndpointActive,
	}
}

func loaded(endpoints ...*webhook.Endpoint) *Registry {
	r := NewRegistry(builtins())
	revisions := map[string]int64{"default": 1, "acme": 7}
	r.Load(endpoints, revisions)
	return r
}

// promises is contracts as tests have them: one revision for all.
type promises struct {
	revision string
	named    map[string]*contract.Contract
}

func (p *promises) Current(name string) (*contract.Contract, string) {
	return p.named[name], p.revision
}

// builtins are the contracts of the program.
func builtins() *promises {
	p := &promises{revision: "r1", named: map[string]*contract.Contract{}}
	for _, name := range contract.BuiltinNames() {
		p.named[name], _ = contract.Builtin(name)
	}
	return p
}

func match(r *Registry, tenant, eventType string) (int64, []store.Target) {
	p := store.AcceptParams{Tenant: tenant, Type: eventType}
	r.Match(&p)
	return p.Revision, p.Targets
}

func matched(r *Registry, tenant, eventType string) []webhook.EndpointKey {
	_, targets := match(r, tenant, eventType)
	keys := []webhook.EndpointKey{}
	for _, t := range targets {
		keys = append(keys, t.Endpoint)
	}
	return keys
}

func TestFault_B69_ManyPatternsMakeOneTarget(t *testing.T) {
	t.Parallel()
	r := loaded(endpoint(2, "default", "order.paid"), endpoint(1, "default", "*", "*", "order.*", "order.paid"))
	revision, targets := match(r, "default", "order.paid")
	want := []store.Target{
		{Endpoint: 1, Contract: "standard", ContractRevision: "r1"},
		{Endpoint: 2, Contract: "standard", ContractRevision: "r1"},
	}
	if diff := cmp.Diff(want, targets); diff != "" || revision != 1 {
		t.Fatalf("revision %d, targets differ: %s", revision, diff)
	}
}

// Whatever patterns there are, the index answers as asking each endpoint does.
func TestMatch_EqualsAskingEachEndpoint(t *testing.T) {
	t.Parallel()
	patterns := []string{
		"*", "a", "b", "a.*", "a.b", "a.b.*", "a.b.c", "ab.*", "endpoint.*", "endpoint.paused", "endpoint.other", "webhook.failed", "link.*",
	}
	types := []string{
		"a", "b", "c", "ab", "a.b", "a.c", "a.b.c", "a.b.d", "a.b.c.d", "a.x.b", "ab.c", "abc.d", "endpoint.paused", "endpoint.resumed",
		"endpoint.other", "endpoint.new", "endpoint", "webhook.failed", "replay.finished", "link.a.b.c",
	}
	var endpoints []*webhook.Endpoint
	for i := range 1 << 10 {
		var events []string
		for n, p := range patterns {
			if i*7919>>n&1 == 1 && (i+n)%3 == 0 {
				events = append(events, p)
			}
		}
		if len(events) > 0 {
			endpoints = append(endpoints, endpoint(webhook.EndpointKey(i+1), "default", events...))
		}
	}
	for _, most := range []int{0, 1, 3, 20, len(endpoints)} {
		r := loaded(endpoints[:most]...)
		for range 2 { // worked out, then kept
			for _, eventType := range types {
				want := []webhook.EndpointKey{}
				for _, e := range endpoints[:most] {
					if webhook.MatchAny(e.Events, eventType) {
						want = append(want, e.Key)
					}
				}
				if got := matched(r, "default", eventType); !slices.Equal(got, want) {
					t.Fatalf("%d endpoints, %s: got %v, want %v", most, eventType, got, want)
				}
			}
		}
	}
}

func TestEngine_N19_StarNeverTakesOperationalEvents(t *testing.T) {
	t.Parallel()
	r := loaded(endpoint(1, "default", "*"), endpoint(2, "default", "endpoint.*"), endpoint(3, "default", "endpoint.paused"), endpoint(4, "default", "*", "webhook.*"))
	for eventType, want := range map[string][]webhook.EndpointKey{
		"endpoint.paused":   {2, 3},
		"endpoint.disabled": {2},
		"webhook.failed":    {4},
		"replay.finished":   {},
		"endpoint.custom":   {1, 2, 4},
	} {
		if got := matched(r, "default", eventType); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", eventType, got, want)
		}
	}
}

func TestEngine_N19_OperationalEventsCanNotBePublished(t *testing.T) {
	t.Parallel()
	for _, eventType := range webhook.OperationalTypes() {
		if p := refused(t, []byte(`{"data":1,"type":"`+eventType+`"}`), webhook.CodeInvalidField); p.Fields[0].Pointer != "/type" {
			t.Errorf("%s: %+v", eventType, p.Fields)
		}
	}
	mustParse(t, `{"data":1,"type":"endpoint.painted"}`)
}

func TestEngine_N19_OperationalParams(t *testing.T) {
	t.Parallel()
	r := loaded(endpoint(1, "acme", "*"), endpoint(2, "acme", "endpoint.*"))
	ready := noon.Add(-time.Hour) // the wall clock has stepped (N20)
	p, err := Operational(r.Match, "acme", webhook.TypeEndpointPaused, map[string]string{"reason": "<person>"}, noon, ready)
	if err != nil {
		t.Fatal(err)
	}
	if again := p.Rematch(); again.Revision != 7 || len(again.Targets) != 1 {
		t.Fatalf("matched again: %+v", again)
	}
	p.Rematch = nil
	want := store.AcceptParams{
		Tenant: "acme", Revision: 7, Targets: []store.Target{{Endpoint: 2, Contract: "standard", ContractRevision: "r1"}},
		Type: webhook.TypeEndpointPaused, Data: []byte(`{"reason":"<person>"}`), ContentType: "application/json", Now: noon, Ready: ready,
	}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Fatal(diff)
	}
	if _, err := Operational(r.Match, "acme", "order.paid", nil, noon, ready); err == nil {
		t.Fatal("a caller's type was taken")
	}
	if _, err := Operational(r.Match, "acme", webhook.TypeEndpointPaused, func() {}, noon, ready); err == nil {
		t.Fatal("data that is no JSON was taken")
	}
}

func TestEngine_N2_ChangesHoldFromTheNextMatchOn(t *testing.T) {
	t.Parallel()
	r := loaded(endpoint(1, "default", "a"))
	step := func(c store.Change, revision int64, a, b []webhook.EndpointKey) {
		t.Helper()
		r.Apply(c)
		got, _ := match(r, "default", "a")
		if got != revision || !slices.Equal(matched(r, "default", "a"), a) || !slices.Equal(matched(r, "default", "b"), b) {
			t.Fatalf("revision %d, a: %v, b: %v", got, matched(r, "default", "a"), matched(r, "default", "b"))
		}
	}
	none := []webhook.EndpointKey{}
	step(store.Change{Tenant: "default", Revision: 2, Endpoint: endpoint(2, "default", "*")}, 2, []webhook.EndpointKey{1, 2}, []webhook.EndpointKey{2})
	paused := endpoint(2, "default", "*")
	paused.State = webhook.EndpointPaused
	step(store.Change{Tenant: "default", Revision: 3, Endpoint: paused}, 3, []webhook.EndpointKey{1, 2}, []webhook.EndpointKey{2})
	if e, ok := r.Endpoint(2); !ok || e.On() {
		t.Fatal("the pause is not seen")
	}
	step(store.Change{Tenant: "default", Revision: 4, Endpoint: endpoint(2, "default", "b")}, 4, []webhook.EndpointKey{1}, []webhook.EndpointKey{2})
	step(store.Change{Tenant: "default", Revision: 5, Endpoint: endpoint(-1, "default", "a")}, 5, []webhook.EndpointKey{-1, 1}, []webhook.EndpointKey{2})
	step(store.Change{Tenant: "default", Revision: 5, EndpointDeleted: -1}, 5, []webhook.EndpointKey{1}, []webhook.EndpointKey{2})
	step(store.Change{Tenant: "default", KeyRevoked: "k"}, 5, []webhook.EndpointKey{1}, []webhook.EndpointKey{2})
	step(store.Change{Tenant: "acme", Revision: 9, Endpoint: endpoint(3, "acme", "*")}, 5, []webhook.EndpointKey{1}, []webhook.EndpointKey{2})
	step(store.Change{Tenant: "default", Revision: 6, EndpointDeleted: 1}, 6, none, []webhook.EndpointKey{2})
	step(store.Change{Tenant: "default", TenantDeleted: true}, 0, none, none)
	for _, key := range []webhook.EndpointKey{1, 2} {
		if _, ok := r.Endpoint(key); ok {
			t.Errorf("endpoint %d is still there", key)
		}
	}
	step(store.Change{Tenant: "default", Revision: 1}, 1, none, none)
}

func TestMatch_TypesWithoutEndLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	var endpoints []*webhook.Endpoint
	for i := range 100 {
		endpoints = append(endpoints, endpoint(webhook.EndpointKey(i+1), "default", "*", "link.*"))
	}
	r := loaded(endpoints...)
	for i := range 10_000 {
		match(r, "default", fmt.Sprint("t", i))
		match(r, "default", fmt.Sprint("link.t", i))
	}
	m := r.snapshot("default").matcher
	if kept := m.kept.Load(); kept != 200 {
		t.Fatalf("%d targets were worked out for two patterns of 100 endpoints", kept)
	}
}

func TestMatch_LongAnswersAreKeptWithinABound(t *testing.T) {
	t.Parallel()
	var endpoints []*webhook.Endpoint
	for i := range 2000 {
		endpoints = append(endpoints, endpoint(webhook.EndpointKey(i+1), "default", "*", fmt.Sprint("t", i)))
	}
	r := loaded(endpoints...)
	for i := range 50 {
		if n := len(matched(r, "default", fmt.Sprint("t", i))); n != 2000 {
			t.Fatalf("%d targets", n)
		}
	}
	kept := 0
	for _, a := range r.snapshot("default").matcher.index().types {
		if c := a.candidates.Load(); c != nil {
			kept += len(c.targets)
		}
	}
	if kept == 0 || kept > maxKept {
		t.Fatalf("%d targets are kept", kept)
	}
}

func TestRegistry_ReadersAndWritersTogether(t *testing.T) {
	t.Parallel()
	r := loaded(endpoint(1, "default", "a"))
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			last := int64(0)
			for {
				revision, targets := match(r, "default", "a")
				if revision < last || len(targets) != 1+int(revision-1)%2 {
					t.Errorf("revision %d after %d has %d targets", revision, last, len(targets))
					return
				}
				last = revision
				r.Endpoint(2)
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for i := range int64(500) {
		c := store.Change{Tenant: "default", Revision: i + 2, Endpoint: endpoint(2, "default", "a")}
		if i%2 == 1 {
			c.Endpoint, c.EndpointDeleted = nil, 2
		}
		r.Apply(c)
	}
	close(stop)
	readers.Wait()
}

func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		var endpoints []*webhook.Endpoint
		for i := range n {
			endpoints = append(endpoints, endpoint(webhook.EndpointKey(i+1), "default", fmt.Sprint("only.", i), "link.*"))
		}
		r := loaded(endpoints...)
		for _, eventType := range []string{"only.0", "link.clicked", "never.heard.of"} {
			b.Run(fmt.Sprint(eventType, "/", n), func(b *testing.B) {
				b.ReportAllocs()
				p := &store.AcceptParams{Tenant: "default", Type: eventType}
				for b.Loop() {
					r.Match(p)
				}
			})
		}
		b.Run(fmt.Sprint("after a change/", n), func(b *testing.B) {
			for i := int64(2); b.Loop(); i++ {
				e := endpoint(1, "default", fmt.Sprint("only.", i))
				r.Apply(store.Change{Tenant: "default", Revision: i, Endpoint: e})
				match(r, "default", "link.clicked")
			}
		})
	}
}
