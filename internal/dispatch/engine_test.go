package dispatch

import (
	"context"
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
					r.db.keep(&webhook.Endpoint{
						Key: 2, ID: "ep_2", Tenant: "default", State: webhook.EndpointActive, Events: []string{"endpoint.*"},
					})
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

func TestEngine_N2_PauseAndResume(t *testing.T) {
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
}

func TestEngine_N2_TestPassesThePause(t *testing.T) {
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
}

func TestEngine_N2_NewURL(t *testing.T) {
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
}

func TestEngine_N2_Deletion(t *testing.T) {
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
}

// Canceled in memory, in the store, and before it was offered.
func TestEngine_N2_Canceled(t *testing.T) {
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
}

func TestEngine_N2_CanceledDuringARead(t *testing.T) {
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
}

func TestEngine_N2_PausedBetweenPickingAndSending(t *testing.T) {
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
					r.db.keep(&e)
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
}
