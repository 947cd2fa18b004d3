package dispatch

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// mostParked bounds the workers that wait for work with their grown stacks;
// further ones end when they have nothing to do.
const mostParked = 256

// The rest of a lane after a fault of our own: doubling from first to most.
const (
	firstRest = time.Second
	mostRest  = time.Minute
)

// seat gives a flight to a parked worker, else to a new one.
func (d *Dispatcher) seat(f *flight) {
	if n := len(d.parked); n > 0 {
		waiting := d.parked[n-1]
		d.parked = d.parked[:n-1]
		waiting <- f
		return
	}
	go d.work(f)
}

// work runs flights one after another: whoever ends one picks the next itself.
func (d *Dispatcher) work(f *flight) {
	seat := make(chan *flight, 1)
	for f != nil {
		d.run(f)
		next, parks, writes := d.land(f, seat)
		if writes {
			d.judge(f)
			d.write(f)
		}
		if parks {
			next = <-seat // closed by Drain
		}
		f = next
	}
}

// run is a flight's turn, up to its outcome.
func (d *Dispatcher) run(f *flight) {
	switch f.verdict {
	case contract.EndMissing:
		f.how = howMissing
		return
	case contract.EndExpired:
		f.how = howExpired
		return
	case joinLine:
		f.how = howJoined
		return
	case contract.Try, contract.Drop, contract.Hold, contract.WaitForTime:
	}
	if !d.load(f) {
		return
	}
	if f.lane.epoch.Load() != f.epoch && !d.still(f) {
		f.how = howWithdrawn
		return
	}
	f.how = howTried
	if d.attempts.Err() != nil {
		f.outcome = webhook.Outcome{Kind: webhook.KindNetwork, Fault: webhook.FaultShutdown} // it never began
		return
	}
	if f.contract == nil {
		f.outcome = unprepared("The contract of this delivery is not known to this server.")
		return
	}
	d.shoot(f)
	if f.outcome.Delivered() {
		f.dec = d.after(f, contract.Answer{StatusCode: f.outcome.StatusCode}) // whatever became of the endpoint
	}
}

// load reads the payload if it is not in memory (N5).
func (d *Dispatcher) load(f *flight) bool {
	if !needsLoad(f.it) {
		return true
	}
	data, err := d.cfg.Store.LoadData(d.attempts, f.it.work.Ref)
	switch {
	case errors.Is(err, store.ErrNotFound):
		f.how = howMissing
		return false
	case err != nil:
		f.how = howUnread
		if d.attempts.Err() == nil {
			d.cfg.Log.Warn("reading a payload went wrong, the lane rests",
				slog.String("delivery", f.it.work.DeliveryID), slog.Any("error", err))
		}
		return false
	}
	f.it.work.Data = data
	return true
}

// still asks again, right before the attempt, whether it may begin: the lane
// changed after it was picked.
func (d *Dispatcher) still(f *flight) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := f.lane
	if f.it.canceled || l.barred > 0 || d.before(f.contract, l, &f.it.work, d.now()) != contract.Try {
		return false
	}
	if f.role == roleNone && d.gateOf(l, f.contract) != nil {
		return false
	}
	f.endpoint, f.epoch = l.endpoint, l.epoch.Load()
	return true
}

// shoot makes the attempt. A panic in it fails this delivery, not the process.
func (d *Dispatcher) shoot(f *flight) {
	defer func() {
		if cause := recover(); cause != nil {
			// The value may hold anything, a secret too: its type and the frames
			// must do.
			d.cfg.Log.Error("an attempt panicked, it counts as failed",
				slog.String("delivery", f.it.work.DeliveryID),
				slog.String("endpoint", f.endpoint.ID),
				slog.String("panic", fmt.Sprintf("%T", cause)),
				slog.Any("frames", frames()))
			f.outcome = unprepared("An internal error kept the request from being made.")
		}
	}()
	f.outcome = d.cfg.Send.Attempt(d.attempts, Shot{
		Work: &f.it.work, Endpoint: f.endpoint, Contract: f.contract, Try: f.it.work.Attempts + 1,
	})
}

func unprepared(text string) webhook.Outcome {
	return webhook.Outcome{Kind: webhook.KindNetwork, Fault: webhook.FaultPrepare, Phase: webhook.PhaseInternal, Message: text}
}

// frames lists where a panic came from, without arguments.
func frames() []string {
	pcs := make([]uintptr, 24)
	found := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	var out []string
	for {
		fr, more := found.Next()
		out = append(out, fr.Function+":"+strconv.Itoa(fr.Line))
		if !more {
			return out
		}
	}
}

