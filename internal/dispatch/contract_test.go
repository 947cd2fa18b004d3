package dispatch

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// standardWaits are what CONTRACTS says of the contract standard: 10 attempts,
// 75 h 35 m and 5 s in all.
var standardWaits = []time.Duration{
	0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
	10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

func TestContract_S2_WholeScheduleOfStandard(t *testing.T) {
	t.Parallel()
	for name, lapse := range map[string]int{"real time": 1, "N21 time-lapse": 3600} {
		for jitter, random := range map[string]float64{"none": 0.5, "earliest": 0, "latest": 0.999999} {
			t.Run(name+" jitter "+jitter, func(t *testing.T) {
				t.Parallel()
				const takes = 700 * time.Millisecond // waits run from the end of a try
				cfg := Config{TimeLapse: lapse, Random: func() float64 { return random }}
				bubble(t, cfg, func(r *rig) {
					r.endpoint(1)
					r.recv.set(after(takes, 500))
					r.start()
					began := time.Now()
					work := r.publish(1, 1)[0]
					time.Sleep(100 * time.Hour)
					synctest.Wait()
					want := began
					for i, got := range r.wantRequests(len(standardWaits)) {
						wait := time.Duration(float64(standardWaits[i]) * (1 + 0.1*(2*random-1)))
						want = want.Add(wait / time.Duration(lapse))
						if off := got.at.Sub(want); off < 0 || off > 20*time.Millisecond {
							t.Errorf("attempt %d off by %v", i+1, off)
						}
						if got.try != i+1 {
							t.Errorf("attempt %d bears %d", i+1, got.try)
						}
						want = got.at.Add(takes)
					}
					row := r.db.get(work.Ref)
					if row.status != contract.StatusFailed || row.reason != webhook.WhyExhausted || row.kind != contract.KindHTTPStatus {
						t.Errorf("ended %s %s %s", row.status, row.reason, row.kind)
					}
					if len(row.log) != len(standardWaits) || row.work.Attempts != len(standardWaits) {
						t.Errorf("%d rows, %d counted", len(row.log), row.work.Attempts)
					}
				})
			})
		}
	}
}

func TestContract_S2_SuccessEndsTheSchedule(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		r.recv.set(func(_ context.Context, s Shot) webhook.Outcome {
			if s.Try < 4 {
				return status(503)
			}
			return status(204)
		})
		r.start()
		work := r.publish(1, 1)[0]
		time.Sleep(100 * time.Hour)
		r.wantRequests(4)
		if row := r.db.get(work.Ref); row.status != contract.StatusDelivered || row.kind != contract.KindNone || row.reason != webhook.WhyNone {
			t.Errorf("ended %s %s %s", row.status, row.kind, row.reason)
		}
	})
}

func TestContract_S4_GoneStopsAndDisables(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, func(e *webhook.Endpoint) { e.MaxInFlight = 1 })
		r.recv.set(always(410))
		r.db.set(func() { r.db.commitTakes = 50 * time.Millisecond })
		r.start()
		works := r.publish(20, 1)
		time.Sleep(time.Hour)
		// No second one went out between the answer and the commit.
		r.wantRequests(1)
		row := r.db.get(works[0].Ref)
		if row.status != contract.StatusFailed || row.reason != webhook.WhyStopped || row.kind != contract.KindGone {
			t.Errorf("ended %s %s %s", row.status, row.reason, row.kind)
		}
		r.wantCounts(map[contract.Status]int{contract.StatusFailed: 1, contract.StatusPending: 19})
		r.db.set(func() {
			if e := r.db.endpoints[1]; e.State != webhook.EndpointDisabled || e.StateReason != webhook.ReasonGone {
				t.Errorf("endpoint is %s %s", e.State, e.StateReason)
			}
		})
		// Enabled again it goes on where it stopped.
		r.recv.set(always(200))
		r.db.setState(1, webhook.EndpointActive)
		time.Sleep(10 * time.Second)
		r.wantRising(r.wantRequests(20))
	})
}

func TestContract_S4_GoneToATestDisablesNothing(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		r.recv.set(always(410))
		r.start()
		works := r.commit(1, template{endpoint: 1, trigger: contract.TriggerTest})
		r.d.Offer(works)
		time.Sleep(time.Hour)
		if row := r.db.get(works[0].Ref); row.status != contract.StatusFailed || len(row.health) != 0 {
			t.Errorf("test ended %s, health %v", row.status, row.health)
		}
		r.db.set(func() {
			if !r.db.endpoints[1].On() {
				t.Error("a test disabled the endpoint")
			}
		})
	})
}

