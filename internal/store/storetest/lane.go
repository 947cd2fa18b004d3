package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func laneCases() []testCase {
	return []testCase{
		{name: "TestEngine_N11_WindowIsOrderedByDueThenPosition", run: windowIsOrdered},
		{name: "TestEngine_N11_CompleteMeansNothingElseIsDue", run: completeMeansNothingElse},
		{name: "TestEngine_N10_WindowSeesWhatWasCommittedBefore", run: windowSeesWhatWasCommitted},
		{name: "TestEngine_N10_WindowShowsWhatTheAcceptanceHandedOver", run: windowShowsTheSameWork},
		{name: "TestEngine_N10_RecordedLeavesTheWindow", run: recordedLeavesTheWindow},
		{name: "TestEngine_N5_WindowKeepsItsByteBudget", run: windowKeepsItsBudget},
		{name: "TestStore_ListLanes_EarliestPerEndpoint", run: lanesHaveTheirEarliest},
		{name: "TestStore_LoadData_MissingIsNotFound", run: loadDataMissing},
	}
}

func windowIsOrdered(f *fixture) {
	e := f.endpoint("a")
	var events []store.AcceptParams
	for _, wait := range []time.Duration{3, 1, 0, 2, 1, 0, 3} {
		p := f.event(e)
		if wait > 0 {
			p.DeliverAt = f.now.Add(wait * time.Second)
		}
		events = append(events, p)
	}
	var work []store.Work
	for _, r := range f.accept(events...) {
		work = append(work, r.Fresh...)
	}
	f.endpoint("b") // another lane's rows are not this one's
	f.send(f.getEndpoint(newEndpoint(webhook.DefaultTenant, "b", f.now)))

	slices.SortStableFunc(work, func(a, b store.Work) int { return a.Due.Compare(b.Due) })
	want := refs(work)
	f.same("all", f.due(e, f.now.Add(3*time.Second)), want)
	f.same("after one second", f.due(e, f.now.Add(time.Second)), want[:4])
	f.same("a millisecond before", f.due(e, f.now.Add(time.Second-time.Millisecond)), want[:2])
	for limit := 1; limit <= len(want); limit++ {
		w, err := f.ReadWindow(f.ctx, store.WindowParams{Endpoint: e.Key, Now: f.now.Add(time.Hour), Limit: limit})
		f.ok(err)
		f.same(fmt.Sprintf("limit %d", limit), refs(w.Work), want[:limit])
	}
}

func completeMeansNothingElse(f *fixture) {
	e := f.endpoint("a")
	later := f.event(e)
	later.DeliverAt = f.now.Add(time.Minute)
	latest := later
	latest.DeliverAt = f.now.Add(time.Hour)
	f.accept(latest, later)
	f.sendMany(e, 3)
	for _, c := range []struct {
		name     string
		now      time.Time
		limit    int
		rows     int
		complete bool
		next     time.Time
	}{
		{"nothing due", f.now.Add(-time.Second), 4, 0, true, f.now},
		{"short", f.now, 4, 3, true, later.DeliverAt},
		{"exactly full proves nothing", f.now, 3, 3, false, time.Time{}},
		{"full", f.now, 2, 2, false, time.Time{}},
		{"the next is due", later.DeliverAt, 10, 4, true, latest.DeliverAt},
		{"all due", latest.DeliverAt, 10, 5, true, time.Time{}},
	} {
		w, err := f.ReadWindow(f.ctx, store.WindowParams{Endpoint: e.Key, Now: c.now, Limit: c.limit})
		f.ok(err)
		if len(w.Work) != c.rows || w.Complete != c.complete || !w.NextDue.Equal(c.next) {
			f.Errorf("%s: %d rows, complete %v, next %v", c.name, len(w.Work), w.Complete, w.NextDue)
		}
	}
	empty := f.window(f.endpoint("b"), f.now)
	if len(empty.Work) != 0 || !empty.Complete || !empty.NextDue.IsZero() {
		f.Errorf("an empty lane's window is %+v", empty)
	}
}

