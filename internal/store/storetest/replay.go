package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func replayCases() []testCase {
	known := Options{Contract: promises}
	return []testCase{
		{name: "TestContract_S11_ReplayTakesTheDeadOnce", opts: known, run: replayTakesTheDead},
		{name: "TestContract_S11_ReplaySelections", opts: known, run: replaySelections},
		{name: "TestContract_S11_ReplayByRun", opts: known, run: replayByRun},
		{name: "TestStore_Replay_EventsMissing", opts: known, run: replayMissing},
		{name: "TestContract_S11_MissingTakesNothingThatMayHaveArrived", opts: Options{Contract: keepsPerContract}, run: missingIsYoung},
		{name: "TestFault_B91_OneReplayAtATime", opts: known, run: oneReplayAtATime},
		{name: "TestFault_B91_StepsAtOnceTakeEachOnce", opts: known, run: stepsAtOnce},
		{name: "TestStore_Replay_WaitsWhileItsEndpointIsOff", opts: known, run: replayWaits},
		{name: "TestStore_Replay_CanceledStays", opts: known, run: canceledStays},
		{name: "TestEngine_N2_AReplaysEndIsToldWithFreshMatches", opts: known, run: replayEndStale},
		{name: "TestContract_S11_AReplayOfWhatWasSkipped", opts: known, run: replayOfSkipped},
	}
}

// replay creates a replay of an endpoint of the default tenant.
func (f *fixture) replay(endpoint string, s webhook.Selection) *webhook.Replay {
	f.Helper()
	r, err := f.CreateReplay(f.ctx, webhook.Replay{Tenant: webhook.DefaultTenant, Endpoint: endpoint, Selection: s, Rate: 7, CreatedAt: f.now})
	f.ok(err)
	return r
}

// job are the parameters of a replay's steps: what has ended is redelivered, and
// every event matches.
func (f *fixture) job(r *webhook.Replay) store.StepParams {
	return store.StepParams{
		Replay: *r, Most: 2, Now: f.now, Ready: f.now,
		Decide: func(d *webhook.Delivery, _ *webhook.Endpoint) (store.Again, bool) {
			return store.Again{
				New: true, Contract: noticeContract, ContractRevision: contractRevision, Terms: contract.Terms{Trigger: contract.TriggerRedelivery}, MarkOld: true,
			}, d.Type != "refused"
		},
		Matches: func(e *webhook.Event, n *webhook.Endpoint) (store.Target, string, bool) {
			if e.Data == nil {
				f.Errorf("event %s comes without its data", e.ID)
			}
			return store.Target{Endpoint: n.Key, Contract: n.Contract, ContractRevision: contractRevision}, "", e.Type != "refused" && !webhook.Operational(e.Type)
		},
	}
}

// count counts a replay to its end.
func (f *fixture) count(p store.StepParams) int {
	f.Helper()
	total := 0
	for after := int64(0); ; {
		n, next, done, err := f.CountReplay(f.ctx, p, after)
		f.ok(err)
		if total += n; done {
			return total
		}
		if next <= after {
			f.Fatalf("counting goes from %d to %d", after, next)
		}
		after = next
	}
}

// runReplay counts a replay and steps it to its end, with a restart after each step
// where asked.
func (f *fixture) runReplay(r *webhook.Replay, restarts bool) webhook.Replay {
	f.Helper()
	r.Count = f.count(f.job(r))
	for range 1000 {
		result, err := f.StepReplay(f.ctx, f.job(r))
		f.ok(err)
		if !result.Replay.Open() {
			return result.Replay
		}
		*r = result.Replay
		if result.Queued > 2 {
			f.Fatalf("a step of at most 2 queued %d", result.Queued)
		}
		if restarts {
			f.restart()
		}
	}
	f.Fatal("the replay has no end")
	return *r
}

