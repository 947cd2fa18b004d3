package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func keepCases() []testCase {
	return []testCase{
		{name: "TestEngine_N22_FinishedOnesAreKeptAsPromised", run: finishedAreKeptAsPromised},
		{name: "TestEngine_N22_EachContractKeepsForItself", opts: Options{Contract: keepsPerContract}, run: eachContractKeeps},
		{name: "TestEngine_N22_WhatIsOwedIsNeverRemoved", run: owedIsNeverRemoved},
		{name: "TestEngine_N22_PageTokensKeepTheirDelivery", opts: Options{Contract: keepsPerContract}, run: tokensKeepTheirs},
		{name: "TestEngine_N22_PositionsAreNeverGivenAgain", run: positionsAreNeverGivenAgain},
		{name: "TestEngine_N22_RunsGoWithTheirEvent", run: runsGoWithTheirEvent},
		{name: "TestFault_B51_RemovingIsSlicedAndGoesOnAfterARestart", run: removingIsSliced},
		{name: "TestStore_Retain_TheTrailIsKeptForAYear", run: trailIsKeptForAYear},
		{name: "TestEngine_N22_HeldForTooLongIsSkipped", run: heldTooLongIsSkipped},
		{name: "TestEngine_N22_AnotherKindOfOffDoesNotHoldForLonger", run: otherOffHoldsNoLonger},
		{name: "TestStore_Notices", run: notices},
		{name: "TestContract_P3_ALogGoesWithItsEndpoint", run: logGoesWithEndpoint},
		{name: "TestStore_Audit_EndpointsWithoutSecrets", run: endpointsAreAudited},
		{name: "TestStore_Audit_NoneAndEmptyAreTheSame", run: noneAndEmptyAreTheSame},
	}
}

const day = 24 * time.Hour

// keepsPerContract knows contracts that say in their name how long they keep
// history.
func keepsPerContract(name, revision string) *contract.Contract {
	c := *Builtin(contract.Standard, revision)
	switch name {
	case "short":
		c.History.Keep = contract.Duration(7 * day)
		c.Run.TokenFor = 0
	case "long":
		c.History.Keep = contract.Duration(90 * day)
	case "token":
		c.History.Keep = contract.Duration(7 * day)
		c.Run.TokenFor = contract.Duration(20 * day)
	default:
		return Builtin(name, revision)
	}
	return &c
}

// retain runs retention to its end and returns how much it removed.
func (f *fixture) retain(now time.Time) (removed int) {
	f.Helper()
	for after, done := webhook.Ref(0), false; !done; {
		var n int
		var err error
		after, n, done, err = f.Retain(f.ctx, after, now)
		f.ok(err)
		removed += n
	}
	return removed
}

// gone tells whether a delivery is no more.
func (f *fixture) gone(w store.Work) bool {
	f.Helper()
	_, err := f.GetDelivery(f.ctx, w.Tenant, w.DeliveryID)
	if err != nil {
		f.fails(err, store.ErrNotFound)
	}
	return err != nil
}

// publish takes in an event with a caller's ID.
func (f *fixture) publish(id string, targets ...*webhook.Endpoint) []store.Work {
	f.Helper()
	p := f.event(targets...)
	p.ID = id
	return f.accept(p)[0].Fresh
}

func finishedAreKeptAsPromised(f *fixture) {
	a, b := f.endpoint("a"), f.endpoint("b")
	both := f.publish("x", a, b)
	f.publish("nobody's")
	f.now = f.now.Add(2 * time.Hour)
	f.record(f.failure(both[0], f.now))
	f.record(f.success(f.window(a, f.now).Work[0]))
	finished := f.now
	f.now = f.now.Add(5 * day)
	f.record(f.end(both[1], contract.StatusFailed, webhook.WhyExhausted))

	f.same("a moment before", f.retain(finished.Add(30*day-time.Millisecond)), 1) // the event without deliveries
	f.same("kept", f.gone(both[0]), false)
	f.same("kept attempts", len(f.attempts(both[0])), 2)
	f.same("then", f.retain(finished.Add(30*day)), 1)
	f.same("gone", f.gone(both[0]), true)
	_, err := f.ListAttempts(f.ctx, webhook.DefaultTenant, both[0].DeliveryID)
	f.fails(err, store.ErrNotFound)
	f.same("the other endpoint's", f.gone(both[1]), false)
	got, err := f.GetEvent(f.ctx, webhook.DefaultTenant, "x")
	f.ok(err)
	f.same("the event that it needs", string(got.Data), `{"n":1}`)
	f.repeats(func() store.AcceptParams { p := f.event(a, b); p.ID = "x"; return p }(), 2)

	f.same("at last", f.retain(f.now.Add(30*day)), 2)
	_, err = f.GetEvent(f.ctx, webhook.DefaultTenant, "x")
	f.fails(err, store.ErrNotFound)
	f.same("nothing is left", f.retain(f.now.Add(300*day)), 0)
	if r := f.accept(func() store.AcceptParams { p := f.event(a); p.ID = "x"; return p }())[0]; r.Replayed {
		f.Fatal("the ID is remembered after its event went")
	}
}

