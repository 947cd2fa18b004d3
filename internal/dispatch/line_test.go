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

// successes lists what a receiver took, in order.
func successes(r *rig, of func(request) bool) (out []webhook.Ref) {
	for _, q := range r.recv.requests() {
		if row := r.db.get(q.ref); of(q) && row.status == contract.StatusDelivered && row.work.Attempts == q.try {
			out = append(out, q.ref)
		}
	}
	return out
}

func TestFault_B71_TheNextOfAKeyWaitsForTheOneBefore(t *testing.T) {
	t.Parallel()
	for _, kill := range []bool{false, true} {
		t.Run(fmt.Sprintf("E9 with kill -9 %t", kill), func(t *testing.T) {
			t.Parallel()
			bubble(t, Config{WindowRows: 8}, func(r *rig) {
				r.endpoint(1, under("elido"))
				r.recv.set(func(ctx context.Context, s Shot) webhook.Outcome {
					if s.Work.Ref == 3 && s.Try < 3 {
						return after(20*time.Millisecond, 500)(ctx, s)
					}
					return after(20*time.Millisecond, 200)(ctx, s)
				})
				r.start()
				for range 10 {
					works := r.commit(10, template{endpoint: 1, key: "link_1"})
					r.d.Offer(works)
					r.publish(1, 1) // of no key
				}
				for range 5 {
					time.Sleep(300 * time.Millisecond)
					if kill {
						r.kill()
						r.start()
					}
				}
				time.Sleep(time.Hour)
				r.wantCounts(map[contract.Status]int{contract.StatusDelivered: 110})
				last := webhook.Ref(0)
				for _, q := range r.recv.requests() {
					if r.db.get(q.ref).work.Key == "" {
						continue
					}
					if q.ref < last {
						t.Errorf("delivery %d after %d", q.ref, last)
					}
					last = q.ref
				}
				if !kill {
					r.wantRequests(112)
				}
			})
		})
	}
}

func TestEngine_N15_ABlockedKeySlowsNobody(t *testing.T) {
	t.Parallel()
	const followers = 50_000
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, under("elido"))
		r.recv.set(func(_ context.Context, s Shot) webhook.Outcome {
			if s.Work.Key == "blocked" {
				return status(500)
			}
			return status(200)
		})
		d := r.start()
		d.Offer(r.commit(followers, template{endpoint: 1, key: "blocked"}))
		time.Sleep(100 * time.Millisecond)
		reads := r.db.reads.Load()
		began := time.Now()
		for i := range 200 {
			d.Offer(r.commit(1, template{endpoint: 1, key: fmt.Sprint("free", i)}))
			time.Sleep(time.Millisecond)
		}
		got := r.wantRequests(201)
		if late := got[200].at.Sub(began); late > 250*time.Millisecond {
			t.Errorf("the last of the others went out after %v", late)
		}
		if n := r.db.reads.Load() - reads; n > 2 {
			t.Errorf("%d reads", n)
		}
		if s := d.Stats(); s.Ready != 0 || s.Busy != 0 || s.OldestDue > time.Second {
			t.Errorf("stats %+v", s)
		}
		time.Sleep(time.Minute) // one retry, and no follower
		r.wantRequests(201 + 2)
	})
}

func TestEngine_N15_TheNextGoesWhateverEndedTheOneBefore(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(r *rig){
		"canceled": func(r *rig) { r.db.cancel(1) },
		"failed":   func(*rig) { time.Sleep(48 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, Config{}, func(r *rig) {
				r.endpoint(1, under("elido"))
				r.recv.set(failing(1))
				r.start()
				r.d.Offer(r.commit(3, template{endpoint: 1, key: "k"}))
				// A lane that has read far beyond takes the promoted one all the same.
				r.d.Reread([]webhook.EndpointKey{1})
				r.publish(3, 1)
				r.d.Reread([]webhook.EndpointKey{1})
				time.Sleep(900 * time.Millisecond)
				r.wantRequests(4)
				end(r)
				time.Sleep(time.Second)
				got := successes(r, func(q request) bool { return q.ref <= 3 })
				if fmt.Sprint(got) != "[2 3]" {
					t.Errorf("delivered %v", got)
				}
			})
		})
	}
}

// deliver_at with a key: it joins the line when its time has come.
func TestEngine_N15_JoinsTheLineWhenDue(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, under("elido"))
		r.recv.set(failing(2))
		d := r.start()
		ahead := r.clk.Now().Round(0).Add(2 * time.Second)
		d.Offer(r.commit(1, template{endpoint: 1, key: "k", joins: true, due: ahead}))
		d.Offer(r.commit(1, template{endpoint: 1, key: "k"}))
		free := r.commit(1, template{endpoint: 1, key: "free", joins: true, due: ahead})
		d.Offer(free)
		time.Sleep(3 * time.Second)
		for _, q := range r.recv.requests() {
			if q.ref == 1 {
				t.Error("it went out before the one that joined earlier")
			}
		}
		if row := r.db.get(free[0].Ref); row.status != contract.StatusDelivered || len(row.log) != 1 {
			t.Errorf("the head of its line: %s, %d rows", row.status, len(row.log))
		}
		if w := r.db.get(1).work; w.Joins || !store.IsParked(w.Due) {
			t.Errorf("it stands in no line: %+v", w)
		}
		r.recv.set(always(200))
		time.Sleep(time.Minute)
		r.wantCounts(map[contract.Status]int{contract.StatusDelivered: 3})
		if s := d.Stats(); s.InFlight != 0 || s.Busy != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

// The store tells of the new head of a line before it answers the record that made
// it one, while the delivery is still in the out-set: it goes out right after that.
func TestEngine_N15_TheHeadThatJoinedGoesAtOnce(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]bool{"into an empty line": true, "behind one that ends in the same commit": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, Config{}, func(r *rig) {
				r.endpoint(1, under("elido"))
				d := r.start()
				due := r.clk.Now().Round(0).Add(time.Second)
				joins := r.commit(1, template{endpoint: 1, key: "k", joins: true, due: due})
				d.Offer(joins)
				n := 1
				if !head {
					r.recv.set(func(ctx context.Context, s Shot) webhook.Outcome {
						if s.Work.Ref == joins[0].Ref {
							return status(200)
						}
						return after(time.Until(due), 200)(ctx, s)
					})
					d.Offer(r.commit(1, template{endpoint: 1, key: "k"}))
					n++
				}
				r.db.set(func() { r.db.commitTakes = 2 * time.Millisecond })
				time.Sleep(time.Second + 100*time.Millisecond)
				got := r.wantRequests(n)
				if late := got[n-1].at.Sub(due); got[n-1].ref != joins[0].Ref || late > 15*time.Millisecond {
					t.Errorf("delivery %d, %v after its time", got[n-1].ref, late)
				}
			})
		})
	}
}

// What a person asked for stands in no line.
func TestEngine_N15_AResendPassesTheLine(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(r *rig) {
		r.endpoint(1, under("elido"))
		r.recv.set(always(200))
		d := r.start()
		d.Offer(r.commit(1, template{endpoint: 1, key: "k"}))
		time.Sleep(time.Second)
		r.recv.set(failing(2))
		d.Offer(r.commit(2, template{endpoint: 1, key: "k"}))
		time.Sleep(100 * time.Millisecond)
		r.db.again(1, contract.Terms{Trigger: contract.TriggerResend})
		time.Sleep(100 * time.Millisecond)
		if got := r.wantRequests(3); got[2].ref != 1 {
			t.Errorf("went out: %d", got[2].ref)
		}
	})
}
