package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func TestEngine_N1_UnknownCommitIsReadNotHandedOver(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, func(e *webhook.Endpoint) { e.MaxInFlight = 1 })
		d := r.start()
		r.publish(1, 1)
		time.Sleep(time.Second)
		// The commit stood, but its caller got ErrUnknown and offers nothing.
		lost := r.commit(5, template{endpoint: 1})
		time.Sleep(time.Hour)
		r.wantRequests(1)
		d.Reread([]webhook.EndpointKey{1, 99})
		time.Sleep(time.Second)
		r.wantRising(r.wantRequests(6))
		r.wantCounts(map[contract.Status]int{contract.StatusDelivered: 1 + len(lost)})
	})
}

func TestEngine_N1_OutcomeOfUnknownCommitIsWrittenAgainNotSent(t *testing.T) {
	t.Parallel()
	for name, stands := range map[string]bool{"it stood": true, "it did not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, Config{}, func(r *rig) {
				r.endpoint(1)
				r.start()
				fails := 3
				fail := func(*store.RecordParams) error {
					if fails--; fails >= 0 {
						return store.ErrUnknown
					}
					return nil
				}
				r.db.set(func() {
					if stands {
						r.db.afterRecord = fail
					} else {
						r.db.failRecord = fail
					}
				})
				r.publish(1, 1)
				reads := r.db.reads.Load()
				time.Sleep(time.Hour)
				r.wantRequests(1)
				r.wantCounts(map[contract.Status]int{contract.StatusDelivered: 1})
				if r.db.reads.Load() == reads {
					t.Error("the lane was not read again")
				}
			})
		})
	}
}

func TestEngine_N1_ClosedStoreStopsSending(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		d := r.start()
		r.publish(1, 1)
		time.Sleep(time.Second)
		works := r.commit(2, template{endpoint: 1})
		r.session.kill()
		d.Offer(works[:1])
		time.Sleep(time.Second)
		d.Offer(works[1:])
		time.Sleep(time.Hour)
		r.wantRequests(2) // the one that found out, and none behind it
		if s := d.Stats(); s.Running || s.InFlight != 0 {
			t.Errorf("stats %+v", s)
		}
		if err := d.Drain(context.Background()); err == nil {
			t.Error("the drain hides an outcome that was not written")
		}
	})
}

func TestEngine_N5_OverBudgetOnlyTheIDIsHandedOver(t *testing.T) {
	t.Parallel()
	const size = 1000
	bubble(t, Config{HandoverBytes: 3*size + 1}, func(r *rig) {
		r.endpoint(1)
		r.recv.set(after(time.Second, 200))
		d := r.start()
		var most atomic.Int64
		r.recv.onSend = func(s Shot) {
			if len(s.Work.Data) != size || s.Work.Data[0] != 'x' {
				t.Errorf("sent %d bytes", len(s.Work.Data))
			}
			most.Store(max(most.Load(), int64(d.Stats().BytesHeld)))
		}
		works := r.commit(20, template{endpoint: 1, data: []byte(strings.Repeat("x", size))})
		d.Offer(works)
		if s := d.Stats(); s.BytesHeld > 6*size+2 {
			t.Errorf("%d bytes held", s.BytesHeld)
		}
		synctest.Wait()
		// Three are in memory, three more fit into the budget of what is read.
		if s := d.Stats(); s.OnWire != 6 || s.Ready != 14 {
			t.Errorf("stats %+v", s)
		}
		time.Sleep(time.Minute)
		r.wantRequests(20)
		if most.Load() > 6*size+2 {
			t.Errorf("at most %d bytes held", most.Load())
		}
		if s := d.Stats(); s.BytesHeld != 0 || s.InFlight != 0 || s.Busy != 0 {
			t.Errorf("at rest %+v", s)
		}
	})
}

func TestEngine_N5_OnePayloadLargerThanTheBudgetIsSent(t *testing.T) {
	t.Parallel()
	bubble(t, Config{HandoverBytes: 10, WindowBytes: 10}, func(r *rig) {
		r.endpoint(1)
		d := r.start()
		r.commit(3, template{endpoint: 1, data: []byte(strings.Repeat("y", 1000))})
		d.Reread([]webhook.EndpointKey{1})
		time.Sleep(time.Second)
		r.wantRequests(3)
	})
}

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

