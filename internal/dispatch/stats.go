package dispatch

import (
	"time"

	"github.com/posthorn/posthorn/internal/store"
)

// Stats is what readiness and metrics show of the lanes.
type Stats struct {
	// Lanes counts live endpoints; Busy those with something in memory.
	Lanes, Busy int
	// Slots is the node's limit, InFlight what is used of it: requests under way
	// (OnWire) and outcomes that are not written yet.
	Slots, InFlight, OnWire int
	// Ready counts due deliveries that wait in memory for their turn.
	Ready int
	// Reads counts window reads under way and queued.
	Reads int
	// OldestDue is how long the oldest known due delivery of an active endpoint
	// has waited; 0 when none waits.
	OldestDue time.Duration
	// BytesHeld is payload in memory.
	BytesHeld int
	// LastProgress is when an outcome was last committed, or the start.
	LastProgress time.Time
	// Running is true between Start and Drain, unless the store is closed.
	Running bool
}

// Stats looks at all lanes once: it is meant for a scrape, not for each event.
func (d *Dispatcher) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	s := Stats{
		Lanes: len(d.lanes), Slots: d.cfg.Slots, InFlight: d.inFlight, OnWire: d.onWire,
		Reads: len(d.active) + d.readQueue.len() + len(d.probeReads), BytesHeld: d.held + d.loaded,
		LastProgress: d.progress, Running: d.phase == phaseRunning && !d.shut,
	}
	for _, l := range d.lanes {
		waiting := l.window.len() + len(l.pending)
		s.Ready += waiting
		if l.outRows > 0 {
			s.Busy++
		}
		if !l.on() {
			continue
		}
		due := l.since(l.nextDue, now)
		if l.window.len() > 0 {
			due = earlier(due, l.since(l.window.first().work.Due, l.window.first().came))
		}
		if !due.IsZero() {
			s.OldestDue = max(s.OldestDue, now.Sub(due))
		}
	}
	return s
}

// since is when something became due, in time. A place in the order of a lane says
// no more than that it has waited since it came; and what was held while the
// endpoint was off waits since that was switched on.
func (l *lane) since(due, came time.Time) time.Time {
	on := l.endpoint.StateSince
	switch {
	case due.IsZero():
		return due
	case l.endpoint.CatchingUp && !on.IsZero():
		return on
	case store.IsSeat(due):
		return came
	case due.Before(on):
		return on
	default:
		return due
	}
}
