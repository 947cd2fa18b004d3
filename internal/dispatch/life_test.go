package dispatch

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func TestPetify_P5_OffSkipsWhatWaits(t *testing.T) {
	t.Parallel()
	bubble(t, Config{WindowRows: 8}, func(r *rig) {
		r.endpoint(1, under("petify"), oneByOne)
		r.recv.set(after(time.Second, 200))
		d := r.start()
		r.publish(100, 1)
		time.Sleep(1500 * time.Millisecond)
		r.db.skipAll(1, webhook.EndpointPaused)
		d.Offer(r.commit(1, template{endpoint: 1, trigger: contract.TriggerTest, byPerson: true}))
		time.Sleep(time.Minute)
		got := r.wantRequests(3)
		if got[2].ref != 101 {
			t.Errorf("the test was %d", got[2].ref)
		}
		// Switched on before a row was written: none below the mark goes out.
		r.db.setState(1, webhook.EndpointActive)
		fresh := r.publish(1, 1)
		time.Sleep(time.Minute)
		if reads := r.db.reads.Load(); reads > 5000 {
			t.Errorf("%d reads", reads)
		}
		r.db.writeSkips(1)
		time.Sleep(time.Minute)
		got = r.wantRequests(4)
		if got[3].ref != fresh[0].Ref {
			t.Errorf("%d went out", got[3].ref)
		}
		r.wantCounts(map[contract.Status]int{contract.StatusDelivered: 4, contract.StatusSkipped: 98})
	})
}

// A mark counts right before the attempt, in windows, and for what is handed over
// late.
func TestEngine_N17_AMarkIsTrueAtOnce(t *testing.T) {
	t.Parallel()
	bubble(t, Config{HandoverBytes: 1}, func(r *rig) {
		r.endpoint(1, under("signals"))
		r.start()
		late := r.commit(1, template{endpoint: 1})
		r.db.set(func() { r.db.loadTakes = time.Second })
		r.publish(5, 1) // the payloads are being read
		time.Sleep(500 * time.Millisecond)
		r.db.skipAll(1, webhook.EndpointActive)
		r.d.Offer(late)
		time.Sleep(time.Minute)
		r.wantRequests(0)
		// A resend after the mark has a seat behind it.
		r.db.writeSkips(1)
		r.db.skipAll(1, webhook.EndpointActive)
		r.publish(1, 1)
		r.db.again(1, contract.Terms{Trigger: contract.TriggerResend})
		time.Sleep(time.Minute)
		r.wantRequests(2)
	})
}

// What is skipped and what waits behind it: dropped rows are not read in a circle.
func TestEngine_N17_SkippedRowsAreNotReadInACircle(t *testing.T) {
	t.Parallel()
	bubble(t, Config{WindowRows: 4}, func(r *rig) {
		r.endpoint(1, under("signals"), oneByOne, func(e *webhook.Endpoint) { e.State = webhook.EndpointPaused })
		r.commit(100, template{endpoint: 1})
		r.start()
		r.db.skipAll(1, webhook.EndpointPaused)
		r.db.setState(1, webhook.EndpointActive)
		fresh := r.publish(3, 1)
		time.Sleep(time.Second)
		if reads := r.db.reads.Load(); reads > 51 {
			t.Errorf("%d reads in a second", reads)
		}
		r.db.writeSkips(1)
		time.Sleep(time.Second)
		if got := r.wantRequests(3); got[0].ref != fresh[0].Ref {
			t.Errorf("%d went out", got[0].ref)
		}
	})
}

