package dispatch

import (
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Offer hands over fresh deliveries right after the commit that accepted them.
// It never waits for anything. What finds no room stays in the store, and its
// lane is read. The slice is not kept, the payloads are: nobody may change them.
func (d *Dispatcher) Offer(works []store.Work) {
	if len(works) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	d.offerAll(works, false, now)
	d.dispatch(now)
}

// Reread distrusts what is in memory about these endpoints and reads their lanes
// from the store: for whoever accepted events and got store.ErrUnknown (N1).
func (d *Dispatcher) Reread(endpoints []webhook.EndpointKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	for _, key := range endpoints {
		d.distrust(key, now)
	}
	d.dispatch(now)
}

func (d *Dispatcher) distrust(key webhook.EndpointKey, now time.Time) {
	if l := d.lanes[key]; l != nil {
		l.distrust()
		d.review(l, now)
	}
}

// offerAll offers deliveries to their lanes. told: the store itself tells of them,
// in the order of its commits, so that none is old news.
func (d *Dispatcher) offerAll(works []store.Work, told bool, now time.Time) {
	if d.phase > phaseRunning || d.shut {
		return
	}
	for i := range works {
		if l := d.lanes[works[i].Endpoint]; l != nil {
			d.offer(l, &works[i], told, now)
			d.review(l, now)
		}
	}
}

// offer takes one delivery into memory if that overtakes nobody (N11), or if a
// person asked for it: that goes first in any case.
func (d *Dispatcher) offer(l *lane, w *store.Work, told bool, now time.Time) {
	switch {
	case store.IsParked(w.Due), l.skips(w):
		// It has no turn: that comes with the end of the one before it, or never.
	case w.Due.After(now):
		l.expect(w.Due)
	case !told && d.revoked.has(w.Ref, now):
		l.distrust() // what became of it is in the store
	case d.out[w.Ref] != nil:
		// It is here already. If this is another round of it, the outcome of the
		// present one is superseded, and the lane is read then.
	case d.phase != phaseRunning:
		l.distrust()
	case !told && w.Ref <= l.seen:
		// A read began after its commit and has accounted for it: it is in the
		// out-set, or finished, or due later, or the lane is incomplete. Only a
		// new round of an old delivery is news.
		if w.Round > 1 || w.Rows > 0 {
			l.distrust()
		}
	case !l.endpoint.On() && w.Trigger != contract.TriggerTest:
	case byPerson(w):
		d.urge(l, w, now)
	case l.endpoint.CatchingUp:
		l.distrust() // its place is behind what catches up
	case !d.room(l):
		l.distrust()
		l.expect(w.Due)
	case l.reading != nil:
		l.pending = append(l.pending, d.take(l, w, placePending, now))
	case l.complete && !l.behind(now):
		d.enqueue(l, d.take(l, w, placeWindow, now))
	default:
		l.distrust()
	}
}

// urge takes what a person asked for into the window, full or not: the last one
// there makes room.
func (d *Dispatcher) urge(l *lane, w *store.Work, now time.Time) {
	d.enqueue(l, d.take(l, w, placeWindow, now))
	if l.window.len() <= 2*d.windowRows(l) {
		return
	}
	l.distrust()
	it := l.window.last()
	l.expect(it.work.Due)
	if !it.canceled {
		d.expel(it)
	}
	d.recycle(it)
}

// take is admit for what is handed over.
func (d *Dispatcher) take(l *lane, w *store.Work, at place, now time.Time) *item {
	it := d.admit(l, w, at)
	it.came = now
	return it
}
