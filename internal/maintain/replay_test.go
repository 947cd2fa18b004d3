package maintain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthorn/posthorn/internal/clock"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// archive is a store of replays, each of which takes the positions 1 to size. It
// keeps what a driver owes: a slice and its cursor are one commit.
type archive struct {
	mu        sync.Mutex
	clock     *clock.Clock
	replays   []*webhook.Replay
	size      map[string]int // by replay
	cursor    map[string]int
	endpoints map[string]*webhook.Endpoint
	waiting   map[string]int // by endpoint
	oldest    map[string]time.Time
	queued    []taken
	takes     time.Duration // of a slice
	counted   int           // slices
	steps     int
	fail      func(step int) (before, after error)
}

type taken struct {
	replay string
	pos    int
	at     time.Time
}

func newArchive() *archive {
	return &archive{
		clock: clock.Start(), size: map[string]int{}, cursor: map[string]int{}, endpoints: map[string]*webhook.Endpoint{},
		waiting: map[string]int{}, oldest: map[string]time.Time{}, takes: time.Millisecond,
	}
}

// open adds a replay of an endpoint of its own.
func (a *archive) open(id string, size, rate int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.replays = append(a.replays, &webhook.Replay{ID: id, Tenant: "t", Endpoint: "ep_" + id, Rate: rate, State: webhook.ReplayCounting})
	a.endpoints["ep_"+id] = &webhook.Endpoint{ID: "ep_" + id, Tenant: "t", State: webhook.EndpointActive}
	a.size[id] = size
}

func (a *archive) find(id string) *webhook.Replay {
	i := slices.IndexFunc(a.replays, func(r *webhook.Replay) bool { return r.ID == id })
	return a.replays[i]
}

// set changes the archive while the service runs.
func (a *archive) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

func (a *archive) state(id string) webhook.Replay {
	a.mu.Lock()
	defer a.mu.Unlock()
	return *a.find(id)
}

func (a *archive) taken() []taken {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.queued)
}

func (a *archive) ListOpenReplays(context.Context) (open []*webhook.Replay, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.replays {
		if r.Open() {
			open = append(open, new(*r))
		}
	}
	return open, nil
}

func (a *archive) CountReplay(_ context.Context, p store.StepParams, after int64) (n int, next int64, done bool, err error) {
	<-time.After(a.takes)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counted++
	n = min(1000, a.size[p.Replay.ID]-int(after))
	next = after + int64(n)
	return n, next, int(next) == a.size[p.Replay.ID], nil
}

func (a *archive) StepReplay(_ context.Context, p store.StepParams) (store.StepResult, error) {
	<-time.After(a.takes)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.steps++
	var before, after error
	if a.fail != nil {
		before, after = a.fail(a.steps)
	}
	if before != nil {
		return store.StepResult{}, before
	}
	r := a.find(p.Replay.ID)
	if r.State == webhook.ReplayCounting {
		r.Count = p.Replay.Count
	}
	endpoint := a.endpoints[r.Endpoint]
	queued := 0
	switch {
	case !r.Open():
	case endpoint == nil:
		r.State = webhook.ReplayCanceled
	case !endpoint.On():
		r.State = webhook.ReplayPaused
	default:
		r.State = webhook.ReplayRunning
		for queued < p.Most && a.cursor[r.ID] < a.size[r.ID] {
			a.cursor[r.ID]++
			queued++
			a.queued = append(a.queued, taken{r.ID, a.cursor[r.ID], a.clock.Now()})
		}
		r.Done += queued
		a.waiting[r.Endpoint] += queued
		if a.cursor[r.ID] == a.size[r.ID] {
			r.State = webhook.ReplayDone
			p.Emit(*r)
		}
	}
	return store.StepResult{Replay: *r, Queued: queued}, after
}

func (a *archive) GetEndpoint(_ context.Context, _, id string) (*webhook.Endpoint, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.endpoints[id]; e != nil {
		return new(*e), nil
	}
	return nil, store.ErrNotFound
}