// land takes a flight off the wire and picks the worker's next one. parks: wait
// at the seat instead. writes: the outcome is to be judged and written.
func (d *Dispatcher) land(f *flight, seat chan *flight) (next *flight, parks, writes bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	l := f.lane
	d.takeDown(f)
	concluded := d.conclude(f, now)
	d.leaveGate(f, concluded, now)
	writes = d.disposeOf(f, now)
	d.review(l, now)
	if d.starved != nil {
		d.feed(now)
	}
	next = d.pick(now)
	if next == nil && d.phase == phaseRunning && !d.shut && len(d.parked) < mostParked {
		d.parked = append(d.parked, seat)
		parks = true
	}
	d.startReaders()
	d.checkIdle()
	return next, parks, writes
}

// takeDown frees what only a request under way needs.
func (d *Dispatcher) takeDown(f *flight) {
	if f.wired {
		f.wired = false
		f.lane.onWire--
		d.onWire--
	}
	d.loaded -= f.loaded
	d.young.remove(f)
	f.late = f.marking
	f.deleted = f.lane.deleted
	f.state = f.lane.endpoint.State
}

// conclude asks the contract what a try's outcome means, before anything else of
// the lane starts: what it does to the lane and to its gate is true at once. An
// outcome whose fault was ours is none.
func (d *Dispatcher) conclude(f *flight, now time.Time) bool {
	o := &f.outcome
	if f.how != howTried || o.Fault == webhook.FaultShutdown || o.Fault == webhook.FaultHandles {
		return false
	}
	a := contract.Answer{Kind: o.Kind, StatusCode: o.StatusCode, RetryAfter: o.RetryAfter}
	if o.Fault != webhook.FaultNone && a.Kind == contract.KindNone {
		a.Kind = contract.KindNetwork
	}
	if a.Kind != contract.KindNone { // else shoot has led to the decision already
		f.record.Now = d.cfg.Clock.Wall()
		f.dec = d.after(f, a)
	}
	f.nextAt = d.nextAt(f.dec, now)
	d.moveGate(f, a, now)
	if f.it.work.Trigger != contract.TriggerTest {
		f.lane.adapt(a.Kind == contract.KindNone)
	}
	d.foresee(f)
	return true
}

// foresee keeps the lane from starting anything until the outcome is written, if
// that will switch the endpoint off. The store decides; this only sees it coming.
func (d *Dispatcher) foresee(f *flight) {
	l := f.lane
	off := f.dec.Disable
	if f.contract != nil && f.dec.Health && f.outcome.Fault == webhook.FaultNone {
		if f.dec.Status == contract.StatusDelivered {
			l.well()
		} else {
			h := l.health()
			turn := f.contract.Judge(*h, false, f.record.Now, d.cfg.TimeLapse)
			*h = turn.After
			off = off || turn.Became == contract.BecamePaused || turn.Became == contract.BecameDisabled
		}
	}
	if off {
		f.bars = true
		l.barred++
		l.epoch.Add(1)
	}
}

// disposeOf tells whether a flight has an outcome to write. Faults of our own are
// no attempt: the delivery goes back to its place and the lane rests (N18 bounds
// the rest), or the store keeps it for the next process.
func (d *Dispatcher) disposeOf(f *flight, now time.Time) (writes bool) {
	switch f.how {
	case howMissing, howExpired, howInterrupted, howJoined:
		return d.holds(f)
	case howWithdrawn:
		f.lane.distrust()
		d.ground(f)
		return false
	case howUnread:
		d.putBack(f, now)
		return false
	case howTried:
	}
	switch f.outcome.Fault {
	case webhook.FaultNone, webhook.FaultPrepare:
		f.lane.rests = 0
		return d.holds(f)
	case webhook.FaultShutdown:
		if d.cut && !f.outcome.StartedAt.IsZero() {
			f.how = howInterrupted
			return d.holds(f)
		}
	case webhook.FaultHandles:
	}
	d.putBack(f, now)
	return false
}

// holds keeps a flight for its write, without the payload.
func (d *Dispatcher) holds(f *flight) bool {
	d.dropData(f.it)
	f.loaded = 0
	return true
}

// putBack returns a delivery that was not tried to its lane and lets the lane
// rest. The rest doubles once for all attempts that meet the same trouble.
func (d *Dispatcher) putBack(f *flight, now time.Time) {
	l, it := f.lane, f.it
	if d.phase == phaseRunning && !now.Before(l.restUntil) {
		l.restUntil = now.Add(d.lapse(min(firstRest<<min(l.rests, 6), mostRest)))
		l.rests++
	}
	if f.loaded > 0 {
		it.work.Data = nil
	}
	if d.phase != phaseRunning || !l.on() || it.canceled {
		l.distrust()
		d.ground(f)
		return
	}
	f.it = nil
	it.place = placeWindow
	d.enqueue(l, it)
	d.ground(f)
}