func eachContractKeeps(f *fixture) {
	var work []store.Work
	for _, name := range []string{"short", contractName, "long"} {
		e := newEndpoint(webhook.DefaultTenant, name, f.now)
		e.Contract = name
		made, err := f.CreateEndpoint(f.ctx, e)
		f.ok(err)
		work = append(work, f.publish(name, made)...)
	}
	for _, w := range work {
		f.record(f.success(w))
	}
	for i, at := range []time.Duration{7 * day, 30 * day, 90 * day} {
		f.retain(f.now.Add(at - time.Millisecond))
		f.same("a moment before", f.gone(work[i]), false)
		f.retain(f.now.Add(at))
		f.same("gone", f.gone(work[i]), true)
		// Callers' IDs are remembered for as long as any history is kept.
		_, err := f.GetEvent(f.ctx, webhook.DefaultTenant, work[i].EventID)
		if at < 90*day {
			f.ok(err)
		} else {
			f.fails(err, store.ErrNotFound)
		}
	}
}

// What has not ended stays for ever, however old it is, with its payload and log.
func owedIsNeverRemoved(f *fixture) {
	a, b := f.endpoint("a"), f.endpoint("b")
	retrying, held := f.send(a), f.send(b)
	resent, done := f.send(a), f.send(a)
	f.off(b, store.EndpointUpdate{})
	f.record(f.failure(retrying, f.now.Add(300*day)))
	f.record(f.end(resent, contract.StatusFailed, webhook.WhyExhausted))
	f.resendByPerson(resent)
	f.record(f.success(done))
	f.same("removed", f.retain(f.now.Add(200*day)), 2)
	for _, w := range []store.Work{retrying, held, resent} {
		f.same("status", f.delivery(w).Status, contract.StatusPending)
		data, err := f.LoadData(f.ctx, w.Ref)
		f.ok(err)
		f.same("payload", string(data), `{"n":1}`)
	}
	f.same("log", len(f.attempts(retrying)), 1)
	f.same("lane", f.due(a, f.now), []webhook.Ref{resent.Ref})
}

func tokensKeepTheirs(f *fixture) {
	e := newEndpoint(webhook.DefaultTenant, "a", f.now)
	e.Contract = "token"
	made, err := f.CreateEndpoint(f.ctx, e)
	f.ok(err)
	w := f.send(made)
	f.record(f.failure(w, f.now))
	first := f.attempts(w)[0].At
	f.now = f.now.Add(2 * day)
	f.record(f.success(f.window(made, f.now).Work[0]))
	f.retain(first.Add(20*day - time.Millisecond))
	f.same("while its token is valid", f.gone(w), false)
	f.retain(first.Add(20 * day))
	f.same("then", f.gone(w), true)
}

// A position that was given is not given again when its row is gone, also after a
// restart: IDs, marks and links refer to it.
func positionsAreNeverGivenAgain(f *fixture) {
	e := f.endpoint("a")
	old := f.send(e)
	f.record(f.success(old))
	f.retain(f.now.Add(40 * day))
	f.same("gone", f.gone(old), true)
	f.restart()
	fresh := f.send(e)
	if fresh.Ref <= old.Ref || fresh.EventID == old.EventID {
		f.Fatalf("%d (%s) came after %d (%s)", fresh.Ref, fresh.EventID, old.Ref, old.EventID)
	}
	f.record(f.success(fresh))
	f.same("attempts", len(f.attempts(fresh)), 1)
}

