package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func runCases() []testCase {
	known := Options{Contract: promises}
	return []testCase{
		{name: "TestContract_S13_EventsInOrderEachOnce", run: runEventsInOrder},
		{name: "TestContract_S14_FinishingPublishesOnce", opts: known, run: finishingPublishesOnce},
		{name: "TestStore_FinishRun_WhatFailsChangesNothing", opts: known, run: finishFailsWhole},
		{name: "TestContract_S6_DeletedRunIsMissing", opts: known, run: deletedRunIsMissing},
		{name: "TestStore_Runs_DeleteProject", run: deleteProject},
		{name: "TestStore_Runs_ListsPage", run: runListsPage},
		{name: "TestContract_S13_WhatAPageTokenHangsOn", opts: known, run: pageGrant},
	}
}

// open opens a run of the default tenant.
func (f *fixture) open(project string) *webhook.Run {
	f.Helper()
	r, err := f.CreateRun(f.ctx, webhook.Run{Tenant: webhook.DefaultTenant, Project: project, CreatedAt: f.now})
	f.ok(err)
	return r
}

// fill adds n events to a run, named by their number from first on.
func (f *fixture) fill(r *webhook.Run, first, n int) int {
	f.Helper()
	var events []webhook.RunEvent
	for i := first; i < first+n; i++ {
		events = append(events, webhook.RunEvent{
			ID: fmt.Sprintf("e%d", i), Type: []string{"hit", "miss"}[i%2], CreatedAt: f.now.Add(-time.Duration(i) * time.Second), Data: fmt.Appendf(nil, `{"n": %d}`, i),
		})
	}
	added, err := f.AddRunEvents(f.ctx, r.Tenant, r.ID, events)
	f.ok(err)
	return added
}

// finish finishes a run towards endpoints under the notices' contract.
func (f *fixture) finish(r *webhook.Run, targets ...*webhook.Endpoint) (*webhook.Run, store.AcceptResult) {
	f.Helper()
	finished, result, err := f.FinishRun(f.ctx, r.Tenant, r.ID, f.now, f.notice(targets...))
	f.ok(err)
	return finished, result
}

func (f *fixture) notice(targets ...*webhook.Endpoint) func(webhook.Run) store.AcceptParams {
	return func(r webhook.Run) store.AcceptParams {
		p := under(noticeContract, f.event(targets...))
		p.Type = r.Type
		return p
	}
}

// pagesOf reads a run's events page by page.
func (f *fixture) pagesOf(run string, limit int) (ids []string) {
	f.Helper()
	for after := int64(0); ; {
		events, next, err := f.ReadRunEvents(f.ctx, webhook.DefaultTenant, run, after, limit)
		f.ok(err)
		if len(events) > limit || len(events) == 0 && next != 0 {
			f.Fatalf("%d events on a page of %d, next %d", len(events), limit, next)
		}
		for _, e := range events {
			ids = append(ids, e.ID)
		}
		if after = next; next == 0 {
			return ids
		}
	}
}

func runEventsInOrder(f *fixture) {
	r := f.open("p1")
	f.same("made", r, &webhook.Run{
		ID: r.ID, Tenant: webhook.DefaultTenant, Project: "p1", Type: webhook.TypeRunFinished, State: webhook.RunOpen,
		Counts: webhook.RunCounts{ByType: map[string]int{}}, CreatedAt: f.now,
	})
	f.same("added", f.fill(r, 0, 5), 5)
	f.same("added", f.fill(r, 3, 5), 3) // two are there already
	f.same("added", f.fill(r, 0, 0), 0)
	other := f.open("p1")
	f.same("in another run", f.fill(other, 0, 2), 2)
	f.restart()
	got, err := f.GetRun(f.ctx, r.Tenant, r.ID)
	f.ok(err)
	f.same("counts", got.Counts, webhook.RunCounts{Total: 8, ByType: map[string]int{"hit": 4, "miss": 4}})
	f.same("added after a restart", f.fill(r, 7, 2), 1)
	want := []string{"e0", "e1", "e2", "e3", "e4", "e5", "e6", "e7", "e8"}
	for _, limit := range []int{1, 2, 4, 9, 10, 250} {
		f.same("events", f.pagesOf(r.ID, limit), want)
	}
	events, _, err := f.ReadRunEvents(f.ctx, r.Tenant, r.ID, 0, 2)
	f.ok(err)
	f.same("event", events[1], webhook.RunEvent{ID: "e1", Type: "miss", CreatedAt: f.now.Add(-time.Second), Data: []byte(`{"n": 1}`)})
	for _, id := range []string{"", "run_nothing", other.ID + "0"} {
		_, err := f.AddRunEvents(f.ctx, r.Tenant, id, nil)
		f.fails(err, store.ErrNotFound)
		_, err = f.GetRun(f.ctx, r.Tenant, id)
		f.fails(err, store.ErrNotFound)
	}
}

