package storetest

import (
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func markCases() []testCase {
	return []testCase{
		{name: "TestEngine_N14_MarkShowsAsSending", run: markShowsAsSending},
		{name: "TestEngine_N14_MarkIsFoundAfterARestart", run: markIsFoundAfterRestart},
		{name: "TestEngine_N14_MarkOfAnotherTryIsIgnored", run: markOfAnotherTryIsIgnored},
		{name: "TestEngine_N14_EndsOtherThanARecordClearMarks", run: otherEndsClearMarks},
	}
}

// markOf is the mark of a delivery's present try.
func markOf(w store.Work, at time.Time) store.Mark {
	return store.Mark{Ref: w.Ref, Round: w.Round, Attempts: w.Attempts, Try: w.Attempts + 1, At: at}
}

func (f *fixture) mark(marks ...store.Mark) {
	f.Helper()
	f.ok(f.MarkRunning(f.ctx, marks))
}

func (f *fixture) marked() []store.Marked {
	f.Helper()
	all, err := f.ListMarks(f.ctx)
	f.ok(err)
	return all
}

func markShowsAsSending(f *fixture) {
	e := f.endpoint("a")
	work := f.sendMany(e, 3)
	f.mark(markOf(work[0], f.now), markOf(work[1], f.now))
	f.same("marked", f.delivery(work[0]).Status, contract.StatusSending)
	f.same("not marked", f.delivery(work[2]).Status, contract.StatusPending)
	f.same("still due", len(f.due(e, f.now)), 3) // the out-set knows better than the window
	counts, err := f.CountDeliveries(f.ctx, work[0].Tenant, work[0].EventID)
	f.ok(err)
	f.same("counts", counts, map[contract.Status]int{contract.StatusSending: 1})

	f.record(f.success(work[0]))
	f.same("delivered", f.delivery(work[0]).Status, contract.StatusDelivered)
	f.record(f.failure(work[1], f.now.Add(time.Minute)))
	f.same("waits again", f.delivery(work[1]).Status, contract.StatusPending)
	f.same("marks", len(f.marked()), 0)
}

// A mark tells the next process what was under way; recording it as interrupted
// clears it.
func markIsFoundAfterRestart(f *fixture) {
	e := f.endpoint("a")
	work := f.sendMany(e, 3)
	f.record(f.failure(work[1], f.now))
	again := f.window(e, f.now).Work[1]
	at := f.now.Add(1234 * time.Millisecond)
	f.mark(markOf(work[0], at), markOf(again, at))
	f.record(f.success(work[0]))
	f.restart()

	got := f.marked()
	again.Data = nil // marks come without payload
	f.same("marks", got, []store.Marked{{Mark: markOf(again, at), Work: again}})
	f.same("status", f.delivery(again).Status, contract.StatusSending)

	cut := store.RecordParams{
		Ref: again.Ref, Tenant: again.Tenant, Endpoint: again.Endpoint, Round: got[0].Mark.Round, Attempts: got[0].Mark.Attempts,
		Attempt: &webhook.Attempt{Round: 1, Try: got[0].Mark.Try, At: at, Error: "interrupted: outcome unknown"},
		Status:  contract.StatusPending, Reason: webhook.WhyInterrupted, NextAt: f.now, Interrupted: 1, Now: f.now,
	}
	if r := f.record(cut); !r.Applied {
		f.Fatal("the interruption was not recorded")
	}
	f.same("marks", len(f.marked()), 0)
	after := f.window(e, f.now).Work[0]
	if after.Ref != again.Ref || after.Attempts != 1 || after.Rows != 2 || after.Interrupted != 1 {
		f.Fatalf("after the interruption: %+v", after)
	}
	log := f.attempts(again)
	if len(log) != 2 || log[1].Counted || log[1].Number != 2 || log[1].Try != 2 || log[1].Duration != 0 {
		f.Fatalf("log is %+v", log)
	}
}

func markOfAnotherTryIsIgnored(f *fixture) {
	e := f.endpoint("a")
	work := f.sendMany(e, 3)
	f.record(f.success(work[0]))
	f.record(f.failure(work[1], f.now))
	round := markOf(work[2], f.now)
	round.Round++
	f.mark(markOf(work[0], f.now), markOf(work[1], f.now), round, store.Mark{Ref: work[2].Ref + 1000, Round: 1})
	if got := f.marked(); len(got) != 0 {
		f.Fatalf("marks of a final one, an older try, another round and a missing delivery stand: %+v", got)
	}
	f.mark(markOf(work[2], f.now))
	f.mark(markOf(work[2], f.now.Add(time.Second))) // again is harmless
	f.same("marks", len(f.marked()), 1)
	f.same("status", f.delivery(work[0]).Status, contract.StatusDelivered)
}

func otherEndsClearMarks(f *fixture) {
	a, b := f.endpoint("a"), f.endpoint("b")
	one, two, three := f.send(a), f.send(a), f.send(b)
	f.mark(markOf(one, f.now), markOf(two, f.now), markOf(three, f.now))
	_, err := f.CancelDelivery(f.ctx, one.Tenant, one.DeliveryID, f.now)
	f.ok(err)
	_, err = f.CancelEvent(f.ctx, two.Tenant, two.EventID, f.now)
	f.ok(err)
	f.same("canceled", f.delivery(one).Status, contract.StatusCanceled)
	f.same("canceled", f.delivery(two).Status, contract.StatusCanceled)
	f.same("marks", len(f.marked()), 1)
	f.ok(f.DeleteEndpoint(f.ctx, b.Tenant, b.ID, false, f.now))
	f.same("deleted", f.delivery(three).Status, contract.StatusCanceled)
}
