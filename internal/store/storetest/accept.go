package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func acceptCases() []testCase {
	return []testCase{
		{name: "TestEngine_N1_AcknowledgedIsThereAfterRestart", run: acknowledgedIsThereAfterRestart},
		{name: "TestEngine_N1_EventAndDeliveriesAreOneCommit", run: eventAndDeliveriesAreOneCommit},
		{name: "TestEngine_N1_CancelledCallIsHonest", run: cancelledCallIsHonest},
		{name: "TestEngine_N1_ClosedStoreRefuses", run: closedStoreRefuses},
		{name: "TestEngine_N1_PositionsAreNeverGivenTwice", run: positionsAreNeverGivenTwice},
		{name: "TestEngine_N20_NowIsAParameter", run: nowIsAParameter},
		{name: "TestEngine_N20_DueTimesHaveTheirOwnClock", run: dueTimesHaveTheirOwnClock},
		{name: "TestStore_Accept_KeepsBytes", run: acceptKeepsBytes},
	}
}

// snapshot is all that a caller can read, to compare before and after.
type snapshot struct {
	Events     []*webhook.Event
	Deliveries []*webhook.Delivery
	Attempts   map[string][]webhook.Attempt
	Endpoints  []*webhook.Endpoint
	Lanes      []store.LaneHead
	Revisions  map[string]int64
}

func (f *fixture) snapshot() snapshot {
	f.Helper()
	s := snapshot{Attempts: map[string][]webhook.Attempt{}}
	page := store.Page{Limit: 250}
	events, err := f.ListEvents(f.ctx, store.TenantAll, store.EventFilter{}, page)
	f.ok(err)
	for _, e := range events.Items {
		full, err := f.GetEvent(f.ctx, e.Tenant, e.ID)
		f.ok(err)
		s.Events = append(s.Events, full)
	}
	deliveries, err := f.ListDeliveries(f.ctx, store.TenantAll, store.DeliveryFilter{}, page)
	f.ok(err)
	s.Deliveries = deliveries.Items
	for _, d := range deliveries.Items {
		s.Attempts[d.ID], err = f.ListAttempts(f.ctx, d.Tenant, d.ID)
		f.ok(err)
	}
	s.Endpoints, s.Revisions, err = f.LoadSubscriptions(f.ctx)
	f.ok(err)
	s.Lanes, err = f.ListLanes(f.ctx)
	f.ok(err)
	return s
}

func acknowledgedIsThereAfterRestart(f *fixture) {
	a, b := f.endpoint("a"), f.endpoint("b")
	own := f.event(a, b)
	own.ID, own.OrderingKey, own.Type = "own:1", "key", "click"
	own.CreatedAt, own.ExpiresAt = f.now.Add(-time.Hour), f.now.Add(time.Hour)
	later := f.event(a)
	later.DeliverAt = f.now.Add(48 * time.Hour)
	made := f.accept(own, later, f.event())
	f.record(f.failure(made[0].Fresh[0], f.now.Add(time.Minute)))
	f.record(f.success(made[0].Fresh[1]))

	before := f.snapshot()
	if len(before.Events) != 3 || len(before.Deliveries) != 3 || len(before.Attempts[made[0].Fresh[1].DeliveryID]) != 1 {
		f.Fatalf("not all that was acknowledged can be read: %+v", before)
	}
	f.restart()
	f.same("what is stored", f.snapshot(), before)
}

func eventAndDeliveriesAreOneCommit(f *fixture) {
	var targets []*webhook.Endpoint
	for i := range 10 {
		targets = append(targets, f.endpoint(fmt.Sprintf("e%d", i)))
	}
	r := f.accept(f.event(targets...))[0]
	if r.Deliveries != 10 || len(r.Fresh) != 10 || r.Replayed {
		f.Fatalf("result is %+v", r)
	}
	for i, w := range r.Fresh {
		if w.Endpoint != targets[i].Key || (i > 0 && w.Ref <= r.Fresh[i-1].Ref) {
			f.Fatalf("delivery %d is %+v", i, w)
		}
	}
	counts, err := f.CountDeliveries(f.ctx, webhook.DefaultTenant, r.ID)
	f.ok(err)
	f.same("counts", counts, map[contract.Status]int{contract.StatusPending: 10})
}