func replayTakesTheDead(f *fixture) {
	e, other := f.endpoint("a"), f.endpoint("other")
	var want []string
	for i := range 13 {
		w := f.sendUnder(noticeContract, e)
		switch i % 4 {
		case 0, 1:
			want = append(want, f.dead(w).DeliveryID)
		case 2:
			f.record(f.success(w))
		}
		f.dead(f.sendUnder(noticeContract, other))
	}
	test := under(noticeContract, f.event(e))
	test.Trigger = contract.TriggerTest
	f.dead(f.accept(test)[0].Fresh[0])
	gone := f.dead(f.sendUnder(noticeContract, e))
	f.again(redelivered, gone.DeliveryID)
	refused := under(noticeContract, f.event(e))
	refused.Type = "refused"
	f.dead(f.accept(refused)[0].Fresh[0])

	r := f.replay("a", webhook.Selection{})
	f.same("made", r, &webhook.Replay{
		ID: r.ID, Tenant: webhook.DefaultTenant, Endpoint: "a", Selection: webhook.Selection{Events: webhook.EventsAttempted}, Rate: 7,
		State: webhook.ReplayCounting, CreatedAt: f.now,
	})
	preview := *r
	preview.ID = ""
	f.same("preview", f.count(f.job(&preview)), len(want))
	f.now = f.later(time.Minute)
	later := f.dead(f.sendUnder(noticeContract, e)) // not of those that it takes
	end := f.runReplay(r, true)
	if end.State != webhook.ReplayDone || end.Count != len(want) || end.Done != len(want) || end.Failed != 0 || !end.FinishedAt.Equal(f.now) {
		f.Fatalf("the replay ended as %+v", end)
	}
	got, err := f.GetReplay(f.ctx, webhook.DefaultTenant, r.ID)
	f.ok(err)
	f.same("stored", *got, end)
	var last webhook.Ref
	for _, id := range want {
		old := f.byID(id)
		if old.Status != contract.StatusRedelivered || old.ReplacedBy == "" {
			f.Fatalf("the old one is %+v", old)
		}
		made := f.byID(old.ReplacedBy)
		if made.Status != contract.StatusPending || made.Replaces != id || made.Endpoint != "a" || made.Ref <= last {
			f.Fatalf("the new one is %+v", made)
		}
		last = made.Ref
	}
	f.same("made", len(f.listed(store.DeliveryFilter{Endpoint: "a", Triggers: []contract.Trigger{contract.TriggerRedelivery}})), len(want)+1)
	f.same("what ended later", f.delivery(later).Status, contract.StatusDead)
	open, err := f.ListOpenReplays(f.ctx)
	f.ok(err)
	f.same("open", len(open), 0)
	result, err := f.StepReplay(f.ctx, f.job(r))
	f.ok(err)
	f.same("a step after the end", result, store.StepResult{Replay: end})
}

func replaySelections(f *fixture) {
	e := f.endpoint("a")
	byName := map[string]string{}
	for i, c := range []struct {
		name   string
		status contract.Status
	}{
		{"dead", contract.StatusDead}, {"failed", contract.StatusFailed}, {"skipped", contract.StatusSkipped}, {"delivered", contract.StatusDelivered},
		{"dead2", contract.StatusDead}, {"waits", ""},
	} {
		p := under(noticeContract, f.event(e))
		p.Now = f.later(time.Duration(i) * time.Hour)
		if c.name == "dead2" {
			p.Type = "click"
		}
		w := f.accept(p)[0].Fresh[0]
		byName[w.DeliveryID] = c.name
		if c.status != "" {
			f.record(f.end(w, c.status, webhook.WhyNone))
		}
	}
	for _, c := range []struct {
		what string
		s    webhook.Selection
		want int
	}{
		{"dead where none is named", webhook.Selection{}, 2},
		{"failed", webhook.Selection{Statuses: []contract.Status{contract.StatusFailed}}, 1},
		{"several", webhook.Selection{Statuses: []contract.Status{contract.StatusFailed, contract.StatusSkipped, contract.StatusDelivered}}, 3},
		{"pending is never taken", webhook.Selection{Statuses: []contract.Status{contract.StatusPending}}, 0},
		{"a type", webhook.Selection{Types: []string{"click"}}, 1},
		{"since", webhook.Selection{Since: f.later(time.Hour)}, 1},
		{"until, exclusive", webhook.Selection{Until: f.later(4 * time.Hour)}, 1},
		{"until", webhook.Selection{Until: f.later(4*time.Hour + 1)}, 2},
		{"nothing", webhook.Selection{Types: []string{"never"}}, 0},
	} {
		f.same(c.what, f.count(f.job(&webhook.Replay{Tenant: webhook.DefaultTenant, Endpoint: "a", Selection: c.s})), c.want)
	}
	end := f.runReplay(f.replay("a", webhook.Selection{Statuses: []contract.Status{contract.StatusDead, contract.StatusSkipped}}), false)
	f.same("done", end.Done, 3)
	var taken []string
	for _, id := range f.listed(store.DeliveryFilter{Statuses: []contract.Status{contract.StatusRedelivered}}) {
		taken = append(taken, byName[id])
	}
	f.same("taken", taken, []string{"dead", "skipped", "dead2"})
}

