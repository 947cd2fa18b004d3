package dispatch

import (
	"errors"
	"log/slog"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
)

// Waits between writes of an outcome that went wrong, doubling.
const (
	firstRewrite = 100 * time.Millisecond
	mostRewrite  = 30 * time.Second
	// A drain has no time for long waits.
	mostDrainRewrite = 250 * time.Millisecond
)

// write gives a flight's outcome to the store, after a mark of it that is still
// being written: else the mark would outlive the outcome (N14).
func (d *Dispatcher) write(f *flight) {
	if !f.late || !d.waitForMark(f) {
		d.submit(f)
	}
}

func (d *Dispatcher) waitForMark(f *flight) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	f.waits = f.marking
	return f.waits
}

func (d *Dispatcher) submit(f *flight) {
	if f.moves {
		d.gateWrites.Lock()
		defer d.gateWrites.Unlock()
		f.record.Gate = d.gateMove(f.gateKey)
	}
	d.cfg.Store.Record(f.record, f.done)
}

// settled is what the store calls for each outcome, from its writer: it only
// notes the result. One goroutine takes what was noted, a commit's worth at a
// time.
func (d *Dispatcher) settled(f *flight, result store.RecordResult, err error) {
	d.settleMu.Lock()
	f.result, f.err = result, err
	d.unsettled = append(d.unsettled, f)
	begins := !d.settling
	d.settling = true
	d.settleMu.Unlock()
	if begins {
		go d.settle()
	}
}

func (d *Dispatcher) settle() {
	for {
		d.settleMu.Lock()
		batch := d.unsettled
		if len(batch) == 0 {
			d.settling = false
			d.settleMu.Unlock()
			return
		}
		d.unsettled, d.spare = d.spare[:0], nil
		d.settleMu.Unlock()
		d.settleBatch(batch)
		clear(batch)
		d.settleMu.Lock()
		d.spare = batch
		d.settleMu.Unlock()
	}
}

func (d *Dispatcher) settleBatch(batch []*flight) {
	d.mu.Lock()
	now := d.now()
	var faults int
	var fault error
	for _, f := range batch {
		if err := d.settleOne(f, now); err != nil {
			faults, fault = faults+1, err
		}
	}
	d.dispatch(now)
	d.checkIdle()
	d.mu.Unlock()
	if faults > 0 {
		d.cfg.Log.Warn("outcomes could not be written, they are written again",
			slog.Int("count", faults), slog.Any("error", fault))
	}
}

// settleOne frees a flight whose commit is known, and sees to another write of
// one that is not (N12): what was sent is never sent again because of a write
// that went wrong (B04). It returns the error of such a write.
func (d *Dispatcher) settleOne(f *flight, now time.Time) error {
	switch err := f.err; {
	case err == nil:
		d.finish(f, now)
		return nil
	case errors.Is(err, store.ErrNotFound):
		d.finish(f, now) // the row is gone, as after a change that went before
		return nil
	case errors.Is(err, store.ErrClosed):
		d.close()
		d.unwritten++
		d.ground(f)
		return nil
	case errors.Is(err, store.ErrUnknown):
		// It may stand, with events that were never handed over (N1). Writing it
		// again is safe: the guard turns a second one away.
		d.doubt(f, now)
	}
	d.rewriteLater(f)
	return f.err
}

func (d *Dispatcher) rewriteLater(f *flight) {
	wait := min(firstRewrite<<min(f.writes, 10), mostRewrite)
	if d.phase >= phaseDraining {
		wait = min(wait, mostDrainRewrite)
	}
	f.writes++
	d.rewrites[f] = time.AfterFunc(wait, func() {
		d.mu.Lock()
		delete(d.rewrites, f)
		d.mu.Unlock()
		d.submit(f)
	})
}

// hurryRewrites takes over the writes that wait; the caller submits them.
func (d *Dispatcher) hurryRewrites() (flights []*flight) {
	for f, timer := range d.rewrites {
		if timer.Stop() {
			delete(d.rewrites, f)
			flights = append(flights, f)
		}
	}
	return flights
}

// doubt distrusts the lanes that an outcome of unknown commit touches.
func (d *Dispatcher) doubt(f *flight, now time.Time) {
	d.distrust(f.lane.key, now)
	for i := range f.record.Emit {
		for _, t := range f.record.Emit[i].Targets {
			d.distrust(t.Endpoint, now)
		}
	}
}

// finish takes a written outcome out of the out-set (N10).
func (d *Dispatcher) finish(f *flight, now time.Time) {
	l, ref := f.lane, f.it.work.Ref
	for _, r := range d.active {
		if r.lane == l {
			r.moved = append(r.moved, ref)
		}
	}
	d.tell(f)
	switch {
	case !f.result.Applied && !f.result.Absorbed:
		// The delivery moved on without us; it may be due again, unseen because
		// it stood in the out-set.
		l.distrust()
		if f.moves {
			d.owedGates[f.gateKey] = struct{}{}
		}
		d.lostProbe(ref)
	case f.record.Status == contract.StatusPending:
		l.expect(f.record.NextAt)
	}
	d.progress = now
	d.ground(f)
	d.review(l, now)
}