func windowSeesWhatWasCommitted(f *fixture) {
	var wg sync.WaitGroup
	for i := range 6 {
		e := f.endpoint(fmt.Sprintf("e%d", i))
		rev := int64(0)
		wg.Go(func() {
			for n := 1; n <= 15; n++ {
				r, err := f.Accept(f.ctx, []store.AcceptParams{newEvent(e.Tenant, rev, f.now, e)})
				for err == nil && r[0].Err != nil { // endpoints are still being made beside
					_, revisions, _ := f.LoadSubscriptions(f.ctx)
					rev = revisions[e.Tenant]
					r, err = f.Accept(f.ctx, []store.AcceptParams{newEvent(e.Tenant, rev, f.now, e)})
				}
				if err != nil {
					f.Error(err)
					return
				}
				w, err := f.ReadWindow(f.ctx, store.WindowParams{Endpoint: e.Key, Now: f.now, Limit: 1000})
				if err != nil || len(w.Work) != n || w.Work[n-1].Ref != r[0].Fresh[0].Ref {
					f.Errorf("after %d acceptances the window has %d rows (%v)", n, len(w.Work), err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// What is read is what was handed over, so that a delivery goes out the same
// whichever way it came.
func windowShowsTheSameWork(f *fixture) {
	e := f.endpoint("a")
	plain, full := f.event(e), f.event(e)
	full.ID, full.OrderingKey, full.Type = "x", "k", "click"
	full.CreatedAt, full.ExpiresAt = f.now.Add(-time.Hour), f.now.Add(time.Hour)
	full.Targets[0].ContractRevision = "an older one"
	setData(&full, `{"a":[1,2]}`)
	made := f.accept(plain, full)
	fresh := []store.Work{made[0].Fresh[0], made[1].Fresh[0]}
	if fresh[1].EventID != "x" || fresh[1].Round != 1 || fresh[1].Trigger != contract.TriggerEvent || fresh[1].ContractRevision != "an older one" {
		f.Fatalf("handed over: %+v", fresh[1])
	}
	f.same("window", f.window(e, f.now).Work, fresh)
	f.restart()
	f.same("window after a restart", f.window(e, f.now).Work, fresh)

	next := f.now.Add(time.Minute)
	p := f.failure(fresh[1], next)
	p.Interrupted = 2
	f.record(p)
	want := fresh[1]
	want.Attempts, want.Rows, want.Interrupted, want.Due = 1, 1, 2, next
	f.same("window after a try", f.window(e, next).Work[1], want)
}

func recordedLeavesTheWindow(f *fixture) {
	e := f.endpoint("a")
	work := f.sendMany(e, 4)
	f.record(f.success(work[0]))
	f.record(f.end(work[1], contract.StatusDead, webhook.WhyStopped))
	f.record(f.failure(work[2], f.now.Add(time.Minute)))
	f.same("due now", f.due(e, f.now), []webhook.Ref{work[3].Ref})
	f.same("due later", f.due(e, f.now.Add(time.Minute)), []webhook.Ref{work[3].Ref, work[2].Ref})
}

func windowKeepsItsBudget(f *fixture) {
	e := f.endpoint("a")
	var work []store.Work
	for _, size := range []int{100, 500, 100, 100, 100} {
		p := f.event(e)
		setData(&p, string(make([]byte, size)))
		work = append(work, f.accept(p)[0].Fresh...)
	}
	f.ok(f.EraseEventData(f.ctx, work[4].Tenant, work[4].EventID, f.now))
	w, err := f.ReadWindow(f.ctx, store.WindowParams{Endpoint: e.Key, Now: f.now, Limit: 10, Bytes: 250, MaxData: 200})
	f.ok(err)
	var with []bool
	for i, got := range w.Work {
		with = append(with, got.Data != nil)
		if got.DataSize != work[i].DataSize || got.Erased != (i == 4) {
			f.Errorf("row %d: %+v", i, got)
		}
	}
	// The second is too large by itself, the fourth does not fit the rest.
	f.same("rows with data", with, []bool{true, false, true, false, false})
	for _, i := range []int{1, 3} {
		data, err := f.LoadData(f.ctx, work[i].Ref)
		f.ok(err)
		f.same("loaded", data, work[i].Data)
	}
}

func lanesHaveTheirEarliest(f *fixture) {
	heads := func() []store.LaneHead {
		all, err := f.ListLanes(f.ctx)
		f.ok(err)
		slices.SortFunc(all, func(a, b store.LaneHead) int { return int(a.Endpoint - b.Endpoint) })
		return all
	}
	if got := heads(); len(got) != 0 {
		f.Fatalf("an empty store has lanes: %v", got)
	}
	a, b := f.endpoint("a"), f.endpoint("b")
	f.endpoint("idle")
	work := f.sendMany(a, 3)
	later := f.event(b)
	later.DeliverAt = f.now.Add(time.Hour)
	other := f.accept(later)[0].Fresh[0]
	f.same("lanes", heads(), []store.LaneHead{{Endpoint: a.Key, Due: f.now}, {Endpoint: b.Key, Due: later.DeliverAt}})

	f.record(f.failure(work[0], f.now.Add(time.Minute)))
	f.record(f.failure(work[1], f.now.Add(2*time.Minute)))
	f.record(f.success(work[2]))
	f.record(f.success(other))
	f.same("lanes", heads(), []store.LaneHead{{Endpoint: a.Key, Due: f.now.Add(time.Minute)}})
	f.restart()
	f.same("lanes", heads(), []store.LaneHead{{Endpoint: a.Key, Due: f.now.Add(time.Minute)}})
}

func loadDataMissing(f *fixture) {
	w := f.send(f.endpoint("a"))
	_, err := f.LoadData(f.ctx, w.Ref+1000)
	f.fails(err, store.ErrNotFound)
	f.ok(f.EraseEventData(f.ctx, w.Tenant, w.EventID, f.now))
	_, err = f.LoadData(f.ctx, w.Ref)
	f.fails(err, store.ErrNotFound)
}