func TestEngine_N12_FailedWriteOfAFailureKeepsTheSchedule(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, func(e *webhook.Endpoint) { e.Contract = "plain" })
		fails := 5
		r.db.set(func() {
			r.db.failRecord = func(*store.RecordParams) error {
				if fails--; fails >= 0 {
					return errDisk
				}
				return nil
			}
		})
		r.recv.set(always(500))
		r.start()
		work := r.publish(1, 1)[0]
		time.Sleep(time.Hour)
		r.wantRequests(3)
		if row := r.db.get(work.Ref); row.status != contract.StatusFailed || len(row.log) != 3 {
			t.Errorf("%s with %d rows", row.status, len(row.log))
		}
	})
}

func TestEngine_N12_SupersededOutcomeLeavesTheOutSet(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		r.recv.set(after(time.Second, 500))
		d := r.start()
		work := r.publish(1, 1)[0]
		synctest.Wait()
		// A resend starts another round while the first try is under way.
		r.db.set(func() { r.db.rows[work.Ref].work.Round = 2 })
		again := work
		again.Round = 2
		d.Offer([]store.Work{again})
		r.recv.set(always(200))
		time.Sleep(time.Hour)
		r.wantRequests(2)
		row := r.db.get(work.Ref)
		if row.status != contract.StatusDelivered || len(row.log) != 2 || !row.log[0].Superseded || row.log[1].Superseded {
			t.Errorf("%s %+v", row.status, row.log)
		}
		if s := d.Stats(); s.InFlight != 0 || s.Busy != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestEngine_N13_NumbersOfTries(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, func(e *webhook.Endpoint) { e.Contract = "plain" })
		r.recv.set(func(ctx context.Context, s Shot) webhook.Outcome {
			if s.Try == 2 {
				return after(10*time.Second, 500)(ctx, s)
			}
			return status(500)
		})
		r.start()
		work := r.publish(1, 1)[0]
		time.Sleep(5 * time.Second) // the second try is under way
		r.db.setState(1, webhook.EndpointPaused)
		time.Sleep(time.Minute)
		r.recv.set(always(500))
		r.db.setState(1, webhook.EndpointActive)
		time.Sleep(time.Hour)
		var bears []int
		for _, q := range r.wantRequests(4) {
			bears = append(bears, q.try)
		}
		if fmt.Sprint(bears) != "[1 2 2 3]" {
			t.Errorf("requests bear %v", bears)
		}
		row := r.db.get(work.Ref)
		for i, a := range row.log {
			if a.Number != i+1 || a.Try != bears[i] || a.Counted != (i != 1) {
				t.Errorf("row %d: %+v", i, a)
			}
		}
		if row.status != contract.StatusFailed || row.work.Attempts != 3 {
			t.Errorf("%s after %d", row.status, row.work.Attempts)
		}
	})
}

func TestEngine_N14_LongAttemptsAreMarkedFastOnesNot(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		r.recv.set(after(900*time.Millisecond, 200))
		r.start()
		r.publish(50, 1)
		time.Sleep(10 * time.Second)
		if r.db.marks.Load() != 0 {
			t.Errorf("%d marks of fast attempts", r.db.marks.Load())
		}
		r.recv.set(after(5*time.Second, 200))
		works := r.publish(50, 1)
		time.Sleep(1300 * time.Millisecond)
		r.db.set(func() {
			for _, w := range works {
				if m := r.db.rows[w.Ref].mark; m == nil || m.Try != 1 || time.Since(m.At) != 1300*time.Millisecond {
					t.Errorf("%d is marked %+v", w.Ref, m)
				}
			}
		})
		time.Sleep(10 * time.Second)
		if r.db.marks.Load() != 50 {
			t.Errorf("%d marks", r.db.marks.Load())
		}
	})
}

