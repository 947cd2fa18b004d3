package publish

import (
	"slices"
	"testing"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func toOne(key webhook.EndpointKey) Direct {
	return Direct{Tenant: "default", Endpoint: key, Trigger: contract.TriggerTest, ByPerson: true, Unlogged: true}
}

// A test goes to its endpoint alone, whatever it has subscribed to, while it is
// off too, and whoever waits for it knows of it before its lane does.
func TestContract_P5_ATestGoesToItsEndpointAlone(t *testing.T) {
	t.Parallel()
	off := under(2, "petify", "other")
	off.State, off.Filter, off.Ordering = webhook.EndpointPaused, `false`, &webhook.Ordering{From: []string{"data.k"}}
	b := newBench(under(1, "standard", "*"), off)
	to := toOne(2)
	var told []store.Work
	to.Before = func(fresh []store.Work) {
		if len(b.offered) != 0 {
			t.Error("its lane had it first")
		}
		told = fresh
	}
	e := Event{Type: "test", Data: []byte(`{"k":"k1"}`), ContentType: ContentTypeJSON, OrderingKey: "k", Run: "run_1"}
	id, fresh, err := b.PublishTo(t.Context(), to, e)
	if err != nil || id != "evt_1" || len(fresh) != 1 || fresh[0].Endpoint != 2 {
		t.Fatalf("%s, %+v, %v", id, fresh, err)
	}
	if len(told) != 1 || len(b.offered) != 1 || b.offered[0].Endpoint != 2 {
		t.Fatalf("told %+v, handed over %+v", told, b.offered)
	}
	p := b.store.known["default evt_1"]
	want := store.Target{Endpoint: 2, Contract: "petify", ContractRevision: "r1"}
	if len(p.Targets) != 1 || p.Targets[0] != want || p.Keys != nil || p.Trigger != contract.TriggerTest || !p.ByPerson || !p.Unlogged || p.Run != "run_1" {
		t.Fatalf("accepted: %+v", p)
	}
}

func TestPublishTo_AnEndpointThatIsNoMore(t *testing.T) {
	t.Parallel()
	b := newBench(endpoint(1, "default", "*"), endpoint(2, "acme", "*"))
	refusedAs := func(to Direct, code webhook.Code) {
		t.Helper()
		id, fresh, err := b.PublishTo(t.Context(), to, Event{Type: "test", Data: []byte(`1`)})
		if p, ok := webhook.AsProblem(err); !ok || p.Code != code || id != "" || fresh != nil {
			t.Fatalf("%s, %v, %v", id, fresh, err)
		}
	}
	refusedAs(toOne(3), webhook.CodeNotFound)
	refusedAs(toOne(2), webhook.CodeNotFound) // another tenant's
	if len(b.store.batches) != 0 {
		t.Fatal("the store was asked")
	}
	for _, rematches := range []bool{false, true} {
		b = newBench(endpoint(1, "default", "*"))
		b.store.rematches = rematches
		b.store.before = func(int, []store.AcceptParams) error { // it is deleted while its test is on the way
			b.store.revision["default"] = 2
			b.registry.Apply(store.Change{Tenant: "default", Revision: 2, EndpointDeleted: 1})
			return nil
		}
		refusedAs(toOne(1), webhook.CodeNotFound)
		if len(b.store.known) != 0 || len(b.offered) != 0 {
			t.Fatalf("stored %v, handed over %v", b.store.known, b.offered)
		}
	}
}

func TestEngine_N2_AnEventForOneEndpointIsMatchedAnew(t *testing.T) {
	t.Parallel()
	for _, rematches := range []bool{false, true} {
		b := newBench(under(1, "standard", "*"))
		b.store.rematches = rematches
		b.store.before = func(call int, _ []store.AcceptParams) error {
			if call == 1 {
				b.store.revision["default"] = 2
				b.registry.Apply(store.Change{Tenant: "default", Revision: 2, Endpoint: under(1, "elido", "*")})
			}
			return nil
		}
		id, fresh, err := b.PublishTo(t.Context(), toOne(1), Event{Type: "test", Data: []byte(`1`)})
		if err != nil || len(fresh) != 1 || b.store.known["default "+id].Targets[0].Contract != "elido" {
			t.Fatalf("%s, %v, %v", id, fresh, err)
		}
	}
	b := newBench(under(1, "standard", "*"))
	b.store.before = func(int, []store.AcceptParams) error {
		b.store.revision["default"]++ // and nobody tells the registry
		return nil
	}
	_, _, err := b.PublishTo(t.Context(), toOne(1), Event{Type: "test", Data: []byte(`1`)})
	if p, ok := webhook.AsProblem(err); !ok || p.Code != webhook.CodeOverloaded || len(b.store.batches) != maxMatches {
		t.Fatalf("%v after %d tries", err, len(b.store.batches))
	}
}

func TestEngine_N1_AnEventForOneEndpointAfterAnUnknownCommit(t *testing.T) {
	t.Parallel()
	b := newBench(under(1, "standard", "*"), under(2, "standard", "*"))
	b.store.before = func(int, []store.AcceptParams) error { return store.ErrUnknown }
	to := toOne(2)
	to.Before = func([]store.Work) { t.Error("told of what may not be there") }
	_, fresh, err := b.PublishTo(t.Context(), to, Event{Type: "test", Data: []byte(`1`)})
	if p, ok := webhook.AsProblem(err); !ok || p.Code != webhook.CodeNotReady || fresh != nil || !slices.Equal(b.unknown, []webhook.EndpointKey{2}) {
		t.Fatalf("%v, %v, lanes to read %v", err, fresh, b.unknown)
	}
}

func TestEngine_N3_AnEventForOneEndpointIsRemembered(t *testing.T) {
	t.Parallel()
	b := newBench(under(1, "standard", "*"))
	e := mustParse(t, `{"id":"k1","type":"a","data":1}`)
	for n, want := range []int{1, 0} {
		id, fresh, err := b.PublishTo(t.Context(), toOne(1), e)
		if err != nil || id != "k1" || len(fresh) != want {
			t.Fatalf("time %d: %s, %v, %v", n+1, id, fresh, err)
		}
	}
	_, _, err := b.PublishTo(t.Context(), toOne(1), mustParse(t, `{"id":"k1","type":"a","data":2}`))
	if p, ok := webhook.AsProblem(err); !ok || p.Code != webhook.CodeConflictID {
		t.Fatal(err)
	}
}
