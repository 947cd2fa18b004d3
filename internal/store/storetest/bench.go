package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// load is one way to write: callers at once, events a call, endpoints an event.
type load struct {
	name                    string
	callers, events, fanout int
}

// Benchmark measures the write path: an event is accepted with its deliveries and
// each delivery's success is recorded. The unit is one event.
func Benchmark(b *testing.B, factory Factory) {
	for _, l := range []load{
		{"steady", 128, 1, 1},
		{"bulk100", 8, 100, 1},
		{"fanout10", 32, 1, 10},
		{"alone", 1, 1, 1},
	} {
		b.Run(l.name, func(b *testing.B) { l.run(b, factory) })
	}
}

func (l load) run(b *testing.B, factory Factory) {
	ctx := context.Background()
	s := factory(b).Open(b, Options{Now: start()})
	var targets []*webhook.Endpoint
	for i := range l.fanout {
		e, err := s.CreateEndpoint(ctx, newEndpoint(webhook.DefaultTenant, fmt.Sprintf("e%d", i), start()))
		if err != nil {
			b.Fatal(err)
		}
		targets = append(targets, e)
	}
	_, revisions, err := s.LoadSubscriptions(ctx)
	if err != nil {
		b.Fatal(err)
	}
	event := newEvent(webhook.DefaultTenant, revisions[webhook.DefaultTenant], start(), targets...)
	setData(&event, string(make([]byte, 1024)))

	calls := make(chan int)
	var wg sync.WaitGroup
	for range l.callers {
		wg.Go(func() {
			for n := range calls {
				if err := acceptAndRecord(ctx, s, event, n); err != nil {
					b.Error(err)
				}
			}
		})
	}
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= l.events {
		calls <- min(left, l.events)
	}
	close(calls)
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// acceptAndRecord takes n events in and records all their deliveries.
func acceptAndRecord(ctx context.Context, s store.Store, event store.AcceptParams, n int) error {
	events := make([]store.AcceptParams, n)
	for i := range events {
		events[i] = event
		events[i].Now = time.Now()
	}
	results, err := s.Accept(ctx, events)
	if err != nil {
		return err
	}
	outcomes := 0
	for i := range results {
		if results[i].Err != nil {
			return results[i].Err
		}
		outcomes += len(results[i].Fresh)
	}
	done := make(chan error, outcomes)
	response := []byte("ok")
	for i := range results {
		for k := range results[i].Fresh {
			w := &results[i].Fresh[k]
			now := time.Now()
			a := &webhook.Attempt{Round: 1, Try: 1, Counted: true, At: now, StatusCode: 200, Address: "127.0.0.1:80", Response: response}
			s.Record(store.RecordParams{
				Ref: w.Ref, Tenant: w.Tenant, Endpoint: w.Endpoint, Round: 1, Attempt: a, Status: contract.StatusDelivered, Counts: true, Now: now,
			}, func(_ store.RecordResult, err error) { done <- err })
		}
	}
	for range outcomes {
		if err := <-done; err != nil {
			return err
		}
	}
	return nil
}
