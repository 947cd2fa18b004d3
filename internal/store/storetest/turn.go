package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func turnCases() []testCase {
	return []testCase{
		{name: "TestContract_E8_DegradedThenPausedAndTold", run: degradedThenPaused},
		{name: "TestContract_E8_MarkIsRenewedAndEnds", run: markIsRenewedAndEnds},
		{name: "TestContract_S9_NoSuccessForLongDisables", run: noSuccessDisables},
		{name: "TestContract_S9_LapseDividesTheSpan", run: lapseDividesTheSpan},
		{name: "TestContract_S9_OneTransitionOfSeveral", opts: Options{Contract: severalRules}, run: oneTransitionOfSeveral},
		{name: "TestContract_S9_OffChangesNothing", run: offChangesNothing},
		{name: "TestContract_P5_OffByAnAnswerSkipsWhatWaits", run: offSkipsWhatWaits},
		{name: "TestContract_P5_OffIsSettledByThePresentContract", opts: Options{Contract: severalRules}, run: offByPresentContract},
		{name: "TestEngine_N16_AGateGoesWithTheLastOfItsScope", run: gateGoesWithItsLast},
		{name: "TestEngine_N16_GateFollowsTheRecord", run: gateFollowsTheRecord},
		{name: "TestEngine_N16_AProbeThatWaitsNoMoreIsNone", run: probeWaitsNoMore},
		{name: "TestEngine_N12_SuccessEndsWhatAMarkSkipped", run: successEndsSkipped},
	}
}

// withOwner gives the default tenant an owner, so that there is somebody to tell.
func (f *fixture) withOwner() {
	f.Helper()
	_, err := f.UpdateTenant(f.ctx, webhook.DefaultTenant, func(t *webhook.Tenant) error {
		t.OwnerEmail = "owner@example.com"
		return nil
	})
	f.ok(err)
}

// notices are the transitions that the owner is to be told of.
func (f *fixture) notices() []contract.Transition {
	f.Helper()
	due, _, err := f.DueNotices(f.ctx, f.now.AddDate(1, 0, 0), 100)
	f.ok(err)
	all := []contract.Transition{}
	for _, n := range due {
		all = append(all, n.Became)
	}
	return all
}

// engineTrail are the actions noted about endpoints by the engine itself.
func (f *fixture) engineTrail() []string {
	f.Helper()
	page, err := f.ListAudit(f.ctx, webhook.DefaultTenant, store.AuditFilter{Kind: "endpoint"}, store.Page{Limit: 100, Ascending: true})
	f.ok(err)
	all := []string{}
	for _, a := range page.Items {
		if a.Actor.Kind == webhook.ActorEngine && a.Action != "endpoint.created" {
			all = append(all, a.Action+" "+a.Why)
		}
	}
	return all
}

// engine are the events that the engine raised.
func (f *fixture) engine() []string {
	f.Helper()
	all := []string{}
	for _, t := range f.types(webhook.DefaultTenant) {
		if t != eventType {
			all = append(all, t)
		}
	}
	return all
}

// fail records n failed tries of the delivery under a contract.
func (f *fixture) fail(w *store.Work, name string, n int) {
	f.Helper()
	c := Builtin(name, "")
	for range n {
		p := f.failure(*w, f.now)
		p.Contract, p.Raise = c, f.raiseFor()
		f.record(p)
		w.Attempts++
		w.Rows++
	}
}

func degradedThenPaused(f *fixture) {
	f.withOwner()
	e := f.endpointUnder("a", pausing())
	w := f.send(e)
	f.fail(&w, pausing(), 2)
	f.same("not yet", f.getEndpoint(e).Version, e.Version)
	told := f.heard.count()
	f.fail(&w, pausing(), 1)
	got := f.getEndpoint(e)
	f.same("mark", got.Health.DegradedUntil, f.now.Add(24*time.Hour).Truncate(time.Millisecond))
	f.same("still on", got.On(), true)
	// What events match knows the mark from the commit on.
	var heard *webhook.Endpoint
	for _, c := range f.heard.since(told) {
		if c.Endpoint != nil {
			heard = c.Endpoint
		}
	}
	f.same("told", heard, got)

	f.restart()
	f.fail(&w, pausing(), 46)
	f.same("not yet", f.getEndpoint(e).On(), true)
	f.fail(&w, pausing(), 1)
	got = f.getEndpoint(e)
	f.same("state", got.State, webhook.EndpointPaused)
	f.same("reason", got.StateReason, webhook.ReasonFailuresInRow)
	f.same("failures", got.Health.FailuresInRow, 50)
	f.fail(&w, pausing(), 1) // one that was under way
	f.same("once", f.getEndpoint(e).Version, got.Version)
	f.restart()
	f.same("notices", f.notices(), []contract.Transition{contract.BecamePaused})
	f.same("events", f.engine(), []string{webhook.TypeEndpointDegraded, webhook.TypeEndpointPaused})
	f.same("trail", f.engineTrail(), []string{"endpoint.degraded failures_in_row", "endpoint.paused failures_in_row"})
}