// A call whose context ends gets an answer at once. If that answer is not
// ErrUnknown, nothing was stored.
func cancelledCallIsHonest(f *fixture) {
	e := f.endpoint("a")
	p := f.event(e)
	release := f.db.Stall(f.T, f.Store)
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	_, err := f.Accept(ctx, []store.AcceptParams{p})
	release()
	f.fails(err, context.Canceled)
	f.ok(f.Ping(f.ctx)) // whatever was queued is through
	if n := f.countEvents(webhook.DefaultTenant); n != 0 && !errors.Is(err, store.ErrUnknown) {
		f.Fatalf("the error was %v, yet %d events are stored", err, n)
	}
}

func closedStoreRefuses(f *fixture) {
	e := f.endpoint("a")
	w := f.send(e)
	p := f.event(e)
	f.ok(f.Close())
	_, err := f.Accept(f.ctx, []store.AcceptParams{p})
	f.fails(err, store.ErrClosed)
	f.fails((<-f.begin(f.success(w))).err, store.ErrClosed)
	_, err = f.ListLanes(f.ctx)
	f.fails(err, store.ErrClosed)
	f.fails(f.Ping(f.ctx), store.ErrClosed)
	f.ok(f.Close())
}

// A restart goes on behind the last position, so that no ID names two things.
func positionsAreNeverGivenTwice(f *fixture) {
	e := f.endpoint("a")
	first := f.sendMany(e, 5)
	f.restart()
	second := f.sendMany(e, 5)
	seen := map[string]bool{}
	last := webhook.Ref(0)
	for _, w := range append(first, second...) {
		if seen[w.DeliveryID] || seen[w.EventID] || w.Ref <= last {
			f.Fatalf("%+v repeats an ID or does not rise", w)
		}
		seen[w.DeliveryID], seen[w.EventID], last = true, true, w.Ref
	}
}

// Nothing depends on the machine's clock: the same works in the past and in the
// future.
func nowIsAParameter(f *fixture) {
	e := f.endpoint("a")
	for _, now := range []time.Time{
		time.Date(1998, 7, 1, 0, 0, 0, 5e6, time.UTC), time.Date(2150, 7, 1, 0, 0, 0, 5e6, time.UTC),
	} {
		f.now = now
		w := f.send(e)
		event, err := f.GetEvent(f.ctx, w.Tenant, w.EventID)
		f.ok(err)
		f.same("accepted at", event.AcceptedAt, now)
		f.same("created at", event.CreatedAt, now)
		if len(f.due(e, now.Add(-time.Millisecond))) != 0 {
			f.Fatal("due before its time")
		}
		f.same("due", f.due(e, now), []webhook.Ref{w.Ref})
		f.now = now.Add(time.Hour)
		f.record(f.success(w))
		d := f.delivery(w)
		f.same("created at", d.CreatedAt, now)
		f.same("finished at", d.FinishedAt, now.Add(time.Hour))
		f.same("last success", f.getEndpoint(e).Health.LastSuccessAt, now.Add(time.Hour))
	}
}

// Due times follow Ready, deliver_at by its distance from Now.
func dueTimesHaveTheirOwnClock(f *fixture) {
	e := f.endpoint("a")
	ready := f.now.Add(-time.Hour)
	p, later := f.event(e), f.event(e)
	p.Ready, later.Ready = ready, ready
	later.DeliverAt = f.now.Add(time.Minute)
	made := f.accept(p, later)
	f.same("due at once", made[0].Fresh[0].Due, ready)
	f.same("due later", made[1].Fresh[0].Due, ready.Add(time.Minute))
	w := f.window(e, ready)
	f.same("due now", refs(w.Work), []webhook.Ref{made[0].Fresh[0].Ref})
	f.same("next due", w.NextDue, ready.Add(time.Minute))
	f.same("stamp", f.delivery(made[0].Fresh[0]).CreatedAt, f.now)
}

func acceptKeepsBytes(f *fixture) {
	e := f.endpoint("a")
	for name, data := range map[string]string{
		"spaces": `{ "n" : 1.0 }`, "not UTF-8": "\xff\xfe\x00\x01", "zero byte": "a\x00b", "empty": "",
		"large": strings.Repeat("x", 1<<20), "escapes": "{\"u\":\"\\u00e9\\/\"}",
	} {
		p := f.event(e)
		setData(&p, data)
		r := f.accept(p)[0]
		event, err := f.GetEvent(f.ctx, webhook.DefaultTenant, r.ID)
		f.ok(err)
		if string(event.Data) != data {
			f.Errorf("%s: the event's bytes changed", name)
		}
		loaded, err := f.LoadData(f.ctx, r.Fresh[0].Ref)
		f.ok(err)
		if string(loaded) != data || string(r.Fresh[0].Data) != data || r.Fresh[0].DataSize != len(data) {
			f.Errorf("%s: the delivery's bytes changed", name)
		}
	}
}
