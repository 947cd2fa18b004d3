package dispatch

import (
	"context"
	"fmt"
	"time"
)

// drainTail is what a drain takes longer than its context at most: for cut
// attempts to return and their outcomes to be written.
const drainTail = 2 * time.Second

// Drain ends the dispatcher: no attempt starts any more, those under way finish
// until ctx ends. What still runs then is cut and recorded as interrupted, not
// counted, due at once. It returns as soon as every outcome is committed, and
// 2 s after the end of ctx at the latest, with an error that says what was not.
func (d *Dispatcher) Drain(ctx context.Context) error {
	for _, f := range d.beginDrain() {
		d.submit(f)
	}
	select {
	case <-d.idle:
	case <-ctx.Done():
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
