package storetest

import (
	"runtime"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func skipCases() []testCase {
	return []testCase{
		{name: "TestEngine_N17_SwitchingOffSkipsWhatWaitsAtOnce", run: switchingOffSkips},
		{name: "TestEngine_N17_MarksAreWrittenAcrossARestart", run: marksSurviveRestart},
		{name: "TestEngine_N17_SeatsSayWhatAMarkCovers", run: seatsSayWhatIsCovered},
		{name: "TestEngine_N17_ResumeNowSkipsOnlyWhatWasMissed", run: resumeNowSkipsMissed},
		{name: "TestEngine_N17_TheFirstMarkHolds", run: firstMarkHolds},
		{name: "TestEngine_N17_NothingNewIsEverCovered", run: nothingNewIsCovered},
		{name: "TestEngine_N15_ALineThatWasSkippedIsOpen", run: skippedLineIsOpen},
		{name: "TestFault_B62_NoEventIsSilentlyMissing", run: noneIsSilentlyMissing},
	}
}

// eventually waits for what a job of the store does.
func (f *fixture) eventually(what string, is func() bool) {
	f.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); runtime.Gosched() {
		if time.Now().After(deadline) {
			f.Fatalf("%s: it never came", what)
		}
	}
}

// recordAll submits outcomes together and waits for their commits.
func (f *fixture) recordAll(all []store.RecordParams) {
	f.Helper()
	var answers []<-chan recording
	for _, p := range all {
		answers = append(answers, f.begin(p))
	}
	for _, answer := range answers {
		f.ok((<-answer).err)
	}
}

// update changes an endpoint with all that the change brings along.
func (f *fixture) update(e *webhook.Endpoint, u store.EndpointUpdate, change func(*webhook.Endpoint)) *webhook.Endpoint {
	f.Helper()
	after, err := f.UpdateEndpoint(f.ctx, e.Tenant, e.ID, f.now, func(e *webhook.Endpoint) (store.EndpointUpdate, error) {
		change(e)
		return u, nil
	})
	f.ok(err)
	return after
}

// off and on switch an endpoint.
func (f *fixture) off(e *webhook.Endpoint, u store.EndpointUpdate) *webhook.Endpoint {
	f.Helper()
	now := f.now
	return f.update(e, u, func(e *webhook.Endpoint) {
		e.State, e.StateReason, e.StateSince = webhook.EndpointPaused, webhook.ReasonSwitchedOff, now
	})
}

func (f *fixture) on(e *webhook.Endpoint, u store.EndpointUpdate) *webhook.Endpoint {
	f.Helper()
	now := f.now
	return f.update(e, u, func(e *webhook.Endpoint) {
		e.State, e.StateReason, e.StateSince = webhook.EndpointActive, webhook.ReasonActive, now
	})
}

// skipsWaiting is the update of switching off under a contract whose off.waiting is
// skip.
func skipsWaiting() store.EndpointUpdate { return store.EndpointUpdate{Skip: webhook.WhySwitchedOff} }

// written waits until an endpoint's marks stand in its rows.
func (f *fixture) written(e *webhook.Endpoint) {
	f.Helper()
	f.eventually("the marks are written", func() bool { return len(f.getEndpoint(e).Skips) == 0 })
}

// test takes in a test event for an endpoint.
func (f *fixture) test(e *webhook.Endpoint) store.Work {
	f.Helper()
	p := f.event(e)
	p.Trigger, p.ByPerson = contract.TriggerTest, true
	return f.accept(p)[0].Fresh[0]
}

// isSkipped checks a delivery that a mark of that reason and time covers.
func (f *fixture) isSkipped(w store.Work, why webhook.Reason, at time.Time) {
	f.Helper()
	d := f.delivery(w)
	if d.Status != contract.StatusSkipped || d.Reason != why || !d.FinishedAt.Equal(at) || !d.NextAttemptAt.IsZero() {
		f.Fatalf("delivery %d is %+v", w.Ref, d)
	}
}