// A mark must not be written behind the outcome it announces.
func TestEngine_N14_OutcomeWaitsForItsMark(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, func(e *webhook.Endpoint) { e.Contract = "plain" })
		r.recv.set(after(1010*time.Millisecond, 500))
		d := r.start()
		r.db.set(func() { r.db.commitTakes = 200 * time.Millisecond })
		work := r.publish(1, 1)[0]
		time.Sleep(1100 * time.Millisecond)
		r.db.setState(1, webhook.EndpointPaused)
		time.Sleep(time.Minute)
		if row := r.db.get(work.Ref); row.mark != nil || len(row.log) != 1 {
			t.Errorf("mark %+v, %d rows", row.mark, len(row.log))
		}
		if s := d.Stats(); s.InFlight != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestEngine_N14_KilledInTheMiddle(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, func(e *webhook.Endpoint) { e.Contract = "plain" })
		r.recv.set(hang)
		r.start()
		work := r.publish(1, 1)[0]
		for i := 1; i <= 2; i++ {
			time.Sleep(10 * time.Second)
			r.kill()
			r.start()
			row := r.db.get(work.Ref)
			if row.status != contract.StatusPending || row.mark != nil || row.work.Attempts != 0 || row.work.Interrupted != i {
				t.Fatalf("restart %d: %s, mark %v, %d counted, %d interrupted", i, row.status, row.mark, row.work.Attempts, row.work.Interrupted)
			}
			if a := row.log[i-1]; a.Counted || a.Error != textLost || a.Duration != 0 || a.Try != 1 || row.reason != webhook.WhyInterrupted {
				t.Errorf("restart %d logged %+v", i, a)
			}
			synctest.Wait()
			r.wantRequests(i + 1) // due at once
		}
		time.Sleep(10 * time.Second)
		r.kill()
		r.start()
		// The third in a row is a failure by the contract.
		row := r.db.get(work.Ref)
		if a := row.log[2]; !a.Counted || a.FailureKind != contract.KindNetwork || a.Error != textLost {
			t.Errorf("the third logged %+v", a)
		}
		if row.work.Attempts != 1 || row.work.Interrupted != 0 || row.reason != webhook.WhyRetry || row.kind != contract.KindNetwork {
			t.Errorf("the third: %d counted, %d interrupted, %s %s", row.work.Attempts, row.work.Interrupted, row.reason, row.kind)
		}
		r.recv.set(always(200))
		time.Sleep(time.Minute)
		if got := r.wantRequests(4); got[3].try != 2 {
			t.Errorf("the next bears %d", got[3].try)
		}
		r.wantCounts(map[contract.Status]int{contract.StatusDelivered: 1})
	})
}

func TestEngine_N14_AnAnswerEndsTheRowOfInterruptions(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		r.recv.set(hang)
		r.start()
		work := r.publish(1, 1)[0]
		time.Sleep(10 * time.Second)
		r.kill()
		r.recv.set(always(500))
		r.start()
		time.Sleep(time.Second)
		if row := r.db.get(work.Ref); row.work.Interrupted != 0 || row.work.Attempts != 1 {
			t.Errorf("%d interrupted, %d counted", row.work.Interrupted, row.work.Attempts)
		}
	})
}

func TestEngine_N19_OperationalEvents(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		r.endpoint(2, func(e *webhook.Endpoint) { e.Events = []string{"webhook.*", "endpoint.*"} })
		var handed atomic.Value
		r.recv.set(func(_ context.Context, s Shot) webhook.Outcome {
			if s.Endpoint.Key == 1 {
				return status(500)
			}
			handed.Store(string(s.Work.Data))
			return status(410)
		})
		r.start()
		work := r.publish(1, 1)[0]
		time.Sleep(80 * time.Hour)
		// The failed one raised one event; its own failure raised none.
		r.db.set(func() {
			if len(r.db.events) != 1 || r.db.events["op_1"].Type != webhook.TypeWebhookFailed || r.db.events["op_1"].ID != "" {
				t.Fatalf("events %v", r.db.events)
			}
			if r.db.endpoints[2].On() {
				t.Error("the 410 did not disable the second endpoint")
			}
		})
		var n map[string]any
		if err := json.Unmarshal([]byte(handed.Load().(string)), &n); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"endpoint": "ep_1", "delivery": work.DeliveryID, "event": work.EventID, "type": "link.created",
			"attempts": 10.0, "failure_kind": "http_status", "status_code": 500.0,
		}
		if fmt.Sprint(n) != fmt.Sprint(want) {
			t.Errorf("data %v, want %v", n, want)
		}
	})
}

