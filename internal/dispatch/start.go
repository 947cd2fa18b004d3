package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

const (
	stepLookEvery = 5 * time.Second
	mostStep      = 2 * time.Second
)

// Load makes the lanes of these endpoints, before Start. Changes that Apply
// brought meanwhile are newer and stay.
func (d *Dispatcher) Load(endpoints []*webhook.Endpoint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range endpoints {
		if l := d.lanes[e.Key]; l == nil {
			d.lanes[e.Key] = newLane(e)
		} else if e.Version > l.endpoint.Version {
			l.set(e)
		}
	}
}

// Start records what the last process left unfinished, finds out which lanes
// have something waiting, and begins to send. When it returned, no delivery is
// shown as sending that is not. ctx bounds the start only. It is called once.
func (d *Dispatcher) Start(ctx context.Context) error {
	if err := d.recordLost(ctx); err != nil {
		return err
	}
	heads, err := d.cfg.Store.ListLanes(ctx)
	if err != nil {
		return fmt.Errorf("listing lanes: %w", err)
	}
	closed, err := d.cfg.Store.ListGates(ctx)
	if err != nil {
		return fmt.Errorf("listing gates: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.phase != phaseLoading {
		return nil // drained meanwhile
	}
	orphans := 0
	for _, l := range d.lanes {
		l.complete = !l.dirty // what was offered since is in the store alone
	}
	for _, h := range heads {
		if l := d.lanes[h.Endpoint]; l != nil {
			if !store.IsParked(h.Due) {
				l.expect(h.Due)
			}
		} else {
			orphans++
		}
	}
	if orphans > 0 {
		d.cfg.Log.Warn("deliveries wait for endpoints that do not exist", slog.Int("endpoints", orphans))
	}
	d.phase = phaseRunning
	now := d.now()
	d.progress = now
	d.loadGates(closed)
	for _, l := range d.lanes {
		d.review(l, now)
	}
	d.dispatch(now)
	go d.watchWall()
	return nil
}

// recordLost writes the marked attempts of a process that is gone as
// interrupted (N14) and waits until that is committed.
func (d *Dispatcher) recordLost(ctx context.Context) error {
	lost, err := d.cfg.Store.ListMarks(ctx)
	if err != nil {
		return fmt.Errorf("listing interrupted attempts: %w", err)
	}
	if len(lost) == 0 {
		return nil
	}
	for i, f := range d.takeLost(lost) {
		d.judgeLost(f, lost[i].Mark)
		d.submit(f)
	}
	select {
	case <-d.started:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("recording interrupted attempts: %w", ctx.Err())
	}
}

// takeLost puts interrupted deliveries into flight, as what they are: outcomes
// that are not written yet.
func (d *Dispatcher) takeLost(lost []store.Marked) []*flight {
	d.mu.Lock()
	defer d.mu.Unlock()
	flights := make([]*flight, 0, len(lost))
	for i := range lost {
		w := &lost[i].Work
		l := d.lanes[w.Endpoint]
		if l == nil {
			l = newLane(&webhook.Endpoint{Key: w.Endpoint})
			l.deleted = true
		}
		f := d.newFlight()
		f.it = d.admit(l, w, placeFlight)
		f.lane, f.endpoint, f.contract = l, l.endpoint, d.contractFor(l, w)
		f.state, f.deleted, f.marked = l.endpoint.State, l.deleted, true
		d.inFlight++
		d.startWait++
		flights = append(flights, f)
	}
	return flights
}

// watchWall logs each step of the wall clock once (N20). Due times do not follow
// it; new time stamps do.
func (d *Dispatcher) watchWall() {
	tick := time.NewTicker(stepLookEvery)
	defer tick.Stop()
	var steps wallSteps
	for {
		select {
		case <-d.life.Done():
			return
		case <-tick.C:
			if step, found := steps.look(d.cfg.Clock.Offset()); found {
				d.cfg.Log.Warn("the wall clock stepped, due times stay as they are", slog.Duration("step", step))
			}
		}
	}
}

// wallSteps tells steps of the wall clock from the offsets seen one after
// another.
type wallSteps struct{ known time.Duration }

func (s *wallSteps) look(offset time.Duration) (step time.Duration, found bool) {
	step = offset - s.known
	if step.Abs() <= mostStep {
		return 0, false
	}
	s.known = offset
	return step, true
}
