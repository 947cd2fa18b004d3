package dispatch

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/webhook"
)

// failing answers 500 to the deliveries named, 200 to the others.
func failing(bad ...webhook.Ref) func(context.Context, Shot) webhook.Outcome {
	return func(_ context.Context, s Shot) webhook.Outcome {
		if slices.Contains(bad, s.Work.Ref) {
			return status(500)
		}
		return status(200)
	}
}

// wantAt checks that a request went out so long after another moment, and not
// much later.
func (r *rig) wantAt(q request, from time.Time, wait time.Duration) {
	r.t.Helper()
	if off := q.at.Sub(from) - wait; off < 0 || off > 100*time.Millisecond {
		r.t.Errorf("delivery %d went out after %v, want %v", q.ref, q.at.Sub(from), wait)
	}
}

func TestSignals_S5_AFailureHoldsTheURLBack(t *testing.T) {
	t.Parallel()
	for name, lapse := range map[string]time.Duration{"real time": 1, "N21 time-lapse": 60} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, Config{TimeLapse: int(lapse)}, func(r *rig) {
				r.endpoint(1, under("signals"), sameURL)
				r.endpoint(2, under("signals"), sameURL)
				r.endpoint(3, under("signals"))
				r.endpoint(4, under("petify"), sameURL)
				r.endpoint(5, under("signals"), sameURL, func(e *webhook.Endpoint) { e.Tenant = "other" })
				r.recv.set(always(500))
				r.start()
				began := time.Now()
				probe := r.publish(1, 1)[0].Ref
				time.Sleep(10 * time.Millisecond)
				r.recv.set(always(200))
				for key := webhook.EndpointKey(1); key <= 5; key++ {
					r.publish(3, key)
				}
				time.Sleep(time.Minute/lapse - 20*time.Millisecond)
				// Another URL, another tenant and a contract without a gate go on.
				if got := r.wantRequests(1 + 9); got[0].ref != probe {
					t.Errorf("the first was %d", got[0].ref)
				}
				for _, w := range r.db.waiting(1, 2) {
					if w.ref != probe && (w.attempts != 0 || w.rows != 0) {
						t.Errorf("held delivery %d has %d attempts, %d rows", w.ref, w.attempts, w.rows)
					}
				}
				time.Sleep(time.Minute)
				got := r.wantRequests(1 + 9 + 7)
				r.wantAt(got[10], began, time.Minute/lapse)
				if got[10].ref != probe || got[10].try != 2 {
					t.Errorf("the probe was %+v", got[10])
				}
				r.wantCounts(map[contract.Status]int{contract.StatusDelivered: 16})
				r.db.set(func() {
					if len(r.db.gates) != 0 {
						t.Errorf("the store has gates %v", r.db.gates)
					}
				})
			})
		})
	}
}

// waited is a row that waits.
type waited struct {
	ref            webhook.Ref
	attempts, rows int
}

func (db *fakeDB) waiting(keys ...webhook.EndpointKey) (out []waited) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for ref, r := range db.rows {
		for _, key := range keys {
			if r.work.Endpoint == key && !r.status.Final() {
				out = append(out, waited{ref, r.work.Attempts, len(r.log)})
			}
		}
	}
	return out
}

func TestSignals_S5_OneProbeAtATimeWhateverTheBacklog(t *testing.T) {
	t.Parallel()
	const many = 100_000
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, under("signals"))
		r.recv.set(after(10*time.Millisecond, 500))
		d := r.start()
		r.commit(many, template{endpoint: 1})
		began := time.Now()
		d.Reread([]webhook.EndpointKey{1})
		time.Sleep(30 * time.Second)
		under := len(r.recv.requests()) // what was picked at once
		if under > firstPace {
			t.Errorf("%d requests before the first answer", under)
		}
		r.recv.set(after(5*time.Second, 500))
		time.Sleep(6 * time.Minute)
		// The probe is tried by its schedule, and nothing else is.
		got := r.wantRequests(under + 2)
		probe := got[under].ref // of those that failed at once
		if probe > firstPace || got[under+1].ref != probe {
			t.Errorf("probes %v", got[under:])
		}
		r.wantAt(got[under], began, time.Minute+10*time.Millisecond)
		r.wantAt(got[under+1], got[under].at, 5*time.Minute+5*time.Second)
		r.recv.set(after(time.Second, 200))
		time.Sleep(30*time.Minute - 30*time.Second)
		r.wantRequests(under + 2)
		time.Sleep(40 * time.Second)
		got = r.recv.requests()[under+2:]
		if got[0].ref != probe {
			t.Errorf("the last probe was %d", got[0].ref)
		}
		inSecond := map[int]int{}
		for i, q := range got[1:] {
			inSecond[int(q.at.Sub(got[1].at)/time.Second)]++
			if i < 3 && q.ref > firstPace+3 {
				t.Errorf("delivery %d is not among the oldest", q.ref)
			}
		}
		if inSecond[0] > 4 || inSecond[1] > 16 {
			t.Errorf("a herd: %v", inSecond)
		}
	})
}