func runsGoWithTheirEvent(f *fixture) {
	e := f.endpoint("a")
	finish := func(events int) (*webhook.Run, store.Work) {
		r, err := f.CreateRun(f.ctx, webhook.Run{Tenant: webhook.DefaultTenant, Project: "p", Type: webhook.TypeRunFinished, State: webhook.RunOpen, CreatedAt: f.now})
		f.ok(err)
		for batch := range events / 500 {
			var all []webhook.RunEvent
			for n := range 500 {
				all = append(all, webhook.RunEvent{ID: fmt.Sprintf("%d-%d", batch, n), Type: eventType, CreatedAt: f.now, Data: []byte(`{}`)})
			}
			_, err := f.AddRunEvents(f.ctx, webhook.DefaultTenant, r.ID, all)
			f.ok(err)
		}
		_, accepted, err := f.FinishRun(f.ctx, webhook.DefaultTenant, r.ID, f.now, func(r webhook.Run) store.AcceptParams {
			p := newEvent(webhook.DefaultTenant, f.revision(webhook.DefaultTenant), f.now, e)
			p.Type, p.Run = r.Type, r.ID
			return p
		})
		f.ok(err)
		return r, accepted.Fresh[0]
	}
	open, err := f.CreateRun(f.ctx, webhook.Run{Tenant: webhook.DefaultTenant, Project: "p", Type: webhook.TypeRunFinished, State: webhook.RunOpen, CreatedAt: f.now})
	f.ok(err)
	old, oldWork := finish(1000)
	owed, _ := finish(500)
	f.record(f.success(oldWork))
	f.retain(f.now.Add(30 * day))
	_, err = f.GetRun(f.ctx, webhook.DefaultTenant, old.ID)
	f.fails(err, store.ErrNotFound)
	_, _, err = f.ReadRunEvents(f.ctx, webhook.DefaultTenant, old.ID, 0, 10)
	f.fails(err, store.ErrNotFound)
	for _, r := range []*webhook.Run{open, owed} {
		_, err = f.GetRun(f.ctx, webhook.DefaultTenant, r.ID)
		f.ok(err)
	}
	events, _, err := f.ReadRunEvents(f.ctx, webhook.DefaultTenant, owed.ID, 0, 1000)
	f.ok(err)
	f.same("the events that are owed", len(events), 500)
}

func removingIsSliced(f *fixture) {
	e := f.endpoint("a")
	work := f.sendMany(e, 700)
	var ends []store.RecordParams
	for i, w := range work {
		if i != 350 {
			ends = append(ends, f.success(w))
		}
	}
	f.recordAll(ends)
	at := f.now.Add(31 * day)
	total, calls, after := 0, 0, webhook.Ref(0)
	for done := false; !done; calls++ {
		var n int
		var err error
		after, n, done, err = f.Retain(f.ctx, after, at)
		f.ok(err)
		if n > 300 {
			f.Fatalf("one slice removed %d", n)
		}
		if total += n; calls == 2 {
			f.restart()
			after = 0 // what it goes on from is the caller's, and lost
		}
	}
	f.same("removed", total, 2*699)
	f.same("events", f.countEvents(webhook.DefaultTenant), 1)
	f.same("the one that is owed", f.due(e, f.now), []webhook.Ref{work[350].Ref})
	f.same("nothing more", f.retain(at), 0)
}

func trailIsKeptForAYear(f *fixture) {
	f.endpoint("a")
	f.now = f.now.Add(time.Hour)
	f.endpoint("b")
	targets := func() (all []string) {
		listed, err := f.ListAudit(f.ctx, webhook.DefaultTenant, store.AuditFilter{Kind: "endpoint"}, store.Page{Limit: 10, Ascending: true})
		f.ok(err)
		for _, e := range listed.Items {
			all = append(all, e.Target)
		}
		return all
	}
	f.retain(start().Add(365 * day))
	f.same("a year later", targets(), []string{"a", "b"})
	f.retain(start().Add(365*day + time.Minute))
	f.same("then", targets(), []string{"b"})
}

// owned gives the default tenant an owner who can be told.
func (f *fixture) owned() {
	f.Helper()
	_, err := f.UpdateTenant(f.ctx, webhook.DefaultTenant, func(t *webhook.Tenant) error {
		t.OwnerURL = "https://owner.example.com/"
		return nil
	})
	f.ok(err)
}

func (f *fixture) dueNotices(now time.Time) []store.Notice {
	f.Helper()
	due, _, err := f.DueNotices(f.ctx, now, 10)
	f.ok(err)
	return due
}

