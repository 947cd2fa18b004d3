package dispatch

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func TestEngine_N16_ARestartKeepsTheGate(t *testing.T) {
	t.Parallel()
	for _, canceled := range []bool{false, true} {
		t.Run(fmt.Sprintf("probe canceled %t", canceled), func(t *testing.T) {
			t.Parallel()
			bubble(t, Config{}, func(r *rig) {
				r.endpoint(1, under("signals"))
				r.recv.set(always(500))
				r.start()
				began := time.Now()
				r.publish(1, 1)
				time.Sleep(time.Second)
				r.publish(5, 1)
				time.Sleep(time.Second)
				r.kill()
				if canceled {
					r.db.cancel(1)
				}
				r.start()
				time.Sleep(30 * time.Second)
				if canceled {
					if got := r.wantRequests(2); got[1].ref != 2 {
						t.Errorf("tried %d", got[1].ref)
					}
					return
				}
				r.wantRequests(1)
				r.recv.set(always(200))
				time.Sleep(time.Minute)
				got := r.wantRequests(7)
				r.wantAt(got[1], began, time.Minute)
				r.db.set(func() {
					if len(r.db.gates) != 0 {
						t.Errorf("gates %v", r.db.gates)
					}
				})
			})
		})
	}
}

// What the store holds of a gate is what memory holds, however outcomes of its
// deliveries are mixed and their writes go wrong.
func TestEngine_N16_TheStoreLearnsHowTheGateIs(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, under("signals"), sameURL)
		r.endpoint(2, under("signals"), sameURL)
		n := 0
		r.db.set(func() {
			r.db.failRecord = func(*store.RecordParams) error {
				if n++; n%3 == 0 {
					return errDisk
				}
				return nil
			}
		})
		r.recv.set(func(ctx context.Context, s Shot) webhook.Outcome {
			return after(time.Duration(s.Work.Ref%5)*time.Millisecond, 200+300*int(s.Work.Ref%2))(ctx, s)
		})
		d := r.start()
		for range 50 {
			r.publish(2, 1)
			r.publish(2, 2)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute + 10*time.Second)
		for range 2 {
			time.Sleep(10 * time.Second)
			d.mu.Lock()
			gates := len(d.gates)
			d.mu.Unlock()
			r.db.set(func() {
				if len(r.db.gates) != gates {
					t.Errorf("%d gates in the store, %d in memory", len(r.db.gates), gates)
				}
			})
			r.recv.set(always(200))
			time.Sleep(time.Hour)
		}
		r.wantCounts(map[contract.Status]int{contract.StatusDelivered: 200})
	})
}

// A success whose delivery had moved on opens the gate too; the store learns of it
// with the next outcome.
func TestEngine_N16_AnOpeningThatWasNotWritten(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, under("signals"))
		r.recv.set(always(500))
		r.start()
		r.publish(1, 1)
		time.Sleep(time.Second)
		r.publish(1, 1)
		r.recv.set(after(time.Second, 200))
		time.Sleep(59500 * time.Millisecond)
		r.db.cancel(1) // while the probe is under way
		time.Sleep(time.Minute)
		r.wantRequests(3)
		r.db.set(func() {
			if len(r.db.gates) != 0 {
				t.Errorf("gates %v", r.db.gates)
			}
		})
	})
}

func TestEngine_N16_OnlyTheAnswersThatTheContractNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ first, second, between, afterwards int }{
		{500, 500, 5, 5}, // closes nothing
		{429, 200, 0, 5}, // closes, the probe opens
		{429, 500, 0, 5}, // its time is over, and 500 begins no other
		{429, 502, 0, 0},
	} {
		t.Run(fmt.Sprint(c.first, c.second), func(t *testing.T) {
			t.Parallel()
			bubble(t, Config{}, func(r *rig) {
				r.endpoint(1)
				r.endpoint(2)
				r.recv.set(func(_ context.Context, s Shot) webhook.Outcome {
					switch {
					case s.Work.Ref > 1:
						return status(200)
					case s.Try == 1:
						return status(c.first)
					default:
						return status(c.second)
					}
				})
				r.start()
				r.publish(1, 1)
				time.Sleep(time.Second)
				r.publish(5, 1)
				time.Sleep(time.Second)
				r.wantRequests(1 + c.between)
				time.Sleep(10 * time.Second)
				r.wantRequests(2 + c.afterwards)
				r.publish(5, 2) // another endpoint
				time.Sleep(time.Second)
				r.wantRequests(7 + c.afterwards)
			})
		})
	}
}

// Hundreds of endpoints behind closed gates cost the healthy ones nothing.
func TestEngine_N16_ManyGates(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		const n = 500
		for key := webhook.EndpointKey(1); key <= n; key++ {
			r.endpoint(key, under("signals"))
		}
		r.endpoint(n+1, under("signals"))
		r.recv.set(func(ctx context.Context, s Shot) webhook.Outcome {
			if s.Endpoint.Key <= n {
				return after(10*time.Second, 500)(ctx, s)
			}
			return status(200)
		})
		r.start()
		for key := webhook.EndpointKey(1); key <= n; key++ {
			r.publish(1, key)
		}
		time.Sleep(20 * time.Second)
		for key := webhook.EndpointKey(1); key <= n; key++ {
			r.publish(2, key)
		}
		time.Sleep(50*time.Second + 100*time.Millisecond)
		began := time.Now()
		r.publish(1, n+1)
		time.Sleep(time.Second)
		got := r.wantRequests(2*n + 1) // one probe each
		r.wantAt(got[2*n], began, 0)
	})
}

// What was picked, and not begun when the gate closed, waits behind it.
func TestEngine_N16_PickedBeforeTheGateClosed(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, under("signals"))
		r.start()
		r.db.set(func() { r.db.loadTakes = time.Second })
		r.recv.set(after(500*time.Millisecond, 500))
		works := r.commit(4, template{endpoint: 1})
		for i := range works[1:] {
			works[i+1].Data = nil // it is read first
		}
		r.d.Offer(works)
		time.Sleep(30 * time.Second)
		r.wantRequests(1)
	})
}

// A gate goes with the last lane of its URL, deleted or moved away; else they would
// grow with every URL that ever failed.
func TestEngine_N16_AGateGoesWithItsLastLane(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.recv.set(func(context.Context, Shot) webhook.Outcome { return status(500) })
		r.endpoint(1, under("signals"), sameURL)
		r.endpoint(2, under("signals"), sameURL)
		d := r.start()
		r.publish(1, 1)
		time.Sleep(time.Second)
		closed := func() int {
			d.mu.Lock()
			defer d.mu.Unlock()
			return len(d.gates)
		}
		if n := closed(); n != 1 {
			t.Fatalf("%d gates after a failure", n)
		}
		moved := *d.lanes[1].endpoint
		moved.URL = "https://elsewhere.example.com/"
		d.Apply(store.Change{Tenant: moved.Tenant, Endpoint: &moved})
		if n := closed(); n != 1 {
			t.Errorf("%d gates while another lane has the URL", n)
		}
		d.Apply(store.Change{Tenant: moved.Tenant, EndpointDeleted: 2})
		if n := closed(); n != 0 {
			t.Errorf("%d gates without a lane", n)
		}
	})
}
