package storetest

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func idempotencyCases() []testCase {
	return []testCase{
		{name: "TestEngine_N3_RepeatGetsTheFirstAnswer", run: repeatGetsTheFirstAnswer},
		{name: "TestEngine_N3_RepeatMayComeAfterItsTime", run: repeatMayComeLate},
		{name: "TestEngine_N3_OtherContentIsAConflict", run: otherContentIsAConflict},
		{name: "TestEngine_N3_WithinOneCall", run: repeatWithinOneCall},
		{name: "TestEngine_N3_OtherTenantIsOther", run: otherTenantIsOther},
		{name: "TestEngine_N3_OwnIDsAreNotRemembered", run: ownIDsAreNotRemembered},
		{name: "TestEngine_N3_OneOfManyAtOnce", run: oneOfManyAtOnce},
	}
}

// repeat takes an event in again and checks that it is one.
func (f *fixture) repeats(p store.AcceptParams, deliveries int) {
	f.Helper()
	r := f.accept(p)[0]
	if !r.Replayed || r.ID != p.ID || r.Deliveries != deliveries || len(r.Fresh) != 0 {
		f.Fatalf("a repeat was answered with %+v", r)
	}
}

func repeatGetsTheFirstAnswer(f *fixture) {
	a, b := f.endpoint("a"), f.endpoint("b")
	p := f.event(a, b)
	p.ID = "x"
	first := f.accept(p)[0]
	if first.Replayed || first.ID != "x" || first.Deliveries != 2 {
		f.Fatalf("the first answer is %+v", first)
	}
	f.repeats(p, 2)
	f.endpoint("c") // the subscriptions moved on: a repeat is one all the same
	f.repeats(p, 2)
	fewer := p
	fewer.Targets, fewer.Now = nil, f.now.Add(time.Hour)
	f.repeats(fewer, 2)
	f.record(f.success(first.Fresh[0]))
	f.restart()
	f.repeats(p, 2)
	if n := f.countEvents(webhook.DefaultTenant); n != 1 {
		f.Fatalf("%d events are stored", n)
	}
}

// A publisher that lost the answer asks again when expires_at has passed: the
// event was accepted in time. What comes late for the first time is refused.
func repeatMayComeLate(f *fixture) {
	p := f.event(f.endpoint("a"))
	p.ID, p.ExpiresAt = "x", f.now.Add(time.Minute)
	f.accept(p)
	p.Now = p.ExpiresAt
	f.repeats(p, 1)
	late := p
	late.ID = "y"
	nameless := p
	nameless.ID = ""
	results, err := f.Accept(f.ctx, []store.AcceptParams{late, nameless, p})
	f.ok(err)
	f.fails(results[0].Err, store.ErrExpired)
	f.fails(results[1].Err, store.ErrExpired)
	f.ok(results[2].Err)
	f.same("events", f.countEvents(webhook.DefaultTenant), 1)
	late.Now = late.ExpiresAt.Add(-time.Millisecond)
	f.accept(late)
}

func otherContentIsAConflict(f *fixture) {
	e := f.endpoint("a")
	p := f.event(e)
	p.ID = "x"
	f.accept(p)
	for name, change := range map[string]func(*store.AcceptParams){
		"other value":  func(p *store.AcceptParams) { setData(p, `{"n":2}`) },
		"spaces":       func(p *store.AcceptParams) { setData(p, `{ "n":1 }`) },
		"other type":   func(p *store.AcceptParams) { p.Type = "click"; setData(p, `{"n":1}`) },
		"one bit":      func(p *store.AcceptParams) { p.Fingerprint[31] ^= 1 },
		"old revision": func(p *store.AcceptParams) { p.Fingerprint[0] ^= 1; p.Revision-- },
	} {
		other := p
		change(&other)
		other.Now = f.now.Add(time.Minute)
		results, err := f.Accept(f.ctx, []store.AcceptParams{other})
		f.ok(err)
		var conflict *store.ConflictError
		if !errors.As(results[0].Err, &conflict) {
			f.Fatalf("%s: error is %v, want a conflict", name, results[0].Err)
		}
		f.same(name+": first accepted at", conflict.FirstAcceptedAt, f.now)
	}
	f.repeats(p, 1)
	if n := f.countEvents(webhook.DefaultTenant); n != 1 {
		f.Fatalf("%d events are stored", n)
	}
}

func repeatWithinOneCall(f *fixture) {
	e := f.endpoint("a")
	p, other := f.event(e), f.event(e)
	p.ID, other.ID = "x", "x"
	setData(&other, "other")
	results, err := f.Accept(f.ctx, []store.AcceptParams{p, p, other, f.event(e)})
	f.ok(err)
	var conflict *store.ConflictError
	if results[0].Err != nil || results[0].Replayed || !results[1].Replayed || len(results[1].Fresh) != 0 ||
		!errors.As(results[2].Err, &conflict) || results[3].Err != nil {
		f.Fatalf("results are %+v", results)
	}
	if n := f.countEvents(webhook.DefaultTenant); n != 2 {
		f.Fatalf("%d events are stored", n)
	}
}

func otherTenantIsOther(f *fixture) {
	f.tenant("t2")
	p, other := f.event(f.endpoint("a")), f.event(f.endpointOf("t2", "a"))
	p.ID, other.ID = "x", "x"
	setData(&other, "other")
	for _, r := range f.accept(p, other) {
		if r.Replayed {
			f.Fatalf("%+v is no repeat", r)
		}
	}
	mine, err := f.GetEvent(f.ctx, "t2", "x")
	f.ok(err)
	if string(mine.Data) != "other" {
		f.Fatal("one tenant's ID leads to the other's event")
	}
}

func ownIDsAreNotRemembered(f *fixture) {
	e := f.endpoint("a")
	p := f.event(e)
	made := f.accept(p, p)
	for i, r := range made {
		if r.Replayed || !strings.HasPrefix(r.ID, webhook.PrefixEvent+"_") || r.Fresh[0].EventID != r.ID {
			f.Fatalf("result %d is %+v", i, r)
		}
	}
	if made[0].ID == made[1].ID {
		f.Fatal("one ID was given twice")
	}
}

func oneOfManyAtOnce(f *fixture) {
	e := f.endpoint("a")
	p := f.event(e)
	p.ID = "x"
	var fresh atomic.Int32
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			results, err := f.Accept(f.ctx, []store.AcceptParams{p})
			if err != nil || results[0].Err != nil {
				f.Errorf("%v, %+v", err, results)
				return
			}
			fresh.Add(int32(len(results[0].Fresh)))
		})
	}
	wg.Wait()
	if n := fresh.Load(); n != 1 {
		f.Fatalf("%d of 32 repeats made a delivery", n)
	}
}
