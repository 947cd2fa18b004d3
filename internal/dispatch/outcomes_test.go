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
		r.recv.set(func(ctx context.Context, s Shot) webhook.Outcome {
			after(time.Second, 0)(ctx, s)
			return webhook.Outcome{Kind: webhook.KindUnsafeURL} // would end it
		})
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

func TestEngine_N13_ResendOfAnOldDelivery(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		d := r.start()
		works := r.commit(2, template{endpoint: 1})
		d.Reread([]webhook.EndpointKey{1}) // so that the lane has seen both
		time.Sleep(time.Second)
		again := works[0]
		again.Round, again.Rows = 2, 1
		r.db.set(func() {
			row := r.db.rows[again.Ref]
			row.status, row.work.Round, row.work.Attempts = contract.StatusPending, 2, 0
		})
		d.Offer([]store.Work{again})
		time.Sleep(time.Second)
		if got := r.wantRequests(3); got[2].ref != again.Ref || got[2].try != 1 {
			t.Errorf("sent %+v", got[2])
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
		r.db.set(func() { r.db.markTakes = 200 * time.Millisecond })
		work := r.publish(1, 1)[0]
		time.Sleep(500 * time.Millisecond)
		r.db.setState(1, webhook.EndpointPaused) // so that it is held and waits on
		time.Sleep(time.Minute)
		if row := r.db.get(work.Ref); row.mark != nil || len(row.log) != 1 || r.db.marks.Load() != 1 {
			t.Errorf("mark %+v, %d rows, %d marks", row.mark, len(row.log), r.db.marks.Load())
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
				!strings.Contains(string(e.Data), `"state_reason":"gone"`) || !strings.Contains(string(e.Data), `"status_code":410`) {
				t.Errorf("events %v", r.db.events)
			}
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