func TestSignals_S5_ATryUnderWayDoesNotMoveTheGate(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, under("signals"))
		r.recv.set(func(ctx context.Context, s Shot) webhook.Outcome {
			return after(time.Duration(s.Work.Ref)*time.Second, 500)(ctx, s)
		})
		r.start()
		began := time.Now()
		r.publish(3, 1)
		time.Sleep(30 * time.Second)
		r.recv.set(always(200))
		time.Sleep(time.Minute)
		got := r.wantRequests(6)
		if got[3].ref != 1 {
			t.Errorf("the probe was %d", got[3].ref)
		}
		r.wantAt(got[3], began, 61*time.Second)
	})
}

// A success opens the gate, also one of a try that was under way.
func TestSignals_S5_OneSuccessOpens(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, under("signals"))
		r.recv.set(func(ctx context.Context, s Shot) webhook.Outcome {
			if s.Work.Ref == 1 {
				return after(time.Millisecond, 500)(ctx, s)
			}
			return after(time.Second, 200)(ctx, s)
		})
		r.start()
		r.publish(2, 1)
		time.Sleep(10 * time.Millisecond)
		r.publish(1, 1)
		time.Sleep(900 * time.Millisecond)
		r.wantRequests(2)
		time.Sleep(time.Second)
		r.wantRequests(3)
	})
}

func TestSignals_S5_TheGateIsClosedBeforeItIsWritten(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, under("signals"))
		r.recv.set(always(500))
		r.start()
		works := r.commit(2, template{endpoint: 1})
		r.db.stall(true)
		r.d.Offer(works[:1])
		synctest.Wait()
		r.d.Offer(works[1:])
		time.Sleep(time.Second)
		r.wantRequests(1)
		r.db.stall(false)
	})
}

// Where the probe has no next attempt, the oldest waiting one is tried at once.
func TestSignals_S5_ProbeThatGoesNoMore(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]func(r *rig){
		"canceled":      func(r *rig) { r.db.cancel(1) },
		"its URL":       func(r *rig) { r.db.changeEndpoint(1, func(e *webhook.Endpoint) { e.URL = "https://new.example/" }) },
		"paused":        func(r *rig) { r.db.setState(1, webhook.EndpointPaused) },
		"deleted":       func(r *rig) { r.db.deleteEndpoint(1) },
		"skipped":       func(r *rig) { r.db.skipAll(1, webhook.EndpointActive) },
		"unseen (dead)": func(r *rig) { r.db.set(func() { r.db.rows[1].end(contract.StatusDead, webhook.WhyNone) }) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, Config{}, func(r *rig) {
				r.endpoint(1, under("signals"), sameURL)
				r.endpoint(2, under("signals"), sameURL)
				r.recv.set(always(500))
				r.start()
				r.publish(1, 1)
				time.Sleep(time.Second)
				held := r.publish(3, 2)
				time.Sleep(time.Second)
				r.wantRequests(1)
				began := time.Now()
				ends(r)
				if name == "unseen (dead)" { // it is found out when its time comes
					began = began.Add(58 * time.Second)
					time.Sleep(58 * time.Second)
				}
				time.Sleep(time.Second)
				got := r.recv.requests()[1:]
				var shared []request
				for _, q := range got {
					if q.url == "https://shared.example/" {
						shared = append(shared, q)
					}
				}
				if len(shared) != 1 || shared[0].ref != held[0].Ref {
					t.Fatalf("tried %+v", shared)
				}
				if late := shared[0].at.Sub(began); late > 100*time.Millisecond {
					t.Errorf("after %v", late)
				}
				// The gate is closed until its next attempt now.
				r.recv.set(always(200))
				time.Sleep(57 * time.Second)
				for _, q := range r.recv.requests()[len(got)+1:] {
					if q.endpoint == 2 {
						t.Errorf("delivery %d went out", q.ref)
					}
				}
				time.Sleep(5 * time.Second)
				if n := len(r.db.waiting(2)); n != 0 {
					t.Errorf("%d wait", n)
				}
			})
		})
	}
}

// The last attempt of a delivery leaves no next one: the next waiting delivery is
// the probe, and so on.
func TestSignals_S5_ProbeThatIsDead(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, under("signals"))
		r.endpoint(2, func(e *webhook.Endpoint) { e.Events = []string{"webhook.failed"} })
		r.recv.set(func(_ context.Context, s Shot) webhook.Outcome {
			if s.Endpoint.Key == 2 {
				return status(200)
			}
			return status(500)
		})
		r.start()
		w := r.commit(1, template{endpoint: 1})
		r.db.set(func() { r.db.rows[w[0].Ref].work.Attempts = 8 })
		r.d.Reread([]webhook.EndpointKey{1})
		time.Sleep(10 * time.Millisecond)
		if row := r.db.get(w[0].Ref); row.status != contract.StatusDead {
			t.Fatalf("it is %s", row.status)
		}
		next := r.publish(3, 1)
		time.Sleep(time.Second)
		var tried []webhook.Ref
		for _, q := range r.recv.requests() {
			if q.endpoint == 1 {
				tried = append(tried, q.ref)
			}
		}
		if len(tried) != 2 || tried[1] != next[0].Ref {
			t.Errorf("tried %v", tried)
		}
	})
}

