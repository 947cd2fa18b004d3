package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func catchUpCases() []testCase {
	return []testCase{
		{name: "TestContract_S10_WhatWasHeldGoesOutOldestFirst", run: heldGoesOldestFirst},
		{name: "TestContract_S10_DeadOnesAreRedeliveredInTheSameOrder", run: deadAreRedelivered},
		{name: "TestEngine_N17_CatchingUpSurvivesARestart", run: catchUpSurvivesRestart},
		{name: "TestEngine_N17_CatchingUpEndsWhenItGoesOffAgain", run: catchUpEndsWhenOff},
		{name: "TestContract_S10_APauseDoesNotLoseRedeliveries", run: pauseLosesNoRedelivery},
		{name: "TestContract_S10_OneRedeliveryForEachDeadOneAnEnabling", run: oneRedeliveryEach},
		{name: "TestEngine_N15_CatchingUpKeepsLines", run: catchUpKeepsLines},
	}
}

// caughtUp waits until an endpoint has caught up.
func (f *fixture) caughtUp(e *webhook.Endpoint) {
	f.Helper()
	f.eventually("it has caught up", func() bool { return !f.getEndpoint(e).CatchingUp })
}

// Retries, and what comes due later, keep no place before what is older; what is
// not to be sent before a time that lies ahead keeps to it.
func heldGoesOldestFirst(f *fixture) {
	e := f.endpoint("a")
	old := f.sendMany(e, 4)
	f.record(f.failure(old[0], f.now.Add(24*time.Hour)))
	f.record(f.failure(old[2], f.now.Add(time.Hour)))
	p := f.event(e)
	p.DeliverAt = f.now.Add(48 * time.Hour)
	ahead := f.accept(p)[0].Fresh[0]
	p = f.event(e)
	p.DeliverAt = f.now.Add(time.Minute)
	passed := f.accept(p)[0].Fresh[0]
	asked := f.send(e)
	f.record(f.end(asked, contract.StatusFailed, webhook.WhyExhausted))
	f.resendByPerson(asked)
	f.off(e, store.EndpointUpdate{})
	held := f.sendMany(e, 3)
	test := f.test(e)

	f.now = f.now.Add(2 * time.Minute)
	f.dueClock.ms.Store(f.now.UnixMilli())
	told := f.heard.count()
	after := f.on(e, store.EndpointUpdate{CatchUp: true})
	if !after.CatchingUp || !f.heard.since(told)[0].Endpoint.CatchingUp {
		f.Fatal("it does not catch up")
	}
	late := f.send(e)
	f.caughtUp(e)
	last := f.heard.since(told)
	if c := last[len(last)-1]; c.Endpoint == nil || c.Endpoint.CatchingUp || c.Endpoint.Version != after.Version {
		f.Fatalf("told last: %+v", c)
	}
	want := append([]webhook.Ref{asked.Ref, test.Ref}, refs(old)...) // what a person asked for goes first
	want = append(append(want, passed.Ref), append(refs(held), late.Ref)...)
	w := f.window(e, f.now)
	f.same("the lane", refs(w.Work), want)
	if !w.Complete || !w.NextDue.Equal(p.DueAt().Add(48*time.Hour-time.Minute)) {
		f.Fatalf("the window is %v, next %v", w.Complete, w.NextDue)
	}
	f.same("ahead", f.delivery(ahead).Reason, webhook.WhyScheduled)
	f.same("a retry keeps its round", w.Work[2].Attempts, 1)
}