func markIsRenewedAndEnds(f *fixture) {
	e := f.endpoint("a")
	w := f.send(e)
	f.fail(&w, pausing(), 3)
	marked := f.getEndpoint(e)
	f.now = f.now.Add(23 * time.Hour)
	f.fail(&w, pausing(), 1)
	f.same("it runs", f.getEndpoint(e).Health.DegradedUntil, marked.Health.DegradedUntil)
	f.now = f.now.Add(time.Hour)
	f.fail(&w, pausing(), 1)
	f.same("renewed", f.getEndpoint(e).Health.DegradedUntil, f.now.Add(24*time.Hour).Truncate(time.Millisecond))
	f.same("events", f.engine(), []string{webhook.TypeEndpointDegraded})

	f.now = f.now.Add(25 * time.Hour)
	p := f.success(w)
	p.Contract, p.Raise = Builtin(pausing(), ""), f.raiseFor()
	f.record(p)
	f.restart()
	f.same("mark", f.getEndpoint(e).Health.DegradedUntil, time.Time{})
	f.same("events", f.engine(), []string{webhook.TypeEndpointDegraded, webhook.TypeEndpointRecovered})
	f.same("trail", f.engineTrail(), []string{"endpoint.degraded failures_in_row", "endpoint.recovered "})
}

func noSuccessDisables(f *fixture) {
	f.withOwner()
	e := f.endpoint("a")
	w := f.send(e)
	f.fail(&w, disabling(), 3)
	f.now = f.now.Add(72*time.Hour - time.Millisecond)
	f.fail(&w, disabling(), 1)
	f.same("not yet", f.getEndpoint(e).On(), true)
	f.restart()
	f.now = f.now.Add(time.Millisecond)
	f.fail(&w, disabling(), 1)
	got := f.getEndpoint(e)
	f.same("state", got.State, webhook.EndpointDisabled)
	f.same("reason", got.StateReason, webhook.ReasonNoSuccess)
	f.same("since", got.StateSince, f.now.Truncate(time.Millisecond))
	f.same("events", f.engine(), []string{webhook.TypeEndpointDisabled})
	f.same("trail", f.engineTrail(), []string{"endpoint.disabled no_success"})

	// Two failures are not enough, however long apart.
	e = f.endpoint("b")
	w = f.send(e)
	f.fail(&w, disabling(), 1)
	f.now = f.now.Add(1000 * time.Hour)
	f.fail(&w, disabling(), 1)
	f.same("two failures", f.getEndpoint(e).On(), true)
}

func lapseDividesTheSpan(f *fixture) {
	e := f.endpoint("a")
	w := f.send(e)
	f.fail(&w, disabling(), 2)
	f.now = f.now.Add(72 * time.Minute)
	p := f.failure(w, f.now)
	p.Contract, p.Lapse = Builtin(disabling(), ""), 60
	f.record(p)
	f.same("state", f.getEndpoint(e).State, webhook.EndpointDisabled)
}

// Of several transitions in one record the first of 410, no success and failures
// in a row is the one that is noted and told.
func oneTransitionOfSeveral(f *fixture) {
	f.withOwner()
	c := severalRules("several", "")
	for gone, want := range map[bool]webhook.StateReason{true: webhook.ReasonGone, false: webhook.ReasonNoSuccess} {
		e := f.endpointUnder(string(want), "several")
		w := f.send(e)
		f.fail(&w, "standard", 2)
		f.now = f.now.Add(80 * time.Hour)
		noticed, raised, trail := f.notices(), f.engine(), f.engineTrail()
		p := f.failure(w, f.now)
		p.Contract, p.Raise = c, f.raiseFor()
		if gone {
			p.Disable = webhook.ReasonGone
		}
		f.record(p)
		got := f.getEndpoint(e)
		f.same("state", got.State, webhook.EndpointDisabled)
		f.same("reason", got.StateReason, want)
		f.same("mark", got.Health.DegradedUntil.IsZero(), false)
		f.same("notices", f.notices(), append(noticed, contract.BecameDisabled))
		f.same("events", f.engine(), append(raised, webhook.TypeEndpointDisabled))
		f.same("trail", f.engineTrail(), append(trail, "endpoint.disabled "+string(want)))
	}
}