func (a *archive) CountDue(_ context.Context, _, id string, now time.Time, most int) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.oldest[id].After(now) {
		return 0, nil
	}
	return min(a.waiting[id], most), nil
}

func (a *archive) CancelReplay(_ context.Context, _, id string, _ time.Time) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.find(id)
	was := r.Open()
	if was {
		r.State = webhook.ReplayCanceled
	}
	return was, nil
}

func (a *archive) CreateReplay(context.Context, webhook.Replay) (*webhook.Replay, error) {
	panic("not asked for")
}

func (a *archive) GetReplay(context.Context, string, string) (*webhook.Replay, error) {
	panic("not asked for")
}

func (a *archive) ListReplays(context.Context, string, string, store.Page) (store.Listed[*webhook.Replay], error) {
	panic("not asked for")
}

// replaysOf makes a service over the archive; ended gets what was told at the end.
func replaysOf(a *archive, ended *[]webhook.Replay) *Replays {
	return NewReplays(ReplaysConfig{
		Store: a, Endpoints: a, Clock: a.clock, Log: slog.New(slog.DiscardHandler),
		Decide: func(time.Time) func(*webhook.Delivery, *webhook.Endpoint) (store.Again, bool) { return nil },
		Finished: func(r webhook.Replay) store.AcceptParams {
			if ended != nil {
				*ended = append(*ended, r)
			}
			return store.AcceptParams{}
		},
	})
}

// lane sends what waits at an endpoint, so many a second.
func (a *archive) lane(endpoint string, rate int) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-time.After(100 * time.Millisecond):
				a.set(func() { a.waiting[endpoint] -= min(a.waiting[endpoint], rate/10) })
			}
		}
	}()
	return func() { close(quit); <-done }
}

// onceInOrder checks that a replay queued each of its positions once, in order.
func onceInOrder(t *testing.T, all []taken, id string, size int) {
	t.Helper()
	next := 1
	for _, q := range all {
		if q.replay != id {
			continue
		}
		if q.pos != next {
			t.Fatalf("replay %s queued position %d where %d was next", id, q.pos, next)
		}
		next++
	}
	if next != size+1 {
		t.Fatalf("replay %s queued %d of %d", id, next-1, size)
	}
}

// B91: whatever is cut (the service stopped in the middle, a commit of unknown
// outcome, a fault before it), each delivery is queued once, in order.
func TestFault_B91_ReplayTakesNothingTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newArchive()
		a.open("r", 5000, 0)
		defer a.lane("ep_r", 5000)()
		a.fail = func(step int) (before, after error) {
			switch step % 7 {
			case 3:
				return errors.New("disk is full"), nil
			case 5:
				return nil, store.ErrUnknown
			default:
				return nil, nil
			}
		}
		var ended []webhook.Replay
		for range 20 {
			r := replaysOf(a, &ended) // a restart: nothing is left but the archive
			r.Start()
			<-time.After(3 * time.Second)
			r.Stop()
		}
		r := replaysOf(a, &ended)
		r.Start()
		<-time.After(10 * time.Minute)
		r.Stop()
		onceInOrder(t, a.taken(), "r", 5000)
		if got := a.state("r"); got.State != webhook.ReplayDone || got.Done != 5000 || got.Count != 5000 {
			t.Errorf("ended as %+v", got)
		}
		if len(ended) != 1 {
			t.Errorf("its end was told %d times", len(ended))
		}
	})
}

// Counting is kept in memory alone: one that was cut is done again from the
// beginning, and the number is that of one counting.
func TestEngine_ReplayIsCountedBeforeItBegins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newArchive()
		a.takes = 10 * time.Millisecond
		a.open("r", 20_000, 0)
		r := replaysOf(a, nil)
		r.Start()
		<-time.After(150 * time.Millisecond)
		r.Stop()
		if got := a.state("r"); got.State != webhook.ReplayCounting || len(a.taken()) != 0 {
			t.Fatalf("cut while counting it is %+v", got)
		}
		a.set(func() { a.counted = 0 })
		r = replaysOf(a, nil)
		r.Start()
		<-time.After(time.Second)
		r.Stop()
		if got := a.state("r"); got.Count != 20_000 || got.State != webhook.ReplayRunning || a.counted != 20 {
			t.Errorf("counted in %d slices: %+v", a.counted, got)
		}
	})
}