// Each dead delivery but tests gets a new one in its place, once, and becomes
// redelivered; what is not dead is left alone.
func deadAreRedelivered(f *fixture) {
	e := f.endpoint("a")
	work := f.sendMany(e, 5)
	f.record(f.end(work[1], contract.StatusDead, webhook.WhyExhausted))
	f.record(f.end(work[3], contract.StatusDead, webhook.WhyStopped))
	f.record(f.end(work[4], contract.StatusFailed, webhook.WhyEventMissing))
	test := f.test(e)
	f.record(f.end(test, contract.StatusDead, webhook.WhyExhausted))
	f.record(f.success(f.send(e)))
	f.off(e, store.EndpointUpdate{})
	held := f.send(e)
	f.on(e, store.EndpointUpdate{CatchUp: true, Redeliver: true})
	f.caughtUp(e)

	check := func() {
		f.Helper()
		w := f.window(e, f.now)
		if len(w.Work) != 5 {
			f.Fatalf("%d in the lane", len(w.Work))
		}
		f.same("the old ones", []webhook.Ref{w.Work[0].Ref, w.Work[2].Ref, w.Work[4].Ref}, []webhook.Ref{work[0].Ref, work[2].Ref, held.Ref})
		for i, old := range map[int]store.Work{1: work[1], 3: work[3]} {
			n, was := w.Work[i], f.delivery(old)
			if n.Ref <= held.Ref || n.EventID != old.EventID || n.Trigger != contract.TriggerRedelivery || n.Round != 1 || n.Attempts != 0 {
				f.Fatalf("in the place of %d: %+v", old.Ref, n)
			}
			c, _ := contract.Builtin(contractName)
			if n.Contract != e.Contract || n.ContractRevision != c.Revision() {
				f.Fatalf("promised under %s %s", n.Contract, n.ContractRevision)
			}
			if was.Status != contract.StatusRedelivered || was.ReplacedBy != n.DeliveryID || f.delivery(n).Replaces != was.ID {
				f.Fatalf("the old one is %+v", was)
			}
		}
	}
	check()
	f.same("the failed one", f.delivery(work[4]).Status, contract.StatusFailed)
	f.same("the test", f.delivery(test).Status, contract.StatusDead)
	f.off(e, store.EndpointUpdate{})
	f.on(e, store.EndpointUpdate{CatchUp: true, Redeliver: true})
	f.caughtUp(e)
	check()
}

func catchUpSurvivesRestart(f *fixture) {
	e := f.endpoint("a")
	work := f.sendMany(e, 600)
	var ends []store.RecordParams
	for i, w := range work {
		if i%2 == 0 {
			ends = append(ends, f.end(w, contract.StatusDead, webhook.WhyExhausted))
		}
	}
	f.recordAll(ends)
	f.off(e, store.EndpointUpdate{})
	f.on(e, store.EndpointUpdate{CatchUp: true, Redeliver: true})
	f.restart()
	seen := 0
	for f.getEndpoint(e).CatchingUp {
		// What is shown meanwhile is a beginning of the order.
		w := f.window(e, f.now)
		if !w.CatchingUp && f.getEndpoint(e).CatchingUp || w.CatchingUp && w.Complete {
			f.Fatalf("the window is %+v", w)
		}
		seen = max(seen, len(w.Work))
	}
	w := f.window(e, f.now)
	if len(w.Work) != len(work) || w.CatchingUp {
		f.Fatalf("%d in the lane, catching up %v", len(w.Work), w.CatchingUp)
	}
	for i, n := range w.Work {
		if i%2 == 1 && n.Ref != work[i].Ref || i%2 == 0 && (n.EventID != work[i].EventID || n.Trigger != contract.TriggerRedelivery) {
			f.Fatalf("at place %d stands %+v", i, n)
		}
	}
}

func catchUpEndsWhenOff(f *fixture) {
	e := f.endpoint("a")
	work := f.sendMany(e, 1000)
	var failures []store.RecordParams
	for _, w := range work {
		failures = append(failures, f.failure(w, f.now.Add(time.Duration(2000-w.Ref)*time.Minute)))
	}
	f.recordAll(failures)
	f.off(e, store.EndpointUpdate{})
	f.on(e, store.EndpointUpdate{CatchUp: true})
	after := f.off(e, store.EndpointUpdate{})
	f.same("catching up while off", after.CatchingUp, false)
	f.same("stored", f.getEndpoint(e), after)
	f.same("held", f.delivery(work[999]).Reason, webhook.WhyPaused)
	n, _, err := f.CountWaiting(f.ctx, e.Tenant, e.ID, 2000)
	f.ok(err)
	f.same("waiting", n, 1000)
	f.on(e, store.EndpointUpdate{CatchUp: true})
	f.caughtUp(e)
	f.same("the lane", f.due(e, f.now), refs(work))
}

