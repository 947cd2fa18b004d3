package maintain

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/catalog"
	"github.com/posthorn/posthorn/internal/clock"
	"github.com/posthorn/posthorn/internal/seal"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/store/sqlite"
	"github.com/posthorn/posthorn/internal/webhook"
)

// installation is a data folder under virtual time, without lanes: what is queued
// waits.
type installation struct {
	*testing.T
	*sqlite.DB
	dir      string
	clock    *clock.Clock
	endpoint *webhook.Endpoint
	revision int64
}

func promise(name, _ string) *contract.Contract {
	c, _ := contract.Builtin(name)
	return c
}

func install(t *testing.T) *installation {
	t.Helper()
	in := &installation{T: t, dir: t.TempDir(), clock: clock.Start()}
	in.restart()
	return in
}

// restart opens the folder, after closing it if it was open.
func (in *installation) restart() {
	in.Helper()
	if in.DB != nil {
		in.ok(in.Close())
	}
	keys, err := seal.New(bytes.Repeat([]byte{1}, seal.KeySize))
	in.ok(err)
	in.DB, err = sqlite.Open(context.Background(), sqlite.Config{
		Dir: in.dir, Sealer: keys, Now: in.clock.Wall(), DueNow: in.clock.Now, Contract: promise, Log: slog.New(slog.DiscardHandler),
	})
	in.ok(err)
}

func (in *installation) ok(err error) {
	in.Helper()
	if err != nil {
		in.Fatal(err)
	}
}

// subscribe makes the one endpoint.
func (in *installation) subscribe(rules string) {
	in.Helper()
	now := in.clock.Wall()
	e, err := in.CreateEndpoint(in.Context(), &webhook.Endpoint{
		ID: "shop", Tenant: webhook.DefaultTenant, URL: "https://hooks.example.com/", Events: []string{"*"}, Contract: rules,
		State: webhook.EndpointActive, StateSince: now, MaxInFlight: 1, CreatedAt: now, UpdatedAt: now,
	})
	in.ok(err)
	in.endpoint = e
	in.refresh()
}

func (in *installation) refresh() {
	in.Helper()
	_, revisions, err := in.LoadSubscriptions(in.Context())
	in.ok(err)
	in.revision = revisions[webhook.DefaultTenant]
}

// publish takes events in and returns their deliveries.
func (in *installation) publish(n int) (all []store.Work) {
	in.Helper()
	events := make([]store.AcceptParams, n)
	for i := range events {
		events[i] = store.AcceptParams{
			Tenant: webhook.DefaultTenant, Revision: in.revision, Type: "order.paid", Data: []byte(`{}`), ContentType: "application/json",
			Targets: []store.Target{{Endpoint: in.endpoint.Key, Contract: in.endpoint.Contract, ContractRevision: "r1"}},
			Now:     in.clock.Wall(), Ready: in.clock.Now(),
		}
	}
	results, err := in.Accept(in.Context(), events)
	in.ok(err)
	for _, r := range results {
		in.ok(r.Err)
		all = append(all, r.Fresh...)
	}
	return all
}

// end records a try that ended each of some deliveries.
func (in *installation) end(all []store.Work, status contract.Status, kind contract.FailureKind) {
	in.Helper()
	now := in.clock.Wall()
	done := make(chan error, len(all))
	for _, w := range all {
		in.Record(store.RecordParams{
			Ref: w.Ref, Tenant: w.Tenant, Endpoint: w.Endpoint, Round: w.Round, Attempts: w.Attempts, Status: status, FailureKind: kind, Now: now,
			Attempt: &webhook.Attempt{Round: w.Round, Try: 1, Counted: true, At: now, Duration: time.Second, FailureKind: kind},
		}, func(_ store.RecordResult, err error) { done <- err })
	}
	for range all {
		in.ok(<-done)
	}
}

// list gathers all deliveries, oldest first.
func (in *installation) list() (all []*webhook.Delivery) {
	in.Helper()
	for p := (store.Page{Limit: 250, Ascending: true}); ; {
		page, err := in.ListDeliveries(in.Context(), webhook.DefaultTenant, store.DeliveryFilter{}, p)
		in.ok(err)
		all = append(all, page.Items...)
		if p.After = page.Next; p.After == 0 {
			return all
		}
	}
}

// replays makes the service as the server does, with the rules of redelivery.
func (in *installation) replays(finished *int) *Replays {
	return NewReplays(ReplaysConfig{
		Store: in, Endpoints: in, Clock: in.clock, Log: slog.New(slog.DiscardHandler),
		Decide: func(time.Time) func(*webhook.Delivery, *webhook.Endpoint) (store.Again, bool) {
			return func(_ *webhook.Delivery, e *webhook.Endpoint) (store.Again, bool) {
				return store.Again{
					New: true, Contract: e.Contract, ContractRevision: "r1", MarkOld: true,
					Terms: contract.Terms{Trigger: contract.TriggerRedelivery},
				}, true
			}
		},
		Finished: func(webhook.Replay) store.AcceptParams {
			*finished++ // in the commit; it may run more than once for one
			return store.AcceptParams{
				Tenant: webhook.DefaultTenant, Revision: in.revision, Type: webhook.TypeReplayFinished, Data: []byte(`{}`),
				ContentType: "application/json", Now: in.clock.Wall(), Ready: in.clock.Now(),
			}
		},
	})
}

