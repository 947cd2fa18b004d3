package dispatch

import (
	"slices"
	"testing"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// wantNow checks how many requests there were so far, and that one for a delivery
// was among the last ones, which start together.
func (r *rig) wantNow(ref webhook.Ref, n int) {
	r.t.Helper()
	if !slices.ContainsFunc(r.wantRequests(n), func(q request) bool {
		return q.ref == ref && time.Since(q.at) < 100*time.Millisecond
	}) {
		r.t.Errorf("delivery %d did not go out", ref)
	}
}

// closed is a rig's endpoint 1 behind a gate that delivery 1 closed for a minute.
func (r *rig) closed() {
	r.endpoint(1, under("signals"))
	r.recv.set(always(500))
	r.start()
	r.publish(1, 1)
	time.Sleep(10 * time.Millisecond)
	r.wantRequests(1)
	r.recv.set(always(200))
}

// ungated hands over a delivery of a contract without a gate.
func (r *rig) ungated() webhook.Ref {
	w := r.commit(1, template{endpoint: 1, contract: "plain"})
	r.d.Offer(w)
	time.Sleep(10 * time.Millisecond)
	return w[0].Ref
}

// What a gate does not bind waits behind what it holds (N11), and no longer than
// that stands there.
func TestEngine_N16_TheUngatedWaitsForTheHeldAlone(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][]webhook.Ref{"the held first": {2, 1}, "the probe first": {1, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, Config{}, func(r *rig) {
				r.closed()
				r.publish(1, 1)
				x := r.ungated()
				r.wantRequests(1)
				r.db.cancel(order[0])
				time.Sleep(10 * time.Millisecond)
				switch order[0] {
				case 2:
					r.wantNow(x, 2) // not held any more
				case 1: // the held one is the probe now
					r.wantNow(2, 3)
					r.wantNow(x, 3)
				}
				r.db.cancel(order[1])
				time.Sleep(time.Second)
				if s := r.d.Stats(); s.Ready != 0 || s.InFlight != 0 {
					t.Errorf("stats %+v", s)
				}
			})
		})
	}
}

// A canceled head that stands before another one: only what is still wanted
// counts.
func TestEngine_N16_TheHeldAreAllCanceled(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.closed()
		r.publish(3, 1)
		x := r.ungated()
		for _, ref := range []webhook.Ref{3, 2, 4} {
			r.wantRequests(1)
			r.db.cancel(ref)
			time.Sleep(10 * time.Millisecond)
		}
		r.wantNow(x, 2)
	})
}

// The gate has no probe, and the only one that it could take obeys no gate.
func TestEngine_N16_NoProbeAmongTheUngated(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.closed()
		test := template{endpoint: 1, trigger: contract.TriggerTest, byPerson: true}
		r.recv.set(after(2*time.Second, 500))
		r.d.Offer(r.commit(1, test)) // passes
		time.Sleep(10 * time.Millisecond)
		r.d.Offer(r.commit(1, test)) // waits for that
		time.Sleep(10 * time.Millisecond)
		x := r.ungated()
		r.wantRequests(2)
		r.db.cancel(1)
		time.Sleep(10 * time.Millisecond)
		r.wantRequests(2)
		time.Sleep(2 * time.Second) // the second passes
		r.wantNow(x, 4)
	})
}

// The oldest of all that wait obeys no gate; the oldest of those that do, in
// another lane, is the probe.
func TestEngine_N16_TheProbeIsTheOldestThatTheGateBinds(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, under("signals"), sameURL)
		r.endpoint(2, under("signals"), sameURL)
		r.recv.set(after(2*time.Second, 500))
		r.start()
		r.publish(1, 1)
		time.Sleep(3 * time.Second)
		for range 2 {
			r.d.Offer(r.commit(1, template{endpoint: 1, trigger: contract.TriggerTest, byPerson: true}))
		}
		time.Sleep(10 * time.Millisecond)
		r.ungated()
		held := r.publish(1, 2)[0].Ref
		time.Sleep(10 * time.Millisecond)
		r.wantRequests(2)
		r.db.cancel(1)
		time.Sleep(10 * time.Millisecond)
		r.wantNow(held, 3)
	})
}

// The held one becomes the probe, fails, and waits for its next try: it is no
// longer before the others.
func TestEngine_N16_TheProbeLeavesTheLine(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.closed()
		r.publish(1, 1)
		x := r.ungated()
		r.recv.set(failing(2))
		r.db.cancel(1)
		time.Sleep(10 * time.Millisecond)
		r.wantNow(x, 3)
	})
}

// What passed the gate leaves none behind it that the gate does not bind.
func TestEngine_N16_WhatPassedIsNoHead(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.closed()
		r.recv.set(after(2*time.Second, 500))
		for range 2 {
			r.d.Offer(r.commit(1, template{endpoint: 1, trigger: contract.TriggerTest, byPerson: true}))
		}
		time.Sleep(10 * time.Millisecond)
		x := r.ungated()
		r.wantRequests(2)
		time.Sleep(2 * time.Second)
		r.wantNow(x, 4)
	})
}

// A lane under way follows another revision of its contract: what is held is
// asked again.
func TestEngine_N16_TheGateIsGoneFromTheContract(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.closed()
		held := r.publish(1, 1)[0].Ref
		time.Sleep(10 * time.Millisecond)
		r.wantRequests(1)
		r.d.mu.Lock()
		r.d.cfg.Contracts = func(string, string) *contract.Contract { return plain() }
		r.d.mu.Unlock()
		r.d.Apply(store.Change{Contract: &store.ContractRevision{}})
		time.Sleep(10 * time.Millisecond)
		r.wantNow(held, 2)
	})
}

// A success says nothing about a URL that the endpoint has come to meanwhile.
func TestEngine_N16_ASuccessAtTheOldURLOpensNothing(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, under("signals"))
		r.endpoint(2, under("signals"), sameURL)
		r.recv.set(always(500))
		r.start()
		r.publish(1, 2)
		time.Sleep(10 * time.Millisecond)
		r.recv.set(after(time.Second, 200))
		r.publish(1, 1)
		time.Sleep(10 * time.Millisecond)
		r.db.changeEndpoint(1, sameURL)
		r.recv.set(after(100*time.Millisecond, 500))
		r.publish(1, 2)
		time.Sleep(30 * time.Second)
		if got := r.wantRequests(3); got[2].ref != 3 { // the move lets one probe out
			t.Errorf("went out: %d", got[2].ref)
		}
		r.publish(1, 2)
		time.Sleep(10 * time.Millisecond)
		r.wantRequests(3)
	})
}

// A probe that a gate was loaded with, of an endpoint that is not there.
func TestEngine_N16_AProbeOfNoLane(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, under("signals"), sameURL)
		r.endpoint(2, under("signals"), sameURL)
		r.recv.set(always(500))
		r.start()
		r.publish(1, 1)
		time.Sleep(10 * time.Millisecond)
		r.publish(1, 2)
		time.Sleep(10 * time.Millisecond)
		r.wantRequests(1)
		r.kill()
		r.db.set(func() { delete(r.db.endpoints, 1) }) // its rows are ended later
		r.start()
		time.Sleep(61 * time.Second)
		if got := r.recv.requests(); got[len(got)-1].ref != 2 {
			t.Errorf("the last was %d", got[len(got)-1].ref)
		}
	})
}
