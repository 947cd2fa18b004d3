package maintain

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/posthorn/posthorn/internal/clock"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

const (
	// retentionDelay keeps the start free, and is the rest after an error.
	retentionDelay = time.Minute
	// retentionEvery is from the beginning of a pass to the next one's.
	retentionEvery = time.Hour
	// retentionShare of the time is the most that slices take: one twentieth, and
	// one fifth for a pass that an hour was not enough for, because what comes in
	// must not outrun what goes.
	retentionShare, retentionLateShare = 20, 5
	// The rest between two slices lies within these.
	leastRest, mostRest = time.Millisecond, 2 * time.Second
)

// RetentionConfig is what a Retention works with.
type RetentionConfig struct {
	Keeper store.Keeper
	Clock  *clock.Clock
	Log    *slog.Logger
}

// Retention removes what contracts keep no longer, once an hour and a minute
// after the start (S12, P6, N22). What is owed is the store's to know; this knows
// only pace: slices with rests between them, so that neither publishing nor
// delivering is held up (B51, B101).
type Retention struct {
	cfg RetentionConfig
	service
	heldAt time.Time // when SkipHeld was last asked
}

// NewRetention makes the service.
func NewRetention(cfg RetentionConfig) *Retention { return &Retention{cfg: cfg} }

// Start begins; Stop ends within a slice. It may be started again.
func (r *Retention) Start() { r.begin(r.Run) }

// Stop ends the service.
func (r *Retention) Stop() { r.end() }

// Run works until ctx ends or the store is closed.
func (r *Retention) Run(ctx context.Context) {
	r.heldAt = time.Time{}
	rest := retentionDelay
	for {
		if _, ok := pause(ctx, rest, nil); !ok {
			return
		}
		began := r.cfg.Clock.Now()
		if !r.runOnce(ctx, began) {
			return
		}
		rest = max(retentionDelay, retentionEvery-r.cfg.Clock.Now().Sub(began))
	}
}

// runOnce is a pass over everything. It returns false when there is nothing to
// come back for.
func (r *Retention) runOnce(ctx context.Context, began time.Time) bool {
	var after webhook.Ref
	total := 0
	for {
		r.skipHeld(ctx)
		sliceAt := r.cfg.Clock.Now()
		next, removed, done, err := r.cfg.Keeper.Retain(ctx, after, r.now())
		rest := sliceRest(r.cfg.Clock.Now().Sub(sliceAt), sliceAt.Sub(began))
		switch {
		case ctx.Err() != nil || errors.Is(err, store.ErrClosed):
			return false
		case err != nil:
			r.cfg.Log.Warn("removing old deliveries was cut; it goes on later", slog.Duration("after", retentionDelay), slog.Any("error", err))
			rest = retentionDelay
		default:
			after, total = next, total+removed
		}
		if err == nil && done {
			if total > 0 {
				r.cfg.Log.Info("old deliveries were removed", slog.Int("rows", total))
			}
			return true
		}
		if _, ok := pause(ctx, rest, nil); !ok {
			return false
		}
	}
}

// skipHeld asks once an hour for what was held too long, also in a long pass.
func (r *Retention) skipHeld(ctx context.Context) {
	now := r.cfg.Clock.Now()
	if !r.heldAt.IsZero() && now.Sub(r.heldAt) < retentionEvery {
		return
	}
	r.heldAt = now
	if err := r.cfg.Keeper.SkipHeld(ctx, r.now()); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
		r.cfg.Log.Warn("ending what was held too long was cut; it is tried again in an hour", slog.Any("error", err))
	}
}

// now is the earlier of both clocks: a wall clock that stepped ahead must not
// remove what is young (N20). One that stepped back only lets things stay longer.
func (r *Retention) now() time.Time {
	return earlier(r.cfg.Clock.Wall(), r.cfg.Clock.Now().Round(0))
}

// sliceRest is the rest after a slice that took so long, in a pass of that age.
func sliceRest(took, age time.Duration) time.Duration {
	share := retentionShare
	if age > retentionEvery {
		share = retentionLateShare
	}
	return min(max(took*time.Duration(share-1), leastRest), mostRest)
}