// N21: a rate is real, and no burst a second.
func TestEngine_N21_ReplayRateIsReal(t *testing.T) {
	t.Parallel()
	for _, rate := range []int{1, 7, 40, 300} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := newArchive()
				size := 10 * rate
				a.open("r", size, rate)
				defer a.lane("ep_r", 100_000)()
				r := replaysOf(a, nil)
				r.Start()
				<-time.After(20 * time.Second)
				r.Stop()
				all := a.taken()
				onceInOrder(t, all, "r", size)
				slice := sliceOf(rate)
				span := all[len(all)-1].at.Sub(all[0].at).Seconds()
				if want := float64(size-slice) / float64(rate); span < want-0.01 || span > want*1.1+0.1 {
					t.Errorf("took %.2f s, want %.2f", span, want)
				}
				for i := range all {
					within := 0
					for j := i; j < len(all) && all[j].at.Sub(all[i].at) < time.Second; j++ {
						within++
					}
					if within > rate+slice {
						t.Fatalf("%d within a second from the %d. on, want at most %d", within, i, rate+slice)
					}
				}
			})
		})
	}
}

// Replays of several endpoints take turns: a large one does not make a small one
// wait, and one that is off or slow holds up none.
func TestEngine_ReplaysTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newArchive()
		a.takes = 5 * time.Millisecond
		a.open("large", 100_000, 0)
		a.open("other", 100_000, 0)
		a.open("off", 100, 0)
		a.endpoints["ep_off"].State = webhook.EndpointPaused
		a.open("slow", 100, 1)
		defer a.lane("ep_large", 100_000)()
		defer a.lane("ep_other", 100_000)()
		r := replaysOf(a, nil)
		r.Start()
		<-time.After(5 * time.Second)
		a.open("small", 20, 0)
		r.Nudge()
		<-time.After(time.Second)
		r.Stop()
		if got := a.state("small"); got.State != webhook.ReplayDone {
			t.Errorf("the small one is %+v a second after it was made", got)
		}
		large, other := a.state("large").Done, a.state("other").Done
		if large < 5000 || max(large, other)-min(large, other) > replaySlice {
			t.Errorf("the large ones queued %d and %d", large, other)
		}
	})
}

// A replay fills its lane no further than a bound, and goes on as the lane
// empties. What waits for a later time is no reason to wait.
func TestEngine_ReplayStaysOnlySoFarAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newArchive()
		a.open("r", 5000, 0)
		a.open("retrying", 500, 0)
		a.waiting["ep_retrying"] = 50_000
		a.oldest["ep_retrying"] = a.clock.Now().Add(time.Hour)
		r := replaysOf(a, nil)
		r.Start()
		<-time.After(time.Minute)
		a.mu.Lock()
		ahead := a.waiting["ep_r"]
		a.mu.Unlock()
		if ahead < replayAhead || ahead > replayAhead+replaySlice {
			t.Errorf("%d wait in a lane that does not move", ahead)
		}
		if got := a.state("retrying"); got.State != webhook.ReplayDone {
			t.Errorf("a lane with nothing due held its replay up: %+v", got)
		}
		stop := a.lane("ep_r", 1000)
		<-time.After(10 * time.Second)
		r.Stop()
		stop()
		onceInOrder(t, a.taken(), "r", 5000)
	})
}

// A rate bounds what piles up in a lane that stands still, so that it holds also
// when the lane moves again.
func TestEngine_ReplayWithARateLeavesNoBurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newArchive()
		a.open("r", 5000, 20)
		r := replaysOf(a, nil)
		r.Start()
		<-time.After(time.Minute)
		r.Stop()
		if n := len(a.taken()); n < 20 || n > 20+sliceOf(20) {
			t.Errorf("%d wait in a lane that does not move", n)
		}
	})
}