// What an endpoint that is off holds ends after as long as history is kept; the
// owner hears of it the day before, once.
func heldTooLongIsSkipped(f *fixture) {
	f.owned()
	e, idle := f.endpoint("a"), f.endpoint("b")
	f.off(idle, store.EndpointUpdate{})
	first := f.send(e)
	f.now = f.now.Add(time.Minute)
	f.off(e, store.EndpointUpdate{})
	off := f.now
	f.now = off.Add(10 * day)
	second := f.send(e)
	test := f.test(e)
	hourly := func(from, to time.Duration) {
		f.Helper()
		for at := from; at <= to; at += 12 * time.Hour {
			f.ok(f.SkipHeld(f.ctx, off.Add(at)))
		}
	}
	hourly(0, 29*day-12*time.Hour)
	f.same("told too early", len(f.dueNotices(off.Add(99*day))), 0)
	hourly(29*day, 30*day-12*time.Hour)
	f.same("still held", f.delivery(first).Status, contract.StatusPending)
	told := f.dueNotices(off.Add(99 * day))
	if len(told) != 1 || told[0].Became != store.BecameExpiring || !told[0].At.Equal(off.Add(29*day)) || told[0].Endpoint.ID != "a" ||
		told[0].Why != webhook.ReasonSwitchedOff || told[0].Tenant.OwnerURL == "" {
		f.Fatalf("told %+v", told)
	}
	at := off.Add(30*day + time.Minute)
	version := f.getEndpoint(e).Version
	f.ok(f.SkipHeld(f.ctx, at))
	f.isSkipped(first, webhook.WhySwitchedOff, at)
	f.same("younger", f.delivery(second).Status, contract.StatusPending)
	f.written(e)
	f.isSkipped(first, webhook.WhySwitchedOff, at)
	hourly(31*day, 39*day)
	f.same("younger", f.delivery(second).Status, contract.StatusPending)
	hourly(39*day+12*time.Hour, 41*day)
	f.written(e)
	f.same("at last", f.delivery(second).Status, contract.StatusSkipped)
	f.same("the test", f.delivery(test).Status, contract.StatusPending)
	f.same("told", len(f.dueNotices(off.Add(99*day))), 1)
	f.same("version", f.getEndpoint(e).Version, version)

	f.now = off.Add(50 * day)
	f.on(e, store.EndpointUpdate{CatchUp: true})
	f.off(e, store.EndpointUpdate{})
	third := f.send(e)
	f.ok(f.SkipHeld(f.ctx, f.now.Add(29*day+time.Minute)))
	f.same("told of the next time", len(f.dueNotices(off.Add(99*day))), 2)
	f.same("held anew", f.delivery(third).Status, contract.StatusPending)
}

// The time for which an endpoint holds runs from when it went off, whatever kind of
// off it becomes meanwhile.
func otherOffHoldsNoLonger(f *fixture) {
	f.owned()
	e := f.endpoint("a")
	held := f.send(e)
	f.off(e, store.EndpointUpdate{})
	off := f.now
	f.now = off.Add(20 * day)
	disable := func() {
		f.Helper()
		now := f.now
		f.update(e, store.EndpointUpdate{}, func(e *webhook.Endpoint) {
			e.State, e.StateReason, e.StateSince = webhook.EndpointDisabled, webhook.ReasonStaff, now
		})
	}
	disable()
	f.ok(f.SkipHeld(f.ctx, off.Add(29*day+time.Hour)))
	f.same("told", len(f.dueNotices(off.Add(99*day))), 1)
	f.now = off.Add(29*day + 2*time.Hour)
	disable()
	f.restart()
	f.ok(f.SkipHeld(f.ctx, off.Add(30*day-time.Hour)))
	f.same("still held", f.delivery(held).Status, contract.StatusPending)
	f.ok(f.SkipHeld(f.ctx, off.Add(30*day+time.Hour)))
	f.isSkipped(held, webhook.WhySwitchedOff, off.Add(30*day+time.Hour))
	f.same("told once", len(f.dueNotices(off.Add(99*day))), 1)

	// Switched on and off again it holds anew.
	f.now = off.Add(40 * day)
	f.on(e, store.EndpointUpdate{})
	f.off(e, store.EndpointUpdate{})
	again := f.send(e)
	f.ok(f.SkipHeld(f.ctx, f.now.Add(29*day)))
	f.same("held anew", f.delivery(again).Status, contract.StatusPending)
}