// Switching off is true at once for reads and for what is told; a job writes it.
// Tests, and the lanes of others, are not concerned (P5).
func switchingOffSkips(f *fixture) {
	e, other := f.endpoint("a"), f.endpoint("b")
	work := f.sendMany(e, 6)
	f.record(f.failure(work[0], f.now.Add(time.Hour)))
	f.record(f.success(work[1]))
	f.mark(markOf(work[2], f.now))
	test, others := f.test(e), f.sendMany(other, 2)
	told := f.heard.count()
	at := f.now
	after := f.off(e, skipsWaiting())

	covered := []store.Work{work[0], work[2], work[3], work[4], work[5]}
	changes := f.heard.since(told)
	if len(changes) == 0 || changes[0].Endpoint == nil || changes[0].Endpoint.On() {
		f.Fatalf("told %+v", changes)
	}
	f.same("answered and told", changes[0].Endpoint, after)
	for _, w := range covered {
		if m, ok := after.Skipped(w.Ref); !ok || m.Reason != webhook.WhySwitchedOff || !m.At.Equal(at) {
			f.Fatalf("the mark on %d is %+v, %v", w.Ref, m, ok)
		}
		f.isSkipped(w, webhook.WhySwitchedOff, at)
	}
	f.written(e)
	for _, w := range covered {
		f.isSkipped(w, webhook.WhySwitchedOff, at)
	}
	f.same("delivered before", f.delivery(work[1]).Status, contract.StatusDelivered)
	f.same("the test", f.delivery(test).Status, contract.StatusPending)
	f.same("its lane", f.due(e, f.now.Add(2*time.Hour)), []webhook.Ref{test.Ref})
	f.same("the other lane", f.due(other, f.now), refs(others))
	f.same("marks of what runs", len(f.marked()), 0)

	// The mark's end is told, with what lanes may hold, and is no new version.
	var ended []webhook.Ref
	last := after
	for _, c := range f.heard.since(told) {
		ended = append(ended, c.Canceled...)
		if c.Endpoint != nil {
			last = c.Endpoint
		}
	}
	f.same("told as ended", ended, refs(covered))
	f.same("told last", last, f.getEndpoint(e))
	f.same("version", last.Version, after.Version)
}

func marksSurviveRestart(f *fixture) {
	e := f.endpoint("a")
	work := f.sendMany(e, 450)
	at := f.now
	f.off(e, skipsWaiting())
	f.restart()
	f.isSkipped(work[449], webhook.WhySwitchedOff, at)
	f.written(e)
	f.same("its lane", len(f.due(e, f.now)), 0)
	for _, w := range []store.Work{work[0], work[200], work[449]} {
		f.isSkipped(w, webhook.WhySwitchedOff, at)
	}
	if r := f.record(f.failure(work[3], f.now)); r.Applied {
		f.Fatal("a failure moved a skipped delivery")
	}
	f.restart()
	f.same("marks", len(f.getEndpoint(e).Skips), 0)
}

// resendByPerson sends a delivery another time, by a person.
func (f *fixture) resendByPerson(w store.Work) {
	f.Helper()
	sent, err := f.SendAgain(f.ctx, store.SendAgainParams{
		Tenant: w.Tenant, IDs: []string{w.DeliveryID}, Now: f.now, Ready: f.now,
		Decide: func(*webhook.Delivery, *webhook.Endpoint) (store.Again, error) {
			return store.Again{Terms: contract.Terms{Trigger: contract.TriggerResend, Once: true}, ByPerson: true}, nil
		},
	})
	f.ok(err)
	f.ok(sent[0].Err)
}

// A resend counts as queued when it was asked for: one before the mark is skipped
// even if nothing else was queued since, one after it is not.
func seatsSayWhatIsCovered(f *fixture) {
	e := f.endpoint("a")
	before, after := f.send(e), f.send(e)
	f.record(f.end(before, contract.StatusFailed, webhook.WhyExhausted))
	f.record(f.end(after, contract.StatusFailed, webhook.WhyExhausted))
	f.resendByPerson(before)
	at := f.now
	f.off(e, skipsWaiting())
	f.on(e, store.EndpointUpdate{})
	f.resendByPerson(after)
	fresh := f.send(e)
	for range 2 {
		f.isSkipped(before, webhook.WhySwitchedOff, at)
		f.same("resent after the mark", f.delivery(after).Status, contract.StatusPending)
		f.same("accepted after the mark", f.delivery(fresh).Status, contract.StatusPending)
		f.written(e)
	}
	f.same("its lane", f.due(e, f.now), []webhook.Ref{after.Ref, fresh.Ref})
}

func resumeNowSkipsMissed(f *fixture) {
	e := f.endpoint("a")
	early := f.sendMany(e, 3)
	f.off(e, store.EndpointUpdate{})
	missed := f.sendMany(e, 3)
	f.same("held", f.delivery(missed[0]).Reason, webhook.WhyPaused)
	f.now = f.now.Add(time.Minute)
	at := f.now
	after := f.on(e, store.EndpointUpdate{Skip: webhook.WhyResumedNow, SkipMissed: true, CatchUp: true})
	if !after.CatchingUp || len(after.Skips) != 1 {
		f.Fatalf("after resuming: %+v", after)
	}
	late := f.send(e)
	for _, w := range missed {
		f.isSkipped(w, webhook.WhyResumedNow, at)
	}
	f.written(e)
	f.caughtUp(e)
	for _, w := range missed {
		f.isSkipped(w, webhook.WhyResumedNow, at)
	}
	f.same("its lane", f.due(e, f.now), append(refs(early), late.Ref))

	// While it is on there is nothing to miss.
	on := f.update(e, store.EndpointUpdate{Skip: webhook.WhyResumedNow, SkipMissed: true}, func(*webhook.Endpoint) {})
	f.same("marks", len(on.Skips), 0)
}