func offChangesNothing(f *fixture) {
	e := f.endpoint("a")
	w := f.send(e)
	f.fail(&w, pausing(), 2)
	f.change(e, func(e *webhook.Endpoint) { e.State, e.StateReason = webhook.EndpointPaused, webhook.ReasonPerson })
	f.fail(&w, pausing(), 60)
	got := f.getEndpoint(e)
	f.same("mark", got.Health.DegradedUntil, time.Time{})
	f.same("reason", got.StateReason, webhook.ReasonPerson)
	f.same("failures", got.Health.FailuresInRow, 62)
	f.same("events", f.engine(), []string{})
	// Switched on again, the next one counts.
	f.change(e, func(e *webhook.Endpoint) { e.State, e.StateReason = webhook.EndpointActive, webhook.ReasonActive })
	f.fail(&w, pausing(), 1)
	f.same("state", f.getEndpoint(e).State, webhook.EndpointPaused)
}

func offSkipsWhatWaits(f *fixture) {
	c := *Builtin(skipping(), "")
	c.Pause.After = 2
	e := f.endpointUnder("a", skipping())
	work := f.sendMany(e, 3)
	p := f.failure(work[0], f.now.Add(time.Minute))
	p.Contract = &c
	f.record(p)
	f.same("waits", f.delivery(work[0]).Status, contract.StatusPending)
	p = f.failure(work[1], f.now.Add(time.Minute))
	p.Contract = &c
	f.record(p)
	f.same("state", f.getEndpoint(e).State, webhook.EndpointPaused)
	for i := range work {
		d := f.delivery(work[i])
		f.same("status", d.Status, contract.StatusSkipped)
		f.same("reason", d.Reason, webhook.WhySwitchedOff)
	}
	// A try under way that then fails waits for no other.
	f.record(f.failure(work[2], f.now.Add(time.Minute)))
	f.restart()
	f.same("status", f.delivery(work[2]).Status, contract.StatusSkipped)
	f.eventually("the mark is written", func() bool { return len(f.getEndpoint(e).Skips) == 0 })
	f.same("status", f.delivery(work[2]).Status, contract.StatusSkipped)
	f.same("log", len(f.attempts(work[1])), 1)
}

func (f *fixture) gates() []store.Gate {
	f.Helper()
	all, err := f.ListGates(f.ctx)
	f.ok(err)
	return all
}

func gateFollowsTheRecord(f *fixture) {
	e := f.endpoint("a")
	work := f.sendMany(e, 2)
	key := e.GateKey(webhook.GateURL)
	until := f.now.Add(time.Minute).Truncate(time.Millisecond)
	p := f.failure(work[0], until)
	p.Gate = &store.GateMove{Key: key, Until: until, Probe: work[0].Ref}
	f.record(p)
	want := []store.Gate{{Key: key, Until: until, Probe: work[0].Ref, ProbeEndpoint: e.Key}}
	f.restart()
	f.same("closed", f.gates(), want)

	// What is stale moves no gate.
	stale := f.end(work[0], contract.StatusFailed, webhook.WhyStopped)
	stale.Gate = &store.GateMove{Key: key, Until: until.Add(time.Hour), Probe: work[0].Ref}
	f.record(stale)
	f.same("stale", f.gates(), want)
	again := f.work(work[0].Ref)
	f.same("probe", again.Attempts, 1)
	p = f.failure(again, until.Add(time.Hour))
	p.Gate = &store.GateMove{Key: key, Until: until.Add(time.Hour), Probe: again.Ref}
	f.record(p)
	want[0].Until = until.Add(time.Hour)
	f.same("moved", f.gates(), want)

	open := f.success(work[1])
	open.Gate = &store.GateMove{Key: key}
	f.record(open)
	f.same("open", len(f.gates()), 0)
}

