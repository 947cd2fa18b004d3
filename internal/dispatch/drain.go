package dispatch

import (
	"context"
	"fmt"
	"time"
)

const (
	// drainTail is how long cut attempts have to return and to be written.
	drainTail = 2 * time.Second
	// The cut comes so much before the end of a drain's time, a twentieth or a
	// second, that the process can exit within it (B50).
	drainShare  = 20
	mostCutLead = time.Second
)

// Drain ends the dispatcher: no attempt starts any more, those under way finish
// until shortly before the end of ctx. What still runs then is cut and recorded
// as interrupted, not counted, due at once. It returns as soon as every outcome
// is committed, and 2 s after the cut at the latest, with an error that says
// what was not.
func (d *Dispatcher) Drain(ctx context.Context) error {
	for _, f := range d.beginDrain() {
		d.submit(f)
	}
	grace, cancel := d.grace(ctx)
	defer cancel()
	select {
	case <-d.idle:
	case <-grace.Done():
		d.cutDown()
		tail := time.NewTimer(drainTail)
		defer tail.Stop()
		select {
		case <-d.idle:
		case <-tail.C:
		}
	}
	return d.stop()
}

// grace is the part of ctx in which attempts may go on.
func (d *Dispatcher) grace(ctx context.Context) (context.Context, context.CancelFunc) {
	end, bounded := ctx.Deadline()
	if !bounded {
		return context.WithCancel(ctx)
	}
	left := end.Sub(d.cfg.Clock.Now())
	return context.WithTimeout(ctx, left-min(left/drainShare, mostCutLead))
}

// beginDrain stops all starting, and returns outcomes to be written now.
func (d *Dispatcher) beginDrain() []*flight {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.phase < phaseDraining {
		d.phase = phaseDraining
		d.cutReads()
		if d.timer != nil {
			d.timer.Stop()
		}
		for _, seat := range d.parked {
			close(seat)
		}
		d.parked = nil
	}
	d.checkIdle()
	return d.hurryRewrites()
}

// checkIdle tells a drain that nothing is left to wait for.
func (d *Dispatcher) checkIdle() {
	if d.phase >= phaseDraining && d.inFlight == 0 && d.readers == 0 && !d.isIdle {
		d.isIdle = true
		close(d.idle)
	}
}

func (d *Dispatcher) cutDown() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cut = true
	d.cutAttempts()
}

func (d *Dispatcher) stop() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.phase = phaseStopped
	d.cutAll()
	if d.marking.timer != nil {
		d.marking.timer.Stop()
	}
	d.hurryRewrites() // too late for them
	if open := d.inFlight - d.onWire + d.unwritten; d.onWire > 0 || open > 0 {
		return fmt.Errorf("drain: %d attempts still run, %d outcomes are not written", d.onWire, open)
	}
	return nil
}