// A run named by its ID also when it was delivered; a plain event is a run of one.
func replayByRun(f *fixture) {
	a, b := f.endpoint("a"), f.endpoint("b")
	var runs []*webhook.Run
	var first []store.Work
	for i := range 3 {
		r := f.open("p1")
		_, result := f.finish(r, a, b)
		f.record(f.success(result.Fresh[0]))
		if i == 0 {
			f.dead(result.Fresh[1])
		}
		runs, first = append(runs, r), append(first, result.Fresh[0])
	}
	plain := f.sendUnder(noticeContract, a)
	f.record(f.success(plain))
	open := f.open("p1")
	named := webhook.Selection{Runs: []string{runs[2].ID, plain.EventID, runs[0].ID, open.ID, "run_nothing", runs[0].ID}}
	f.same("count", f.count(f.job(&webhook.Replay{Tenant: webhook.DefaultTenant, Endpoint: "a", Selection: named})), 3)
	narrow := named
	narrow.Statuses = []contract.Status{contract.StatusDead}
	f.same("count of the dead", f.count(f.job(&webhook.Replay{Tenant: webhook.DefaultTenant, Endpoint: "b", Selection: narrow})), 1)
	end := f.runReplay(f.replay("a", named), true)
	f.same("done", end.Done, 3)
	for _, w := range []store.Work{first[0], first[2], plain} {
		f.same("taken", f.delivery(w).Status, contract.StatusRedelivered)
	}
	f.same("not named", f.delivery(first[1]).Status, contract.StatusDelivered)
	// Once more takes the new ones, when they have ended, and no old row.
	for _, w := range f.window(a, f.now).Work {
		f.record(f.success(w))
	}
	f.same("done", f.runReplay(f.replay("a", named), false).Done, 3)
}

func replayMissing(f *fixture) {
	a, b := f.endpoint("a"), f.endpoint("b")
	f.tenant("t2")
	f.accept(newEvent("t2", f.revision("t2"), f.now))
	var want []string
	accept := func(missing bool, change func(*store.AcceptParams), targets ...*webhook.Endpoint) store.AcceptResult {
		p := f.event(targets...)
		if change != nil {
			change(&p)
		}
		r := f.accept(p)[0]
		if missing {
			want = append(want, r.ID)
		}
		return r
	}
	accept(true, nil)
	accept(true, nil, b)
	had := accept(false, nil, a, b)
	f.record(f.success(had.Fresh[0]))
	accept(true, func(p *store.AcceptParams) { p.ID = "own" }, b)
	accept(false, func(p *store.AcceptParams) { p.Type = "refused" })
	accept(false, func(p *store.AcceptParams) { p.Type = webhook.TypeEndpointPaused })
	accept(false, func(p *store.AcceptParams) { p.Trigger = contract.TriggerTest }, b)
	accept(false, func(p *store.AcceptParams) { p.Trigger, p.Unlogged = contract.TriggerTest, true }, b)
	accept(false, func(p *store.AcceptParams) { p.ExpiresAt = f.later(time.Minute) })
	f.ok(f.EraseEventData(f.ctx, webhook.DefaultTenant, accept(false, nil).ID, f.now))
	scheduled := accept(true, func(p *store.AcceptParams) { p.DeliverAt = f.later(time.Hour) })
	accept(true, nil, b)

	f.now = f.later(10 * time.Minute)
	r := f.replay("a", webhook.Selection{Events: webhook.EventsMissing})
	accept(false, nil) // later than what it takes
	end := f.runReplay(r, true)
	if end.State != webhook.ReplayDone || end.Count != len(want) || end.Done != len(want) {
		f.Fatalf("the replay ended as %+v", end)
	}
	var got []string
	for _, id := range f.listed(store.DeliveryFilter{Endpoint: "a", Triggers: []contract.Trigger{contract.TriggerReplay}}) {
		got = append(got, f.byID(id).Event)
	}
	f.same("sent", got, want)
	f.same("its time is kept", f.byID(f.listed(store.DeliveryFilter{Event: scheduled.ID})[0]).NextAttemptAt, start().Add(time.Hour))
	f.same("a second time only the later one", f.runReplay(f.replay("a", webhook.Selection{Events: webhook.EventsMissing}), false).Done, 1)
	f.same("of types", f.count(f.job(&webhook.Replay{
		Tenant: webhook.DefaultTenant, Endpoint: "b", Selection: webhook.Selection{Events: webhook.EventsMissing, Types: []string{"never"}},
	})), 0)
	f.same("by run", f.count(f.job(&webhook.Replay{
		Tenant: webhook.DefaultTenant, Endpoint: "b", Selection: webhook.Selection{Events: webhook.EventsMissing, Runs: []string{want[0], "own"}},
	})), 1)
}

