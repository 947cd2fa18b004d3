package publish

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/posthorn/posthorn/internal/clock"
	"github.com/posthorn/posthorn/internal/seal"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/store/sqlite"
	"github.com/posthorn/posthorn/internal/webhook"
)

// realStore is a publisher on a database, wired as the server wires it.
func realStore(t *testing.T) (*Publisher, *sqlite.DB, *handedOver) {
	t.Helper()
	keys, err := seal.New(bytes.Repeat([]byte{1}, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	registry, now := NewRegistry(builtins()), clock.Start()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir(), Sealer: keys, OnChange: registry.Apply, Now: now.Wall()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	endpoints, revisions, err := db.LoadSubscriptions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	registry.Load(endpoints, revisions)
	fresh := &handedOver{}
	return New(Config{Store: db, Registry: registry, Clock: now, Offer: fresh.add}), db, fresh
}

// handedOver gathers what was offered to lanes.
type handedOver struct {
	mu   sync.Mutex
	work []store.Work
}

func (h *handedOver) add(fresh []store.Work) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.work = append(h.work, fresh...)
}

func addEndpoint(t *testing.T, db *sqlite.DB, id string, events ...string) {
	t.Helper()
	_, err := db.CreateEndpoint(t.Context(), &webhook.Endpoint{
		ID: id, Tenant: "default", URL: "https://example.com/", Events: events, Contract: "standard",
		State: webhook.EndpointActive, MaxInFlight: webhook.DefaultMaxInFlight, CreatedAt: noon, StateSince: noon,
	})
	if err != nil {
		t.Error(err)
	}
}

func TestFault_B68_OnARealStore(t *testing.T) {
	t.Parallel()
	p, db, fresh := realStore(t)
	addEndpoint(t, db, "ep_1", "*")
	if err := db.CreateTenant(t.Context(), webhook.Tenant{ID: "acme", DefaultContract: "standard", CreatedAt: noon}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ tenant, body, want string }{
		{"default", `{"id":"k1","type":"a","data":{"n":1}}`, "k1 1"},
		{"default", `{"id":"k1","type":"a","data":{"n":2}}`, "conflict_id"},
		{"default", `{"id":"k1","type":"a","data":{ "n":1 }}`, "conflict_id"},
		{"default", `{"id":"k1","type":"b","data":{"n":1}}`, "conflict_id"},
		{"default", `{"data":{"n":1},"type":"a","id":"k1"}`, "k1 1 replayed"},
		{"acme", `{"id":"k1","type":"a","data":{"n":1}}`, "k1 0"},
		{"nobody", `{"id":"k1","type":"a","data":{"n":1}}`, "not_found"},
	} {
		results, err := p.Publish(t.Context(), step.tenant, []Event{mustParse(t, step.body)})
		if err != nil {
			t.Fatal(err)
		}
		if got := summary(results[0]); got != step.want {
			t.Fatalf("%s %s: got %q, want %q", step.tenant, step.body, got, step.want)
		}
	}
	if len(fresh.work) != 1 || string(fresh.work[0].Data) != `{"n":1}` {
		t.Fatalf("handed over: %+v", fresh.work)
	}
}

// Endpoints are made while events come in: each event is accepted, and whoever
// was subscribed before it was posted gets it.
func TestEngine_N2_PublishingWhileEndpointsAreMade(t *testing.T) {
	t.Parallel()
	p, db, fresh := realStore(t)
	const endpoints, events = 10, 60
	var all sync.WaitGroup
	all.Go(func() {
		for n := range endpoints {
			addEndpoint(t, db, fmt.Sprint("ep_", n), "a")
		}
	})
	for i := range 3 {
		all.Go(func() {
			for n := range events {
				results, err := p.Publish(t.Context(), "default", []Event{mustParse(t, fmt.Sprintf(`{"id":"e-%d-%d","type":"a","data":1}`, i, n))})
				if err != nil || results[0].Err != nil {
					t.Errorf("event %d of %d: %v, %v", n, i, err, results)
				}
			}
		})
	}
	all.Wait()
	results, err := p.Publish(t.Context(), "default", []Event{mustParse(t, `{"id":"last","type":"a","data":1}`)})
	if err != nil || results[0].Deliveries != endpoints {
		t.Fatalf("the last event: %v, %v", results, err)
	}
	seen := map[string]bool{}
	for _, w := range fresh.work {
		pair := fmt.Sprint(w.EventID, " ", w.Endpoint)
		if seen[pair] {
			t.Errorf("%s twice", pair)
		}
		seen[pair] = true
	}
}

// An event whose time has passed is refused by its field, unless it is a repeat.
func TestEngine_N3_TooLateUnlessARepeat(t *testing.T) {
	t.Parallel()
	p, _, _ := realStore(t)
	e := mustParse(t, `{"id":"k1","type":"a","data":1,"expires_at":"2999-01-01T00:00:00Z"}`)
	send := func() Result {
		results, err := p.Publish(t.Context(), "default", []Event{e})
		if err != nil {
			t.Fatal(err)
		}
		return results[0]
	}
	if r := send(); r.Err != nil {
		t.Fatal(r.Err)
	}
	e.ExpiresAt = noon // it has passed by now
	if r := send(); r.Err != nil || !r.Replayed {
		t.Fatalf("the repeat: %+v", r)
	}
	e.ID = ""
	problem, ok := webhook.AsProblem(send().Err)
	if !ok || problem.Code != webhook.CodeInvalidField || problem.Fields[0].Pointer != "/expires_at" {
		t.Fatalf("a new one: %+v", problem)
	}
}
