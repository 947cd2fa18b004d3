package dispatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/webhook"
)

func TestEngine_N10_ReadBegunBeforeTheCommitDoublesNothing(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		r.recv.set(after(50*time.Millisecond, 200))
		d := r.start()
		time.Sleep(time.Second)
		r.db.set(func() { r.db.readTakes = 100 * time.Millisecond })
		works := r.publish(10, 1)
		// The read's snapshot shows all ten waiting; it returns when their
		// outcomes are long committed.
		d.Reread([]webhook.EndpointKey{1})
		time.Sleep(time.Minute)
		r.wantRequests(len(works))
		r.wantCounts(map[contract.Status]int{contract.StatusDelivered: len(works)})
	})
}

func TestEngine_N10_UnwrittenOutcomesStayInTheOutSet(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		d := r.start()
		time.Sleep(time.Second)
		r.db.stall(true)
		works := r.db.rowsWithoutWriter(10, 1, r.clk.Now())
		d.Reread([]webhook.EndpointKey{1})
		time.Sleep(time.Second)
		r.wantRequests(10) // sent, not written
		for range 5 {
			d.Reread([]webhook.EndpointKey{1})
			time.Sleep(time.Second)
		}
		r.wantRequests(10)
		if s := d.Stats(); s.InFlight != 10 || s.OnWire != 0 {
			t.Errorf("stats %+v", s)
		}
		r.db.stall(false)
		time.Sleep(time.Second)
		r.wantRequests(len(works))
		r.wantCounts(map[contract.Status]int{contract.StatusDelivered: 10})
	})
}

func TestEngine_N10_StalledStoreStopsSending(t *testing.T) {
	t.Parallel()
	const slots = 16
	bubble(t, Config{Slots: slots}, func(r *rig) {
		r.endpoint(1)
		d := r.start()
		time.Sleep(time.Second)
		r.db.stall(true)
		r.db.rowsWithoutWriter(100, 1, r.clk.Now())
		d.Reread([]webhook.EndpointKey{1})
		time.Sleep(time.Hour)
		r.wantRequests(slots)
		r.db.stall(false)
		time.Sleep(time.Hour)
		r.wantRising(sortedByRef(r.wantRequests(100)))
	})
}

// A publisher may be slow to hand over what a read has brought long before.
func TestEngine_N10_LateOfferDoublesNothing(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		d := r.start()
		time.Sleep(time.Second)
		works := r.commit(3, template{endpoint: 1})
		d.Reread([]webhook.EndpointKey{1})
		time.Sleep(time.Second)
		r.wantRequests(3)
		d.Offer(works)
		d.Offer(works)
		time.Sleep(time.Hour)
		r.wantRequests(3)
	})
}

func TestEngine_N11_FreshOnesNeverOvertakeABacklog(t *testing.T) {
	t.Parallel()
	bubble(t, Config{WindowRows: 8}, func(r *rig) {
		r.endpoint(1, func(e *webhook.Endpoint) { e.MaxInFlight = 1 })
		r.recv.set(after(10*time.Millisecond, 200))
		r.db.set(func() { r.db.readTakes = 3 * time.Millisecond })
		r.commit(50, template{endpoint: 1})
		r.start()
		for range 60 {
			r.publish(2, 1)
			time.Sleep(7 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		r.wantRising(r.wantRequests(170))
	})
}

func TestEngine_N11_OfferDuringAReadIsNeitherLostNorDoubled(t *testing.T) {
	t.Parallel()
	bubble(t, Config{WindowRows: 8}, func(r *rig) {
		r.endpoint(1, func(e *webhook.Endpoint) { e.MaxInFlight = 2 })
		r.db.set(func() { r.db.readTakes = 20 * time.Millisecond })
		d := r.start()
		d.Reread([]webhook.EndpointKey{1}) // a read is under way
		synctest.Wait()
		before := r.publish(3, 1) // behind its snapshot
		overflow := r.publish(10, 1)
		time.Sleep(time.Minute)
		r.wantRising(sortedByRef(r.wantRequests(len(before) + len(overflow)))) // none twice
		reads := r.db.reads.Load()
		// The lane is complete again: no read is needed any more.
		r.publish(1, 1)
		time.Sleep(time.Minute)
		r.wantRequests(14)
		if r.db.reads.Load() != reads {
			t.Errorf("%d reads of a complete lane", r.db.reads.Load()-reads)
		}
	})
}

// Publishers that were accepted one after another may come in another order.
func TestEngine_N11_OrderIsThatOfTheStore(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, func(e *webhook.Endpoint) { e.MaxInFlight = 1 })
		r.recv.set(after(time.Second, 200))
		d := r.start()
		works := r.commit(10, template{endpoint: 1})
		for _, i := range []int{0, 9, 3, 1, 8, 2, 7, 5, 4, 6} {
			d.Offer(works[i : i+1])
		}
		time.Sleep(time.Minute)
		r.wantRising(r.wantRequests(10))
	})
}