func TestEngine_N19_DisablingIsToldOnce(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		r.endpoint(2, func(e *webhook.Endpoint) { e.Events = []string{webhook.TypeEndpointDisabled} })
		r.recv.set(func(ctx context.Context, s Shot) webhook.Outcome {
			if s.Endpoint.Key == 1 {
				return after(time.Second, 410)(ctx, s)
			}
			return status(200)
		})
		r.start()
		r.publish(5, 1) // five at once get a 410
		time.Sleep(time.Hour)
		r.wantCounts(map[contract.Status]int{contract.StatusFailed: 5, contract.StatusDelivered: 1})
		r.db.set(func() {
			if e := r.db.events["op_1"]; len(r.db.events) != 1 || e.Type != webhook.TypeEndpointDisabled ||
				!strings.Contains(string(e.Data), `"reason":"gone"`) || !strings.Contains(string(e.Data), `"status_code":410`) {
				t.Errorf("events %v", r.db.events)
			}
		})
	})
}

func TestEngine_N2_StaleEventsAreMatchedAgain(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		r.recv.set(always(410))
		r.start()
		stale := 3
		r.db.set(func() {
			r.db.failRecord = func(*store.RecordParams) error {
				if stale--; stale >= 0 {
					// An endpoint that takes the event appears in between.
					r.db.revision++
					r.db.endpoints[2] = &webhook.Endpoint{
						Key: 2, ID: "ep_2", Tenant: "default", State: webhook.EndpointActive, Events: []string{"endpoint.*"},
					}
				}
				return nil
			}
		})
		r.publish(1, 1)
		time.Sleep(time.Minute)
		r.wantRequests(1)
		r.db.set(func() {
			if e := r.db.events["op_1"]; len(e.Targets) != 1 || e.Targets[0].Endpoint != 2 {
				t.Errorf("event %+v", e)
			}
		})
	})
}