func TestEngine_N17_CatchingUpGoesOldestFirst(t *testing.T) {
	t.Parallel()
	bubble(t, Config{WindowRows: 8}, func(r *rig) {
		r.endpoint(1, under("standard"), oneByOne)
		r.recv.set(failing(3))
		r.start()
		r.publish(5, 1)
		time.Sleep(time.Second) // 3 waits for its second try
		r.db.setState(1, webhook.EndpointDisabled)
		r.publish(20, 1)
		time.Sleep(time.Hour)
		r.wantRequests(5)
		r.recv.set(after(10*time.Millisecond, 200))
		r.db.enable(1)
		reads := r.db.reads.Load()
		time.Sleep(100 * time.Millisecond)
		if n := r.db.reads.Load() - reads; n < 2 || n > 7 {
			t.Errorf("%d reads while nothing is in order yet", n)
		}
		r.publish(3, 1) // behind all that was held
		r.db.again(1, contract.Terms{Trigger: contract.TriggerResend})
		time.Sleep(time.Second)
		if got := r.wantRequests(6); got[5].ref != 1 {
			t.Errorf("%d passed what catches up", got[5].ref)
		}
		for !r.db.catchUpStep(1, 4) {
			if s := r.d.Stats(); s.OldestDue > 2*time.Minute {
				t.Errorf("the oldest is %v old", s.OldestDue)
			}
			time.Sleep(30 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		got := r.wantRequests(6 + 1 + 20 + 3)
		if got[6].ref != 3 || got[6].try != 2 {
			t.Errorf("the oldest was %+v", got[6])
		}
		r.wantRising(got[6:])
		r.wantCounts(map[contract.Status]int{contract.StatusDelivered: 28})
	})
}

func TestPetify_P7_AResendIsOneTry(t *testing.T) {
	t.Parallel()
	bubble(t, Config{WindowRows: 8}, func(r *rig) {
		r.endpoint(1, under("petify"), oneByOne)
		d := r.start()
		first := r.publish(1, 1)[0].Ref
		time.Sleep(time.Second)
		r.recv.set(after(time.Second, 500))
		r.publish(100, 1) // a backlog that a person does not wait for
		time.Sleep(1500 * time.Millisecond)
		ended, cancel := d.Await(first)
		defer cancel()
		r.db.again(first, builtin()["petify"].ResendTerms(contract.Terms{Trigger: contract.TriggerEvent}))
		time.Sleep(2 * time.Second)
		got := r.wantRequests(5)
		if got[3].ref != first || got[3].try != 1 {
			t.Errorf("went out %+v", got[3])
		}
		row := r.db.get(first)
		if row.status != contract.StatusFailed || row.reason != webhook.WhyExhausted || row.work.Round != 2 {
			t.Errorf("it is %s %s in round %d", row.status, row.reason, row.work.Round)
		}
		select {
		case end := <-ended:
			if end.Status != contract.StatusFailed || end.Kind != contract.KindHTTPStatus || end.Attempt == nil ||
				end.Attempt.StatusCode != 500 || end.Attempt.Number != 2 || !end.Attempt.Counted {
				t.Errorf("told %+v", end)
			}
		default:
			t.Error("nobody was told")
		}
	})
}

// Rounds begin anew: numbers, terms and the place in the order.
func TestEngine_N13_ARoundHasItsOwnTerms(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, under("elido"))
		r.recv.set(always(500))
		r.start()
		r.publish(1, 1)
		time.Sleep(40 * time.Hour)
		got := r.wantRequests(7)
		r.db.again(1, contract.Terms{Trigger: contract.TriggerReplay, Degraded: true})
		began := time.Now()
		time.Sleep(40 * time.Hour)
		got = r.wantRequests(len(got) + 4)[len(got):]
		for i, at := range []time.Duration{0, 5 * time.Minute, 65 * time.Minute, 25*time.Hour + 5*time.Minute} {
			r.wantAt(got[i], began, at)
			if got[i].try != i+1 {
				t.Errorf("try %d bears %d", i+1, got[i].try)
			}
		}
		row := r.db.get(1)
		if row.status != contract.StatusFailed || row.work.Attempts != 4 || len(row.log) != 11 || row.log[10].Number != 11 {
			t.Errorf("%s, %d attempts, %d rows", row.status, row.work.Attempts, len(row.log))
		}
	})
}

// Nothing starts once the fiftieth failure in a row is known.
func TestElido_E8_FiftyInARowPause(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, under("elido"))
		r.endpoint(2, func(e *webhook.Endpoint) { e.Events = []string{"endpoint.*"} })
		r.recv.set(func(ctx context.Context, s Shot) webhook.Outcome {
			if s.Endpoint.Key == 2 {
				return status(200)
			}
			return after(10*time.Millisecond, 500)(ctx, s)
		})
		r.start()
		r.db.set(func() { r.db.commitTakes = 500 * time.Millisecond })
		r.publish(200, 1)
		time.Sleep(20 * time.Hour)
		n := 0
		for _, q := range r.recv.requests() {
			if q.endpoint == 1 {
				n++
			}
		}
		if n != 50 {
			t.Errorf("%d requests, want 50", n)
		}
		r.db.set(func() {
			if e := r.db.endpoints[1]; e.State != webhook.EndpointPaused || e.StateReason != webhook.ReasonFailuresInRow {
				t.Errorf("it is %s %s", e.State, e.StateReason)
			}
			var types []string
			for _, e := range r.db.events {
				types = append(types, e.Type)
			}
			slices.Sort(types)
			if fmt.Sprint(types) != "[endpoint.degraded endpoint.paused]" {
				t.Errorf("events %v", types)
			}
		})
	})
}