func notices(f *fixture) {
	f.tenant("nobody")
	e := f.endpoint("a")
	disable := func(e *webhook.Endpoint) {
		f.Helper()
		now := f.now
		f.update(e, store.EndpointUpdate{TellOwner: contract.BecameDisabled}, func(e *webhook.Endpoint) {
			e.State, e.StateReason, e.StateSince = webhook.EndpointDisabled, webhook.ReasonGone, now
		})
	}
	disable(f.endpointOf("nobody", "a"))
	disable(e)
	f.same("owners without an address", len(f.dueNotices(f.now)), 0)
	f.owned()
	disable(e)
	f.now = f.now.Add(time.Minute)
	disable(e)
	f.restart()
	due, next, err := f.DueNotices(f.ctx, start(), 10)
	f.ok(err)
	if len(due) != 1 || !next.Equal(f.now) {
		f.Fatalf("due %+v, next %v", due, next)
	}
	n := due[0]
	f.same("the endpoint", n.Endpoint, f.getEndpoint(e))
	if n.Became != contract.BecameDisabled || n.Why != webhook.ReasonGone || !n.At.Equal(start()) || n.Tries != 0 || n.Tenant.ID != webhook.DefaultTenant {
		f.Fatalf("notice is %+v", n)
	}
	due, next, err = f.DueNotices(f.ctx, f.now, 1)
	f.ok(err)
	if len(due) != 1 || due[0].ID != n.ID || !next.Equal(f.now) {
		f.Fatalf("due %+v, next %v", due, next)
	}
	f.ok(f.SettleNotice(f.ctx, n.ID, f.now.Add(time.Hour)))
	f.ok(f.DeleteEndpoint(f.ctx, e.Tenant, e.ID, false, f.now))
	due, next, err = f.DueNotices(f.ctx, f.now, 10)
	f.ok(err)
	if len(due) != 1 || due[0].Endpoint != nil || !next.Equal(f.now.Add(time.Hour)) {
		f.Fatalf("due %+v, next %v", due, next)
	}
	f.ok(f.SettleNotice(f.ctx, due[0].ID, time.Time{}))
	due = f.dueNotices(f.now.Add(time.Hour))
	if len(due) != 1 || due[0].ID != n.ID || due[0].Tries != 1 || !due[0].At.Equal(n.At) {
		f.Fatalf("due %+v", due)
	}
	f.ok(f.SettleNotice(f.ctx, n.ID, time.Time{}))
	due, next, err = f.DueNotices(f.ctx, f.now.Add(day), 10)
	f.ok(err)
	f.same("left", len(due), 0)
	f.same("next", next.IsZero(), true)
}

// A purged log is nowhere from the moment on, across a restart; another endpoint's
// of the same event stays.
func logGoesWithEndpoint(f *fixture) {
	e, other := f.endpoint("a"), f.endpoint("b")
	work := f.sendMany(e, 250)
	shared := f.publish("x", e, other)
	f.record(f.success(work[0]))
	f.record(f.failure(work[1], f.now.Add(time.Hour)))
	f.record(f.success(shared[1]))
	f.ok(f.DeleteEndpoint(f.ctx, e.Tenant, e.ID, true, f.now))
	check := func() {
		f.Helper()
		for _, w := range []store.Work{work[0], work[1], work[249], shared[0]} {
			f.same("gone", f.gone(w), true)
			_, err := f.ListAttempts(f.ctx, w.Tenant, w.DeliveryID)
			f.fails(err, store.ErrNotFound)
		}
		listed, err := f.ListDeliveries(f.ctx, webhook.DefaultTenant, store.DeliveryFilter{}, store.Page{Limit: 250})
		f.ok(err)
		f.same("listed", len(listed.Items), 1)
		f.same("the other one's", f.delivery(shared[1]).Status, contract.StatusDelivered)
	}
	check()
	f.restart()
	f.eventually("nothing waits", func() bool { return len(f.due(e, f.now.Add(day))) == 0 })
	check()
	f.same("a late outcome", f.record(f.success(work[2])).Applied, false)
	again := f.endpoint("a")
	fresh := f.send(again)
	f.same("the ID's next endpoint", f.delivery(fresh).Status, contract.StatusPending)
}

