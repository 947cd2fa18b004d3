package storetest

import (
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func termsCases() []testCase {
	return []testCase{
		{name: "TestContract_P5_WhatComesWhileSwitchedOffIsWrittenAsSkipped", run: skippedOnArrival},
		{name: "TestContract_E8_MadeWhileDegraded", run: madeWhileDegraded},
		{name: "TestContract_P9_UnloggedTestLeavesNoTrace", run: unloggedLeavesNoTrace},
		{name: "TestContract_P9_UnloggedTestIsRemovedByEveryEnd", run: unloggedEnds},
		{name: "TestEngine_N20_NoPositionIsGivenTwice", run: noPositionTwice},
	}
}

func skippedOnArrival(f *fixture) {
	e, on := f.endpoint("a"), f.endpoint("b")
	p := f.event(e, on)
	p.Targets[0].Skip = true
	r := f.accept(p)[0]
	f.same("deliveries", r.Deliveries, 2)
	f.same("to be handed over", len(r.Fresh), 1)
	f.same("lane", r.Fresh[0].Endpoint, on.Key)
	f.restart()
	page, err := f.ListDeliveries(f.ctx, e.Tenant, store.DeliveryFilter{Endpoint: e.ID}, store.Page{Limit: 10})
	f.ok(err)
	f.same("rows", len(page.Items), 1)
	d := page.Items[0]
	if d.Status != contract.StatusSkipped || d.Reason != webhook.WhySwitchedOff || !d.NextAttemptAt.IsZero() ||
		!d.FinishedAt.Equal(f.now.Truncate(time.Millisecond)) || d.AttemptCount != 0 {
		f.Fatalf("delivery is %+v", d)
	}
	f.same("due", len(f.due(e, f.now.AddDate(1, 0, 0))), 0)
	lanes, err := f.ListLanes(f.ctx)
	f.ok(err)
	f.same("lanes", len(lanes), 1)
}

func madeWhileDegraded(f *fixture) {
	e := f.endpoint("a")
	for ahead, want := range map[time.Duration]bool{time.Millisecond: true, 0: false, -time.Hour: false} {
		p := f.event(e)
		p.Targets[0].DegradedUntil = f.now.Add(ahead)
		w := f.accept(p)[0].Fresh[0]
		f.same("fresh", w.Degraded, want)
		f.same("read", f.work(w.Ref).Degraded, want)
		f.same("shown", f.delivery(w).Degraded, want)
	}
	f.same("without a mark", f.send(e).Degraded, false)
}

// testEvent is a test of an endpoint whose contract keeps none.
func (f *fixture) testEvent(e *webhook.Endpoint) store.AcceptParams {
	p := f.event(e)
	p.Trigger, p.ByPerson, p.Unlogged = contract.TriggerTest, true, true
	return p
}

func unloggedLeavesNoTrace(f *fixture) {
	e := f.endpoint("a")
	before := f.countEvents(e.Tenant)
	p := f.testEvent(e)
	p.ID = "mine"
	w := f.accept(p)[0].Fresh[0]
	f.same("goes out", f.due(e, f.now), []webhook.Ref{w.Ref})
	outcome := f.end(w, contract.StatusFailed, webhook.WhyExhausted)
	outcome.Counts = false
	f.same("result", f.record(outcome), store.RecordResult{Applied: true})
	f.same("due", len(f.due(e, f.now)), 0)
	f.restart()
	_, err := f.GetDelivery(f.ctx, e.Tenant, w.DeliveryID)
	f.fails(err, store.ErrNotFound)
	_, err = f.GetEvent(f.ctx, e.Tenant, w.EventID)
	f.fails(err, store.ErrNotFound)
	f.same("events", f.countEvents(e.Tenant), before)
	f.same("a late one", f.record(f.success(w)), store.RecordResult{})
	// Its ID is free again.
	p.Revision = f.revision(e.Tenant)
	f.same("repeat", f.accept(p)[0].Replayed, false)
}

func unloggedEnds(f *fixture) {
	e := f.endpoint("a")
	w := f.accept(f.testEvent(e))[0].Fresh[0]
	p := f.failure(w, f.now)
	p.Counts, p.Attempt.Counted = false, false
	f.record(p) // cut: it waits, and so it stays
	f.same("goes out again", f.work(w.Ref).Rows, 1)
	f.ok(f.DeleteEndpoint(f.ctx, e.Tenant, e.ID, false, f.now))
	f.eventually("removed", func() bool {
		return f.record(f.success(w)) == store.RecordResult{}
	})
	f.same("events", f.countEvents(e.Tenant), 0)
}

// What a removed row stood at is not given again after a restart: marks, tokens
// and seats go by positions.
func noPositionTwice(f *fixture) {
	e := f.endpoint("a")
	f.send(e)
	w := f.accept(f.testEvent(e))[0].Fresh[0]
	p := f.success(w)
	p.Counts = false
	f.record(p)
	f.restart()
	if next := f.send(e); next.Ref <= w.Ref || next.EventID == w.EventID {
		f.Fatalf("after %d comes %d", w.Ref, next.Ref)
	}
}