// Finishing makes one event with one row of the history for each endpoint.
func finishingPublishesOnce(f *fixture) {
	a, b := f.endpoint("a"), f.endpoint("b")
	r := f.open("p1")
	f.fill(r, 0, 300)
	var seen webhook.Run
	f.now = f.later(time.Minute)
	finished, result, err := f.FinishRun(f.ctx, r.Tenant, r.ID, f.now, func(r webhook.Run) store.AcceptParams {
		seen = r
		return f.notice(a, b)(r)
	})
	f.ok(err)
	f.same("counts seen", seen.Counts, webhook.RunCounts{Total: 300, ByType: map[string]int{"hit": 150, "miss": 150}})
	f.same("state seen", seen.State, webhook.RunFinished)
	if finished.Event != result.ID || result.Deliveries != 2 || len(result.Fresh) != 2 || result.Replayed || !finished.FinishedAt.Equal(f.now) {
		f.Fatalf("finished %+v, %+v", finished, result)
	}
	if w := result.Fresh[0]; w.Run != r.ID || string(w.RunCounts) == "" {
		f.Fatalf("work is %+v", w)
	}
	again, repeat := f.finish(r, a, b)
	f.same("again", again, finished)
	f.same("its result", repeat, store.AcceptResult{ID: result.ID, Deliveries: 2, Replayed: true})
	f.restart()
	got, err := f.GetRun(f.ctx, r.Tenant, r.ID)
	f.ok(err)
	f.same("run", got, finished)
	_, err = f.AddRunEvents(f.ctx, r.Tenant, r.ID, nil)
	f.fails(err, store.ErrNotEmpty)
	event, err := f.GetEvent(f.ctx, r.Tenant, result.ID)
	f.ok(err)
	f.same("event's run", event.Run, r.ID)
	f.same("delivery's run", f.delivery(result.Fresh[0]).Run, r.ID)
	plain := f.send(a)
	f.same("a plain one's", f.delivery(plain).Run, "")
	ids := []string{result.Fresh[0].DeliveryID, result.Fresh[1].DeliveryID}
	f.same("one row each", f.listed(store.DeliveryFilter{Run: r.ID}), ids)
	f.same("both named", f.listed(store.DeliveryFilter{Run: r.ID, Event: result.ID}), ids)
	f.same("of an event beside", f.listed(store.DeliveryFilter{Run: r.ID, Event: plain.EventID}), []string{})
	f.same("of an open one", f.listed(store.DeliveryFilter{Run: f.open("p1").ID}), []string{})
	redone := f.again(redelivered, f.dead(result.Fresh[0]).DeliveryID)[0].ID
	f.same("a row more", f.listed(store.DeliveryFilter{Run: r.ID}), append(ids, redone))
	f.same("its run", f.byID(redone).Run, r.ID)
}

func finishFailsWhole(f *fixture) {
	a := f.endpoint("a")
	r := f.open("p1")
	f.fill(r, 0, 1)
	for _, c := range []struct {
		want   error
		change func(*store.AcceptParams)
	}{
		{store.ErrStale, func(p *store.AcceptParams) { p.Revision-- }},
		{store.ErrExpired, func(p *store.AcceptParams) { p.ExpiresAt = f.now }},
	} {
		_, _, err := f.FinishRun(f.ctx, r.Tenant, r.ID, f.now, func(r webhook.Run) store.AcceptParams {
			p := f.notice(a)(r)
			c.change(&p)
			return p
		})
		f.fails(err, c.want)
		got, err := f.GetRun(f.ctx, r.Tenant, r.ID)
		f.ok(err)
		f.same("state", got.State, webhook.RunOpen)
		f.same("events", f.countEvents(r.Tenant), 0)
	}
	f.same("still open", f.fill(r, 1, 1), 1)
	f.finish(r, a)
}

