package dispatch

import (
	"slices"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Apply brings lanes into line with a commit, before its caller is answered
// (N2). When it returns, no attempt starts that the change forbids or that would
// go to an old URL or bear old secrets; one already on the wire may end. It is
// called in the order of commits, from the store's writer, and does not wait.
func (d *Dispatcher) Apply(ch store.Change) {
	if ch.Endpoint == nil && ch.EndpointDeleted == 0 && len(ch.Canceled) == 0 && len(ch.Erased) == 0 && len(ch.Accepted) == 0 && ch.Contract == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	if ch.EndpointDeleted != 0 {
		d.remove(ch.EndpointDeleted)
	}
	if ch.Endpoint != nil {
		d.update(ch.Endpoint, now)
	}
	if ch.Contract != nil { // what is under way may follow another revision now
		for _, l := range d.lanes {
			l.contract = nil
			d.release(l, now)
		}
	}
	for _, ref := range ch.Canceled {
		d.cancel(ref, now)
	}
	for _, ref := range ch.Erased {
		d.erase(ref, now)
	}
	d.offerAll(ch.Accepted, true, now)
	d.dispatch(now)
}

// update puts an endpoint's new snapshot in place.
func (d *Dispatcher) update(e *webhook.Endpoint, now time.Time) {
	l := d.lanes[e.Key]
	if l == nil {
		// It is read once, empty as it should be, and so becomes complete.
		l = newLane(e)
		d.lanes[e.Key] = l
		d.review(l, now)
		return
	}
	was := l.endpoint
	moved := was.URL != e.URL
	marked := len(e.Skips) > 0 && !slices.Equal(e.Skips, was.Skips)
	if moved || !e.On() || marked {
		d.withdraw(l) // by the old URL
	}
	if moved {
		d.abandonURL(l)
	}
	l.set(e)
	l.epoch.Add(1)
	switch {
	case was.On() && !e.On():
		d.vacate(l, func(it *item) bool { return it.work.Trigger == contract.TriggerTest })
		l.distrust()
	case !was.On() && e.On():
		l.distrust()
		l.readAt, l.restUntil, l.rests = time.Time{}, time.Time{}, 0
		l.pace, l.standing = firstPace, nil
		d.letProbeOut(l)
	case marked:
		d.vacate(l, func(it *item) bool { return !l.skips(&it.work) })
	}
	if was.CatchingUp != e.CatchingUp {
		l.distrust()
		l.readAt = time.Time{}
	}
	if moved {
		d.unhold(l)
		d.letProbeOut(l)
	}
	d.review(l, now)
}

// remove forgets a deleted endpoint; the store ends its deliveries.
func (d *Dispatcher) remove(key webhook.EndpointKey) {
	l := d.lanes[key]
	if l == nil {
		return
	}
	d.withdraw(l)
	if len(d.gates) > 0 {
		if g := d.gates[l.gateKeys().own]; g != nil {
			d.dropGate(g) // nobody has this key any more
		}
	}
	d.abandonURL(l)
	delete(d.lanes, key)
	l.deleted = true
	l.epoch.Add(1)
	d.vacate(l, func(it *item) bool {
		d.untell(it.work.Ref)
		return false
	})
	d.setAlarm(&l.alarm, time.Time{})
}

// abandonURL drops the gate of a lane's URL if no other lane has it.
func (d *Dispatcher) abandonURL(l *lane) {
	if len(d.gates) == 0 {
		return
	}
	keys := l.gateKeys()
	g := d.gates[keys.url]
	if g == nil {
		return
	}
	for _, other := range d.lanes {
		if other != l && other.endpoint.Tenant == keys.endpoint.Tenant && other.endpoint.URL == keys.endpoint.URL {
			return
		}
	}
	d.dropGate(g)
}

// cancel keeps a delivery that a caller ended from going out.
func (d *Dispatcher) cancel(ref webhook.Ref, now time.Time) {
	for _, r := range d.active {
		r.moved = append(r.moved, ref)
	}
	d.lostProbe(ref)
	it := d.out[ref]
	if it == nil {
		d.untell(ref)
		d.revoked.add(ref, now)
		return
	}
	it.canceled = true
	if it.place == placeFlight {
		it.lane.epoch.Add(1)
		return
	}
	d.untell(ref)
	d.expel(it)
	if it.place == placeWindow && it.lane.window.first() == it {
		d.release(it.lane, now)
	}
}

// erase keeps a payload that was deleted from being sent. The delivery ends as
// event_missing when its turn comes.
func (d *Dispatcher) erase(ref webhook.Ref, now time.Time) {
	it := d.out[ref]
	if it == nil {
		d.revoked.add(ref, now)
		for _, r := range d.active { // one under way may bring the payload along
			r.moved = append(r.moved, ref)
			r.lane.dirty = true
		}
		return
	}
	it.work.Erased = true
	if it.place == placeFlight {
		it.lane.epoch.Add(1) // picked, perhaps not begun: it looks again
		return
	}
	d.dropData(it)
}
