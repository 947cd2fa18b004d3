package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// rowsWithoutWriter puts committed deliveries in place while the writer stands
// still.
func (db *fakeDB) rowsWithoutWriter(n int, key webhook.EndpointKey, due time.Time) []store.Work {
	db.mu.Lock()
	defer db.mu.Unlock()
	out := make([]store.Work, n)
	for i := range out {
		out[i] = db.insert(template{endpoint: key, data: []byte("1"), due: due})
	}
	return out
}

func sortedByRef(got []request) []request {
	slices.SortFunc(got, func(a, b request) int { return cmp.Compare(a.ref, b.ref) })
	return got
}

func TestFault_B01_KilledWhileSending(t *testing.T) {
	t.Parallel()
	bubble(t, Config{Slots: 64}, func(r *rig) {
		r.endpoint(1)
		r.recv.set(after(3*time.Second, 200))
		r.start()
		for range 50 {
			r.publish(10, 1)
		}
		time.Sleep(2 * time.Second)
		before := len(r.recv.requests())
		r.kill()
		r.start()
		r.db.set(func() {
			for ref, row := range r.db.rows {
				if row.mark != nil {
					t.Errorf("delivery %d is still shown as sending", ref)
				}
			}
		})
		time.Sleep(time.Hour)
		r.wantCounts(map[contract.Status]int{contract.StatusDelivered: 500})
		if n := len(r.recv.requests()); n > 500+before {
			t.Errorf("%d requests, %d were under way", n, before)
		}
		r.db.set(func() {
			for ref, row := range r.db.rows {
				if last := row.log[len(row.log)-1]; last.StatusCode != 200 || !last.Counted || row.work.Attempts != 1 {
					t.Errorf("delivery %d: %+v", ref, row.log)
				}
			}
		})
	})
}

func TestFault_B04_AWrittenSuccessIsNotSentAgain(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		fails := 20
		r.db.set(func() {
			r.db.failRecord = func(*store.RecordParams) error {
				if fails--; fails >= 0 {
					return fmt.Errorf("insert attempt: %w", errDisk)
				}
				return nil
			}
		})
		d := r.start()
		work := r.publish(1, 1)[0]
		for range 60 {
			d.Reread([]webhook.EndpointKey{1})
			time.Sleep(time.Minute)
		}
		r.wantRequests(1)
		if row := r.db.get(work.Ref); row.status != contract.StatusDelivered || len(row.log) != 1 {
			t.Errorf("%s with %d rows", row.status, len(row.log))
		}
		if fails >= 0 {
			t.Errorf("%d failing writes left", fails)
		}
	})
}

func TestFault_B09_AFullMemoryDropsNothing(t *testing.T) {
	t.Parallel()
	bubble(t, Config{WindowRows: 32, Slots: 100, HandoverBytes: 500}, func(r *rig) {
		r.endpoint(1)
		r.endpoint(2)
		r.recv.set(after(5*time.Second, 200))
		r.start()
		const n = 1000
		for range n / 20 {
			r.publish(10, 1)
			r.publish(10, 2)
		}
		time.Sleep(20 * time.Second)
		r.kill()
		r.start()
		time.Sleep(time.Hour)
		r.wantCounts(map[contract.Status]int{contract.StatusDelivered: n})
	})
}

func TestFault_B50_RequestsUnderWayFinish(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		r.recv.set(after(3*time.Second, 200))
		r.start()
		r.publish(100, 1)
		synctest.Wait()
		r.publish(100, 1)
		began := time.Now()
		if err := r.drain(20 * time.Second); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("took %v", took)
		}
		got := len(r.recv.requests())
		r.wantCounts(map[contract.Status]int{contract.StatusDelivered: got, contract.StatusPending: 200 - got})
		r.start()
		time.Sleep(10 * time.Second)
		r.wantRequests(200)
		r.wantCounts(map[contract.Status]int{contract.StatusDelivered: 200})
	})
}