func probeWaitsNoMore(f *fixture) {
	ends := map[string]func(*webhook.Endpoint, store.Work){
		"canceled": func(e *webhook.Endpoint, w store.Work) {
			_, err := f.CancelDelivery(f.ctx, e.Tenant, w.DeliveryID, f.now)
			f.ok(err)
		},
		"deleted": func(e *webhook.Endpoint, _ store.Work) { f.ok(f.DeleteEndpoint(f.ctx, e.Tenant, e.ID, false, f.now)) },
		"skipped": func(e *webhook.Endpoint, _ store.Work) {
			_, err := f.UpdateEndpoint(f.ctx, e.Tenant, e.ID, f.now, func(e *webhook.Endpoint) (store.EndpointUpdate, error) {
				e.State, e.StateReason = webhook.EndpointPaused, webhook.ReasonSwitchedOff
				return store.EndpointUpdate{Skip: webhook.WhySwitchedOff}, nil
			})
			f.ok(err)
		},
	}
	f.sharing("other") // for which it stays closed
	for name, end := range ends {
		e := f.sharing(name)
		w := f.send(e)
		p := f.failure(w, f.now.Add(time.Minute))
		p.Gate = &store.GateMove{Key: e.GateKey(webhook.GateURL), Until: f.now.Add(time.Minute), Probe: w.Ref}
		f.record(p)
		f.same("closed", len(f.gates()), 1)
		end(e, w)
		if got := f.gates(); len(got) != 1 || got[0].Probe != 0 || got[0].ProbeEndpoint != 0 {
			f.Fatalf("%s: gates are %+v", name, got)
		}
		_, found, err := f.LoadWork(f.ctx, w.Ref)
		f.ok(err)
		if found && name != "skipped" {
			f.Errorf("%s: it is found", name)
		}
		open := f.success(f.send(f.endpoint(name + "-other")))
		open.Gate = &store.GateMove{Key: e.GateKey(webhook.GateURL)}
		f.record(open)
	}
}

// A success of a request that was under way counts, whatever a mark or the job that
// writes it made of its delivery meanwhile; so the order of the two does not matter.
func successEndsSkipped(f *fixture) {
	e := f.endpoint("a")
	work := f.sendMany(e, 3)
	_, err := f.UpdateEndpoint(f.ctx, e.Tenant, e.ID, f.now, func(e *webhook.Endpoint) (store.EndpointUpdate, error) {
		e.State, e.StateReason = webhook.EndpointPaused, webhook.ReasonSwitchedOff
		return store.EndpointUpdate{Skip: webhook.WhySwitchedOff}, nil
	})
	f.ok(err)
	r := f.record(f.success(work[0])) // either the mark or the row says skipped by now
	f.same("ended", r.Applied != r.Absorbed, true)
	f.eventually("the mark is written", func() bool { return len(f.getEndpoint(e).Skips) == 0 })
	f.same("written", f.record(f.success(work[1])), store.RecordResult{Absorbed: true})
	f.same("a failure changes nothing", f.record(f.failure(work[2], f.now)), store.RecordResult{})
	got := map[contract.Status]int{}
	for _, w := range work {
		got[f.delivery(w).Status]++
	}
	if diff := cmp.Diff(map[contract.Status]int{contract.StatusDelivered: 2, contract.StatusSkipped: 1}, got); diff != "" {
		f.Fatal(diff)
	}
	f.restart()
	f.same("status", f.delivery(work[1]).Status, contract.StatusDelivered)
	f.same("due", len(f.due(e, f.now)), 0)
}

// endpointUnder creates an endpoint of the default tenant under a contract.
func (f *fixture) endpointUnder(id, name string) *webhook.Endpoint {
	f.Helper()
	e := newEndpoint(webhook.DefaultTenant, id, f.now)
	e.Contract = name
	made, err := f.CreateEndpoint(f.ctx, e)
	f.ok(err)
	return made
}

// severalRules knows contracts beside the built-in ones: one that does all there is
// on failures, one that says what going off means, one that says nothing of it.
func severalRules(name, revision string) *contract.Contract {
	switch name {
	case "several":
		c := *Builtin(disabling(), "")
		c.Pause.After, c.Degrade = 3, contract.Degrade{After: 3, For: contract.Duration(time.Hour), Waits: c.Schedule.Waits}
		c.TellOwner = []contract.Transition{contract.BecameDisabled, contract.BecamePaused, contract.BecameDegraded}
		return &c
	case "strict":
		return &contract.Contract{Name: name, Off: contract.Off{Waiting: contract.FateSkip}, TellOwner: []contract.Transition{contract.BecamePaused}}
	case "plain":
		return &contract.Contract{Name: name}
	default:
		return Builtin(name, revision)
	}
}

