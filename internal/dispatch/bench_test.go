package dispatch

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/clock"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// benchStore commits at once, in batches of whatever is queued, and has nothing
// to read: what remains is the dispatcher's own cost.
type benchStore struct {
	mu    sync.Mutex
	cond  *sync.Cond
	queue []func(store.RecordResult, error)
	ended bool
	free  chan struct{} // room for offers
}

func newBenchStore() *benchStore {
	s := &benchStore{free: make(chan struct{}, benchAhead)}
	s.cond = sync.NewCond(&s.mu)
	go s.run()
	return s
}

func (s *benchStore) run() {
	var batch []func(store.RecordResult, error)
	for {
		s.mu.Lock()
		for len(s.queue) == 0 && !s.ended {
			s.cond.Wait()
		}
		if s.ended {
			s.mu.Unlock()
			return
		}
		batch, s.queue = s.queue, batch[:0]
		s.mu.Unlock()
		for _, done := range batch {
			done(store.RecordResult{Applied: true}, nil)
		}
		for range batch {
			<-s.free
		}
	}
}

func (s *benchStore) Record(_ store.RecordParams, done func(store.RecordResult, error)) {
	s.mu.Lock()
	s.queue = append(s.queue, done)
	s.mu.Unlock()
	s.cond.Signal()
}

func (s *benchStore) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.cond.Signal()
}

func (*benchStore) ListLanes(context.Context) ([]store.LaneHead, error) { return nil, nil }
func (*benchStore) ReadWindow(context.Context, store.WindowParams) (store.Window, error) {
	return store.Window{Complete: true}, nil
}
func (*benchStore) LoadWork(context.Context, webhook.Ref) (store.Work, bool, error) {
	return store.Work{}, false, nil
}
func (*benchStore) ListGates(context.Context) ([]store.Gate, error)       { return nil, nil }
func (*benchStore) LoadData(context.Context, webhook.Ref) ([]byte, error) { return nil, nil }
func (*benchStore) MarkRunning(context.Context, []store.Mark) error       { return nil }
func (*benchStore) ListMarks(context.Context) ([]store.Marked, error)     { return nil, nil }

// benchSender waits as for an answer, and costs nothing else.
type benchSender struct{ wait time.Duration }

func (b benchSender) Attempt(context.Context, Shot) webhook.Outcome {
	if b.wait > 0 {
		<-time.After(b.wait)
	}
	return webhook.Outcome{StatusCode: 200, StartedAt: time.Unix(1e9, 0), Duration: time.Microsecond}
}

// BenchmarkEngine_Handover is one delivery's way through the lanes, from the
// offer to the commit of its outcome, without HTTP and SQL.
func BenchmarkEngine_Handover(b *testing.B) {
	for _, lanes := range []int{1, 10_000} {
		for _, batch := range []int{1, 100} {
			for _, wait := range []time.Duration{0, time.Millisecond} {
				b.Run(fmt.Sprintf("lanes=%d/batch=%d/wait=%v", lanes, batch, wait), func(b *testing.B) {
					benchmarkHandover(b, lanes, batch, benchSender{wait})
				})
			}
		}
	}
}

func benchmarkHandover(b *testing.B, lanes, batch int, send benchSender) {
	s := newBenchStore()
	defer s.end()
	std := standard()
	d := New(Config{
		Store: s, Send: send, Clock: clock.Start(), Random: func() float64 { return 0.5 },
		Contracts:  func(string, string) *contract.Contract { return std },
		Match:      func(*store.AcceptParams) {},
		WindowRows: 4096,
	})
	for key := range lanes {
		d.Load([]*webhook.Endpoint{{
			Key: webhook.EndpointKey(key), ID: "ep", State: webhook.EndpointActive, Contract: "standard",
		}})
	}
	if err := d.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	data := make([]byte, 1024)
	works := make([]store.Work, batch)
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuTime()
	for offered := 0; offered < b.N; {
		for i := range works {
			offered++
			s.free <- struct{}{}
			works[i] = store.Work{
				Ref: webhook.Ref(offered), Endpoint: webhook.EndpointKey(offered % lanes), Tenant: "default", Type: "a.b",
				Contract: "standard", ContractRevision: "1", Trigger: contract.TriggerEvent,
				Round: 1, Due: now, Data: data, DataSize: len(data),
			}
		}
		d.Offer(works)
	}
	if err := d.Drain(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(cpuTime()-cpu)/float64(b.N), "cpu-ns/op")
}

// benchAhead is how many deliveries are between offer and commit at most.
const benchAhead = 2000

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