// What stands in line behind another one of its key stays behind it.
func catchUpKeepsLines(f *fixture) {
	e := f.endpoint("a")
	var work []store.Work
	for i := range 4 {
		p := f.event(e)
		p.OrderingKey = "k"
		p.Keys = []string{"k"}
		setData(&p, fmt.Sprintf(`{"n":%d}`, i))
		r := f.accept(p)[0]
		work = append(work, r.Fresh...)
	}
	f.same("heads", len(work), 1)
	head := work[0]
	plain := f.send(e)
	f.off(e, store.EndpointUpdate{})
	f.on(e, store.EndpointUpdate{CatchUp: true})
	f.caughtUp(e)
	f.same("the lane", f.due(e, f.now), []webhook.Ref{head.Ref, plain.Ref})
	for want := head.Ref; want < head.Ref+4; want++ {
		w := f.window(e, f.now).Work
		i := slices.IndexFunc(w, func(w store.Work) bool { return w.Key == "k" })
		if i < 0 || w[i].Ref != want {
			f.Fatalf("%d should be the head: %+v", want, refs(w))
		}
		f.record(f.success(w[i]))
	}
}

// redeliveries counts the deliveries that catching up has made for an endpoint.
func (f *fixture) redeliveries(e *webhook.Endpoint) (n int) {
	f.Helper()
	for page := (store.Page{Limit: 250}); ; {
		listed, err := f.ListDeliveries(f.ctx, e.Tenant, store.DeliveryFilter{Endpoint: e.ID, Triggers: []contract.Trigger{contract.TriggerRedelivery}}, page)
		f.ok(err)
		n += len(listed.Items)
		if page.After = listed.Next; listed.Next == 0 {
			return n
		}
	}
}

// allDead lets deliveries end as dead.
func (f *fixture) allDead(work []store.Work) {
	f.Helper()
	var ends []store.RecordParams
	for _, w := range work {
		ends = append(ends, f.end(w, contract.StatusDead, webhook.WhyExhausted))
	}
	f.recordAll(ends)
}

// What enabling owes is made after a pause that cut it, also where resuming alone
// would redeliver nothing; what died since the enabling is not owed.
func pauseLosesNoRedelivery(f *fixture) {
	e := f.endpoint("a")
	f.allDead(f.sendMany(e, 1000))
	f.off(e, store.EndpointUpdate{})
	f.on(e, store.EndpointUpdate{CatchUp: true, Redeliver: true})
	f.off(e, store.EndpointUpdate{})
	if n := f.redeliveries(e); n == 1000 {
		f.Fatal("the pause came too late to cut anything")
	}
	f.restart()
	f.on(e, store.EndpointUpdate{})
	late := f.send(e)
	f.allDead([]store.Work{late})
	f.caughtUp(e)
	f.same("redelivered", f.redeliveries(e), 1000)
	f.same("the later one", f.delivery(late).Status, contract.StatusDead)
	// The debt is paid.
	f.off(e, store.EndpointUpdate{})
	f.same("catching up", f.on(e, store.EndpointUpdate{}).CatchingUp, false)
	f.off(e, store.EndpointUpdate{})
	f.on(e, store.EndpointUpdate{CatchUp: true})
	f.caughtUp(e)
	f.same("redelivered", f.redeliveries(e), 1000)
	f.same("the later one", f.delivery(late).Status, contract.StatusDead)
}

// A receiver that refuses for ever is sent each dead one once by each enabling,
// however early the redelivery ends dead again.
func oneRedeliveryEach(f *fixture) {
	const n = 120
	e := f.endpoint("a")
	f.allDead(f.sendMany(e, n))
	for round := 1; round <= 4; round++ {
		f.off(e, store.EndpointUpdate{})
		f.on(e, store.EndpointUpdate{CatchUp: true, Redeliver: true})
		for {
			over := !f.getEndpoint(e).CatchingUp
			if made := f.redeliveries(e); made > round*n {
				f.Fatalf("enabling it %d times made %d redeliveries of %d", round, made, n)
			}
			w := f.window(e, f.now)
			f.allDead(w.Work)
			if over && len(w.Work) == 0 {
				break
			}
			if round == 2 { // cut now and then, as by a 410
				f.off(e, store.EndpointUpdate{})
				f.on(e, store.EndpointUpdate{CatchUp: true})
			}
		}
		f.same("redelivered", f.redeliveries(e), round*n)
		f.same("dead", len(f.listed(store.DeliveryFilter{Statuses: []contract.Status{contract.StatusDead}})), n)
	}
}
