package storetest

import (
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func deliveryCases() []testCase {
	return []testCase{
		{name: "TestStore_GetDelivery_ShowsTheWhole", run: getDeliveryShowsTheWhole},
		{name: "TestStore_GetDelivery_ForeignIDsAreNotFound", run: foreignDeliveryIDs},
		{name: "TestStore_CancelDelivery_EndsOne", run: cancelDeliveryEndsOne},
		{name: "TestEngine_N20_ScheduledIsToldByTheClockOfDueTimes", run: scheduledByDueClock},
		{name: "TestEngine_N17_EndpointStateShowsAtOnce", run: endpointStateShowsAtOnce},
	}
}

func getDeliveryShowsTheWhole(f *fixture) {
	e := f.endpoint("a")
	p := f.event(e)
	p.ID, p.OrderingKey, p.Type, p.ExpiresAt = "x", "k", "click", f.now.Add(time.Hour)
	p.Targets[0].ContractRevision = "an older one"
	w := f.accept(p)[0].Fresh[0]
	f.same("delivery", f.delivery(w), &webhook.Delivery{
		ID: w.DeliveryID, Ref: w.Ref, Tenant: webhook.DefaultTenant, Endpoint: "a", Event: "x", Type: "click", WebhookID: "x",
		Contract: contractName, ContractRevision: "an older one", Trigger: contract.TriggerEvent, Status: contract.StatusPending,
		Round: 1, NextAttemptAt: f.now, OrderingKey: "k", ExpiresAt: p.ExpiresAt, CreatedAt: f.now,
	})
	plain := f.send(e)
	got := f.delivery(plain)
	if got.Event != plain.EventID || got.WebhookID != plain.EventID || got.OrderingKey != "" || !got.ExpiresAt.IsZero() {
		f.Fatalf("delivery is %+v", got)
	}
	f.same("attempts", len(f.attempts(plain)), 0)
}

func foreignDeliveryIDs(f *fixture) {
	w := f.send(f.endpoint("a"))
	for _, id := range []string{"", "dlv_", "nothing", w.EventID, w.DeliveryID + "0", "dlv_00000000000000000000000000", w.DeliveryID[:len(w.DeliveryID)-1] + "!"} {
		_, err := f.GetDelivery(f.ctx, w.Tenant, id)
		f.fails(err, store.ErrNotFound)
		_, err = f.ListAttempts(f.ctx, w.Tenant, id)
		f.fails(err, store.ErrNotFound)
		_, err = f.CancelDelivery(f.ctx, w.Tenant, id, f.now)
		f.fails(err, store.ErrNotFound)
	}
}

func cancelDeliveryEndsOne(f *fixture) {
	e := f.endpoint("a")
	work := f.sendMany(e, 3)
	f.record(f.success(work[1]))
	told := f.heard.count()
	at := f.now.Add(time.Minute)
	for i, want := range []bool{true, false, false} {
		id := work[min(i/2, 1)].DeliveryID // one twice, then one that is delivered
		canceled, err := f.CancelDelivery(f.ctx, e.Tenant, id, at)
		f.ok(err)
		f.same("canceled", canceled, want)
	}
	changes := f.heard.since(told)
	if len(changes) != 1 || len(changes[0].Canceled) != 1 || changes[0].Canceled[0] != work[0].Ref {
		f.Fatalf("told %+v", changes)
	}
	d := f.delivery(work[0])
	if d.Status != contract.StatusCanceled || d.Reason != webhook.WhyCanceled || !d.FinishedAt.Equal(at) {
		f.Fatalf("delivery is %+v", d)
	}
	f.same("delivered stays", f.delivery(work[1]).Status, contract.StatusDelivered)
	f.same("waiting", f.due(e, at), []webhook.Ref{work[2].Ref})
}

// What holds for a whole endpoint shows on each of its deliveries at once.
func endpointStateShowsAtOnce(f *fixture) {
	e := f.endpoint("a")
	fresh, retry, done := f.send(e), f.send(e), f.send(e)
	f.record(f.failure(retry, f.now.Add(time.Hour)))
	f.record(f.success(done))
	check := func(state string, status contract.Status, first, second webhook.Reason) {
		f.Helper()
		for w, want := range map[*store.Work]webhook.Reason{&fresh: first, &retry: second} {
			d := f.delivery(*w)
			if d.Status != status || d.Reason != want || d.NextAttemptAt.IsZero() != status.Final() {
				f.Errorf("%s: delivery is %s, %q, next %v; want %s, %q", state, d.Status, d.Reason, d.NextAttemptAt, status, want)
			}
		}
		d := f.delivery(done)
		if d.Status != contract.StatusDelivered || d.Reason != webhook.WhyNone {
			f.Errorf("%s: the delivered one is %s, %q", state, d.Status, d.Reason)
		}
	}
	check("active", contract.StatusPending, webhook.WhyNone, webhook.WhyRetry)
	f.change(e, func(e *webhook.Endpoint) { e.State, e.StateReason = webhook.EndpointPaused, webhook.ReasonPerson })
	check("paused", contract.StatusPending, webhook.WhyPaused, webhook.WhyPaused)
	f.change(e, func(e *webhook.Endpoint) { e.State, e.StateReason = webhook.EndpointDisabled, webhook.ReasonStaff })
	check("disabled", contract.StatusPending, webhook.WhyDisabled, webhook.WhyDisabled)
	f.change(e, func(e *webhook.Endpoint) { e.State, e.StateReason = webhook.EndpointActive, webhook.ReasonActive })
	check("active again", contract.StatusPending, webhook.WhyNone, webhook.WhyRetry)
	f.ok(f.DeleteEndpoint(f.ctx, e.Tenant, e.ID, false, f.now))
	check("deleted", contract.StatusCanceled, webhook.WhyEndpointDeleted, webhook.WhyEndpointDeleted)
}

func scheduledByDueClock(f *fixture) {
	e := f.endpoint("a")
	p := f.event(e)
	p.DeliverAt = f.now.Add(time.Hour)
	w := f.accept(p)[0].Fresh[0]
	scheduled := store.DeliveryFilter{Reasons: []webhook.Reason{webhook.WhyScheduled}}
	for _, c := range []struct {
		at   time.Time
		want webhook.Reason
	}{
		{f.now, webhook.WhyScheduled}, {p.DeliverAt.Add(-time.Millisecond), webhook.WhyScheduled}, {p.DeliverAt, webhook.WhyNone},
	} {
		f.dueClock.ms.Store(c.at.UnixMilli())
		f.same("reason", f.delivery(w).Reason, c.want)
		listed, err := f.ListDeliveries(f.ctx, webhook.DefaultTenant, scheduled, store.Page{Limit: 10})
		f.ok(err)
		if (len(listed.Items) == 1) != (c.want == webhook.WhyScheduled) {
			f.Fatalf("%d are listed as scheduled at %v", len(listed.Items), c.at)
		}
	}
}
