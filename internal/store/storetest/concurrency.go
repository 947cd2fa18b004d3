package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func concurrencyCases() []testCase {
	return []testCase{
		{name: "TestEngine_N1_EverythingAtOnce", run: everythingAtOnce},
		{name: "TestEngine_N25_ReadersDoNotHoldTheWriter", run: readersDoNotHoldTheWriter},
		{name: "TestEngine_N1_CloseFinishesWhatIsQueued", run: closeFinishesWhatIsQueued},
	}
}

// publisher keeps the subscriptions as the real one does: by what is told.
type publisher struct {
	*fixture
	revision atomic.Int64
}

// publish takes an event in, matching again as often as it has to.
func (p *publisher) publish(id string, targets ...*webhook.Endpoint) (store.AcceptResult, error) {
	for {
		event := newEvent(webhook.DefaultTenant, p.revision.Load(), p.now, targets...)
		event.ID = id
		results, err := p.Accept(p.ctx, []store.AcceptParams{event})
		if err != nil {
			return store.AcceptResult{}, err
		}
		if results[0].Err == nil {
			return results[0], nil
		}
		_, revisions, err := p.LoadSubscriptions(p.ctx)
		if err != nil {
			return store.AcceptResult{}, err
		}
		p.revision.Store(revisions[webhook.DefaultTenant])
	}
}

// Publishers, recorders, changes and readers all at once: afterwards every event
// is there once, every delivery has exactly the outcomes it was given, and the
// lanes are empty.
func everythingAtOnce(f *fixture) {
	const publishers, each = 4, 24
	targets := []*webhook.Endpoint{f.endpoint("a"), f.endpoint("b")}
	p := &publisher{fixture: f}
	ctx, cancel := context.WithCancel(f.ctx)
	var background, wg sync.WaitGroup
	background.Go(func() { changeAll(ctx, f, targets) })
	background.Go(func() { readAll(ctx, f) })
	var mu sync.Mutex
	accepted := map[string]store.AcceptResult{}
	for i := range publishers {
		wg.Go(func() {
			for n := range each {
				id := ""
				if n%2 == 0 {
					id = fmt.Sprintf("p%d-%d", i, n)
				}
				r, err := p.publish(id, targets...)
				if err != nil {
					f.Error(err)
					return
				}
				mu.Lock()
				accepted[r.ID] = r
				mu.Unlock()
				for k, w := range r.Fresh {
					if k == 0 && n%4 == 0 {
						<-f.begin(f.failure(w, f.now))
						w.Attempts++
					}
					if got := <-f.begin(f.success(w)); got.err != nil || !got.result.Applied {
						f.Errorf("%+v", got)
					}
				}
			}
		})
	}
	wg.Wait()
	cancel()
	background.Wait()

	f.same("accepted", len(accepted), publishers*each)
	f.same("stored", f.countEvents(webhook.DefaultTenant), publishers*each)
	for id, r := range accepted {
		counts, err := f.CountDeliveries(f.ctx, webhook.DefaultTenant, id)
		f.ok(err)
		f.same("counts", counts, map[contract.Status]int{contract.StatusDelivered: 2})
		for _, w := range r.Fresh {
			if d, log := f.delivery(w), f.attempts(w); d.AttemptCount != len(log) || len(log) == 0 || log[len(log)-1].StatusCode != 200 {
				f.Fatalf("%+v has the log %+v", d, log)
			}
		}
	}
	lanes, err := f.ListLanes(f.ctx)
	f.ok(err)
	f.same("lanes", len(lanes), 0)
}

func changeAll(ctx context.Context, f *fixture, endpoints []*webhook.Endpoint) {
	for ctx.Err() == nil {
		for _, e := range endpoints {
			_, err := f.UpdateEndpoint(f.ctx, e.Tenant, e.ID, f.now, func(e *webhook.Endpoint) (store.EndpointUpdate, error) {
				e.MaxInFlight = e.MaxInFlight%100 + 1
				return store.EndpointUpdate{}, nil
			})
			if err != nil {
				f.Error(err)
				return
			}
		}
		// Publishers need a while between two changes, or none gets through.
		for range 20 {
			if err := f.Ping(f.ctx); err != nil {
				f.Error(err)
			}
		}
	}
}

func readAll(ctx context.Context, f *fixture) {
	for ctx.Err() == nil {
		listed, err := f.ListDeliveries(f.ctx, webhook.DefaultTenant, store.DeliveryFilter{}, store.Page{Limit: 50})
		if err != nil {
			f.Error(err)
			return
		}
		for _, d := range listed.Items {
			// One snapshot, so a delivery and its log fit each other.
			if (d.Status == contract.StatusDelivered) == d.FinishedAt.IsZero() {
				f.Errorf("half an outcome is seen: %+v", d)
			}
			if _, err := f.ListAttempts(f.ctx, d.Tenant, d.ID); err != nil {
				f.Error(err)
			}
		}
	}
}

// A reader in the middle of its list holds no commit back, and a writer holds no
// reader.
func readersDoNotHoldTheWriter(f *fixture) {
	e := f.endpoint("a")
	work := f.sendMany(e, 50)
	release := f.db.Stall(f.T, f.Store)
	d, err := f.GetDelivery(f.ctx, e.Tenant, work[0].DeliveryID) // answered while the writer is at work
	f.ok(err)
	f.same("status", d.Status, contract.StatusPending)
	f.same("window", len(f.due(e, f.now)), 50)
	release()

	ctx, cancel := context.WithTimeout(f.ctx, 30*time.Second)
	defer cancel()
	reading, stop := context.WithCancel(f.ctx)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { readAll(reading, f) })
	}
	p := f.event(e)
	for range 30 {
		if _, err := f.Accept(ctx, []store.AcceptParams{p}); err != nil {
			f.Errorf("a commit did not come through beside readers: %v", err)
			break
		}
	}
	stop()
	wg.Wait()
}

// Close commits what was submitted before it: each caller gets its answer, and
// the answer is true.
func closeFinishesWhatIsQueued(f *fixture) {
	e := f.endpoint("a")
	work := f.sendMany(e, 100)
	var recorded []<-chan recording
	for _, w := range work {
		recorded = append(recorded, f.begin(f.success(w)))
	}
	f.restart()
	for i, answered := range recorded {
		r := <-answered
		f.ok(r.err)
		f.same("status", f.delivery(work[i]).Status, contract.StatusDelivered)
	}
}
