package storetest

import (
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func lineCases() []testCase {
	return []testCase{
		{name: "TestEngine_N15_OneOfAKeyIsDue", run: oneOfAKeyIsDue},
		{name: "TestEngine_N15_TheNextIsHandedOver", run: nextIsHandedOver},
		{name: "TestEngine_N15_EveryEndGivesTheTurn", run: everyEndGivesTheTurn},
		{name: "TestEngine_N15_EndedOnesBehindTheHeadArePassedOver", run: endedOnesArePassedOver},
		{name: "TestEngine_N15_LongChainsGoOnLater", run: longChainsGoOn},
		{name: "TestEngine_N15_LaterOneJoinsWhenItsTimeHasCome", run: joinsWhenDue},
		{name: "TestEngine_N15_WhatAPersonAskedForPassesTheLine", run: personsPassTheLine},
		{name: "TestEngine_N15_SkippedOnesHoldNoLine", run: skippedHoldNoLine},
	}
}

// keyed takes in n events of an ordering key for an endpoint and returns all
// their deliveries, those that wait in line too.
func (f *fixture) keyed(e *webhook.Endpoint, key string, n int) []store.Work {
	f.Helper()
	events := make([]store.AcceptParams, n)
	for i := range events {
		events[i] = f.event(e)
		events[i].Keys = []string{key}
	}
	f.accept(events...)
	page, err := f.ListDeliveries(f.ctx, e.Tenant, store.DeliveryFilter{Endpoint: e.ID}, store.Page{Limit: min(n, 250)})
	f.ok(err)
	last := page.Items[0].Ref
	var all []store.Work
	for ref := last - webhook.Ref(n) + 1; ref <= last; ref++ {
		all = append(all, f.work(ref))
	}
	return all
}

// work loads a delivery that waits.
func (f *fixture) work(ref webhook.Ref) store.Work {
	f.Helper()
	w, found, err := f.LoadWork(f.ctx, ref)
	f.ok(err)
	if !found {
		f.Fatalf("delivery %d does not wait", ref)
	}
	return w
}

// handed are the deliveries that lanes were told of after the first n changes.
func (f *fixture) handed(n int) []webhook.Ref {
	var all []webhook.Ref
	for _, c := range f.heard.since(n) {
		all = append(all, refs(c.Accepted)...)
	}
	return all
}

func oneOfAKeyIsDue(f *fixture) {
	e := f.endpoint("a")
	first := f.event(e)
	first.Keys = []string{"k"}
	second, other, plain := first, first, f.event(e)
	other.Keys = []string{"j"}
	results := f.accept(first, second, other, plain)
	fresh := []int{}
	for _, r := range results {
		f.same("deliveries", r.Deliveries, 1)
		fresh = append(fresh, len(r.Fresh))
	}
	f.same("to be handed over", fresh, []int{1, 0, 1, 1})
	head := results[0].Fresh[0]
	f.same("key", head.Key, "k")
	f.restart()

	due := f.window(e, f.now)
	f.same("due", refs(due.Work), []webhook.Ref{head.Ref, head.Ref + 2, head.Ref + 3})
	f.same("complete", due.Complete, true)
	f.same("parked ones have no time", due.NextDue, time.Time{})
	f.same("nor are they due ever", len(f.due(e, f.now.AddDate(100, 0, 0))), 3)
	parked := f.work(head.Ref + 1)
	f.same("parked", store.IsParked(parked.Due), true)
	shown := f.delivery(parked)
	f.same("status", shown.Status, contract.StatusPending)
	f.same("reason", shown.Reason, webhook.WhyOrdered)
	f.same("next attempt", shown.NextAttemptAt, time.Time{})

	// A retry keeps its turn.
	f.record(f.failure(head, f.now.Add(time.Minute)))
	f.same("due", f.due(e, f.now.Add(time.Hour)), []webhook.Ref{head.Ref + 2, head.Ref + 3, head.Ref})
}

func nextIsHandedOver(f *fixture) {
	e := f.endpoint("a")
	work := f.keyed(e, "k", 3)
	f.dueClock.ms.Add(5000)
	now := f.dueClock.now()
	told := f.heard.count()
	f.record(f.success(work[0]))
	changes := f.heard.since(told)
	if len(changes) != 1 || len(changes[0].Accepted) != 1 {
		f.Fatalf("told %+v", changes)
	}
	next := changes[0].Accepted[0]
	want := work[1]
	want.Due = now
	f.same("handed over", next, want)
	f.same("due", f.due(e, now), []webhook.Ref{want.Ref})

	f.restart()
	f.record(f.end(next, contract.StatusFailed, webhook.WhyExhausted))
	f.same("due", f.due(e, now), []webhook.Ref{work[2].Ref})
	f.record(f.success(f.work(work[2].Ref)))
	// The line is empty: the next of the key waits for nobody.
	f.same("due", refs(f.keyed(e, "k", 1)), f.due(e, now))
}

func everyEndGivesTheTurn(f *fixture) {
	e := f.endpoint("a")
	work := f.keyed(e, "k", 5)
	turn := func(i int) {
		f.Helper()
		f.same("due", f.due(e, f.now), []webhook.Ref{work[i].Ref})
	}
	_, err := f.CancelDelivery(f.ctx, e.Tenant, work[0].DeliveryID, f.now)
	f.ok(err)
	turn(1)
	_, err = f.CancelEvent(f.ctx, e.Tenant, work[1].EventID, f.now)
	f.ok(err)
	turn(2)
	expired := f.end(f.work(work[2].Ref), contract.StatusSkipped, webhook.WhyExpired)
	expired.Attempt = nil
	f.record(expired)
	turn(3)
	// A late success of a try that a cancel overtook ends the delivery no second
	// time.
	f.record(f.success(work[0]))
	turn(3)
	absorbed := f.work(work[3].Ref)
	f.record(f.failure(absorbed, f.now.Add(time.Minute)))
	f.record(f.success(absorbed))
	f.same("absorbed", f.delivery(absorbed).Status, contract.StatusDelivered)
	turn(4)
	// Another endpoint's line of the same key is its own.
	other := f.keyed(f.endpoint("b"), "k", 1)
	f.same("due", len(other), 1)
	f.same("not parked", store.IsParked(other[0].Due), false)
}

func endedOnesArePassedOver(f *fixture) {
	e := f.endpoint("a")
	work := f.keyed(e, "k", 5)
	for _, i := range []int{1, 2, 4} {
		_, err := f.CancelDelivery(f.ctx, e.Tenant, work[i].DeliveryID, f.now)
		f.ok(err)
	}
	f.same("due", f.due(e, f.now), []webhook.Ref{work[0].Ref})
	// The tail has ended as well; one more joins behind it.
	more := f.keyed(e, "k", 1)[0]
	f.restart()
	f.record(f.success(work[0]))
	f.same("due", f.due(e, f.now), []webhook.Ref{work[3].Ref})
	f.record(f.success(f.work(work[3].Ref)))
	f.same("due", f.due(e, f.now), []webhook.Ref{more.Ref})
}

// The turn passes over more ended deliveries than one piece of work takes.
func longChainsGoOn(f *fixture) {
	e := f.endpoint("a")
	var work []store.Work
	for range 6 {
		work = append(work, f.keyed(e, "k", 200)...)
	}
	last := len(work) - 1
	answers := make([]<-chan recording, 0, last)
	for _, w := range work[1:last] {
		p := f.end(w, contract.StatusSkipped, webhook.WhyExpired)
		p.Attempt, p.Counts = nil, false
		answers = append(answers, f.begin(p))
	}
	for _, a := range answers {
		f.ok((<-a).err)
	}
	told := f.heard.count()
	f.record(f.success(work[0]))
	f.eventually("the last one's turn", func() bool { return len(f.due(e, f.now)) == 1 })
	f.same("due", f.due(e, f.now), []webhook.Ref{work[last].Ref})
	f.eventually("its lane hears of it", func() bool { return len(f.handed(told)) == 1 })
	f.record(f.success(f.work(work[last].Ref)))
	f.same("not parked", store.IsParked(f.keyed(e, "k", 1)[0].Due), false)
}

func joinsWhenDue(f *fixture) {
	e := f.endpoint("a")
	later := f.event(e)
	later.Keys = []string{"k"}
	later.DeliverAt = f.now.Add(time.Minute)
	waits := f.accept(later)[0].Fresh[0]
	if !waits.Joins || waits.Key != "k" || !waits.Due.Equal(f.now.Add(time.Minute).Truncate(time.Millisecond)) {
		f.Fatalf("work is %+v", waits)
	}
	// It is in nobody's way meanwhile.
	work := f.keyed(e, "k", 2)
	f.same("due", f.due(e, f.now), []webhook.Ref{work[0].Ref})
	f.restart()
	f.now = f.now.Add(time.Minute)
	f.dueClock.ms.Store(f.now.UnixMilli())
	due := f.window(e, f.now).Work
	f.same("due", refs(due), []webhook.Ref{work[0].Ref, waits.Ref})
	due[1].Data = nil
	waits.Data = nil
	f.same("as handed over", due[1], waits)

	join := store.RecordParams{Ref: waits.Ref, Tenant: waits.Tenant, Endpoint: waits.Endpoint, Round: 1, Join: true, Now: f.now}
	f.same("joined", f.record(join), store.RecordResult{Applied: true})
	f.same("joined once", f.record(join), store.RecordResult{})
	f.same("parked", store.IsParked(f.work(waits.Ref).Due), true)
	f.same("log", len(f.attempts(waits)), 0)
	f.record(f.success(work[0]))
	f.record(f.success(f.work(work[1].Ref)))
	f.same("its turn", f.due(e, f.now), []webhook.Ref{waits.Ref})
	f.same("joins no more", f.work(waits.Ref).Joins, false)
	f.record(f.success(f.work(waits.Ref)))

	// One that finds nobody there is due at once.
	later.Revision = f.revision(e.Tenant)
	later.Now, later.DeliverAt = f.now, f.now.Add(time.Minute)
	alone := f.accept(later)[0].Fresh[0]
	f.dueClock.ms.Add(60_000)
	told := f.heard.count()
	join.Ref = alone.Ref
	f.same("joined", f.record(join), store.RecordResult{Applied: true})
	f.same("due", f.due(e, f.dueClock.now()), []webhook.Ref{alone.Ref})
	f.same("handed over", f.handed(told), []webhook.Ref{alone.Ref})
	behind := f.keyed(e, "k", 1)[0]
	f.same("others wait behind it", store.IsParked(behind.Due), true)
}

func personsPassTheLine(f *fixture) {
	e := f.endpoint("a")
	work := f.keyed(e, "k", 2)
	test := f.event(e)
	test.Keys, test.Trigger, test.ByPerson = []string{"k"}, contract.TriggerTest, true
	w := f.accept(test)[0].Fresh[0]
	if w.Trigger != contract.TriggerTest || !w.ByPerson || w.Key != "" || !w.Due.Equal(store.PersonDue(w.Ref)) || w.Seat != w.Ref {
		f.Fatalf("work is %+v", w)
	}
	f.restart()
	f.same("goes first", f.due(e, f.now), []webhook.Ref{w.Ref, work[0].Ref})
	got := f.window(e, f.now).Work[0]
	got.Data, w.Data = nil, nil
	f.same("as handed over", got, w)
	f.record(f.success(w))
	f.same("gives no turn", f.due(e, f.now), []webhook.Ref{work[0].Ref})

	// With a time that lies ahead it waits for that.
	test.Revision, test.DeliverAt = f.revision(e.Tenant), f.now.Add(time.Minute)
	w = f.accept(test)[0].Fresh[0]
	f.same("later", w.Due, f.now.Add(time.Minute).Truncate(time.Millisecond))
}

func skippedHoldNoLine(f *fixture) {
	e := f.endpoint("a")
	p := f.event(e)
	p.Keys = []string{"k"}
	p.Targets[0].Skip = true
	r := f.accept(p)[0]
	f.same("deliveries", r.Deliveries, 1)
	f.same("to be handed over", len(r.Fresh), 0)
	f.same("not parked", store.IsParked(f.keyed(e, "k", 1)[0].Due), false)
}