// A try is judged by its delivery's promise; what going off means is for the
// endpoint's present contract to say, as where a person switches it off.
func offByPresentContract(f *fixture) {
	f.withOwner()
	judge := contract.Contract{Pause: contract.Pause{After: 1}}
	judgeStrict := *severalRules("strict", "")
	judgeStrict.Pause.After = 1
	for i, c := range []struct {
		present string
		promise *contract.Contract
		strict  bool
	}{
		{"strict", &judge, true},
		{"plain", &judgeStrict, false},
		{"unknown", &judgeStrict, true},
		{"unknown", nil, false},
	} {
		e := f.endpointUnder(string(rune('a'+i)), c.present)
		work := f.sendMany(e, 2)
		told := len(f.notices())
		p := f.failure(work[0], f.now.Add(time.Minute))
		if p.Contract = c.promise; c.promise == nil {
			p.Disable = webhook.ReasonGone
		}
		f.record(p)
		f.same("on", f.getEndpoint(e).On(), false)
		status, notices := contract.StatusPending, 0
		if c.strict {
			status, notices = contract.StatusSkipped, 1
		}
		f.same("what waits", f.delivery(work[1]).Status, status)
		f.same("told", len(f.notices())-told, notices)
	}
}

// A closed gate ends when the last endpoint of its scope leaves it, and a request
// that was under way then closes none again.
func gateGoesWithItsLast(f *fixture) {
	until := f.now.Add(time.Minute)
	closed := func(scope webhook.GateScope, e *webhook.Endpoint) store.Work {
		w := f.send(e)
		p := f.failure(w, until)
		p.Gate = &store.GateMove{Key: e.GateKey(scope), Until: until, Probe: w.Ref}
		f.record(p)
		return f.work(w.Ref)
	}
	gates := func(what string, n int) {
		f.Helper()
		f.same(what, len(f.gates()), n)
	}
	move := func(e *webhook.Endpoint) {
		f.change(e, func(e *webhook.Endpoint) { e.URL = "https://moved.example.com/" + e.ID })
	}
	a, b := f.sharing("a"), f.sharing("b")
	f.tenant("t2")
	other := newEndpoint("t2", "a", f.now)
	other.URL = a.URL
	other, err := f.CreateEndpoint(f.ctx, other)
	f.ok(err)
	closed(webhook.GateURL, other)
	probe := closed(webhook.GateURL, a)
	f.change(a, func(e *webhook.Endpoint) { e.Description = "x" })
	gates("a change that leaves none", 2)
	move(a)
	gates("another one is behind it", 2)
	f.ok(f.DeleteEndpoint(f.ctx, b.Tenant, b.ID, false, f.now))
	gates("the other tenant's", 1)
	late := f.failure(probe, until)
	late.Gate = &store.GateMove{Key: a.GateKey(webhook.GateURL), Until: until, Probe: probe.Ref}
	f.record(late)
	gates("after what was under way", 1)
	move(other)
	gates("none", 0)

	own := closed(webhook.GateEndpoint, a)
	move(a)
	gates("its own stays", 1)
	f.ok(f.DeleteEndpoint(f.ctx, a.Tenant, a.ID, false, f.now))
	gates("deleted", 0)
	late = f.failure(own, until)
	late.Gate = &store.GateMove{Key: a.GateKey(webhook.GateEndpoint), Until: until, Probe: own.Ref}
	f.record(late)
	gates("after what was under way", 0)
}

// pausing, disabling and skipping name built-in contracts by what they do.
func pausing() string {
	return builtinWith(func(c *contract.Contract) bool { return c.Pause.After > 0 })
}

func disabling() string {
	return builtinWith(func(c *contract.Contract) bool { return c.Disable.NoSuccessFor > 0 && c.Name != contract.Standard })
}

func skipping() string { return builtinWith((*contract.Contract).SkipsWaiting) }

func builtinWith(trait func(*contract.Contract) bool) string {
	for _, name := range contract.BuiltinNames() {
		if c, ok := contract.Builtin(name); ok && trait(c) {
			return name
		}
	}
	return ""
}