// Deliveries go when their own contract keeps them no longer, events when nobody's
// does: one without a row may have arrived long ago.
func missingIsYoung(f *fixture) {
	a, b, short := f.endpoint("a"), f.endpoint("b"), f.endpointUnder("s", "short")
	missing := func() int {
		f.Helper()
		s := webhook.Selection{Events: webhook.EventsMissing}
		n := f.count(f.job(&webhook.Replay{Tenant: webhook.DefaultTenant, Endpoint: "a", Selection: s}))
		end := f.runReplay(f.replay("a", s), false)
		f.same("count and done", []int{end.Count, end.Done}, []int{n, n})
		return n
	}
	arrived := f.publish("x", a, b) // at b it waits for ever
	f.record(f.success(arrived[0]))
	f.now = f.later(29*day + time.Hour)
	young := f.publish("y", b)
	f.now = start().Add(31 * day)
	f.retain(f.now)
	f.same("the row of what arrived", f.gone(arrived[0]), true)
	f.same("its event", f.delivery(arrived[1]).Status, contract.StatusPending)
	f.same("missing", missing(), 1)
	f.same("sent", len(f.listed(store.DeliveryFilter{Event: young[0].EventID, Endpoint: "a"})), 1)

	// A contract that keeps history for a week bounds it for all.
	f.publish("z", b)
	f.send(short)
	f.now = f.later(7 * day)
	f.same("after a week", missing(), 0)
	f.publish("w", b)
	f.now = f.later(7*day - time.Hour)
	f.same("within a week", missing(), 1)
}

func oneReplayAtATime(f *fixture) {
	a, b := f.endpoint("a"), f.endpoint("b")
	for range 5 {
		f.dead(f.sendUnder(noticeContract, a))
	}
	f.fails(second(f.CreateReplay(f.ctx, webhook.Replay{Tenant: webhook.DefaultTenant, Endpoint: "nothing"})), store.ErrNotFound)
	r := f.replay("a", webhook.Selection{})
	again := func() error {
		return second(f.CreateReplay(f.ctx, webhook.Replay{Tenant: webhook.DefaultTenant, Endpoint: "a", CreatedAt: f.now}))
	}
	f.fails(again(), store.ErrExists)
	f.replay("b", webhook.Selection{})
	_, err := f.StepReplay(f.ctx, f.job(r))
	f.ok(err)
	f.restart()
	f.fails(again(), store.ErrExists)
	open, err := f.ListOpenReplays(f.ctx)
	f.ok(err)
	f.same("open", len(open), 2)
	f.same("running", open[0].State, webhook.ReplayRunning)
	f.runReplay(r, false)
	f.ok(again())
	for endpoint, want := range map[string]int{"": 3, "a": 2, b.ID: 1, "nothing": 0} {
		listed, err := f.ListReplays(f.ctx, webhook.DefaultTenant, endpoint, store.Page{Limit: 10})
		f.ok(err)
		f.same("listed", len(listed.Items), want)
	}
}

func second[T any](_ T, err error) error { return err }

// Steps that run at once, as after a restart that came too soon, take each once.
func stepsAtOnce(f *fixture) {
	e := f.endpoint("a")
	const n = 40
	for range n {
		f.dead(f.sendUnder(noticeContract, e))
	}
	r := f.replay("a", webhook.Selection{})
	queued := make([]int, 4)
	var wg sync.WaitGroup
	for i := range queued {
		wg.Go(func() {
			for {
				result, err := f.StepReplay(f.ctx, f.job(r))
				if err != nil {
					f.Error(err)
					return
				}
				queued[i] += result.Queued
				if !result.Replay.Open() {
					return
				}
			}
		})
	}
	wg.Wait()
	total := 0
	for _, q := range queued {
		total += q
	}
	got, err := f.GetReplay(f.ctx, webhook.DefaultTenant, r.ID)
	f.ok(err)
	f.same("queued, done, failed, due", []int{total, got.Done, got.Failed, len(f.due(e, f.now))}, []int{n, n, 0, n})
}