func TestContract_S4_RetryAfterIsTheLongerOfTheTwo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header string
		lapse  int
		want   time.Duration
	}{
		"longer":          {"120", 1, 2 * time.Minute},
		"shorter":         {"1", 1, 5 * time.Second},
		"above 24 h":      {"999999", 1, 24 * time.Hour},
		"N21 is divided":  {"120", 10, 12 * time.Second},
		"unreadable":      {"soon", 1, 5 * time.Second},
		"a date":          {"Sat, 01 Jan 2000 00:10:00 GMT", 1, 10 * time.Minute},
		"a date long ago": {"Fri, 31 Dec 1999 00:10:00 GMT", 1, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, Config{TimeLapse: c.lapse}, func(r *rig) {
				r.endpoint(1)
				r.recv.set(func(_ context.Context, s Shot) webhook.Outcome {
					if s.Try > 1 {
						return status(200)
					}
					o := status(429)
					o.RetryAfter = c.header
					return o
				})
				r.start()
				r.publish(1, 1)
				time.Sleep(25 * time.Hour)
				got := r.wantRequests(2)
				if off := got[1].at.Sub(got[0].at) - c.want; off < 0 || off > 10*time.Millisecond {
					t.Errorf("waited %v, want %v", got[1].at.Sub(got[0].at), c.want)
				}
			})
		})
	}
}

func TestContract_S4_UnsafeURLStops(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		r.recv.set(func(context.Context, Shot) webhook.Outcome {
			return webhook.Outcome{Kind: webhook.KindUnsafeURL, Phase: webhook.PhaseGuard, Message: "The address is not allowed."}
		})
		r.start()
		work := r.publish(1, 1)[0]
		time.Sleep(time.Hour)
		r.wantRequests(1)
		if row := r.db.get(work.Ref); row.status != contract.StatusFailed || row.reason != webhook.WhyStopped || !row.log[0].Counted {
			t.Errorf("ended %s %s %+v", row.status, row.reason, row.log[0])
		}
	})
}

func TestContract_R11_EveryAttemptIsRecordedWithItsNextTime(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		r.recv.set(func(context.Context, Shot) webhook.Outcome {
			o := status(500)
			o.Message, o.Address, o.Response, o.ResponseBroken = "It answered 500.", "192.0.2.1:443", []byte("oops"), true
			return o
		})
		r.start()
		work := r.publish(1, 1)[0]
		time.Sleep(time.Second)
		row := r.db.get(work.Ref)
		if row.status != contract.StatusPending || row.reason != webhook.WhyRetry || row.kind != contract.KindHTTPStatus {
			t.Fatalf("after the first failure: %s %s %s", row.status, row.reason, row.kind)
		}
		if wait := row.work.Due.Sub(work.Due); wait < 5*time.Second || wait > 5*time.Second+10*time.Millisecond {
			t.Errorf("next in %v", wait)
		}
		a := row.log[0]
		if a.Number != 1 || a.Try != 1 || !a.Counted || a.StatusCode != 500 || a.FailureKind != contract.KindHTTPStatus ||
			a.Error == "" || a.Address == "" || string(a.Response) != "oops" || !a.Truncated || a.Duration <= 0 || a.At.IsZero() {
			t.Errorf("logged %+v", a)
		}
		if len(row.health) != 1 || row.health[0] {
			t.Errorf("health %v", row.health)
		}
		// A time-out means only that no answer was seen: it is tried again.
		r.recv.set(func(context.Context, Shot) webhook.Outcome { return webhook.Outcome{Kind: webhook.KindTimeout} })
		time.Sleep(6 * time.Second)
		if row := r.db.get(work.Ref); row.status != contract.StatusPending || row.kind != contract.KindTimeout || row.work.Attempts != 2 {
			t.Errorf("after the time-out: %s %s %d", row.status, row.kind, row.work.Attempts)
		}
	})
}

// No herd after a recovery: one lane's limit holds, and jitter spreads retries.
func TestContract_R11_NoHerd(t *testing.T) {
	t.Parallel()
	bubble(t, Config{Random: rand.Float64}, func(r *rig) {
		r.endpoint(1, func(e *webhook.Endpoint) { e.MaxInFlight = 4 })
		r.recv.set(after(20*time.Millisecond, 500))
		r.start()
		r.publish(100, 1)
		time.Sleep(time.Minute)
		r.recv.mu.Lock()
		most := r.recv.most[1]
		r.recv.mu.Unlock()
		if most != 4 {
			t.Errorf("%d requests at once, the limit is 4", most)
		}
		r.wantRequests(200)
	})
}

func TestContract_PauseWhileARequestIsUnderWay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code   int
		state  webhook.EndpointState
		status contract.Status
		kind   contract.FailureKind
		reason webhook.Reason
	}{
		"a 2xx counts":        {200, webhook.EndpointPaused, contract.StatusDelivered, contract.KindNone, webhook.WhyNone},
		"else held, paused":   {500, webhook.EndpointPaused, contract.StatusPending, contract.KindPaused, webhook.WhyPaused},
		"else held, disabled": {500, webhook.EndpointDisabled, contract.StatusPending, contract.KindPaused, webhook.WhyDisabled},
		"a 410 stops anyway":  {410, webhook.EndpointPaused, contract.StatusFailed, contract.KindGone, webhook.WhyStopped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, Config{}, func(r *rig) {
				r.endpoint(1)
				r.recv.set(after(3*time.Second, c.code))
				r.start()
				work := r.publish(1, 1)[0]
				time.Sleep(time.Second)
				r.db.setState(1, c.state)
				time.Sleep(time.Hour)
				row := r.db.get(work.Ref)
				if row.status != c.status || row.kind != c.kind || row.reason != c.reason || len(row.log) != 1 {
					t.Fatalf("%s %s %s, %d rows", row.status, row.kind, row.reason, len(row.log))
				}
				if c.status != contract.StatusPending {
					return
				}
				if row.log[0].Counted || len(row.health) != 0 || row.work.Attempts != 0 {
					t.Errorf("it counted: %+v", row.log[0])
				}
				r.recv.set(always(200))
				r.db.setState(1, webhook.EndpointActive)
				time.Sleep(time.Second)
				if got := r.wantRequests(2); got[1].try != 1 {
					t.Errorf("after the resume it bears %d", got[1].try)
				}
			})
		})
	}
}

