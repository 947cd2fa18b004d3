package dispatch

import (
	"container/heap"
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
	d.setAlarm(l, wake)
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
		l := d.ready.pop()
		if l == nil {
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

// takeHead asks the rules before a try about the head of a startable lane.
func (d *Dispatcher) takeHead(l *lane, now time.Time) *flight {
	it := l.window.first()
	if it.canceled {
		l.window.pop()
		d.recycle(it)
		return nil
	}
	c := d.contractFor(l, &it.work)
	switch verdict := d.before(c, l, &it.work, now); verdict {
	case contract.Try:
		if d.starve(l, it) {
			return nil
		}
		return d.launch(l, c, verdict, now)
	case contract.EndMissing, contract.EndExpired:
		return d.launch(l, c, verdict, now)
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
	return c.Before(contract.Facts{
		Trigger:         w.Trigger,
		EndpointDeleted: l.deleted,
		EndpointOn:      l.on(),
		EventGone:       w.Erased,
		Due:             w.Due,
		ExpiresAt:       expires,
	}, now)
}

// launch moves the head of a lane into flight.
func (d *Dispatcher) launch(l *lane, c *contract.Contract, verdict contract.Verdict, now time.Time) *flight {
	it := l.window.pop()
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

// alarms is a heap of lanes by the time at which they must be reviewed.
type alarms []*lane

func (a alarms) Len() int           { return len(a) }
func (a alarms) Less(i, j int) bool { return a[i].wakeAt.Before(a[j].wakeAt) }
func (a alarms) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].alarm, a[j].alarm = i, j
}

// Push implements heap.Interface.
func (a *alarms) Push(x any) {
	l := x.(*lane)
	l.alarm = len(*a)
	*a = append(*a, l)
}

// Pop implements heap.Interface.
func (a *alarms) Pop() any {
	last := len(*a) - 1
	l := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	l.alarm = -1
	return l
}

// setAlarm plans a lane's review; zero plans none.
func (d *Dispatcher) setAlarm(l *lane, at time.Time) {
	switch {
	case at.IsZero():
		if l.alarm >= 0 {
			heap.Remove(&d.alarms, l.alarm)
		}
		return
	case l.alarm < 0:
		l.wakeAt = at
		heap.Push(&d.alarms, l)
	case !l.wakeAt.Equal(at):
		l.wakeAt = at
		heap.Fix(&d.alarms, l.alarm)
	}
	d.arm()
}

// arm sets the one timer to the earliest alarm. A timer that is set too early
// does no harm; it is set again when it fires.
func (d *Dispatcher) arm() {
	if len(d.alarms) == 0 {
		return
	}
	at := d.alarms[0].wakeAt
	if !d.armed.IsZero() && !at.Before(d.armed) {
		return
	}
	d.armed = at
	wait := max(at.Sub(d.now()), 0)
	if d.timer == nil {
		d.timer = time.AfterFunc(wait, d.ring)
	} else {
		d.timer.Reset(wait)
	}
}

// ring reviews the lanes whose alarm is due.
func (d *Dispatcher) ring() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armed = time.Time{}
	if d.phase != phaseRunning {
		return
	}
	now := d.now()
	for len(d.alarms) > 0 && !now.Before(d.alarms[0].wakeAt) {
		l := d.alarms[0]
		heap.Pop(&d.alarms)
		d.review(l, now)
	}
	d.arm()
	d.dispatch(now)
}