func TestFault_B50_ReceiverThatNeverAnswers(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		r.recv.set(hang)
		r.start()
		works := r.publish(firstPace, 1)
		for range 10 {
			time.Sleep(5 * time.Second)
			began := time.Now()
			if err := r.drain(20 * time.Second); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took < 19*time.Second || took >= 20*time.Second {
				t.Errorf("took %v", took)
			}
			r.start()
		}
		time.Sleep(time.Second)
		for _, w := range works {
			row := r.db.get(w.Ref)
			if row.status != contract.StatusPending || row.work.Attempts != 0 || len(row.health) != 0 || row.work.Interrupted != 0 {
				t.Fatalf("%s, %d counted, health %v", row.status, row.work.Attempts, row.health)
			}
			if len(row.log) != 10 || row.log[0].Counted || row.log[0].Error != textCutByStop || row.log[0].Duration < 5*time.Second {
				t.Fatalf("logged %+v", row.log)
			}
		}
		r.recv.set(always(200))
		r.kill()
		r.start()
		time.Sleep(time.Second)
		r.wantCounts(map[contract.Status]int{contract.StatusDelivered: firstPace})
	})
}

// A sender that does not even heed the cut.
func TestFault_B50_SenderThatDoesNotHeedTheCut(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		free := make(chan struct{})
		r.recv.set(func(context.Context, Shot) webhook.Outcome { <-free; return status(200) })
		r.start()
		r.publish(1, 1)
		synctest.Wait()
		began := time.Now()
		err := r.drain(20 * time.Second)
		if err == nil || !strings.Contains(err.Error(), "1 attempts still run") {
			t.Errorf("drain says %v", err)
		}
		if took := time.Since(began); took > 20*time.Second+drainTail {
			t.Errorf("took %v", took)
		}
		close(free)
	})
}

func TestFault_B50_StoreThatStandsStill(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		r.start()
		works := r.commit(3, template{endpoint: 1})
		r.db.stall(true)
		r.d.Offer(works)
		time.Sleep(time.Second)
		if err := r.drain(20 * time.Second); err == nil || !strings.Contains(err.Error(), "3 outcomes are not written") {
			t.Errorf("drain says %v", err)
		}
		r.db.stall(false)
		time.Sleep(time.Second)
	})
}

// A write that had gone wrong often is not waited for long.
func TestFault_B50_WritesThatWentWrongOften(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		r.start()
		r.db.set(func() { r.db.failRecord = func(*store.RecordParams) error { return errDisk } })
		r.publish(1, 1)
		time.Sleep(10 * time.Minute) // by now it is tried every 30 s
		r.db.set(func() { r.db.failRecord = nil })
		if err := r.drain(time.Second); err != nil {
			t.Error(err)
		}
		r.wantCounts(map[contract.Status]int{contract.StatusDelivered: 1})
	})
}

func TestFault_B50_AttemptAboutToBegin(t *testing.T) {
	t.Parallel()
	bubble(t, Config{HandoverBytes: 1}, func(r *rig) {
		r.endpoint(1)
		r.start()
		r.db.set(func() { r.db.loadTakes = 30 * time.Second })
		r.publish(1, 1)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := r.d.Drain(ctx); err == nil {
			t.Error("the drain hides it")
		}
		time.Sleep(time.Minute) // its payload arrives after the cut
		r.wantRequests(0)
	})
}

