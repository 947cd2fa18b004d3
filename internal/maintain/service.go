package maintain

import (
	"context"
	"sync"
	"time"
)

// service is a goroutine that can be started, stopped and started again.
type service struct {
	mu      sync.Mutex
	cancel  context.CancelFunc
	stopped chan struct{}
}

// begin starts run, unless it runs already.
func (s *service) begin(run func(context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	s.cancel, s.stopped = cancel, stopped
	go func() {
		defer close(stopped)
		run(ctx)
	}()
}

// end stops what begin started and waits for it. It must come before the store is
// closed.
func (s *service) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel == nil {
		return
	}
	s.cancel()
	<-s.stopped
	s.cancel = nil
}

// pause waits for d or for a wake (nil: none). ok is false when ctx has ended.
func pause(ctx context.Context, d time.Duration, wake <-chan struct{}) (woken, ok bool) {
	if ctx.Err() != nil {
		return false, false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false, false
	case <-wake:
		return true, true
	case <-timer.C:
		return false, true
	}
}

// nudge leaves a wake for the next pause; several are one.
func nudge(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