// What becomes due, or is doubted, while a read is under way is not in it.
func TestEngine_N11_NewsDuringAReadLeadsToAnother(t *testing.T) {
	t.Parallel()
	setUp := func(r *rig) *Dispatcher {
		r.endpoint(1, func(e *webhook.Endpoint) { e.Contract = "plain" })
		d := r.start()
		time.Sleep(time.Second)
		r.db.set(func() { r.db.readTakes = 100 * time.Millisecond })
		return d
	}
	t.Run("a retry", func(t *testing.T) {
		t.Parallel()
		bubble(t, Config{}, func(r *rig) {
			d := setUp(r)
			r.recv.set(func(ctx context.Context, s Shot) webhook.Outcome {
				if s.Try == 1 {
					return after(50*time.Millisecond, 500)(ctx, s)
				}
				return status(200)
			})
			r.publish(1, 1)
			d.Reread([]webhook.EndpointKey{1})
			time.Sleep(time.Minute)
			r.wantRequests(2)
		})
	})
	t.Run("a commit of unknown outcome", func(t *testing.T) {
		t.Parallel()
		bubble(t, Config{}, func(r *rig) {
			d := setUp(r)
			d.Reread([]webhook.EndpointKey{1})
			time.Sleep(50 * time.Millisecond)
			r.commit(1, template{endpoint: 1})
			d.Reread([]webhook.EndpointKey{1})
			time.Sleep(time.Minute)
			r.wantRequests(1)
		})
	})
	t.Run("deliver_at", func(t *testing.T) {
		t.Parallel()
		bubble(t, Config{}, func(r *rig) {
			d := setUp(r)
			d.Reread([]webhook.EndpointKey{1})
			time.Sleep(50 * time.Millisecond)
			d.Offer(r.commit(1, template{endpoint: 1, due: r.clk.Now().Add(time.Second)}))
			time.Sleep(time.Minute)
			r.wantRequests(1)
		})
	})
}

func TestEngine_N11_CompleteLaneIsNotRead(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		r.start()
		for range 300 {
			r.publish(1, 1)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		r.wantRising(r.wantRequests(300))
		if r.db.reads.Load() != 0 {
			t.Errorf("%d reads", r.db.reads.Load())
		}
	})
}

func TestEngine_N11_WhatIsNotDueIsNotHeld(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		d := r.start()
		due := r.clk.Now().Add(3 * time.Hour)
		d.Offer(r.commit(1, template{endpoint: 1, due: due}))
		if s := d.Stats(); s.Ready != 0 || s.Busy != 0 {
			t.Errorf("stats %+v", s)
		}
		r.publish(1, 1) // fresh ones pass what is not due
		time.Sleep(time.Hour)
		r.wantRequests(1)
		time.Sleep(3 * time.Hour)
		if got := r.wantRequests(2); got[1].at.Before(due) || got[1].at.Sub(due) > 10*time.Millisecond {
			t.Errorf("due %v, sent %v", due, got[1].at)
		}
	})
}

// A retry that is due counts as backlog: a fresh one does not pass it.
func TestEngine_N11_DueRetryComesFirst(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, func(e *webhook.Endpoint) { e.MaxInFlight = 1; e.Contract = "plain" })
		r.recv.set(always(500))
		r.start()
		first := r.publish(1, 1)[0]
		r.db.set(func() { r.db.readTakes = 50 * time.Millisecond })
		time.Sleep(1010 * time.Millisecond) // the retry is due, its read under way
		r.recv.set(always(200))
		second := r.publish(1, 1)[0]
		time.Sleep(time.Minute)
		got := r.wantRequests(3)
		if got[1].ref != first.Ref || got[2].ref != second.Ref {
			t.Errorf("went out in the order %v", got)
		}
	})
}

