package dispatch

import (
	"container/heap"
	"time"
)

// alarm is the time at which a lane, or a gate, must be looked at again.
type alarm struct {
	at    time.Time
	index int // in the heap, from 1; 0 outside
	lane  *lane
	gate  *gate
}

// alarms is a heap of alarms by their time.
type alarms []*alarm

func (a alarms) Len() int           { return len(a) }
func (a alarms) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a alarms) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = i+1, j+1
}

// Push implements heap.Interface.
func (a *alarms) Push(x any) {
	al := x.(*alarm)
	*a = append(*a, al)
	al.index = len(*a)
}

// Pop implements heap.Interface.
func (a *alarms) Pop() any {
	last := len(*a) - 1
	al := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	al.index = 0
	return al
}

// setAlarm plans a look; zero plans none.
func (d *Dispatcher) setAlarm(al *alarm, at time.Time) {
	switch {
	case at.IsZero():
		if al.index > 0 {
			heap.Remove(&d.alarms, al.index-1)
		}
		return
	case al.index == 0:
		al.at = at
		heap.Push(&d.alarms, al)
	case !al.at.Equal(at):
		al.at = at
		heap.Fix(&d.alarms, al.index-1)
	}
	d.arm()
}

// arm sets the one timer to the earliest alarm. A timer that is set too early
// does no harm; it is set again when it fires.
func (d *Dispatcher) arm() {
	if len(d.alarms) == 0 {
		return
	}
	at := d.alarms[0].at
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

// ring looks at the lanes and gates whose alarm is due.
func (d *Dispatcher) ring() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armed = time.Time{}
	if d.phase != phaseRunning {
		return
	}
	now := d.now()
	for len(d.alarms) > 0 && !now.Before(d.alarms[0].at) {
		al := heap.Pop(&d.alarms).(*alarm)
		if al.gate != nil {
			d.queueProbe(al.gate)
		} else {
			d.review(al.lane, now)
		}
	}
	d.arm()
	d.dispatch(now)
}
