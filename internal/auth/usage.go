package auth

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// usageEvery is how often times of last use are written: a key's at most once in
// that span.
const usageEvery = time.Minute

// stopWithin is how long the last writing may take.
const stopWithin = 5 * time.Second

// usage is what is not written yet, and the service that writes it.
type usage struct {
	mu sync.Mutex
	// pending are times of keys that left the memory, or that could not be
	// written.
	pending map[string]time.Time

	stop    context.CancelFunc
	stopped chan struct{}
}

// keep keeps the time of a key that leaves the memory.
func (u *usage) keep(id string, known *knownKey) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if at := known.usedAt.Load(); at > known.writtenAt && len(u.pending) < maxCached {
		u.pending[id] = time.UnixMilli(at).UTC()
	}
}

// Start begins to write times of last use, once a minute. Stop ends it.
func (a *Authenticator) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	a.usage.stop = cancel
	a.usage.stopped = make(chan struct{})
	go func() {
		defer close(a.usage.stopped)
		ticker := time.NewTicker(usageEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				a.writeUsage(ctx)
			case <-ctx.Done():
				return
			}
		}
	}()
}

// Stop ends the service and writes what is left, within some seconds. Without a
// Start it only writes. It must come before the store is closed.
func (a *Authenticator) Stop() {
	if a.usage.stop != nil {
		a.usage.stop()
		<-a.usage.stopped
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	a.writeUsage(ctx)
}

func (a *Authenticator) writeUsage(ctx context.Context) {
	if err := a.runOnce(ctx); err != nil && a.cfg.Log != nil {
		a.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "could not write when keys were last used", slog.Any("error", err))
	}
}

// runOnce writes the times that changed since the last run. After an error they
// are written by the next.
func (a *Authenticator) runOnce(ctx context.Context) error {
	used := a.collectUsage()
	if len(used) == 0 {
		return nil
	}
	err := a.cfg.Keys.TouchKeys(ctx, used)
	a.usage.mu.Lock()
	defer a.usage.mu.Unlock()
	for id, at := range used {
		if err != nil && at.After(a.usage.pending[id]) {
			a.usage.pending[id] = at
		}
	}
	return err
}

// collectUsage takes what is to be written.
func (a *Authenticator) collectUsage() map[string]time.Time {
	a.mu.RLock()
	defer a.mu.RUnlock()
	u := &a.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	used := u.pending
	u.pending = make(map[string]time.Time)
	for id, known := range a.keys {
		if at := known.usedAt.Load(); at > known.writtenAt {
			known.writtenAt = at
			used[id] = time.UnixMilli(at).UTC()
		}
	}
	return used
}