// While its endpoint is off a replay is paused; it goes on by itself, at once when
// it is told of the change.
func TestEngine_ReplayPausesWhileItsEndpointIsOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newArchive()
		a.open("r", 2000, 0)
		defer a.lane("ep_r", 500)()
		r := replaysOf(a, nil)
		r.Start()
		<-time.After(time.Second)
		a.set(func() { a.endpoints["ep_r"].State = webhook.EndpointDisabled })
		<-time.After(10 * time.Second)
		stood := len(a.taken())
		if got := a.state("r"); got.State != webhook.ReplayPaused || stood == 0 || stood == 2000 {
			t.Fatalf("with its endpoint off it is %+v", got)
		}
		a.set(func() { a.steps = 0 })
		<-time.After(5 * time.Minute)
		if n := len(a.taken()); n != stood || a.steps != 0 {
			t.Fatalf("%d were queued and %d commits made while it was off", n-stood, a.steps)
		}
		r.Nudge() // still off: it is looked at again in offRest
		<-time.After(time.Second)
		a.set(func() { a.endpoints["ep_r"].State = webhook.EndpointActive })
		r.Nudge()
		<-time.After(100 * time.Millisecond)
		if len(a.taken()) == stood {
			t.Error("it does not go on when it is told")
		}
		<-time.After(time.Minute)
		r.Stop()
		onceInOrder(t, a.taken(), "r", 2000)
	})
}

// Cancelling ends it, in the middle or before; so does the endpoint's deletion.
func TestEngine_ReplayEndsWhenCanceledOrDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newArchive()
		a.open("canceled", 100_000, 100)
		a.open("orphan", 100_000, 100)
		defer a.lane("ep_canceled", 1000)()
		defer a.lane("ep_orphan", 1000)()
		r := replaysOf(a, nil)
		r.Start()
		<-time.After(time.Second)
		if _, err := a.CancelReplay(t.Context(), "t", "canceled", a.clock.Wall()); err != nil {
			t.Fatal(err)
		}
		a.set(func() { delete(a.endpoints, "ep_orphan") })
		r.Nudge()
		<-time.After(time.Second)
		stood := len(a.taken())
		a.set(func() { a.steps = 0 })
		<-time.After(5 * time.Minute)
		r.Stop()
		if got := a.state("orphan"); got.State != webhook.ReplayCanceled {
			t.Errorf("that of a deleted endpoint is %+v", got)
		}
		if len(a.taken()) != stood || a.steps != 0 || len(r.jobs) != 0 {
			t.Errorf("%d queued, %d steps and %d jobs after the end", len(a.taken())-stood, a.steps, len(r.jobs))
		}
	})
}

// A fault that stays is tried ever more rarely, up to once a minute, and does not
// flood the log; a closed store ends the service.
func TestEngine_ReplayRestsAfterFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newArchive()
		a.open("r", 100, 0)
		a.fail = func(int) (before, after error) { return errors.New("disk is full"), nil }
		lines := &counter{}
		r := replaysOf(a, nil)
		r.cfg.Log = slog.New(lines)
		r.Start()
		<-time.After(time.Hour)
		a.mu.Lock()
		steps := a.steps
		a.mu.Unlock()
		if steps < 60 || steps > 70 || lines.n != 1 {
			t.Errorf("%d tries and %d lines in the log in an hour", steps, lines.n)
		}
		a.set(func() { a.fail = func(int) (before, after error) { return store.ErrClosed, nil } })
		<-time.After(time.Hour)
		r.Stop()
		if a.steps != steps+1 {
			t.Errorf("%d tries after the store was closed", a.steps-steps)
		}
	})
}

// counter counts lines of a log.
type counter struct {
	mu    sync.Mutex
	n     int
	texts []string
}

func (c *counter) Enabled(context.Context, slog.Level) bool { return true }

func (c *counter) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	c.texts = append(c.texts, text)
	return nil
}

func (c *counter) WithAttrs([]slog.Attr) slog.Handler { return c }
func (c *counter) WithGroup(string) slog.Handler      { return c }