func TestSignals_S5_WhatAPersonAsksForPasses(t *testing.T) {
	t.Parallel()
	bubble(t, Config{WindowRows: 8}, func(r *rig) {
		r.endpoint(1, under("signals"))
		r.recv.set(always(500))
		d := r.start()
		began := time.Now()
		r.publish(1, 1)
		time.Sleep(time.Second)
		r.publish(50, 1) // a backlog behind the gate
		r.recv.set(after(2*time.Second, 500))
		for range 3 {
			d.Offer(r.commit(1, template{endpoint: 1, trigger: contract.TriggerTest, byPerson: true}))
		}
		resent := r.commit(1, template{endpoint: 1, trigger: contract.TriggerRedelivery, byPerson: true})
		d.Offer(resent)
		time.Sleep(20 * time.Second)
		got := r.wantRequests(5)
		for i, q := range got[2:] {
			if wait := q.at.Sub(got[i+1].at); wait < 2*time.Second || wait > 2100*time.Millisecond {
				t.Errorf("%v between two", wait)
			}
		}
		if got[4].ref != resent[0].Ref {
			t.Errorf("the last was %d", got[4].ref)
		}
		// Their failures did not lengthen it.
		r.recv.set(always(500))
		time.Sleep(45 * time.Second)
		got = r.recv.requests()
		if got[5].ref != 1 {
			t.Errorf("the probe was %d", got[5].ref)
		}
		r.wantAt(got[5], began, time.Minute)
		// A success opens it at once.
		before := len(got)
		r.recv.set(always(200))
		d.Offer(r.commit(1, template{endpoint: 1, trigger: contract.TriggerTest, byPerson: true}))
		time.Sleep(time.Second)
		if n := len(r.recv.requests()) - before; n < 51 {
			t.Errorf("%d requests after the success of a test", n)
		}
	})
}

func TestSignals_S5_SwitchingOnLetsOneProbeOut(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(r *rig){
		"resumed": func(r *rig) {
			r.db.setState(1, webhook.EndpointPaused)
			time.Sleep(time.Second)
			r.wantRequests(1)
			r.db.setState(1, webhook.EndpointActive)
		},
		"enabled": func(r *rig) {
			r.db.setState(1, webhook.EndpointDisabled)
			time.Sleep(time.Second)
			r.wantRequests(1)
			r.db.enable(1)
			for !r.db.catchUpStep(1, 2) {
				time.Sleep(10 * time.Millisecond)
			}
		},
		"back at its URL": func(r *rig) {
			r.db.changeEndpoint(1, func(e *webhook.Endpoint) { e.State = webhook.EndpointPaused; e.URL = "https://b.example/" })
			time.Sleep(time.Second)
			r.db.changeEndpoint(1, func(e *webhook.Endpoint) { e.State = webhook.EndpointActive; e.URL = "https://1.example/" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, Config{}, func(r *rig) {
				r.endpoint(1, under("signals"))
				r.recv.set(always(500))
				r.start()
				r.publish(1, 1)
				time.Sleep(time.Second)
				r.publish(5, 1)
				time.Sleep(time.Second)
				r.wantRequests(1)
				change(r)
				time.Sleep(time.Second)
				r.wantRequests(2)
				time.Sleep(30 * time.Second)
				r.wantRequests(2)
			})
		})
	}
}

// However fast a lane was before: what a gate held comes out slowly at first.
func TestSignals_S5_OpeningIsARamp(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, under("signals"), sameURL)
		r.endpoint(2, under("signals"), sameURL)
		r.recv.set(after(100*time.Millisecond, 200))
		r.start()
		r.publish(400, 1)
		r.publish(400, 2)
		time.Sleep(time.Minute)
		r.recv.set(always(500))
		r.publish(1, 1)
		time.Sleep(time.Second)
		r.publish(200, 1)
		r.publish(200, 2)
		r.recv.set(after(100*time.Millisecond, 200))
		time.Sleep(59*time.Second + 50*time.Millisecond)
		before := len(r.wantRequests(802)) // the probe is under way
		time.Sleep(100 * time.Millisecond)
		if n := len(r.recv.requests()) - before; n < 2 || n > 4 {
			t.Errorf("%d went out at once", n)
		}
		time.Sleep(time.Minute)
		r.wantRequests(802 + 400)
	})
}

// Another endpoint of the URL is switched on: that lets one probe out too.
func TestSignals_S5_SwitchingOnTheOtherEndpoint(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, under("signals"), sameURL)
		r.endpoint(2, under("signals"), sameURL, func(e *webhook.Endpoint) { e.State = webhook.EndpointPaused })
		r.recv.set(always(500))
		r.start()
		r.publish(1, 1)
		r.publish(3, 2)
		time.Sleep(time.Second)
		r.wantRequests(1)
		r.db.setState(2, webhook.EndpointActive)
		time.Sleep(time.Second)
		if got := r.wantRequests(2); got[1].ref != 2 {
			t.Errorf("%d went out", got[1].ref)
		}
	})
}
