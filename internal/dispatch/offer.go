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
	d.offerAll(works, now)
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

func (d *Dispatcher) offerAll(works []store.Work, now time.Time) {
	if d.phase > phaseRunning || d.shut {
		return
	}
	for i := range works {
		if l := d.lanes[works[i].Endpoint]; l != nil {
			d.offer(l, &works[i], now)
			d.review(l, now)
		}
	}
}

// offer takes one fresh delivery into memory if that overtakes nobody (N11).
func (d *Dispatcher) offer(l *lane, w *store.Work, now time.Time) {
	known := d.out[w.Ref]
	switch {
	case w.Due.After(now):
		l.expect(w.Due)
	case d.revoked.has(w.Ref, now):
		l.distrust() // what became of it is in the store
	case known != nil:
		// It is here already. If this is another round of it, the outcome of the
		// present one is superseded, and the lane is read then.
	case d.phase != phaseRunning:
		l.distrust()
	case w.Ref <= l.seen:
		// A read began after its commit and has accounted for it: it is in the
		// out-set, or finished, or due later, or the lane is incomplete. Only a
		// new round of an old delivery is news.
		if w.Round > 1 || w.Rows > 0 {
			l.distrust()
		}
	case !l.endpoint.On():
		if w.Trigger == contract.TriggerTest && d.room(l) {
			l.window.insert(d.admit(l, w, placeWindow))
		}
	case !d.room(l):
		l.distrust()
		l.expect(w.Due)
	case l.reading != nil:
		l.pending = append(l.pending, d.admit(l, w, placePending))
	case l.complete && !l.behind(now):
		l.window.insert(d.admit(l, w, placeWindow))
	default:
		l.distrust()
	}
}