func TestElido_E8_DegradedOnesGetOtherWaits(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, under("elido"))
		r.recv.set(always(500))
		r.start()
		w := r.commit(1, template{endpoint: 1})
		r.db.set(func() { r.db.rows[w[0].Ref].work.Degraded = true })
		w[0].Degraded = true
		began := time.Now()
		r.d.Offer(w)
		time.Sleep(48 * time.Hour)
		for i, at := range []time.Duration{0, 5 * time.Minute, 65 * time.Minute, 25*time.Hour + 5*time.Minute} {
			r.wantAt(r.wantRequests(4)[i], began, at)
		}
	})
}

func TestFault_B40_AnOutageOfTwoMinutesLosesNothing(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"signals", "elido", "petify", "standard"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, Config{}, func(r *rig) {
				r.endpoint(1, under(name))
				r.recv.set(after(time.Millisecond, 503))
				r.start()
				for range 500 {
					r.publish(1, 1)
					time.Sleep(20 * time.Millisecond)
				}
				time.Sleep(2 * time.Minute)
				r.recv.set(after(time.Millisecond, 200))
				time.Sleep(time.Hour)
				paused := false
				r.db.set(func() { paused = !r.db.endpoints[1].On() })
				if paused != (name == "elido") {
					t.Errorf("it is off: %t", paused)
				}
				if paused {
					r.db.enable(1)
					for !r.db.catchUpStep(1, 100) {
						time.Sleep(10 * time.Millisecond)
					}
					time.Sleep(time.Hour)
				}
				r.wantCounts(map[contract.Status]int{contract.StatusDelivered: 500})
			})
		})
	}
}

func TestFault_B41_AShortWrongDeployIsForgotten(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"signals", "elido", "petify", "standard"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, Config{}, func(r *rig) {
				r.endpoint(1, under(name))
				began := time.Now()
				r.recv.set(func(context.Context, Shot) webhook.Outcome {
					if time.Since(began) < 10*time.Second {
						return status(404)
					}
					return status(200)
				})
				r.start()
				for range 60 {
					r.publish(1, 1)
					time.Sleep(time.Second)
				}
				time.Sleep(10 * time.Hour)
				r.wantCounts(map[contract.Status]int{contract.StatusDelivered: 60})
				r.db.set(func() {
					if e := r.db.endpoints[1]; !e.On() || e.Health.FailuresInRow != 0 {
						t.Errorf("%s with %d failures in a row", e.State, e.Health.FailuresInRow)
					}
				})
			})
		})
	}
}

func TestFault_B06_AttemptsAreBounded(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, under("plain"))
		r.recv.set(always(403))
		refused := false
		r.db.set(func() {
			r.db.failRecord = func(*store.RecordParams) error {
				if !refused {
					refused = true
					return errDisk
				}
				return nil
			}
		})
		r.start()
		w := r.publish(1, 1)
		time.Sleep(time.Hour)
		r.wantRequests(3)
		if row := r.db.get(w[0].Ref); row.status != contract.StatusFailed || len(row.log) != 3 || row.log[2].StatusCode != 403 {
			t.Errorf("%s %+v", row.status, row.log)
		}
	})
}

func TestFault_B36_NoStormAtAReceiverThatIsDown(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]int{"signals": 5000, "petify": 500, "standard": 500} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, Config{}, func(r *rig) {
				r.endpoint(1, under(name))
				r.recv.set(after(50*time.Millisecond, 0))
				refuse := func(ctx context.Context, s Shot) webhook.Outcome {
					after(50*time.Millisecond, 200)(ctx, s)
					return webhook.Outcome{Kind: webhook.KindNetwork, Phase: webhook.PhaseConnect}
				}
				r.recv.set(refuse)
				d := r.start()
				r.commit(n, template{endpoint: 1})
				began := time.Now()
				d.Reread([]webhook.EndpointKey{1})
				time.Sleep(10 * time.Minute)
				perSecond, tries := map[int]int{}, map[webhook.Ref]int{}
				for _, q := range r.recv.requests() {
					perSecond[int(q.at.Sub(began)/time.Second)]++
					tries[q.ref]++
				}
				for s, k := range perSecond {
					if k > 30 {
						t.Errorf("%d connects in second %d", k, s)
					}
				}
				for ref, k := range tries {
					if k > 3 {
						t.Errorf("%d tries of %d in ten minutes", k, ref)
					}
				}
				before := len(r.recv.requests())
				r.recv.mu.Lock()
				r.recv.most[1] = 0
				r.recv.mu.Unlock()
				r.recv.set(after(50*time.Millisecond, 200))
				time.Sleep(20 * time.Hour)
				for i, q := range r.recv.requests()[before:][:8] { // a ramp: 1, 2, 4, …
					if i > 0 && q.at.Equal(r.recv.requests()[before].at) {
						t.Errorf("request %d at the same moment as the first", i)
					}
				}
				r.wantCounts(map[contract.Status]int{contract.StatusDelivered: n})
			})
		})
	}
}

