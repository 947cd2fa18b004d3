package storetest

import (
	"slices"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func waitingCases() []testCase {
	known := Options{Contract: promises}
	return []testCase{
		{name: "TestStore_CountWaiting_TellsTimesAsTheyAreShown", run: waitingTimesAsShown},
		{name: "TestEngine_N17_CountWaitingLeavesOutWhatAMarkSkips", run: skippedDoNotWait},
		{name: "TestEngine_N15_CountDueLeavesOutWhatStandsInLine", run: inLineIsNotDue},
		{name: "TestContract_S6_APauseThatIsOverIsNoReason", run: pauseThatIsOver},
		{name: "TestEngine_N16_TheHeadStandsInForALostProbe", opts: known, run: headStandsIn},
		{name: "TestEngine_N16_AProbeThatIsHeldIsLost", opts: known, run: heldProbeIsLost},
		{name: "TestEngine_N25_CancelEventGoesBySlices", run: cancelEventBySlices},
		{name: "TestEngine_N25_ErasingTellsBySlices", run: erasingTellsBySlices},
		{name: "TestEngine_N25_DeletingARunTellsBySlices", opts: known, run: deletingARunTellsBySlices},
	}
}

// waits checks what CountWaiting says of an endpoint.
func (f *fixture) waits(what string, e *webhook.Endpoint, n int, oldest time.Time) {
	f.Helper()
	got, due, err := f.CountWaiting(f.ctx, e.Tenant, e.ID, 100)
	f.ok(err)
	if got != n || !due.Equal(oldest) {
		f.Errorf("%s: %d wait, the oldest due at %v; want %d, %v", what, got, due, n, oldest)
	}
}

func waitingTimesAsShown(f *fixture) {
	e := f.endpoint("a")
	ahead := f.event(e)
	ahead.DeliverAt = f.later(time.Hour)
	f.accept(ahead)
	f.waits("one with a time ahead", e, 1, f.later(time.Hour))
	f.test(e)
	f.waits("one that a person asked for", e, 2, f.now)
	f.dueClock.ms.Store(f.later(time.Minute).UnixMilli())
	f.waits("a minute later", e, 2, f.later(time.Minute))
	f.send(e)
	f.waits("one that is older than now", e, 3, f.now)

	b := f.endpoint("b")
	f.off(b, store.EndpointUpdate{})
	f.sendMany(b, 3)
	f.waits("held", b, 3, f.now)
	f.on(b, store.EndpointUpdate{CatchUp: true})
	f.caughtUp(b)
	f.waits("catching up", b, 3, f.later(time.Minute))

	c := f.endpoint("c")
	work := f.keyed(c, "k", 4)
	f.record(f.failure(work[0], f.later(time.Hour)))
	f.waits("a line", c, 4, f.later(time.Hour))
}

func skippedDoNotWait(f *fixture) {
	e := f.endpoint("a")
	f.sendMany(e, 60)
	test := f.test(e)
	f.off(e, skipsWaiting())
	f.now = f.now.Add(time.Second)
	held := f.send(e)
	for range 2 {
		f.waits("the test, and what came since", e, 2, start())
		f.written(e)
	}
	f.record(f.success(test))
	f.waits("what came since", e, 1, f.now)
	f.record(f.success(held))
	f.waits("nothing", e, 0, time.Time{})
}

// isDue checks what CountDue says of an endpoint.
func (f *fixture) isDue(what string, e *webhook.Endpoint, most, want int) {
	f.Helper()
	n, err := f.CountDue(f.ctx, e.Tenant, e.ID, f.now, most)
	f.ok(err)
	if n != want {
		f.Errorf("%s: %d are due, want %d", what, n, want)
	}
}

func inLineIsNotDue(f *fixture) {
	e := f.endpoint("a")
	f.isDue("none", e, 10, 0)
	work := f.keyed(e, "k", 5)
	f.isDue("the head", e, 10, 1)
	f.record(f.failure(work[0], f.later(time.Hour)))
	f.isDue("behind a retry", e, 10, 0)
	f.sendMany(e, 3)
	f.test(e)
	f.isDue("others", e, 10, 4)
	f.isDue("no further than asked", e, 2, 2)
}

// What was cut by a pause says so while the pause lasts. Its kind stays until the
// next try (S6).
func pauseThatIsOver(f *fixture) {
	e := f.endpoint("a")
	cut := func(why webhook.Reason) store.Work {
		w := f.send(e)
		p := f.failure(w, f.now)
		p.Reason, p.FailureKind, p.Attempt.Counted = why, contract.KindPaused, false
		f.record(p)
		return w
	}
	f.off(e, store.EndpointUpdate{})
	paused, disabled := cut(webhook.WhyPaused), cut(webhook.WhyDisabled)
	f.says("while it is paused", paused, contract.StatusPending, webhook.WhyPaused, contract.KindPaused)
	f.says("disabled before, now paused", disabled, contract.StatusPending, webhook.WhyPaused, contract.KindPaused)
	f.on(e, store.EndpointUpdate{})
	f.says("paused before", paused, contract.StatusPending, webhook.WhyNone, contract.KindPaused)
	f.says("disabled before", disabled, contract.StatusPending, webhook.WhyNone, contract.KindPaused)
	f.same("by reason", f.listed(store.DeliveryFilter{Reasons: []webhook.Reason{webhook.WhyPaused, webhook.WhyDisabled}}), []string{})
	f.mark(markOf(paused, f.now))
	f.says("while it is sent", paused, contract.StatusSending, webhook.WhyNone, contract.KindPaused)
}

// closeGate fails a delivery, which closes the gate of its URL and is its probe.
func (f *fixture) closeGate(e *webhook.Endpoint, w store.Work) {
	f.Helper()
	closing := f.failure(w, f.later(time.Minute))
	closing.Gate = &store.GateMove{Key: e.GateKey(webhook.GateURL), Until: f.later(time.Minute), Probe: w.Ref}
	f.record(closing)
}

// When the probe can't go any more, the oldest is not held back by the gate.
func headStandsIn(f *fixture) {
	e := f.sharing("a")
	w := f.sendUnder(noticeContract, e)
	plain := f.send(e)
	f.test(e)
	first, second := f.sendUnder(noticeContract, e), f.sendUnder(noticeContract, e)
	f.closeGate(e, w)
	gated := func(what string, w store.Work) {
		f.Helper()
		f.says(what, w, contract.StatusPending, webhook.WhyGated, contract.KindEndpointUnavailable)
	}
	gated("behind the probe", first)
	_, err := f.CancelDelivery(f.ctx, w.Tenant, w.DeliveryID, f.now)
	f.ok(err)
	f.says("the next probe", first, contract.StatusPending, webhook.WhyNone, contract.KindNone)
	gated("behind it", second)
	f.says("without a gate", plain, contract.StatusPending, webhook.WhyNone, contract.KindNone)
	f.same("listed", f.listed(store.DeliveryFilter{Reasons: []webhook.Reason{webhook.WhyGated}}), []string{second.DeliveryID})
}

func heldProbeIsLost(f *fixture) {
	a, b := f.sharing("a"), f.sharing("b")
	probe := f.sendUnder(noticeContract, a)
	first, second := f.sendUnder(noticeContract, b), f.sendUnder(noticeContract, b)
	f.closeGate(a, probe)
	f.off(a, store.EndpointUpdate{})
	f.says("the probe", probe, contract.StatusPending, webhook.WhyPaused, contract.KindHTTPStatus)
	f.says("the next probe", first, contract.StatusPending, webhook.WhyNone, contract.KindNone)
	f.says("behind it", second, contract.StatusPending, webhook.WhyGated, contract.KindEndpointUnavailable)
}

// wide takes in an event with n deliveries and two more that were made since.
func (f *fixture) wide(n int) (store.AcceptResult, []webhook.Ref) {
	f.Helper()
	r := f.accept(f.event(slices.Repeat([]*webhook.Endpoint{f.endpoint("a")}, n)...))[0]
	all := refs(r.Fresh)
	f.record(f.success(r.Fresh[0]))
	for range 2 {
		made := f.again(replayed, r.Fresh[0].DeliveryID)[0].ID
		all = append(all, f.byID(made).Ref)
	}
	return r, all
}

// sliced checks that lanes were told of deliveries in slices.
func (f *fixture) sliced(got [][]webhook.Ref, want []webhook.Ref) {
	f.Helper()
	got = slices.DeleteFunc(got, func(part []webhook.Ref) bool { return len(part) == 0 })
	for _, part := range got {
		if len(part) > 100 {
			f.Errorf("%d at once", len(part))
		}
	}
	f.same("all of them", slices.Concat(got...), want)
}

func (f *fixture) erased(told int) (parts [][]webhook.Ref) {
	for _, c := range f.heard.since(told) {
		parts = append(parts, c.Erased)
	}
	return parts
}

// An event of very many deliveries does not hold up the writer.
func cancelEventBySlices(f *fixture) {
	for _, n := range []int{98, 250} {
		r, all := f.wide(n)
		told := f.heard.count()
		canceled, err := f.CancelEvent(f.ctx, webhook.DefaultTenant, r.ID, f.now)
		f.ok(err)
		f.same("canceled", canceled, n+1)
		var parts [][]webhook.Ref
		for _, c := range f.heard.since(told) {
			parts = append(parts, c.Canceled)
		}
		f.sliced(parts, all[1:])
		counts, err := f.CountDeliveries(f.ctx, webhook.DefaultTenant, r.ID)
		f.ok(err)
		f.same("counts", counts, map[contract.Status]int{contract.StatusDelivered: 1, contract.StatusCanceled: n + 1})
		canceled, err = f.CancelEvent(f.ctx, webhook.DefaultTenant, r.ID, f.now)
		f.ok(err)
		f.same("again", canceled, 0)
		f.ok(f.DeleteEndpoint(f.ctx, webhook.DefaultTenant, "a", false, f.now))
	}
}

func erasingTellsBySlices(f *fixture) {
	r, all := f.wide(250)
	told := f.heard.count()
	f.ok(f.EraseEventData(f.ctx, webhook.DefaultTenant, r.ID, f.now))
	f.sliced(f.erased(told), all)
}

func deletingARunTellsBySlices(f *fixture) {
	e := f.endpoint("a")
	for _, project := range []string{"", "p"} {
		r := f.open(project)
		_, result := f.finish(r, slices.Repeat([]*webhook.Endpoint{e}, 220)...)
		told := f.heard.count()
		if project == "" {
			f.ok(f.DeleteRun(f.ctx, r.Tenant, r.ID, f.now))
		} else {
			n, err := f.DeleteProject(f.ctx, r.Tenant, project, f.now)
			f.ok(err)
			f.same("deleted", n, 1)
		}
		f.sliced(f.erased(told), refs(result.Fresh))
	}
}
