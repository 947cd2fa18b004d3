package dispatch

import (
	"testing"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/webhook"
)

func testOf(key webhook.EndpointKey) template {
	return template{endpoint: key, trigger: contract.TriggerTest, byPerson: true}
}

// A test is one try, whatever the state of its endpoint, and its sender learns
// what came of it.
func TestElido_E11_ATestIsAnsweredWithItsResult(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		contract string
		state    webhook.EndpointState
		code     int
		status   contract.Status
	}{
		"delivered":             {"elido", webhook.EndpointActive, 200, contract.StatusDelivered},
		"failed":                {"elido", webhook.EndpointActive, 500, contract.StatusFailed},
		"off":                   {"elido", webhook.EndpointPaused, 200, contract.StatusDelivered},
		"P9 not logged and off": {"petify", webhook.EndpointDisabled, 410, contract.StatusFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, Config{}, func(r *rig) {
				r.endpoint(1, under(c.contract), func(e *webhook.Endpoint) { e.State = c.state })
				r.recv.set(always(c.code))
				d := r.start()
				works := r.commit(1, testOf(1))
				ended, cancel := d.Await(works[0].Ref)
				defer cancel()
				d.Offer(works)
				end, ok := <-ended
				if !ok || end.Status != c.status || end.Attempt == nil || end.Attempt.StatusCode != c.code || end.Attempt.Number != 1 {
					t.Errorf("%t %+v", ok, end)
				}
				if row := r.db.get(works[0].Ref); row.status != c.status {
					t.Errorf("told before it was committed: %s", row.status)
				}
				time.Sleep(time.Hour)
				r.wantRequests(1)
				// Who comes late learns it too.
				late, _ := d.Await(works[0].Ref)
				if end := <-late; end.Status != c.status {
					t.Errorf("late: %+v", end)
				}
			})
		})
	}
}

func TestElido_E11_ATestThatNeverGoes(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, oneByOne)
		r.recv.set(hang)
		d := r.start()
		r.publish(1, 1)
		works := r.commit(3, testOf(1))
		ended, _ := d.Await(works[0].Ref)
		other, cancel := d.Await(works[1].Ref)
		deleted, _ := d.Await(works[2].Ref)
		cancel()
		d.Offer(works)
		r.db.cancel(works[0].Ref)
		if end, ok := <-ended; ok {
			t.Errorf("told %+v", end)
		}
		r.db.deleteEndpoint(1)
		if end, ok := <-deleted; ok {
			t.Errorf("told %+v", end)
		}
		select {
		case <-other:
			t.Error("told after its cancel")
		default:
		}
		d.mu.Lock()
		if len(d.waiters.by) != 0 {
			t.Errorf("%d wait", len(d.waiters.by))
		}
		d.mu.Unlock()
	})
}
