package maintain

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/posthorn/posthorn/internal/clock"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

const (
	// replaySlice is the most deliveries that one commit queues (N25).
	replaySlice = 50
	// replayAhead is the most deliveries that an endpoint has due before its replay
	// rests: a lane is filled as it empties.
	replayAhead = 1000
	// replayParts is into how many slices a second's worth is cut where a rate is
	// set, so that it is no burst a second.
	replayParts = 4
	// laneRest is between two looks at a lane that is full, offRest at an endpoint
	// that is off; a nudge shortens both.
	laneRest, offRest = 200 * time.Millisecond, 5 * time.Second
	// listEvery is how often open replays are listed without a nudge.
	listEvery = time.Minute
	// faultRest after a fault doubles up to faultRestMost.
	faultRest, faultRestMost = time.Second, time.Minute
)

// ReplayEndpoints is what replays ask about endpoints; store.Endpoints has it.
type ReplayEndpoints interface {
	GetEndpoint(ctx context.Context, tenant, id string) (*webhook.Endpoint, error)
	CountDue(ctx context.Context, tenant, id string, now time.Time, most int) (n int, err error)
}

// ReplaysConfig is what Replays work with.
type ReplaysConfig struct {
	Store     store.Replays
	Endpoints ReplayEndpoints
	// Decide and Matches are those of store.StepParams; Decide for the moment now.
	Decide  func(now time.Time) func(*webhook.Delivery, *webhook.Endpoint) (again store.Again, ok bool)
	Matches func(*webhook.Event, *webhook.Endpoint) (target store.Target, key string, ok bool)
	// Finished prepares replay.finished.
	Finished func(webhook.Replay) store.AcceptParams
	Clock    *clock.Clock
	Log      *slog.Logger
}

// Replays works open replays off: it counts what each takes, then queues it slice
// by slice. Each slice is one commit with its cursor, so a restart in between
// neither leaves one out nor takes one twice (B91). Replays of several endpoints
// take turns.
type Replays struct {
	cfg ReplaysConfig
	service
	wake chan struct{}
	// jobs and listedAt belong to the goroutine of Run.
	jobs     []*job
	listedAt time.Time
}

// job is an open replay and where it stands. Only the counting is kept in memory
// alone: a restart counts anew.
type job struct {
	replay  webhook.Replay
	counted int
	cursor  int64
	// paced is when the rate and the rest after a slice allow the next one; look is
	// when a lane that was full, an endpoint that was off or a fault is looked at
	// again, unless a nudge comes first.
	paced, look time.Time
	faults      int
	ended       bool
}

// ready is when the job's turn comes.
func (j *job) ready() time.Time { return later(j.paced, j.look) }

// NewReplays makes the service.
func NewReplays(cfg ReplaysConfig) *Replays {
	return &Replays{cfg: cfg, wake: make(chan struct{}, 1)}
}

// Start begins; it may be started again after Stop.
func (r *Replays) Start() { r.begin(r.Run) }

// Stop ends the service within a slice.
func (r *Replays) Stop() { r.end() }

// Nudge says that a replay was created or cancelled, or that an endpoint changed.
// It does not block.
func (r *Replays) Nudge() { nudge(r.wake) }

// Run works until ctx ends or the store is closed.
func (r *Replays) Run(ctx context.Context) {
	r.jobs, r.listedAt = nil, time.Time{}
	for {
		rest, goOn := r.runOnce(ctx)
		if !goOn {
			return
		}
		woken, ok := pause(ctx, rest, r.wake)
		if !ok {
			return
		}
		if woken {
			r.listedAt = time.Time{}
			for _, j := range r.jobs {
				j.look = time.Time{}
			}
		}
	}
}

// runOnce gives each job that is ready one turn. It returns how long there is
// nothing to do, and false when the store is closed.
func (r *Replays) runOnce(ctx context.Context) (time.Duration, bool) {
	now := r.cfg.Clock.Now()
	if r.listedAt.IsZero() || now.Sub(r.listedAt) >= listEvery {
		switch err := r.list(ctx); {
		case errors.Is(err, store.ErrClosed):
			return 0, false
		case err != nil && ctx.Err() == nil:
			r.cfg.Log.Warn("could not read which replays are open", slog.Any("error", err))
			return faultRest, true
		}
		r.listedAt = now
	}
	for _, j := range r.jobs {
		if j.ready().After(r.cfg.Clock.Now()) {
			continue
		}
		if !r.turn(ctx, j) {
			return 0, false
		}
	}
	r.jobs = slices.DeleteFunc(r.jobs, func(j *job) bool { return j.ended })
	now = r.cfg.Clock.Now()
	next := r.listedAt.Add(listEvery)
	for _, j := range r.jobs {
		next = earlier(next, j.ready())
	}
	return max(next.Sub(now), 0), true
}

// list takes up replays that are new and drops those that are no longer open.
func (r *Replays) list(ctx context.Context) error {
	open, err := r.cfg.Store.ListOpenReplays(ctx)
	if err != nil {
		return err
	}
	jobs := make([]*job, 0, len(open))
	for _, replay := range open {
		i := slices.IndexFunc(r.jobs, func(j *job) bool { return j.replay.ID == replay.ID && j.replay.Tenant == replay.Tenant })
		if i >= 0 {
			jobs = append(jobs, r.jobs[i])
		} else {
			jobs = append(jobs, &job{replay: *replay})
		}
	}
	r.jobs = jobs
	return nil
}

