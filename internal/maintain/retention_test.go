package maintain

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthorn/posthorn/internal/clock"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// keeper has rows by position, and takes time for each slice.
type keeper struct {
	mu      sync.Mutex // a test may set and read while the service rests
	rows    int        // positions 1 to rows
	slice   int
	takes   time.Duration
	fail    error // the next slice's
	clock   *clock.Clock
	asked   []time.Time // now of each slice
	at      []time.Time // when each slice began
	held    []time.Time
	busy    time.Duration
	removed int
}

func (k *keeper) Retain(_ context.Context, after webhook.Ref, now time.Time) (webhook.Ref, int, bool, error) {
	at := k.clock.Now()
	<-time.After(k.takes)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.at = append(k.at, at)
	k.asked = append(k.asked, now)
	k.busy += k.takes
	if err := k.fail; err != nil {
		k.fail = nil
		return 0, 0, false, err
	}
	n := min(k.slice, k.rows-int(after))
	k.removed += n
	next := after + webhook.Ref(n)
	return next, n, int(next) == k.rows, nil
}

func (k *keeper) SkipHeld(_ context.Context, now time.Time) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held = append(k.held, now)
	return nil
}

func (k *keeper) left() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rows - k.removed
}

func (k *keeper) failNext(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fail = err
}

func retentionRig(k *keeper) *Retention {
	k.clock = clock.Start()
	return NewRetention(RetentionConfig{Keeper: k, Clock: k.clock, Log: slog.New(slog.DiscardHandler)})
}

// S12, P6: a pass a minute after the start, then one an hour, and what is held too
// long is looked at as often.
func TestContract_S12_RetentionComesByEveryHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{rows: 10, slice: 10, takes: time.Millisecond}
		r := retentionRig(k)
		began := k.clock.Now()
		r.Start()
		<-time.After(3*time.Hour + time.Minute + time.Second)
		r.Stop()
		if len(k.at) != 4 || len(k.held) != 4 {
			t.Fatalf("%d passes and %d looks at what is held, want 4 of each", len(k.at), len(k.held))
		}
		for i, at := range k.at {
			if want := time.Minute + time.Duration(i)*time.Hour; at.Sub(began).Round(time.Second) != want {
				t.Errorf("pass %d came after %v, want %v", i, at.Sub(began), want)
			}
		}
	})
}

// B51, B101: a large pass goes in slices, all of which together take at most a
// twentieth of the time, so that the writer is free for the rest.
func TestFault_B51_B101_RetentionLeavesTheWriterFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{rows: 100_000, slice: 100, takes: 5 * time.Millisecond}
		r := retentionRig(k)
		r.Start()
		for k.left() > 0 {
			<-time.After(time.Second)
		}
		r.Stop()
		span := k.at[len(k.at)-1].Sub(k.at[0])
		if duty := float64(k.busy) / float64(span); duty > 0.0505 {
			t.Errorf("slices took %.1f %% of the time, want at most 5", 100*duty)
		}
		for i := 1; i < len(k.at); i++ {
			if gap := k.at[i].Sub(k.at[i-1]); gap < 100*time.Millisecond {
				t.Fatalf("slice %d came %v after the one before", i, gap)
			}
		}
		if len(k.at) != 1000 {
			t.Errorf("%d slices, want 1000: none is left out or done twice", len(k.at))
		}
	})
}

// B51: a pass that finds nothing is over at once; an hour that was not enough lets
// the pass take more of the time, and the next one comes a minute later.
func TestFault_B51_PaceFollowsWhatThereIs(t *testing.T) {
	t.Parallel()
	if got := sliceRest(0, 0); got != leastRest {
		t.Errorf("rest after an empty slice is %v", got)
	}
	if got := sliceRest(time.Minute, 0); got != mostRest {
		t.Errorf("rest after a slow slice is %v", got)
	}
	if early, late := sliceRest(5*time.Millisecond, 0), sliceRest(5*time.Millisecond, 61*time.Minute); early != 95*time.Millisecond || late != 20*time.Millisecond {
		t.Errorf("rests are %v and %v", early, late)
	}
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{rows: 5_000_000, slice: 1000, takes: 50 * time.Millisecond}
		r := retentionRig(k)
		r.Start()
		<-time.After(2*time.Hour + 30*time.Minute)
		r.Stop()
		if k.removed < k.rows || len(k.held) < 2 {
			t.Errorf("%d of %d removed, what is held was looked at %d times", k.removed, k.rows, len(k.held))
		}
	})
}

// A slice that failed is done again from where the pass stood.
func TestEngine_N22_RetentionGoesOnAfterAFault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{rows: 300, slice: 100, takes: time.Millisecond}
		r := retentionRig(k)
		r.Start()
		<-time.After(time.Minute + 25*time.Millisecond) // two slices are done
		k.failNext(errors.New("disk is full"))
		<-time.After(5 * time.Minute)
		r.Stop()
		if k.removed != 300 || len(k.at) != 4 {
			t.Errorf("%d removed in %d slices, want 300 in 4", k.removed, len(k.at))
		}
		if rest := k.at[3].Sub(k.at[2]); rest < retentionDelay {
			t.Errorf("tried again after %v", rest)
		}
	})
}

// N20: a wall clock that steps ahead removes nothing early.
func TestEngine_N20_AStepOfTheClockRemovesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{rows: 1, slice: 1}
		r := retentionRig(k)
		began := k.clock.Wall()
		r.Start()
		k.clock.Step(365 * 24 * time.Hour)
		<-time.After(retentionDelay + time.Second)
		k.clock.Step(-2 * 365 * 24 * time.Hour)
		<-time.After(time.Hour)
		r.Stop()
		if len(k.asked) != 2 || k.asked[0].Sub(began) > 2*time.Minute || k.asked[1].After(began) {
			t.Errorf("asked with %v, began at %v", k.asked, began)
		}
	})
}

// A service can be stopped in a rest, twice, and started again; a closed store
// ends it.
func TestServices_StartAndStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{rows: 1, slice: 1}
		r := retentionRig(k)
		r.Stop()
		r.Start()
		r.Start()
		<-time.After(2 * time.Minute)
		r.Stop()
		r.Stop()
		<-time.After(3 * time.Hour)
		if len(k.at) != 1 {
			t.Errorf("%d passes, want the one before the stop", len(k.at))
		}
		r.Start()
		k.failNext(store.ErrClosed)
		<-time.After(3 * time.Hour)
		r.Stop()
		if len(k.at) != 2 {
			t.Errorf("%d slices, want none after the store was closed", len(k.at)-1)
		}
	})
}
