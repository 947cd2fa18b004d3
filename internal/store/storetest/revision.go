package storetest

import (
	"fmt"
	"sync"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func revisionCases() []testCase {
	return []testCase{
		{name: "TestEngine_N2_StaleRevisionIsRefused", run: staleRevisionIsRefused},
		{name: "TestEngine_N2_StaleIsMatchedAgainInItsTransaction", run: staleIsMatchedAgain},
		{name: "TestEngine_N2_ChangeAheadInTheQueueMakesStale", run: changeAheadMakesStale},
		{name: "TestEngine_N2_ChangeAheadIsToldBeforeItIsMatchedAgain", run: changeAheadIsTold},
		{name: "TestEngine_N2_EveryChangeRaisesTheRevision", run: everyChangeRaises},
		{name: "TestEngine_N2_ChangesAreToldInOrderBeforeTheAnswer", run: changesAreToldInOrder},
		{name: "TestEngine_N2_RevisionsSurviveARestart", run: revisionsSurvive},
	}
}

func staleRevisionIsRefused(f *fixture) {
	f.tenant("t2")
	e, other := f.endpoint("a"), f.endpointOf("t2", "a")
	good := f.event(e)
	old, ahead, foreign, missing := good, good, f.event(other), good
	old.Revision--
	ahead.Revision++
	missing.Tenant = "nobody"
	f.endpointOf("t2", "b") // stales foreign, not good
	results, err := f.Accept(f.ctx, []store.AcceptParams{old, good, ahead, foreign, missing})
	f.ok(err)
	f.fails(results[0].Err, store.ErrStale)
	f.ok(results[1].Err)
	f.fails(results[2].Err, store.ErrStale)
	f.fails(results[3].Err, store.ErrStale)
	f.fails(results[4].Err, store.ErrNotFound)
	if n := f.countEvents(store.TenantAll); n != 1 {
		f.Fatalf("%d events are stored", n)
	}
	f.accept(f.event(other))
}

// However fast subscriptions change, an event that can be matched where it is
// judged is never too late.
func staleIsMatchedAgain(f *fixture) {
	e, more := f.endpoint("a"), f.endpoint("b")
	p, now := f.event(e), f.event(e, more)
	p.Revision--
	asked := 0
	p.Rematch = func() store.Matched {
		asked++
		return store.Matched{Revision: now.Revision, Targets: now.Targets}
	}
	r := f.accept(p)[0]
	if asked != 1 || r.Deliveries != 2 || len(r.Fresh) != 2 || r.Fresh[1].Endpoint != more.Key {
		f.Fatalf("asked %d times: %+v", asked, r)
	}
	p = f.event(e)
	p.Rematch = func() store.Matched { f.Error("asked for no need"); return store.Matched{} }
	f.accept(p)
	p.Revision--
	p.Rematch = func() store.Matched { return store.Matched{Revision: p.Revision, Targets: p.Targets} }
	results, err := f.Accept(f.ctx, []store.AcceptParams{p})
	f.ok(err)
	f.fails(results[0].Err, store.ErrStale)
}

// The endpoint is switched off by an outcome, and an event matched before that
// waits for the same commit behind it: it must be matched again.
func changeAheadMakesStale(f *fixture) {
	e := f.endpoint("a")
	w := f.send(e)
	stale := f.event(e)
	off := f.end(w, "failed", webhook.WhyStopped)
	off.Disable = webhook.ReasonGone

	release := f.db.Stall(f.T, f.Store)
	recorded := f.begin(off)
	answered := make(chan store.AcceptResult, 1)
	go func() {
		results, err := f.Accept(f.ctx, []store.AcceptParams{stale})
		if err != nil {
			f.Error(err)
			results = make([]store.AcceptResult, 1)
		}
		answered <- results[0]
	}()
	release()
	f.ok((<-recorded).err)
	f.fails((<-answered).Err, store.ErrStale)
	f.accept(f.event(e))
}

// Who matches again inside the store's transaction looks into memory that follows
// OnChange: a change that waited for the same commit ahead of it must have been
// told by then.
func changeAheadIsTold(f *fixture) {
	e, other := f.endpoint("a"), f.endpoint("b")
	off := f.end(f.send(e), "failed", webhook.WhyStopped)
	off.Disable = webhook.ReasonGone
	late := f.event(e)
	late.Rematch = func() store.Matched {
		told := f.heard.since(0)
		p := newEvent(webhook.DefaultTenant, told[len(told)-1].Revision, f.now, other)
		return store.Matched{Revision: p.Revision, Targets: p.Targets}
	}
	release := f.db.Stall(f.T, f.Store)
	recorded := f.begin(off)
	answered := make(chan store.AcceptResult, 1)
	go func() {
		results, err := f.Accept(f.ctx, []store.AcceptParams{late})
		if err != nil {
			f.Error(err)
			results = make([]store.AcceptResult, 1)
		}
		answered <- results[0]
	}()
	release()
	f.ok((<-recorded).err)
	r := <-answered
	f.ok(r.Err)
	if len(r.Fresh) != 1 || r.Fresh[0].Endpoint != other.Key {
		f.Fatalf("result is %+v", r)
	}
}

func everyChangeRaises(f *fixture) {
	f.tenant("t2")
	other := f.revision("t2")
	rev := f.revision(webhook.DefaultTenant)
	raised := func(what string, want bool) {
		f.Helper()
		now := f.revision(webhook.DefaultTenant)
		if (now > rev) != want {
			f.Fatalf("%s: the revision went from %d to %d", what, rev, now)
		}
		rev = now
	}
	e := f.endpoint("a")
	raised("create", true)
	f.change(e, func(e *webhook.Endpoint) { e.Description = "new" })
	raised("update", true)
	w := f.send(e)
	raised("accept", false)
	f.record(f.failure(w, f.now))
	raised("record", false)
	w.Attempts++
	off := f.failure(w, f.now)
	off.Disable = webhook.ReasonNoSuccess
	f.record(off)
	raised("disabling", true)
	w.Attempts++
	off = f.failure(w, f.now)
	off.Disable = webhook.ReasonNoSuccess
	f.record(off)
	raised("disabling what is disabled", false)
	_, err := f.UpdateEndpoint(f.ctx, e.Tenant, e.ID, f.now, func(*webhook.Endpoint) (store.EndpointUpdate, error) {
		return store.EndpointUpdate{Unchanged: true}, nil
	})
	f.ok(err)
	raised("an update that changes nothing", false)
	f.ok(f.DeleteEndpoint(f.ctx, e.Tenant, e.ID, false, f.now))
	raised("delete", true)
	if f.revision("t2") != other {
		f.Fatal("another tenant's revision changed")
	}
}

// Whoever follows OnChange knows of a change before its caller does, and hears
// revisions in their order without a gap.
func changesAreToldInOrder(f *fixture) {
	const callers, times = 8, 12
	first := f.revision(webhook.DefaultTenant)
	f.heard.slow = true // an answer that does not wait for it comes first
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			e, err := f.CreateEndpoint(f.ctx, newEndpoint(webhook.DefaultTenant, fmt.Sprintf("e%d", i), f.now))
			if err != nil {
				f.Error(err)
				return
			}
			for range times {
				after, err := f.UpdateEndpoint(f.ctx, e.Tenant, e.ID, f.now, func(e *webhook.Endpoint) (store.EndpointUpdate, error) {
					e.MaxInFlight++
					return store.EndpointUpdate{}, nil
				})
				if err != nil {
					f.Error(err)
					return
				}
				if !f.heard.knows(after) {
					f.Errorf("version %d of endpoint %s was answered before it was told", after.Version, after.ID)
				}
			}
		})
	}
	wg.Wait()
	last := first
	for _, c := range f.heard.since(0) {
		if c.Endpoint == nil {
			continue
		}
		if c.Tenant != webhook.DefaultTenant || c.Revision != last+1 {
			f.Fatalf("revision %d of %s was told after %d", c.Revision, c.Tenant, last)
		}
		last = c.Revision
	}
	if last != first+callers*(times+1) || last != f.revision(webhook.DefaultTenant) {
		f.Fatalf("%d was told last, %d stands", last, f.revision(webhook.DefaultTenant))
	}
}

// knows tells whether a version of an endpoint was told.
func (c *changes) knows(e *webhook.Endpoint) bool {
	for _, change := range c.since(0) {
		if change.Endpoint != nil && change.Endpoint.Key == e.Key && change.Endpoint.Version == e.Version {
			return true
		}
	}
	return false
}

func revisionsSurvive(f *fixture) {
	f.tenant("t2")
	f.endpoint("a")
	f.endpointOf("t2", "b")
	_, before, err := f.LoadSubscriptions(f.ctx)
	f.ok(err)
	f.restart()
	_, after, err := f.LoadSubscriptions(f.ctx)
	f.ok(err)
	f.same("revisions", after, before)
}