func endpointsAreAudited(f *fixture) {
	who := webhook.Actor{Kind: webhook.ActorKey, ID: "phk_1"}
	ctx := webhook.WithActor(f.ctx, who)
	in := fullEndpoint("a", f.now)
	in.URL = "https://user:password-in-url@hooks.example.com/path-secret"
	e, err := f.CreateEndpoint(ctx, in)
	f.ok(err)
	f.now = f.now.Add(time.Minute)
	now := f.now
	_, err = f.UpdateEndpoint(ctx, e.Tenant, e.ID, f.now, func(e *webhook.Endpoint) (store.EndpointUpdate, error) {
		e.URL = "https://hooks.example.com/other-secret"
		e.Headers[0].Value = webhook.NewSecretText("header value changed")
		e.MaxInFlight = 7
		e.State, e.StateReason, e.StateSince = webhook.EndpointActive, webhook.ReasonActive, now
		e.Filter, e.Ordering = `type == "x"`, &webhook.Ordering{From: []string{"data.id"}}
		return store.EndpointUpdate{Action: "endpoint.resumed", Why: "because"}, nil
	})
	f.ok(err)
	_, err = f.UpdateEndpoint(f.ctx, e.Tenant, e.ID, f.now, func(e *webhook.Endpoint) (store.EndpointUpdate, error) {
		e.State, e.StateReason = webhook.EndpointDisabled, webhook.ReasonStaff
		return store.EndpointUpdate{}, nil
	})
	f.ok(err)
	f.ok(f.DeleteEndpoint(ctx, e.Tenant, e.ID, false, f.now))

	listed, err := f.ListAudit(f.ctx, e.Tenant, store.AuditFilter{Kind: "endpoint", Target: "a"}, store.Page{Limit: 10, Ascending: true})
	f.ok(err)
	if len(listed.Items) != 4 {
		f.Fatalf("%d entries", len(listed.Items))
	}
	text, err := json.Marshal(listed.Items)
	f.ok(err)
	for _, secret := range []string{"password", "path-secret", "other-secret", "user:", "header value", "whsec_", "two", "three"} {
		if strings.Contains(string(text), secret) {
			f.Fatalf("%q is in the trail: %s", secret, text)
		}
	}
	created, resumed, disabled, deleted := listed.Items[0], listed.Items[1], listed.Items[2], listed.Items[3]
	f.same("actions", []string{created.Action, resumed.Action, disabled.Action, deleted.Action},
		[]string{"endpoint.created", "endpoint.resumed", "endpoint.updated", "endpoint.deleted"})
	f.same("who", []webhook.Actor{created.Actor, resumed.Actor, disabled.Actor, deleted.Actor}, []webhook.Actor{who, who, {Kind: webhook.ActorEngine}, who})
	f.same("why", []string{resumed.Why, disabled.Why}, []string{"because", string(webhook.ReasonStaff)})
	if created.Before != nil || created.After == nil || deleted.Before == nil || deleted.After != nil || !resumed.At.Equal(f.now) {
		f.Fatalf("trail is %s", text)
	}
	f.same("before", string(resumed.Before), `{"filter":"","headers":["X-B","X-A","X-B"],"max_in_flight":16,"ordering":null,"state":"paused","state_reason":"person","url_host":"hooks.example.com"}`)
	f.same("after", string(resumed.After), `{"filter":"type == \"x\"","headers":["X-B","X-A","X-B"],"max_in_flight":7,"ordering":["data.id"],"state":"active","state_reason":"","url_host":"hooks.example.com"}`)
	f.same("disabled", string(disabled.After), `{"state":"disabled","state_reason":"staff"}`)
}

func noneAndEmptyAreTheSame(f *fixture) {
	e := f.endpoint("a") // without metadata
	f.change(e, func(e *webhook.Endpoint) { e.Metadata, e.Description = map[string]string{}, "x" })
	f.change(e, func(e *webhook.Endpoint) { e.Metadata, e.Ordering = nil, &webhook.Ordering{} })
	trail := f.trail(e.Tenant, store.AuditFilter{Kind: "endpoint", Target: "a"})
	f.same("before", string(trail[1].Before), `{"description":""}`)
	f.same("after", string(trail[1].After), `{"description":"x"}`)
	// Strict without paths is not the same as left to the contract.
	f.same("before", string(trail[2].Before), `{"ordering":null}`)
	f.same("after", string(trail[2].After), `{"ordering":[]}`)
}