func TestFault_B50_DrainedTwiceAndBeforeTheStart(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		d := r.start()
		if err := d.Drain(context.Background()); err != nil {
			t.Error(err)
		}
		d.Offer(r.commit(1, template{endpoint: 1}))
		d.Reread([]webhook.EndpointKey{1})
		r.db.setState(1, webhook.EndpointPaused)
		time.Sleep(time.Hour)
		r.wantRequests(0)
		if err := d.Drain(context.Background()); err != nil {
			t.Error(err)
		}
		if err := New(Config{Clock: r.clk}).Drain(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func TestFault_B61_OrphansBlockNobody(t *testing.T) {
	t.Parallel()
	bubble(t, Config{Slots: 8, WindowRows: 8}, func(r *rig) {
		r.endpoint(1, func(e *webhook.Endpoint) { e.State = webhook.EndpointDisabled })
		r.endpoint(2)
		r.endpoint(3)
		r.commit(1000, template{endpoint: 99})                                            // removed by hand
		r.commit(1000, template{endpoint: 1})                                             // disabled
		r.commit(1000, template{endpoint: 3, expires: r.clk.Now().Add(time.Microsecond)}) // expired
		good := r.commit(10, template{endpoint: 2})
		time.Sleep(time.Second)
		began := time.Now()
		r.start()
		time.Sleep(time.Minute)
		for _, q := range r.wantRequests(len(good)) {
			if q.at.Sub(began) > time.Second {
				t.Errorf("a good one waited %v", q.at.Sub(began))
			}
		}
		r.wantCounts(map[contract.Status]int{
			contract.StatusDelivered: 10, contract.StatusSkipped: 1000, contract.StatusPending: 2000,
		})
		if !strings.Contains(r.logs.String(), "endpoints that do not exist") {
			t.Error("nobody is told of the orphans")
		}
	})
}

func TestFault_B84_ABadRowFailsItsDeliveryOnly(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]func() webhook.Outcome{
		"cannot be put together": func() webhook.Outcome {
			return webhook.Outcome{Fault: webhook.FaultPrepare, Message: "A stored header can't be sent."}
		},
		"panics": func() webhook.Outcome { panic("with a secret: whsec_123") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, Config{}, func(r *rig) {
				r.endpoint(1, func(e *webhook.Endpoint) { e.Contract = "plain" })
				r.recv.set(func(_ context.Context, s Shot) webhook.Outcome {
					if s.Work.Ref == 2 {
						return bad()
					}
					return status(200)
				})
				d := r.start()
				r.publish(3, 1)
				time.Sleep(time.Hour)
				r.wantRequests(5)
				row := r.db.get(2)
				if row.status != contract.StatusFailed || row.kind != contract.KindNetwork || row.work.Attempts != 3 || len(row.health) != 0 {
					t.Errorf("%s %s after %d, health %v", row.status, row.kind, row.work.Attempts, row.health)
				}
				if row.log[0].Error == "" || !row.log[0].Counted {
					t.Errorf("logged %+v", row.log[0])
				}
				if strings.Contains(r.logs.String()+row.log[0].Error, "whsec") {
					t.Error("the panic's value leaked")
				}
				if s := d.Stats(); s.InFlight != 0 || s.OnWire != 0 {
					t.Errorf("stats %+v", s)
				}
			})
		})
	}
}

func TestFault_B84_UnknownContractFailsItsDeliveryOnly(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, func(e *webhook.Endpoint) { e.Contract = "lost" })
		r.endpoint(2)
		d := r.start()
		r.publish(1, 1)
		d.Offer(r.commit(1, template{endpoint: 2, contract: "lost"}))
		r.publish(1, 2)
		time.Sleep(time.Hour)
		r.wantRequests(1)
		if row := r.db.get(1); row.status != contract.StatusFailed || row.reason != webhook.WhyStopped || row.log[0].Error == "" {
			t.Errorf("%s %s %+v", row.status, row.reason, row.log)
		}
		r.wantCounts(map[contract.Status]int{contract.StatusFailed: 2, contract.StatusDelivered: 1})
	})
}

func TestFault_NoFileHandlesIsNoAttempt(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		var tries atomic.Int32
		r.recv.set(func(context.Context, Shot) webhook.Outcome {
			if tries.Add(1) <= 32 {
				return webhook.Outcome{Kind: webhook.KindNetwork, Fault: webhook.FaultHandles}
			}
			return status(200)
		})
		d := r.start()
		began := time.Now()
		works := r.publish(8, 1) // eight at once meet the trouble, four times
		time.Sleep(time.Hour)
		got := r.wantRequests(8 + 32)
		for i, at := range []time.Duration{0, 1, 3, 7, 15} {
			if got[i*8].at.Sub(began).Round(time.Second) != at*time.Second {
				t.Errorf("turn %d after %v", i, got[i*8].at.Sub(began))
			}
		}
		for _, w := range works {
			if row := r.db.get(w.Ref); row.status != contract.StatusDelivered || len(row.log) != 1 || row.work.Attempts != 1 {
				t.Errorf("%s %+v", row.status, row.log)
			}
		}
		if s := d.Stats(); s.InFlight != 0 || s.Ready != 0 || s.BytesHeld != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestFault_PayloadThatCannotBeReadIsNoAttempt(t *testing.T) {
	t.Parallel()
	bubble(t, Config{HandoverBytes: 1}, func(r *rig) {
		r.endpoint(1)
		fails := 3
		r.db.failLoad = func(webhook.Ref) error {
			if fails--; fails >= 0 {
				return errDisk
			}
			return nil
		}
		r.start()
		work := r.publish(1, 1)[0]
		time.Sleep(time.Minute)
		if got := r.wantRequests(1); got[0].data != `{"a":1}` {
			t.Errorf("sent %q", got[0].data)
		}
		if row := r.db.get(work.Ref); row.status != contract.StatusDelivered || len(row.log) != 1 {
			t.Errorf("%s %+v", row.status, row.log)
		}
	})
}