// turn does one slice of a job and says when its next turn is. It returns false
// when the store is closed.
func (r *Replays) turn(ctx context.Context, j *job) bool {
	began := r.cfg.Clock.Now()
	err := r.step(ctx, j, began)
	now := r.cfg.Clock.Now()
	switch {
	case ctx.Err() != nil:
	case err == nil:
		j.faults = 0
	case errors.Is(err, store.ErrClosed):
		return false
	case errors.Is(err, store.ErrNotFound): // its tenant is gone
		j.ended = true
	case errors.Is(err, store.ErrStale): // its end is to be told by newer subscriptions
	default: // nothing was done, or it was and the cursor knows it (ErrUnknown)
		if j.faults == 0 {
			r.cfg.Log.Warn("a slice of a replay failed; it is tried again", slog.String("tenant", j.replay.Tenant),
				slog.String("replay", j.replay.ID), slog.Any("error", err))
		}
		j.look = now.Add(min(faultRest<<min(j.faults, 10), faultRestMost))
		j.faults++
	}
	// The writer is others' too: as long a rest as the slice took, nudged or not.
	j.paced = later(j.paced, now.Add(max(now.Sub(began), leastRest)))
	return true
}

// step does a slice of whatever the job needs next.
func (r *Replays) step(ctx context.Context, j *job, now time.Time) error {
	if j.replay.State == webhook.ReplayCounting {
		return r.count(ctx, j)
	}
	endpoint, err := r.cfg.Endpoints.GetEndpoint(ctx, j.replay.Tenant, j.replay.Endpoint)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return r.queue(ctx, j) // which ends it
	case err != nil:
		return err
	case !endpoint.On() && j.replay.State == webhook.ReplayPaused:
		j.look = now.Add(offRest)
		return nil
	case !endpoint.On():
		return r.queue(ctx, j) // which pauses it
	}
	full, err := r.laneFull(ctx, j, now)
	if err != nil {
		return err
	}
	if full {
		j.look = now.Add(laneRest)
		return nil
	}
	return r.queue(ctx, j)
}

// count counts a slice of what the replay takes. The sum becomes durable with the
// first slice that is queued.
func (r *Replays) count(ctx context.Context, j *job) error {
	n, next, done, err := r.cfg.Store.CountReplay(ctx, r.params(j), j.cursor)
	if err != nil {
		return err
	}
	j.counted, j.cursor = j.counted+n, next
	if done { // stored by the first slice
		j.replay.State, j.replay.Count = webhook.ReplayRunning, j.counted
	}
	return nil
}

// queue queues a slice. The store looks at the endpoint in the same commit: the
// replay of one that is off pauses, that of a deleted one is over.
func (r *Replays) queue(ctx context.Context, j *job) error {
	p := r.params(j)
	p.Most = sliceOf(j.replay.Rate)
	result, err := r.cfg.Store.StepReplay(ctx, p)
	if err != nil {
		return err
	}
	j.replay = result.Replay
	if rate := j.replay.Rate; rate > 0 {
		span := time.Duration(result.Queued) * time.Second / time.Duration(rate)
		j.paced = later(j.paced, p.Ready).Add(span)
	}
	switch j.replay.State {
	case webhook.ReplayCounting, webhook.ReplayRunning:
	case webhook.ReplayPaused:
		j.look = p.Ready.Add(offRest)
	case webhook.ReplayCanceled:
		j.ended = true
	case webhook.ReplayDone:
		j.ended = true
		r.cfg.Log.Info("a replay is done", slog.String("tenant", j.replay.Tenant), slog.String("endpoint", j.replay.Endpoint),
			slog.String("replay", j.replay.ID), slog.Int("queued", j.replay.Done), slog.Int("failed", j.replay.Failed))
	}
	return nil
}

func (r *Replays) params(j *job) store.StepParams {
	wall := r.cfg.Clock.Wall()
	return store.StepParams{
		Replay: j.replay, Decide: r.cfg.Decide(wall), Matches: r.cfg.Matches, Emit: r.cfg.Finished,
		Now: wall, Ready: r.cfg.Clock.Now(),
	}
}

// laneFull tells whether the endpoint's lane is to be left to empty first. What
// waits for a later time, or in line behind another of its key, does not fill a
// lane. A rate bounds what may pile up to a second's worth.
func (r *Replays) laneFull(ctx context.Context, j *job, now time.Time) (bool, error) {
	ahead := replayAhead
	if j.replay.Rate > 0 {
		ahead = min(ahead, j.replay.Rate)
	}
	n, err := r.cfg.Endpoints.CountDue(ctx, j.replay.Tenant, j.replay.Endpoint, now, ahead)
	return n >= ahead, err
}

// sliceOf is the size of a slice at a rate in deliveries a second; 0 is none.
func sliceOf(rate int) int {
	if rate == 0 {
		return replaySlice
	}
	return min(max(rate/replayParts, 1), replaySlice)
}