func TestContract_BeforeATry(t *testing.T) {
	t.Parallel()
	bubble(t, Config{HandoverBytes: 1}, func(r *rig) { // every payload is read when sent
		r.endpoint(1)
		d := r.start()
		erased := r.commit(1, template{endpoint: 1})
		r.db.set(func() { r.db.rows[erased[0].Ref].work.Erased = true })
		known := r.commit(1, template{endpoint: 1})
		known[0].Erased = true
		expired := r.commit(1, template{endpoint: 1, expires: r.clk.Now().Add(-time.Second)})
		good := r.commit(1, template{endpoint: 1, expires: r.clk.Now().Add(time.Hour)})
		d.Offer(erased)
		d.Offer(known)
		d.Offer(expired)
		d.Offer(good)
		time.Sleep(time.Minute)
		r.wantRequests(1)
		for _, w := range append(erased, known...) {
			if row := r.db.get(w.Ref); row.status != contract.StatusFailed || row.reason != webhook.WhyEventMissing ||
				row.kind != contract.KindEventMissing || len(row.log) != 0 {
				t.Errorf("%d: %s %s %s, %d rows", w.Ref, row.status, row.reason, row.kind, len(row.log))
			}
		}
		if row := r.db.get(expired[0].Ref); row.status != contract.StatusSkipped || row.reason != webhook.WhyExpired || len(row.log) != 0 {
			t.Errorf("expired: %s %s", row.status, row.reason)
		}
		if row := r.db.get(good[0].Ref); row.status != contract.StatusDelivered {
			t.Errorf("good: %s", row.status)
		}
		if strings.Contains(r.logs.String(), "level=ERROR") {
			t.Error(r.logs.String())
		}
	})
}

// What is erased is not sent any more, also where its payload lies in memory or
// is handed over late.
func TestEngine_N2_ErasedPayloadIsNotSent(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, func(e *webhook.Endpoint) { e.MaxInFlight = 1 })
		d := r.start()
		r.recv.set(after(time.Minute, 200))
		r.publish(1, 1)
		inWindow := r.publish(1, 1)[0].Ref
		time.Sleep(time.Second)
		late := r.commit(1, template{endpoint: 1})
		erased := []webhook.Ref{inWindow, late[0].Ref}
		r.db.set(func() {
			for _, ref := range erased {
				r.db.rows[ref].work.Erased = true
			}
		})
		d.Apply(store.Change{Erased: erased})
		d.Offer(late)
		time.Sleep(10 * time.Minute)
		r.wantRequests(1)
		for _, ref := range erased {
			if row := r.db.get(ref); row.status != contract.StatusFailed || row.reason != webhook.WhyEventMissing {
				t.Errorf("%d: %s %s", ref, row.status, row.reason)
			}
		}
	})
}

// A read that began before the payload was erased brings it along.
func TestEngine_N2_ErasedWhileItIsRead(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		ref := r.commit(1, template{endpoint: 1})[0].Ref
		r.db.set(func() { r.db.readTakes = time.Second })
		d := r.start()
		time.Sleep(time.Second / 2)
		r.db.set(func() { r.db.rows[ref].work.Erased = true })
		d.Apply(store.Change{Erased: []webhook.Ref{ref}})
		time.Sleep(time.Minute)
		r.wantRequests(0)
		if row := r.db.get(ref); row.status != contract.StatusFailed || row.reason != webhook.WhyEventMissing {
			t.Errorf("%s %s", row.status, row.reason)
		}
	})
}

// What a caller says expires at a wall time does so by the wall clock, also
// after that clock has stepped (N20).
func TestEngine_N20_ExpiryGoesByTheWallClock(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		d := r.start()
		r.clk.Step(-time.Hour)
		live := r.commit(1, template{endpoint: 1, expires: r.clk.Wall().Add(time.Minute)})
		over := r.commit(1, template{endpoint: 1, expires: r.clk.Wall().Add(-time.Minute)})
		d.Offer(live)
		d.Offer(over)
		time.Sleep(time.Second)
		if row := r.db.get(live[0].Ref); row.status != contract.StatusDelivered {
			t.Errorf("before its end: %s", row.status)
		}
		if row := r.db.get(over[0].Ref); row.status != contract.StatusSkipped {
			t.Errorf("after its end: %s", row.status)
		}
	})
}