// Where marks overlap, what ended a delivery first stays its end.
func firstMarkHolds(f *fixture) {
	e := f.endpoint("a")
	work := f.sendMany(e, 300)
	at := f.now
	f.off(e, skipsWaiting())
	f.now = f.now.Add(time.Second)
	f.on(e, store.EndpointUpdate{Skip: webhook.WhyResumedNow})
	for range 2 {
		for _, w := range []store.Work{work[0], work[150], work[299]} {
			f.isSkipped(w, webhook.WhySwitchedOff, at)
		}
		f.written(e)
	}
}

// Positions go on after a restart where the mark has parted them, also when
// nothing was queued since.
func nothingNewIsCovered(f *fixture) {
	e := f.endpoint("a")
	f.off(e, skipsWaiting())
	f.written(e)
	f.restart()
	f.now = f.now.Add(time.Hour)
	missed := f.send(e)
	after := f.on(e, store.EndpointUpdate{Skip: webhook.WhyResumedNow, SkipMissed: true})
	f.same("marks", len(after.Skips), 1)
	f.isSkipped(missed, webhook.WhyResumedNow, f.now)
	f.restart()
	fresh := f.send(e)
	f.same("the new one", f.delivery(fresh).Status, contract.StatusPending)
	f.written(e)
	f.same("its lane", f.due(e, f.now), []webhook.Ref{fresh.Ref})
}

// Ends that a mark has made give the next of the key its turn like any other.
func skippedLineIsOpen(f *fixture) {
	e := f.endpoint("a")
	keyed := func() []store.Work {
		p := f.event(e)
		p.Keys = []string{"k"}
		return f.accept(p)[0].Fresh
	}
	for i := range 3 {
		f.same("heads", len(keyed()) == 1, i == 0)
	}
	f.off(e, skipsWaiting())
	f.written(e)
	f.on(e, store.EndpointUpdate{})
	fresh := keyed()
	f.same("heads", len(fresh), 1)
	f.same("its lane", f.due(e, f.now), refs(fresh))
}

// Every change of state is possible from every other, and what comes in each of
// them waits or is listed with the reason why not.
func noneIsSilentlyMissing(f *fixture) {
	e := f.endpoint("a")
	states := []struct {
		state  webhook.EndpointState
		reason webhook.StateReason
		update store.EndpointUpdate
	}{
		{webhook.EndpointPaused, webhook.ReasonPerson, store.EndpointUpdate{}},
		{webhook.EndpointActive, webhook.ReasonActive, store.EndpointUpdate{CatchUp: true}},
		{webhook.EndpointDisabled, webhook.ReasonGone, store.EndpointUpdate{}},
		{webhook.EndpointPaused, webhook.ReasonSwitchedOff, store.EndpointUpdate{Skip: webhook.WhySwitchedOff}},
		{webhook.EndpointDisabled, webhook.ReasonStaff, store.EndpointUpdate{}},
		{webhook.EndpointActive, webhook.ReasonActive, store.EndpointUpdate{Skip: webhook.WhyResumedNow, SkipMissed: true, CatchUp: true}},
	}
	var all []store.Work
	for _, s := range states {
		f.now = f.now.Add(time.Second)
		f.dueClock.ms.Store(f.now.UnixMilli())
		now := f.now
		after := f.update(e, s.update, func(e *webhook.Endpoint) { e.State, e.StateReason, e.StateSince = s.state, s.reason, now })
		if after.State != s.state || after.StateReason != s.reason {
			f.Fatalf("it became %+v", after)
		}
		all = append(all, f.sendMany(e, 5)...)
	}
	f.written(e)
	f.caughtUp(e)
	got := map[contract.Status]map[webhook.Reason]int{}
	for _, w := range all {
		d := f.delivery(w)
		if got[d.Status] == nil {
			got[d.Status] = map[webhook.Reason]int{}
		}
		got[d.Status][d.Reason]++
	}
	// 15 waited when it was switched off; 10 came while it was off and were missed.
	f.same("every event", got, map[contract.Status]map[webhook.Reason]int{
		contract.StatusSkipped: {webhook.WhySwitchedOff: 15, webhook.WhyResumedNow: 10},
		contract.StatusPending: {webhook.WhyNone: 5},
	})
	f.now = f.now.Add(time.Second)
	at := f.now
	f.ok(f.DeleteEndpoint(f.ctx, e.Tenant, e.ID, false, at))
	for i, w := range all {
		d := f.delivery(w)
		if want := contract.StatusCanceled; i >= 25 && (d.Status != want || d.Reason != webhook.WhyEndpointDeleted) || i < 25 && d.Status != contract.StatusSkipped {
			f.Fatalf("after deleting, delivery %d is %+v", i, d)
		}
	}
}
