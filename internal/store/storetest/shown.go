package storetest

import (
	"slices"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func shownCases() []testCase {
	known := Options{Contract: promises}
	return []testCase{
		{name: "TestContract_S6_GatedIsDerived", opts: known, run: gatedIsDerived},
		{name: "TestEngine_N16_EndpointsGateHoldsItsOwn", opts: known, run: ownGateHoldsItsOwn},
		{name: "TestContract_P6_StatusFilterIsTheContracts", opts: known, run: statusFilterIsTheContracts},
		{name: "TestContract_S3_WebhookIDByThePromise", opts: known, run: webhookIDByPromise},
		{name: "TestContract_P9_UnloggedTestsAreNowhere", opts: known, run: unloggedIsNowhere},
		{name: "TestContract_P3_APurgedLogIsNowhere", run: purgedIsNowhere},
		{name: "TestEngine_N15_InLineShowsAsOrdered", run: inLineShowsAsOrdered},
		{name: "TestStore_GetDelivery_APlaceInOrderShowsAsNow", run: placeShowsAsNow},
		{name: "TestEngine_N17_SkippedShowsAtOnce", run: skippedShowsAtOnce},
		{name: "TestStore_Further_BelongToTheirEvent", opts: known, run: furtherBelongToEvent},
	}
}

// sharing creates an endpoint with the URL of others.
func (f *fixture) sharing(id string) *webhook.Endpoint {
	f.Helper()
	e := newEndpoint(webhook.DefaultTenant, id, f.now)
	e.URL = "https://shared.example.com/"
	made, err := f.CreateEndpoint(f.ctx, e)
	f.ok(err)
	return made
}

// says checks what is shown of a delivery.
func (f *fixture) says(what string, w store.Work, status contract.Status, why webhook.Reason, kind contract.FailureKind) {
	f.Helper()
	d := f.delivery(w)
	if d.Status != status || d.Reason != why || d.FailureKind != kind {
		f.Errorf("%s is shown as %s, %q, %q; want %s, %q, %q", what, d.Status, d.Reason, d.FailureKind, status, why, kind)
	}
}

// While a gate is closed, what would be due shows endpoint_unavailable, and its own
// kind again afterwards. Nothing of it is written.
func gatedIsDerived(f *fixture) {
	a, b, other := f.sharing("a"), f.sharing("b"), f.endpoint("other")
	probe, fresh := f.sendUnder(noticeContract, a), f.sendUnder(noticeContract, a)
	elsewhere, plain, away := f.sendUnder(noticeContract, b), f.send(b), f.sendUnder(noticeContract, other)
	tried := f.sendUnder(noticeContract, b)
	timedOut := f.failure(tried, f.now)
	timedOut.FailureKind = contract.KindTimeout
	f.record(timedOut)
	ahead := under(noticeContract, f.event(b))
	ahead.DeliverAt = f.later(time.Hour)
	scheduled := f.accept(ahead)[0].Fresh[0]
	asked := under(noticeContract, f.event(a))
	asked.Trigger, asked.ByPerson = contract.TriggerTest, true
	test := f.accept(asked)[0].Fresh[0]

	closing := f.failure(probe, f.later(time.Minute))
	closing.Gate = &store.GateMove{Key: a.GateKey(webhook.GateURL), Until: f.later(time.Minute), Probe: probe.Ref}
	f.record(closing)
	f.restart()
	pending := contract.StatusPending
	gated := func(what string, w store.Work) {
		f.Helper()
		f.says(what, w, pending, webhook.WhyGated, contract.KindEndpointUnavailable)
	}
	check := func() {
		f.Helper()
		gated("one of the endpoint", fresh)
		gated("one of another endpoint with the URL", elsewhere)
		gated("one that failed before", tried)
		f.says("the probe", probe, pending, webhook.WhyRetry, contract.KindHTTPStatus)
		f.says("one whose contract has no gate", plain, pending, webhook.WhyNone, contract.KindNone)
		f.says("one of another URL", away, pending, webhook.WhyNone, contract.KindNone)
		f.says("one that is not due", scheduled, pending, webhook.WhyScheduled, contract.KindNone)
		f.says("a test", test, pending, webhook.WhyNone, contract.KindNone)
	}
	check()
	f.dueClock.ms.Store(f.later(2 * time.Minute).UnixMilli()) // the probe is due: until it got through, the gate is closed
	check()
	want := []string{fresh.DeliveryID, elsewhere.DeliveryID, tried.DeliveryID}
	f.same("by reason", f.listed(store.DeliveryFilter{Reasons: []webhook.Reason{webhook.WhyGated}}), want)
	f.same("by kind", f.listed(store.DeliveryFilter{FailureKinds: []contract.FailureKind{contract.KindEndpointUnavailable}}), want)
	f.same("by the kind that is not shown", f.listed(store.DeliveryFilter{FailureKinds: []contract.FailureKind{contract.KindTimeout}}), []string{})

	f.change(b, func(e *webhook.Endpoint) { e.State, e.StateReason = webhook.EndpointPaused, webhook.ReasonPerson })
	f.says("one of a paused endpoint", elsewhere, pending, webhook.WhyPaused, contract.KindNone)
	f.change(b, func(e *webhook.Endpoint) { e.State, e.StateReason = webhook.EndpointActive, webhook.ReasonActive })

	probe.Attempts++
	opening := f.success(probe)
	opening.Gate = &store.GateMove{Key: a.GateKey(webhook.GateURL)}
	f.record(opening)
	f.says("one of the endpoint", fresh, pending, webhook.WhyNone, contract.KindNone)
	f.says("one that failed before", tried, pending, webhook.WhyRetry, contract.KindTimeout)
}

func ownGateHoldsItsOwn(f *fixture) {
	a, b := f.sharing("a"), f.sharing("b")
	p := f.event(a, b) // the standard contract's gate is the endpoint's
	work := f.accept(p, p)
	closing := f.failure(work[0].Fresh[0], f.later(time.Minute))
	closing.Gate = &store.GateMove{Key: a.GateKey(webhook.GateEndpoint), Until: f.later(time.Minute), Probe: closing.Ref}
	f.record(closing)
	f.says("its own", work[1].Fresh[0], contract.StatusPending, webhook.WhyGated, contract.KindEndpointUnavailable)
	f.says("another's with the URL", work[1].Fresh[1], contract.StatusPending, webhook.WhyNone, contract.KindNone)
}

// Under a contract that shows no sending, one that is being sent is found as
// pending and counted so.
func statusFilterIsTheContracts(f *fixture) {
	e := f.endpoint("a")
	w, plain := f.sendUnder(switchContract, e), f.send(e)
	f.mark(markOf(w, f.now), markOf(plain, f.now))
	f.same("pending", f.listed(store.DeliveryFilter{Statuses: []contract.Status{contract.StatusPending}}), []string{w.DeliveryID})
	f.same("sending", f.listed(store.DeliveryFilter{Statuses: []contract.Status{contract.StatusSending}}), []string{plain.DeliveryID})
	f.same("the engine's word", f.delivery(w).Status, contract.StatusSending)
	counts, err := f.CountDeliveries(f.ctx, webhook.DefaultTenant, w.EventID)
	f.ok(err)
	f.same("counts", counts, map[contract.Status]int{contract.StatusPending: 1})
	all := f.listed(store.DeliveryFilter{})
	slices.Reverse(all)
	f.same("newest first", named1(f.ListDeliveries(f.ctx, webhook.DefaultTenant, store.DeliveryFilter{}, store.Page{Limit: 10})), all)
}

func named1(page store.Listed[*webhook.Delivery], _ error) []string {
	ids := []string{}
	for _, d := range page.Items {
		ids = append(ids, d.ID)
	}
	return ids
}

func webhookIDByPromise(f *fixture) {
	e := f.endpoint("a")
	own, event := f.sendUnder(noticeContract, e), f.send(e)
	f.same("per delivery", f.delivery(own).WebhookID, own.DeliveryID)
	f.same("per event", f.delivery(event).WebhookID, event.EventID)
}

func unloggedIsNowhere(f *fixture) {
	e := f.endpoint("a")
	p := under(switchContract, f.event(e))
	p.ID, p.Trigger, p.Unlogged, p.ByPerson = "t", contract.TriggerTest, true, true
	w := f.accept(p)[0].Fresh[0]
	for range 2 {
		_, err := f.GetDelivery(f.ctx, w.Tenant, w.DeliveryID)
		f.fails(err, store.ErrNotFound)
		_, err = f.ListAttempts(f.ctx, w.Tenant, w.DeliveryID)
		f.fails(err, store.ErrNotFound)
		for _, id := range []string{"t", w.EventID} {
			_, err = f.GetEvent(f.ctx, w.Tenant, id)
			f.fails(err, store.ErrNotFound)
			_, err = f.CountDeliveries(f.ctx, w.Tenant, id)
			f.fails(err, store.ErrNotFound)
		}
		f.same("deliveries", f.listed(store.DeliveryFilter{}), []string{})
		f.same("of the event", f.listed(store.DeliveryFilter{Event: "t"}), []string{})
		f.same("events", f.countEvents(w.Tenant), 0)
		f.restart()
	}
	f.same("it waits all the same", f.due(e, f.now), []webhook.Ref{w.Ref})
}

func purgedIsNowhere(f *fixture) {
	a, b := f.endpoint("a"), f.endpoint("b")
	r := f.accept(f.event(a, b))[0]
	f.record(f.success(r.Fresh[0]))
	f.ok(f.DeleteEndpoint(f.ctx, a.Tenant, a.ID, true, f.now))
	_, err := f.GetDelivery(f.ctx, a.Tenant, r.Fresh[0].DeliveryID)
	f.fails(err, store.ErrNotFound)
	_, err = f.ListAttempts(f.ctx, a.Tenant, r.Fresh[0].DeliveryID)
	f.fails(err, store.ErrNotFound)
	f.same("listed", f.listed(store.DeliveryFilter{}), []string{r.Fresh[1].DeliveryID})
	f.same("its own", f.listed(store.DeliveryFilter{Endpoint: "a"}), []string{})
	counts, err := f.CountDeliveries(f.ctx, a.Tenant, r.ID)
	f.ok(err)
	f.same("counts", counts, map[contract.Status]int{contract.StatusPending: 1})
}

func inLineShowsAsOrdered(f *fixture) {
	e := f.endpoint("a")
	p := f.event(e)
	p.Keys = []string{"k"}
	f.accept(p, p)
	ids := f.listed(store.DeliveryFilter{})
	head, behind := f.byID(ids[0]), f.byID(ids[1])
	f.same("head", head.Reason, webhook.WhyNone)
	f.same("head's time", head.NextAttemptAt, f.now)
	f.same("behind it", behind.Reason, webhook.WhyOrdered)
	f.same("its time", behind.NextAttemptAt.IsZero(), true)
	f.same("its key", behind.OrderingKey, "k")
	f.same("by reason", f.listed(store.DeliveryFilter{Reasons: []webhook.Reason{webhook.WhyOrdered}}), ids[1:])
	f.same("by key", f.listed(store.DeliveryFilter{OrderingKey: "k"}), ids)
	f.change(e, func(e *webhook.Endpoint) { e.State, e.StateReason = webhook.EndpointPaused, webhook.ReasonPerson })
	f.same("paused goes before", f.byID(ids[1]).Reason, webhook.WhyPaused)
}

func placeShowsAsNow(f *fixture) {
	e := f.endpoint("a")
	p := f.event(e)
	p.ByPerson, p.Trigger = true, contract.TriggerTest
	w := f.accept(p)[0].Fresh[0]
	at := f.later(time.Minute)
	f.dueClock.ms.Store(at.UnixMilli())
	f.same("next", f.delivery(w).NextAttemptAt, at)
	f.same("reason", f.delivery(w).Reason, webhook.WhyNone)
}

// Whether the mark or already the row says it, the same is shown.
func skippedShowsAtOnce(f *fixture) {
	e := f.endpoint("a")
	work := f.sendMany(e, 3)
	p := f.event(e)
	p.ByPerson, p.Trigger = true, contract.TriggerTest
	test := f.accept(p)[0].Fresh[0]
	at := f.later(time.Minute)
	_, err := f.UpdateEndpoint(f.ctx, e.Tenant, e.ID, at, func(e *webhook.Endpoint) (store.EndpointUpdate, error) {
		e.State, e.StateReason, e.StateSince = webhook.EndpointPaused, webhook.ReasonSwitchedOff, at
		return store.EndpointUpdate{Skip: webhook.WhySwitchedOff}, nil
	})
	f.ok(err)
	after := f.send(e)
	for _, w := range work {
		d := f.delivery(w)
		if d.Status != contract.StatusSkipped || d.Reason != webhook.WhySwitchedOff || !d.FinishedAt.Equal(at) || !d.NextAttemptAt.IsZero() {
			f.Errorf("delivery is %+v", d)
		}
	}
	f.same("skipped", len(f.listed(store.DeliveryFilter{Statuses: []contract.Status{contract.StatusSkipped}})), 3)
	f.says("a test", test, contract.StatusPending, webhook.WhyNone, contract.KindNone)
	f.says("a later one", after, contract.StatusPending, webhook.WhyPaused, contract.KindNone)
}

// Deliveries made since acceptance are found, counted, canceled and erased with
// their event.
func furtherBelongToEvent(f *fixture) {
	a, b := f.endpoint("a"), f.endpoint("b")
	p := f.event(a, b)
	p.ID = "x"
	work := f.accept(p)[0].Fresh
	noise := f.send(a)
	f.record(f.success(work[0]))
	f.dead(work[1])
	made := []string{f.again(replayed, work[0].DeliveryID)[0].ID, f.again(redelivered, f.delivery(work[1]).ID)[0].ID}
	all := []string{work[0].DeliveryID, work[1].DeliveryID, made[0], made[1]}
	f.restart()
	f.same("of the event", f.listed(store.DeliveryFilter{Event: "x"}), all)
	f.same("at an endpoint", f.listed(store.DeliveryFilter{Event: "x", Endpoint: "b"}), []string{all[1], all[3]})
	f.same("as a run of one", f.listed(store.DeliveryFilter{Run: "x"}), all)
	reversed := slices.Clone(all)
	slices.Reverse(reversed)
	f.pages("by event", f.deliveryList(store.DeliveryFilter{Event: "x"}), reversed, 1, 2, 3, 4, 5)
	counts, err := f.CountDeliveries(f.ctx, webhook.DefaultTenant, "x")
	f.ok(err)
	f.same("counts", counts, map[contract.Status]int{contract.StatusDelivered: 1, contract.StatusRedelivered: 1, contract.StatusPending: 2})

	told := f.heard.count()
	f.ok(f.EraseEventData(f.ctx, webhook.DefaultTenant, "x", f.now))
	f.same("erased", len(f.heard.since(told)[0].Erased), 4)
	n, err := f.CancelEvent(f.ctx, webhook.DefaultTenant, "x", f.now)
	f.ok(err)
	f.same("canceled", n, 2)
	f.same("still due", f.due(a, f.later(time.Hour)), []webhook.Ref{noise.Ref})
}
