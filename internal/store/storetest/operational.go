package storetest

import (
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func operationalCases() []testCase {
	return []testCase{
		{name: "TestEngine_N19_EventsOfAnOutcomeAreOneCommitWithIt", run: emitWithOutcome},
		{name: "TestEngine_N19_NoDisabledEventForADisabledEndpoint", run: noSecondDisabledEvent},
		{name: "TestEngine_N19_StaleEmitWritesNothing", run: staleEmitWritesNothing},
		{name: "TestEngine_N19_OutcomeOutlivesItsTenant", run: outcomeOutlivesItsTenant},
		{name: "TestEngine_N19_EventsOfAChangeAreOneCommitWithIt", run: emitWithChange},
		{name: "TestEngine_N12_DisablingIsOneCommitWithTheOutcome", run: disablingWithOutcome},
	}
}

// operational is an event of the engine for some endpoints, matched just now.
func (f *fixture) operational(kind string, targets ...*webhook.Endpoint) store.AcceptParams {
	f.Helper()
	p := f.event(targets...)
	p.Type = kind
	setData(&p, `{"why":"`+kind+`"}`)
	return p
}

func (f *fixture) types(tenant string) []string {
	f.Helper()
	listed, err := f.ListEvents(f.ctx, tenant, store.EventFilter{}, store.Page{Limit: 100, Ascending: true})
	f.ok(err)
	types := []string{}
	for _, e := range listed.Items {
		types = append(types, e.Type)
	}
	return types
}

func emitWithOutcome(f *fixture) {
	e, watcher := f.endpoint("a"), f.endpoint("watcher")
	w := f.send(e)
	told := f.heard.count()
	p := f.end(w, contract.StatusFailed, webhook.WhyExhausted)
	p.Emit = []store.AcceptParams{f.operational(webhook.TypeWebhookFailed, watcher), f.operational(webhook.TypeEndpointDegraded)}
	f.record(p)
	f.same("types", f.types(webhook.DefaultTenant), []string{eventType, webhook.TypeWebhookFailed, webhook.TypeEndpointDegraded})
	work := f.window(watcher, f.now).Work
	if len(work) != 1 || work[0].Type != webhook.TypeWebhookFailed || string(work[0].Data) != string(p.Emit[0].Data) {
		f.Fatalf("the watcher's lane holds %+v", work)
	}
	// The lanes hear of it in the same breath.
	var handed []store.Work
	for _, c := range f.heard.since(told) {
		handed = append(handed, c.Accepted...)
	}
	f.same("handed over", handed, work)
}

// raise answers RecordParams.Raise with an event for nobody.
func (f *fixture) raise(eventType string, _ *webhook.Endpoint) (store.AcceptParams, bool) {
	f.Helper()
	return f.raiseFor()(eventType, nil)
}

// raiseFor answers RecordParams.Raise with an event that is matched anew when it
// is accepted.
func (f *fixture) raiseFor(targets ...*webhook.Endpoint) func(string, *webhook.Endpoint) (store.AcceptParams, bool) {
	return func(eventType string, _ *webhook.Endpoint) (store.AcceptParams, bool) {
		p := newEvent(webhook.DefaultTenant, -1, f.now, targets...)
		p.Type = eventType
		matched := store.Matched{Targets: p.Targets}
		p.Rematch = func() store.Matched {
			_, revisions, _ := f.LoadSubscriptions(f.ctx) // without one nothing matches
			matched.Revision = revisions[webhook.DefaultTenant]
			return matched
		}
		return p, true
	}
}

func noSecondDisabledEvent(f *fixture) {
	e := f.endpoint("a")
	work := f.sendMany(e, 3)
	for i, w := range work {
		p := f.end(w, contract.StatusDead, webhook.WhyStopped)
		p.Disable = webhook.ReasonGone
		p.Raise = f.raise
		p.Emit = []store.AcceptParams{f.operational(webhook.TypeWebhookFailed)}
		if r := f.record(p); !r.Applied {
			f.Fatalf("outcome %d was not applied", i)
		}
	}
	count := map[string]int{}
	for _, t := range f.types(webhook.DefaultTenant) {
		count[t]++
	}
	f.same("events", count, map[string]int{eventType: 3, webhook.TypeEndpointDisabled: 1, webhook.TypeWebhookFailed: 3})
	got := f.getEndpoint(e)
	if got.State != webhook.EndpointDisabled || got.StateReason != webhook.ReasonGone || got.Health.FailuresInRow != 3 {
		f.Fatalf("endpoint is %+v", got)
	}
}

func staleEmitWritesNothing(f *fixture) {
	e := f.endpoint("a")
	w := f.send(e)
	before := f.snapshot()
	p := f.end(w, contract.StatusFailed, webhook.WhyExhausted)
	p.Disable = webhook.ReasonNoSuccess
	p.Emit = []store.AcceptParams{f.operational(webhook.TypeWebhookFailed), f.operational(webhook.TypeEndpointDegraded)}
	p.Emit[1].Revision--
	r := <-f.begin(p)
	f.fails(r.err, store.ErrStale)
	f.same("what is stored", f.snapshot(), before)

	// One about the endpoint is prepared only inside the commit: it undoes it.
	p.Emit[1].Revision++
	raised := f.operational(webhook.TypeEndpointDisabled)
	raised.Revision--
	p.Raise = func(string, *webhook.Endpoint) (store.AcceptParams, bool) { return raised, true }
	r = <-f.begin(p)
	f.fails(r.err, store.ErrStale)
	f.same("what is stored", f.snapshot(), before)

	// With Rematch both find out by themselves.
	p.Raise = f.raise
	rev := p.Emit[1].Revision
	p.Emit[1].Revision = -1
	p.Emit[1].Rematch = func() store.Matched { return store.Matched{Revision: rev} }
	if r := f.record(p); !r.Applied {
		f.Fatal("matched again, it was not applied")
	}
	f.same("state", f.getEndpoint(e).State, webhook.EndpointDisabled)
	f.same("types", f.types(webhook.DefaultTenant),
		[]string{eventType, webhook.TypeEndpointDisabled, webhook.TypeWebhookFailed, webhook.TypeEndpointDegraded})
}

// With the tenant whoever would hear of an outcome is gone; it is written all the
// same, once and for good.
func outcomeOutlivesItsTenant(f *fixture) {
	f.tenant("t2")
	e := f.endpointOf("t2", "a")
	w := f.send(e)
	p := f.end(w, contract.StatusFailed, webhook.WhyExhausted)
	p.Emit = []store.AcceptParams{f.operational(webhook.TypeWebhookFailed, e)}
	f.ok(f.DeleteEndpoint(f.ctx, e.Tenant, e.ID, false, f.now))
	f.ok(f.DeleteTenant(f.ctx, "t2"))
	f.record(p)
	f.same("types", f.types(store.TenantAll), []string{eventType})
}

func emitWithChange(f *fixture) {
	e, watcher := f.endpoint("a"), f.endpoint("watcher")
	pause := func(emit store.AcceptParams) error {
		_, err := f.UpdateEndpoint(f.ctx, e.Tenant, e.ID, f.now, func(e *webhook.Endpoint) (store.EndpointUpdate, error) {
			e.State, e.StateReason = webhook.EndpointPaused, webhook.ReasonPerson
			return store.EndpointUpdate{Emit: []store.AcceptParams{emit}}, nil
		})
		return err
	}
	stale := f.operational(webhook.TypeEndpointPaused, watcher)
	stale.Revision--
	f.fails(pause(stale), store.ErrStale)
	f.same("state", f.getEndpoint(e).State, webhook.EndpointActive)
	f.same("types", f.types(webhook.DefaultTenant), []string{})

	f.ok(pause(f.operational(webhook.TypeEndpointPaused, watcher)))
	f.same("state", f.getEndpoint(e).State, webhook.EndpointPaused)
	f.same("types", f.types(webhook.DefaultTenant), []string{webhook.TypeEndpointPaused})
	f.same("watcher's lane", len(f.due(watcher, f.now)), 1)
}

func disablingWithOutcome(f *fixture) {
	e := f.endpoint("a")
	w := f.send(e)
	told := f.heard.count()
	p := f.end(w, contract.StatusDead, webhook.WhyStopped)
	p.Now = f.now.Add(time.Second)
	p.Disable = webhook.ReasonGone
	f.record(p)
	got := f.getEndpoint(e)
	if got.State != webhook.EndpointDisabled || got.StateReason != webhook.ReasonGone || !got.StateSince.Equal(p.Now) || got.Version != e.Version+1 {
		f.Fatalf("endpoint is %+v", got)
	}
	changes := f.heard.since(told)
	if len(changes) != 1 || changes[0].Endpoint == nil || changes[0].Revision != f.revision(e.Tenant) {
		f.Fatalf("told %+v", changes)
	}
	f.same("told", changes[0].Endpoint, got)

	// The endpoint was deleted while its answer was on the way.
	other := f.endpoint("b")
	w = f.send(other)
	p = f.end(w, contract.StatusDead, webhook.WhyStopped)
	p.Disable = webhook.ReasonGone
	f.ok(f.DeleteEndpoint(f.ctx, other.Tenant, other.ID, false, f.now))
	f.record(p)
	_, err := f.GetEndpoint(f.ctx, other.Tenant, other.ID)
	f.fails(err, store.ErrNotFound)
}