// B91, S11: with the server stopped and started in the middle, again and again,
// each dead delivery is redelivered once, oldest first, and the end is told once.
func TestFault_B91_ReplayAcrossRestartsOfARealStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := install(t)
		in.subscribe("signals")
		const dead = 120
		in.end(in.publish(dead), contract.StatusDead, contract.KindTimeout)
		replay, err := in.CreateReplay(t.Context(), webhook.Replay{Tenant: webhook.DefaultTenant, Endpoint: "shop", Rate: 40, CreatedAt: in.clock.Wall()})
		in.ok(err)
		finished := 0
		for range 3 { // three seconds of work, cut twice
			r := in.replays(&finished)
			r.Start()
			<-time.After(1300 * time.Millisecond)
			r.Stop()
			in.restart()
			in.drain()
		}
		after, err := in.GetReplay(t.Context(), webhook.DefaultTenant, replay.ID)
		in.ok(err)
		if after.State != webhook.ReplayDone || after.Done != dead || after.Count != dead || after.Failed != 0 || finished == 0 {
			t.Errorf("the replay is %+v, its end was told %d times", after, finished)
		}
		all := in.list()
		if len(all) != 2*dead {
			t.Fatalf("%d deliveries, want %d", len(all), 2*dead)
		}
		for i, old := range all[:dead] {
			made := all[dead+i]
			if old.Status != contract.StatusRedelivered || old.ReplacedBy != made.ID || made.Replaces != old.ID || made.Event != old.Event {
				t.Fatalf("%d: %s became %s, replaced by %s; the new one is %s", i, old.ID, old.Status, old.ReplacedBy, made.ID)
			}
		}
		in.ok(in.Close())
	})
}

// drain delivers all that waits, in place of lanes.
func (in *installation) drain() {
	in.Helper()
	for {
		w, err := in.ReadWindow(in.Context(), store.WindowParams{Endpoint: in.endpoint.Key, Now: in.clock.Now(), Limit: 100})
		in.ok(err)
		in.end(w.Work, contract.StatusDelivered, contract.KindNone)
		if w.Complete {
			return
		}
	}
}

// S12, P6, N22: thirty days after their end deliveries go, with their events; what
// has not ended stays. What an endpoint that is off has held for as long is
// skipped, and its owner is told the day before, once.
func TestContract_S12_HistoryGoesAfterThirtyDays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		in := install(t)
		in.subscribe("signals")
		_, err := in.UpdateTenant(t.Context(), webhook.DefaultTenant, func(n *webhook.Tenant) error {
			n.OwnerURL = "https://owner.example.com/"
			return nil
		})
		in.ok(err)
		in.end(in.publish(250)[:200], contract.StatusDelivered, contract.KindNone)
		_, err = in.UpdateEndpoint(t.Context(), webhook.DefaultTenant, "shop", in.clock.Wall(), func(e *webhook.Endpoint) (store.EndpointUpdate, error) {
			e.State, e.StateReason, e.StateSince = webhook.EndpointPaused, webhook.ReasonPerson, in.clock.Wall()
			return store.EndpointUpdate{}, nil
		})
		in.ok(err)
		keeper := NewRetention(RetentionConfig{Keeper: in, Clock: in.clock, Log: slog.New(slog.DiscardHandler)})
		texts, err := catalog.Load()
		in.ok(err)
		var told []time.Time
		began := in.clock.Now()
		owners := NewOwners(OwnersConfig{
			Store: in, Clock: in.clock, Log: slog.New(slog.DiscardHandler), Texts: texts.For(catalog.English), Random: func() float64 { return 0.5 },
			Contract: func(name string) *contract.Contract { return promise(name, "") },
			Post: func(_ context.Context, _ string, body []byte, _ http.Header) (int, error) {
				if !bytes.Contains(body, []byte(`"type":"endpoint.expiring"`)) {
					return 0, errors.New("another notice")
				}
				told = append(told, in.clock.Now())
				return 200, nil
			},
		})
		<-time.After(29*day - time.Hour)
		keeper.Start()
		owners.Start()
		<-time.After(3 * time.Hour)
		owners.Stop()
		<-time.After(day - 4*time.Hour)
		if got := count(in.list()); got[contract.StatusDelivered] != 200 || got[contract.StatusPending] != 50 {
			t.Errorf("a day before the end: %v", got)
		}
		<-time.After(4 * time.Hour)
		owners.Start()
		<-time.After(10 * time.Minute)
		owners.Stop()
		if got := count(in.list()); got[contract.StatusDelivered] != 0 || got[contract.StatusSkipped] != 50 {
			t.Errorf("after the end: %v", got)
		}
		if len(told) != 1 || told[0].Sub(began) < 29*day-time.Minute || told[0].Sub(began) > 29*day+time.Hour+2*time.Minute {
			t.Errorf("the owner was told at %v", told)
		}
		keeper.Stop()
		<-time.After(30 * day)
		keeper.Start()
		<-time.After(time.Hour)
		keeper.Stop()
		if left := in.list(); len(left) != 0 {
			t.Errorf("%d deliveries are left", len(left))
		}
		events, err := in.ListEvents(t.Context(), webhook.DefaultTenant, store.EventFilter{}, store.Page{Limit: 1})
		if err != nil || len(events.Items) != 0 {
			t.Errorf("events are left: %v", err)
		}
		in.ok(in.Close())
	})
}

func count(all []*webhook.Delivery) map[contract.Status]int {
	n := map[contract.Status]int{}
	for _, d := range all {
		n[d.Status]++
	}
	return n
}