func TestEngine_N2_NothingStartsAgainstAChange(t *testing.T) {
	t.Parallel()
	t.Run("pause and resume", func(t *testing.T) {
		t.Parallel()
		bubble(t, Config{}, func(r *rig) {
			r.endpoint(1, func(e *webhook.Endpoint) { e.MaxInFlight = 1 })
			r.recv.set(after(time.Second, 200))
			d := r.start()
			r.publish(5, 1)
			time.Sleep(1500 * time.Millisecond)
			r.db.setState(1, webhook.EndpointPaused)
			r.publish(5, 1)
			reads := r.db.reads.Load()
			time.Sleep(time.Hour)
			r.wantRequests(2)
			if r.db.reads.Load() != reads {
				t.Error("a paused lane was read")
			}
			if s := d.Stats(); s.Ready != 0 || s.BytesHeld != 0 || s.OldestDue != 0 {
				t.Errorf("stats %+v", s)
			}
			r.db.setState(1, webhook.EndpointActive)
			time.Sleep(time.Hour)
			r.wantRising(r.wantRequests(10))
		})
	})
	t.Run("a test passes the pause", func(t *testing.T) {
		t.Parallel()
		bubble(t, Config{}, func(r *rig) {
			r.endpoint(1, func(e *webhook.Endpoint) { e.State = webhook.EndpointPaused })
			d := r.start()
			r.publish(1, 1)
			d.Offer(r.commit(1, template{endpoint: 1, trigger: contract.TriggerTest}))
			time.Sleep(time.Second)
			if got := r.wantRequests(1); got[0].ref != 2 {
				t.Errorf("delivery %d went out", got[0].ref)
			}
		})
	})
	t.Run("URL", func(t *testing.T) {
		t.Parallel()
		bubble(t, Config{}, func(r *rig) {
			r.endpoint(1, func(e *webhook.Endpoint) { e.MaxInFlight = 1 })
			r.recv.set(after(time.Second, 200))
			r.start()
			r.publish(2, 1)
			time.Sleep(500 * time.Millisecond)
			r.db.changeEndpoint(1, func(e *webhook.Endpoint) { e.URL = "https://new.example/" })
			time.Sleep(time.Minute)
			if got := r.wantRequests(2); got[1].url != "https://new.example/" {
				t.Errorf("went to %s", got[1].url)
			}
		})
	})
	t.Run("deletion", func(t *testing.T) {
		t.Parallel()
		bubble(t, Config{}, func(r *rig) {
			r.endpoint(1, func(e *webhook.Endpoint) { e.MaxInFlight = 1 })
			r.recv.set(after(time.Second, 500))
			d := r.start()
			works := r.publish(3, 1)
			time.Sleep(500 * time.Millisecond)
			r.db.deleteEndpoint(1)
			d.Offer(works)
			time.Sleep(time.Hour)
			r.wantRequests(1)
			r.wantCounts(map[contract.Status]int{contract.StatusCanceled: 3})
			if s := d.Stats(); s.Lanes != 0 || s.InFlight != 0 || s.BytesHeld != 0 {
				t.Errorf("stats %+v", s)
			}
		})
	})
	t.Run("canceled in memory, in the store, and before it was offered", func(t *testing.T) {
		t.Parallel()
		bubble(t, Config{WindowRows: 2}, func(r *rig) {
			r.endpoint(1, func(e *webhook.Endpoint) { e.MaxInFlight = 1 })
			r.recv.set(after(time.Second, 200))
			d := r.start()
			works := r.publish(5, 1)
			r.db.cancel(works[1].Ref)
			r.db.cancel(works[4].Ref)
			late := r.commit(1, template{endpoint: 1})
			r.db.cancel(late[0].Ref)
			time.Sleep(time.Minute)
			d.Offer(late)
			time.Sleep(time.Hour)
			r.wantRequests(3)
			r.wantCounts(map[contract.Status]int{contract.StatusDelivered: 3, contract.StatusCanceled: 3})
		})
	})
	t.Run("canceled while a read is under way", func(t *testing.T) {
		t.Parallel()
		bubble(t, Config{}, func(r *rig) {
			r.endpoint(1)
			d := r.start()
			time.Sleep(time.Second)
			r.db.set(func() { r.db.readTakes = time.Second })
			works := r.commit(2, template{endpoint: 1})
			d.Reread([]webhook.EndpointKey{1})
			time.Sleep(500 * time.Millisecond)
			r.db.cancel(works[0].Ref)
			time.Sleep(time.Hour)
			r.wantRequests(1)
		})
	})
	t.Run("between picking and sending", func(t *testing.T) {
		t.Parallel()
		bubble(t, Config{HandoverBytes: 1}, func(r *rig) {
			r.endpoint(1)
			d := r.start()
			once := true
			r.db.set(func() {
				r.db.failLoad = func(webhook.Ref) error {
					if once { // the payload is being read when the pause comes
						once = false
						e := *r.db.endpoints[1]
						e.State = webhook.EndpointPaused
						r.db.endpoints[1] = &e
						d.Apply(store.Change{Endpoint: &e})
					}
					return nil
				}
			})
			r.publish(1, 1)
			time.Sleep(time.Hour)
			r.wantRequests(0)
			r.db.setState(1, webhook.EndpointActive)
			time.Sleep(time.Hour)
			r.wantRequests(1)
		})
	})
}

func TestEngine_N20_EachStepOfTheWallClockIsToldOnce(t *testing.T) {
	t.Parallel()
	var s wallSteps
	for i, c := range []struct {
		offset, step time.Duration
		found        bool
	}{
		{0, 0, false},
		{time.Second, 0, false},
		{-2 * time.Second, 0, false},
		{time.Hour, time.Hour, true},
		{time.Hour + time.Second, 0, false},
		{time.Hour - time.Second, 0, false},
		{0, -time.Hour, true},
		{0, 0, false},
	} {
		if step, found := s.look(c.offset); step != c.step || found != c.found {
			t.Errorf("%d: %v %v, want %v %v", i, step, found, c.step, c.found)
		}
	}
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
