package dispatch

import (
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
)

// readGap is the least time between two reads of a lane that its due times or
// stray offers ask for: retries that become due one by one are read together.
const readGap = 5 * time.Millisecond

// review brings a lane's places in the ready queue, the read queue and the heap
// of alarms into line with its state. Whoever changes a lane calls it.
func (d *Dispatcher) review(l *lane, now time.Time) {
	if d.phase != phaseRunning || d.shut {
		return
	}
	if l.complete && l.behind(now) {
		l.complete = false
	}
	if l.startable(now) {
		d.ready.push(l)
	}
	var wake time.Time
	switch {
	case l.readable(d.low(l)):
		if now.Before(l.readAt) {
			wake = l.readAt
		} else {
			d.readQueue.push(l)
		}
	case l.complete && l.on():
		wake = l.nextDue
	}
	if l.window.len() > 0 && now.Before(l.restUntil) {
		wake = earlier(wake, l.restUntil)
	}
	d.setAlarm(&l.alarm, wake)
}

// dispatch starts what can start: attempts and reads.
func (d *Dispatcher) dispatch(now time.Time) {
	for f := d.pick(now); f != nil; f = d.pick(now) {
		d.seat(f)
	}
	d.startReaders()
}

// pick takes the next delivery that goes out: the ready lanes in turn, one each,
// so that none takes all slots while others wait. nil: nothing can start. What
// ends without a try needs a slot too, until that is written.
func (d *Dispatcher) pick(now time.Time) *flight {
	for d.phase == phaseRunning && !d.shut && d.inFlight < d.cfg.Slots {
		if len(d.dueProbes) > 0 {
			if f := d.pickProbe(now); f != nil {
				return f
			}
		}
		l := d.ready.pop()
		if l == nil {
			if len(d.dueProbes) > 0 {
				continue
			}
			return nil
		}
		if !l.startable(now) {
			continue
		}
		f := d.takeHead(l, now)
		d.review(l, now)
		if f != nil {
			return f
		}
	}
	return nil
}

// joinLine is the turn of a delivery that takes its place in the line of its key
// now (N15): a verdict of the lane's own, which no contract gives.
const joinLine contract.Verdict = "join"

// takeHead asks the rules before a try about the head of a startable lane.
func (d *Dispatcher) takeHead(l *lane, now time.Time) *flight {
	it := l.window.first()
	d.unhold(l) // it, or the one after it, is asked anew
	if it.canceled {
		l.window.pop()
		d.recycle(it)
		return nil
	}
	c := d.contractFor(l, &it.work)
	switch verdict := d.before(c, l, &it.work, now); verdict {
	case contract.Try:
		if it.work.Joins {
			return d.launch(l, l.window.pop(), c, joinLine, now)
		}
		g, role, held := d.askGate(l, c, it, now)
		if held || d.starve(l, it) {
			return nil
		}
		f := d.launch(l, l.window.pop(), c, verdict, now)
		f.enter(g, role)
		return f
	case contract.EndMissing, contract.EndExpired:
		return d.launch(l, l.window.pop(), c, verdict, now)
	case contract.WaitForTime:
		l.expect(it.work.Due)
	case contract.Hold:
		l.distrust()
	case contract.Drop:
	}
	l.window.pop()
	d.expel(it)
	d.recycle(it)
	return nil
}

// before asks the contract's rules before a try. A contract that is unknown
// here has the same ones; the attempt then fails by itself.
func (d *Dispatcher) before(c *contract.Contract, l *lane, w *store.Work, now time.Time) contract.Verdict {
	if c == nil {
		c = &contract.Contract{}
	}
	expires := w.ExpiresAt
	if !expires.IsZero() {
		expires = d.cfg.Clock.OnDueClock(expires) // a caller's wall time (N20)
	}
	verdict := c.Before(contract.Facts{
		Trigger:         w.Trigger,
		EndpointDeleted: l.deleted,
		EndpointOn:      l.on(),
		EventGone:       w.Erased,
		Skipped:         l.skips(w),
		Due:             w.Due,
		ExpiresAt:       expires,
	}, now)
	if verdict == contract.Try && !l.on() && !c.Test.WhileOff {
		return contract.Hold // a test that does not pass
	}
	return verdict
}

// launch puts a delivery that was taken out of its lane's window into flight.
func (d *Dispatcher) launch(l *lane, it *item, c *contract.Contract, verdict contract.Verdict, now time.Time) *flight {
	it.place = placeFlight
	f := d.newFlight()
	f.it, f.lane, f.endpoint, f.contract = it, l, l.endpoint, c
	f.verdict, f.epoch, f.started = verdict, l.epoch.Load(), now
	d.inFlight++
	if verdict == contract.Try {
		f.wired = true
		l.onWire++
		d.onWire++
		if needsLoad(it) {
			f.loaded = it.work.DataSize
			d.loaded += f.loaded
		}
		d.watch(f, now)
	}
	return f
}

func needsLoad(it *item) bool { return it.work.Data == nil && it.work.DataSize > 0 }

// starve sets a lane aside while the payloads read for attempts under way fill
// their budget (N5). One may always be read, however large.
func (d *Dispatcher) starve(l *lane, it *item) bool {
	if !needsLoad(it) || d.loaded == 0 || d.loaded+it.work.DataSize <= d.cfg.HandoverBytes {
		return false
	}
	l.starved = true
	d.starved = append(d.starved, l)
	return true
}

// feed lets starved lanes try again after payload was given back.
func (d *Dispatcher) feed(now time.Time) {
	hungry := d.starved
	d.starved = nil
	for _, l := range hungry {
		l.starved = false
		d.review(l, now)
	}
}