func TestFault_B38_RetryAfterIsHeeded(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string][2]time.Duration{
		"signals": {time.Minute, 5 * time.Minute}, "elido": {7 * time.Second, 30 * time.Second},
		"petify": {time.Minute, 5 * time.Minute}, "standard": {7 * time.Second, 5 * time.Minute},
	} {
		for _, layout := range []string{
			"Mon, 02 Jan 2006 15:04:05 GMT", "Monday, 02-Jan-06 15:04:05 GMT", "Mon Jan _2 15:04:05 2006",
		} {
			t.Run(name+" "+layout, func(t *testing.T) {
				t.Parallel()
				bubble(t, Config{}, func(r *rig) {
					r.endpoint(1, under(name))
					r.recv.set(func(_ context.Context, s Shot) webhook.Outcome {
						switch s.Try {
						case 1:
							o := status(429)
							o.RetryAfter = "7"
							return o
						case 2:
							o := status(503)
							o.RetryAfter = time.Now().UTC().Add(9 * time.Second).Format(layout)
							return o
						default:
							return status(200)
						}
					})
					r.start()
					r.publish(1, 1)
					time.Sleep(time.Hour)
					got := r.wantRequests(3)
					r.wantAt(got[1], got[0].at, waits[0])
					r.wantAt(got[2], got[1].at, waits[1])
				})
			})
		}
	}
}

// A receiver that is silent holds few slots; one that is well gets all it takes.
func TestEngine_N18_ALaneStartsSlowlyAndSilentOnesHoldLittle(t *testing.T) {
	t.Parallel()
	bubble(t, Config{Slots: 100}, func(r *rig) {
		for key := webhook.EndpointKey(1); key <= 11; key++ {
			r.endpoint(key, under("petify"))
		}
		r.recv.set(func(ctx context.Context, s Shot) webhook.Outcome {
			if s.Endpoint.Key <= 10 {
				<-time.After(10 * time.Second)
				return webhook.Outcome{Kind: webhook.KindTimeout}
			}
			return after(100*time.Millisecond, 200)(ctx, s)
		})
		d := r.start()
		for key := webhook.EndpointKey(1); key <= 10; key++ {
			r.publish(200, key)
		}
		time.Sleep(15 * time.Second)
		if s := d.Stats(); s.OnWire > 10 {
			t.Errorf("ten silent endpoints hold %d slots", s.OnWire)
		}
		began := time.Now()
		r.publish(200, 11)
		time.Sleep(2 * time.Second)
		at := map[time.Duration]int{}
		for _, q := range r.recv.requests() {
			if q.endpoint == 11 {
				at[q.at.Sub(began).Round(100*time.Millisecond)]++
			}
		}
		if at[0] != firstPace || at[100*time.Millisecond] < 2*firstPace {
			t.Errorf("the pace was %v", at)
		}
		n := 0
		for _, k := range at {
			n += k
		}
		if n != 200 {
			t.Errorf("%d of 200 went out in two seconds", n)
		}
	})
}

func TestEngine_N18_ALaneThatWasOffStartsSlowlyAgain(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1)
		r.recv.set(after(100*time.Millisecond, 200))
		r.start()
		r.publish(300, 1)
		time.Sleep(10 * time.Second)
		r.recv.mu.Lock()
		if r.recv.most[1] != 128 {
			t.Errorf("it went up to %d", r.recv.most[1])
		}
		r.recv.mu.Unlock()
		r.db.setState(1, webhook.EndpointPaused)
		r.publish(100, 1)
		r.db.setState(1, webhook.EndpointActive)
		time.Sleep(50 * time.Millisecond)
		r.wantRequests(300 + firstPace)
	})
}