func replayWaits(f *fixture) {
	e := f.endpoint("a")
	for range 5 {
		f.dead(f.sendUnder(noticeContract, e))
	}
	r := f.replay("a", webhook.Selection{})
	r.Count = 5
	step := func(state webhook.ReplayState, done int) {
		f.Helper()
		result, err := f.StepReplay(f.ctx, f.job(r))
		f.ok(err)
		got, err := f.GetReplay(f.ctx, webhook.DefaultTenant, r.ID)
		f.ok(err)
		f.same("stored", *got, result.Replay)
		f.same("state", fmt.Sprint(got.State, " ", got.Done, " of ", got.Count), fmt.Sprint(state, " ", done, " of ", 5))
	}
	step(webhook.ReplayRunning, 2)
	f.change(e, func(e *webhook.Endpoint) { e.State, e.StateReason = webhook.EndpointPaused, webhook.ReasonPerson })
	step(webhook.ReplayPaused, 2)
	f.restart()
	step(webhook.ReplayPaused, 2)
	f.change(e, func(e *webhook.Endpoint) { e.State, e.StateReason = webhook.EndpointActive, webhook.ReasonActive })
	step(webhook.ReplayRunning, 4)
	f.ok(f.DeleteEndpoint(f.ctx, e.Tenant, e.ID, false, f.now))
	step(webhook.ReplayCanceled, 4)
}

func canceledStays(f *fixture) {
	e := f.endpoint("a")
	for range 5 {
		f.dead(f.sendUnder(noticeContract, e))
	}
	r := f.replay("a", webhook.Selection{})
	_, err := f.StepReplay(f.ctx, f.job(r))
	f.ok(err)
	at := f.later(time.Minute)
	for _, want := range []bool{true, false} {
		canceled, err := f.CancelReplay(f.ctx, webhook.DefaultTenant, r.ID, at)
		f.ok(err)
		f.same("canceled", canceled, want)
		result, err := f.StepReplay(f.ctx, f.job(r))
		f.ok(err)
		if result.Queued != 0 || result.Replay.State != webhook.ReplayCanceled || result.Replay.Done != 2 || !result.Replay.FinishedAt.Equal(at) {
			f.Fatalf("after the cancel: %+v", result)
		}
		f.restart()
	}
	f.same("taken", len(f.due(e, f.now)), 2)
	_, err = f.CancelReplay(f.ctx, webhook.DefaultTenant, "rpl_nothing", at)
	f.fails(err, store.ErrNotFound)
}

// The event that a replay has finished is accepted with its last step, or the step
// has not happened.
func replayEndStale(f *fixture) {
	e, ops := f.endpoint("a"), f.endpoint("ops")
	f.dead(f.sendUnder(noticeContract, e))
	r := f.replay("a", webhook.Selection{})
	r.Count = 1
	before := f.snapshot()
	p := f.job(r)
	stale := true
	p.Emit = func(r webhook.Replay) store.AcceptParams {
		emit := newEvent(webhook.DefaultTenant, 0, f.now, ops)
		if !stale {
			emit.Revision = f.revision(webhook.DefaultTenant)
		}
		emit.Type = webhook.TypeReplayFinished
		setData(&emit, fmt.Sprintf(`{"state":%q,"done":%d,"count":%d}`, r.State, r.Done, r.Count))
		return emit
	}
	_, err := f.StepReplay(f.ctx, p)
	f.fails(err, store.ErrStale)
	f.same("nothing is stored", f.snapshot(), before)
	stale = false
	told := f.heard.count()
	result, err := f.StepReplay(f.ctx, p)
	f.ok(err)
	f.same("state", result.Replay.State, webhook.ReplayDone)
	data, err := f.LoadData(f.ctx, f.window(ops, f.now).Work[0].Ref)
	f.ok(err)
	f.same("told", string(data), `{"state":"done","done":1,"count":1}`)
	var handed []webhook.EndpointKey
	for _, c := range f.heard.since(told) {
		for _, w := range c.Accepted {
			handed = append(handed, w.Endpoint)
		}
	}
	f.same("handed over", handed, []webhook.EndpointKey{e.Key, ops.Key})
}

// What a mark has skipped is taken as skipped, whether its row says so already or
// not.
func replayOfSkipped(f *fixture) {
	e := f.endpoint("a")
	work := f.sendMany(e, 20)
	_, err := f.UpdateEndpoint(f.ctx, e.Tenant, e.ID, f.now, func(*webhook.Endpoint) (store.EndpointUpdate, error) {
		return store.EndpointUpdate{Skip: webhook.WhyResumedNow}, nil
	})
	f.ok(err)
	end := f.runReplay(f.replay("a", webhook.Selection{Statuses: []contract.Status{contract.StatusSkipped}}), false)
	f.same("done", end.Done, 20)
	for _, w := range work {
		if d := f.delivery(w); d.Status != contract.StatusRedelivered || d.Reason != webhook.WhyResumedNow {
			f.Fatalf("the old one is %+v", d)
		}
	}
	f.same("due", len(f.due(e, f.now)), 20)
}