func deletedRunIsMissing(f *fixture) {
	a := f.endpoint("a")
	r, kept := f.open("p1"), f.open("p1")
	f.fill(r, 0, 120)
	f.fill(kept, 0, 120)
	_, result := f.finish(r, a)
	told := f.heard.count()
	for range 2 {
		f.ok(f.DeleteRun(f.ctx, r.Tenant, r.ID, f.now))
		got, err := f.GetRun(f.ctx, r.Tenant, r.ID)
		f.ok(err)
		f.same("state", got.State, webhook.RunDeleted)
		_, _, err = f.ReadRunEvents(f.ctx, r.Tenant, r.ID, 0, 10)
		f.fails(err, store.ErrNotFound)
		_, _, err = f.FinishRun(f.ctx, r.Tenant, r.ID, f.now, f.notice(a))
		f.fails(err, store.ErrNotEmpty)
		changes := f.heard.since(told)
		if len(changes) > 1 || len(changes) == 1 && !slices.Equal(changes[0].Erased, []webhook.Ref{result.Fresh[0].Ref}) {
			f.Fatalf("told %+v", changes)
		}
		f.same("erased", f.window(a, f.now).Work[0].Erased, true)
		_, err = f.LoadData(f.ctx, result.Fresh[0].Ref)
		f.fails(err, store.ErrNotFound)
		f.restart()
		told = f.heard.count()
	}
	f.same("another run stays", len(f.pagesOf(kept.ID, 50)), 120)
	open := f.open("p1")
	f.ok(f.DeleteRun(f.ctx, r.Tenant, open.ID, f.now))
	_, err := f.AddRunEvents(f.ctx, r.Tenant, open.ID, nil)
	f.fails(err, store.ErrNotEmpty)
}

func deleteProject(f *fixture) {
	f.tenant("t2")
	other, err := f.CreateRun(f.ctx, webhook.Run{Tenant: "t2", Project: "p1", CreatedAt: f.now})
	f.ok(err)
	beside := f.open("p2")
	for range 123 {
		f.open("p1")
	}
	gone := f.open("p1")
	f.ok(f.DeleteRun(f.ctx, gone.Tenant, gone.ID, f.now))
	for _, want := range []int{123, 0} {
		n, err := f.DeleteProject(f.ctx, webhook.DefaultTenant, "p1", f.now)
		f.ok(err)
		f.same("deleted", n, want)
	}
	for _, r := range []*webhook.Run{other, beside} {
		got, err := f.GetRun(f.ctx, r.Tenant, r.ID)
		f.ok(err)
		f.same("state", got.State, webhook.RunOpen)
	}
}

func runListsPage(f *fixture) {
	var all, some []string
	for i := range 11 {
		r := f.open([]string{"p1", "p2"}[i%2])
		all = append([]string{r.ID}, all...)
		if i%2 == 0 {
			some = append([]string{r.ID}, some...)
		}
	}
	f.tenant("t2")
	_, err := f.CreateRun(f.ctx, webhook.Run{Tenant: "t2", Project: "p1", CreatedAt: f.now})
	f.ok(err)
	for project, want := range map[string][]string{"": all, "p1": some, "p3": {}} {
		f.pages("runs of "+project, func(p store.Page) ([]string, int64, int64, error) {
			listed, err := f.ListRuns(f.ctx, webhook.DefaultTenant, project, p)
			return named(listed, err, func(r *webhook.Run) string { return r.ID })
		}, want, 1, 4, 250)
	}
}

func pageGrant(f *fixture) {
	a := f.endpoint("a")
	r := f.open("p1")
	f.fill(r, 0, 2)
	_, result := f.finish(r, a)
	w := result.Fresh[0]
	grant := func() webhook.PageGrant {
		f.Helper()
		g, err := f.ReadPageGrant(f.ctx, w.Ref)
		f.ok(err)
		return g
	}
	want := webhook.PageGrant{Tenant: r.Tenant, Run: r.ID, Event: result.ID, Contract: noticeContract, ContractRevision: contractRevision}
	f.same("before the first attempt", grant(), want)
	first := f.failure(w, f.later(time.Minute))
	f.record(first)
	want.FirstAttemptAt = first.Attempt.At
	f.now = f.later(time.Hour)
	w.Attempts++
	f.record(f.failure(w, f.later(time.Minute)))
	f.same("after two", grant(), want)
	w.Attempts++
	f.dead(w)
	want.Finished = true
	f.restart()
	f.same("ended", grant(), want)
	f.ok(f.DeleteRun(f.ctx, r.Tenant, r.ID, f.now))
	want.Gone = true
	f.same("deleted", grant(), want)

	w = f.sendUnder(noticeContract, a)
	want = webhook.PageGrant{Tenant: r.Tenant, Event: w.EventID, Contract: noticeContract, ContractRevision: contractRevision}
	f.same("a run of one", grant(), want)
	f.ok(f.EraseEventData(f.ctx, w.Tenant, w.EventID, f.now))
	f.ok(f.DeleteEndpoint(f.ctx, a.Tenant, a.ID, false, f.now))
	want.Gone, want.Finished = true, true
	f.same("erased, and its endpoint deleted", grant(), want)
	_, err := f.ReadPageGrant(f.ctx, w.Ref+1000)
	f.fails(err, store.ErrNotFound)
}