func TestEngine_N11_BacklogStaysInTheStore(t *testing.T) {
	t.Parallel()
	bubble(t, Config{WindowRows: 16}, func(r *rig) {
		r.endpoint(1, func(e *webhook.Endpoint) { e.MaxInFlight = 1 })
		r.recv.set(hang)
		d := r.start()
		for range 100 {
			r.publish(10, 1)
		}
		time.Sleep(time.Second)
		if s := d.Stats(); s.Ready > 16 || s.InFlight != 1 {
			t.Errorf("stats %+v", s)
		}
	})
}

// Retries that become due one by one do not cost a read each.
func TestEngine_N11_DueTimesAreReadTogether(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		r.recv.set(func(_ context.Context, s Shot) webhook.Outcome {
			if s.Try == 1 {
				return status(500)
			}
			return status(200)
		})
		r.start()
		for range 200 {
			r.publish(1, 1)
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(time.Minute)
		r.wantRequests(400)
		if r.db.reads.Load() > 10 {
			t.Errorf("%d reads for 20 ms of retries", r.db.reads.Load())
		}
	})
}

func TestEngine_N18_LanesTakeTurns(t *testing.T) {
	t.Parallel()
	bubble(t, Config{Slots: 4}, func(r *rig) {
		for key := range webhook.EndpointKey(4) {
			r.endpoint(key + 1)
		}
		r.recv.set(after(time.Second, 200))
		r.start()
		r.publish(40, 1) // one lane takes all slots
		for key := webhook.EndpointKey(2); key <= 4; key++ {
			r.publish(2, key)
		}
		time.Sleep(2500 * time.Millisecond) // 12 requests
		seen := map[webhook.EndpointKey]int{}
		for _, q := range r.wantRequests(12) {
			seen[q.endpoint]++
		}
		for key := webhook.EndpointKey(2); key <= 4; key++ {
			if seen[key] != 2 {
				t.Errorf("turns %v", seen)
			}
		}
		time.Sleep(time.Minute)
		r.wantRequests(46)
	})
}

// A lane whose requests all run into their time-out goes on at that pace, one at a
// time; it slows nobody but itself.
func TestEngine_N18_TimeOutsSetThePaceOfTheirLaneAlone(t *testing.T) {
	t.Parallel()
	const takes, many = 15 * time.Second, 20
	bubble(t, Config{Slots: 16}, func(r *rig) {
		r.endpoint(1, under("plain"))
		r.endpoint(2, under("plain"))
		r.recv.set(func(_ context.Context, s Shot) webhook.Outcome {
			if s.Endpoint.Key == 2 {
				return status(200)
			}
			time.Sleep(takes)
			return webhook.Outcome{Kind: webhook.KindTimeout}
		})
		r.start()
		began := time.Now()
		dead := r.publish(many, 1)
		published := map[webhook.Ref]time.Time{}
		for time.Since(began) < takes*(many-firstPace+1)+time.Second {
			published[r.publish(1, 2)[0].Ref] = time.Now()
			time.Sleep(100 * time.Millisecond)
		}
		var tried []request
		for _, q := range r.recv.requests() {
			if q.endpoint == 1 {
				tried = append(tried, q)
			} else if late := q.at.Sub(published[q.ref]); late > 10*time.Millisecond {
				t.Errorf("delivery %d of the other lane went out after %v", q.ref, late)
			}
		}
		for i, w := range dead {
			if i >= firstPace && tried[i].ref != w.Ref { // the first go out together
				t.Errorf("%d was tried in place of %d", tried[i].ref, w.Ref)
			}
			r.wantAt(tried[i], began, takes*time.Duration(max(i-firstPace+1, 0)))
		}
		time.Sleep(time.Hour)
		r.wantCounts(map[contract.Status]int{contract.StatusDelivered: len(published), contract.StatusFailed: many})
	})
}

func TestEngine_ReadThatGoesWrongIsRepeated(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, func(e *webhook.Endpoint) { e.MaxInFlight = 1 })
		r.commit(3, template{endpoint: 1})
		fails := 4
		r.db.failRead = func() error {
			if fails--; fails >= 0 {
				return errDisk
			}
			return nil
		}
		r.start()
		time.Sleep(time.Second)
		if r.db.reads.Load() > 4 {
			t.Errorf("%d reads in a second", r.db.reads.Load())
		}
		r.publish(1, 1)
		time.Sleep(time.Minute)
		r.wantRising(r.wantRequests(4))
	})
}
