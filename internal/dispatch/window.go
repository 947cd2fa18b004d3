package dispatch

import (
	"slices"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// place says where a delivery of the out-set is.
type place int

const (
	placeWindow  place = iota // due, waits for its turn
	placePending              // fresh, waits for the end of a read
	placeFlight               // its attempt runs, or its outcome is on its way to the store
)

// item is a delivery in the out-set.
type item struct {
	work  store.Work
	lane  *lane
	place place
	// charged are the bytes of payload charged to the hand-over budget.
	charged int
	// canceled: a caller ended it. In a window it is out of the out-set already
	// and only waits to be popped.
	canceled bool
	// passes: a person asked for it, and its contract lets it pass a gate.
	passes bool
	// came is when it came into memory.
	came time.Time
}

func (it *item) seat() webhook.Ref { return seatOf(&it.work) }

// queue holds a lane's due deliveries in the order due, position. Nearly all are
// put in at the end.
type queue struct {
	buf  []*item
	head int
}

func (q *queue) len() int     { return len(q.buf) - q.head }
func (q *queue) first() *item { return q.buf[q.head] }

func (q *queue) pop() *item {
	it := q.buf[q.head]
	q.buf[q.head] = nil
	q.head++
	if q.head == len(q.buf) {
		q.head = 0
		q.buf = q.buf[:0]
		if cap(q.buf) > smallQueue {
			q.buf = nil // a lane that was busy once does not keep its room for ever
		}
	}
	return it
}

const smallQueue = 512

func (q *queue) insert(it *item) {
	if q.head > 0 && len(q.buf) == cap(q.buf) {
		n := copy(q.buf, q.buf[q.head:])
		clear(q.buf[n:])
		q.buf, q.head = q.buf[:n], 0
	}
	q.buf = append(q.buf, it)
	i := len(q.buf) - 1
	for ; i > q.head && it.before(q.buf[i-1]); i-- {
		q.buf[i] = q.buf[i-1]
	}
	q.buf[i] = it
}

// last takes the last one out.
func (q *queue) last() *item {
	it := q.buf[len(q.buf)-1]
	q.remove(it)
	return it
}

// find returns the first one that is wanted; nil without one.
func (q *queue) find(wanted func(*item) bool) *item {
	for _, it := range q.buf[q.head:] {
		if wanted(it) {
			return it
		}
	}
	return nil
}

// remove takes one out of the middle. It is for the few that go out of turn.
func (q *queue) remove(it *item) {
	for i := len(q.buf) - 1; i >= q.head; i-- {
		if q.buf[i] == it {
			q.buf = slices.Delete(q.buf, i, i+1)
			return
		}
	}
}

func (it *item) before(other *item) bool {
	if it.work.Due.Equal(other.work.Due) {
		return it.work.Ref < other.work.Ref
	}
	return it.work.Due.Before(other.work.Due)
}

// windowRows is how many rows a lane may hold. Many busy lanes together get
// smaller windows, so that memory does not grow with their number; a few that
// work off a backlog get larger ones, since each read brings the rows in flight
// once more.
func (d *Dispatcher) windowRows(l *lane) int {
	switch n := len(d.out); {
	case n > crowded:
		return min(d.cfg.WindowRows, crowdedRows)
	case l.backlog && n < roomy:
		return d.cfg.WindowRows * backlogFactor
	default:
		return d.cfg.WindowRows
	}
}

// Deliveries in memory: below roomy there is room for large windows, above
// crowded for small ones only.
const (
	roomy         = 1 << 13
	crowded       = 1 << 16
	crowdedRows   = 16
	backlogFactor = 4
)

// low is the fill of a window at which it is read again.
func (d *Dispatcher) low(l *lane) int { return d.windowRows(l) / 4 }

// room tells whether a lane's window takes another fresh delivery.
func (d *Dispatcher) room(l *lane) bool {
	return l.window.len()+len(l.pending) < d.windowRows(l)
}

// admit takes a delivery into the out-set. The payload stays only within the
// budget; else it is read when sent (N5).
func (d *Dispatcher) admit(l *lane, w *store.Work, at place) *item {
	it := d.newItem()
	it.work, it.lane, it.place = *w, l, at
	if byPerson(w) {
		c := d.contractFor(l, w)
		it.passes = c != nil && c.PassesGate(w.Trigger)
	}
	if n := len(w.Data); n > 0 {
		if d.held+n > d.cfg.HandoverBytes {
			it.work.Data = nil
		} else {
			it.charged = n
			d.held += n
		}
	}
	d.out[w.Ref] = it
	l.outRows++
	l.outBytes += d.readSize(w)
	return it
}

// byPerson tells whether a person asked for a delivery just now: it goes before
// what waits, and passes gates.
func byPerson(w *store.Work) bool {
	return w.ByPerson || w.Trigger == contract.TriggerTest
}

// enqueue puts a delivery into its lane's window, in its order.
func (d *Dispatcher) enqueue(l *lane, it *item) {
	l.window.insert(it)
	if l.held != nil && l.window.first() == it {
		d.unhold(l) // the new head is asked
	}
}

// readSize is the payload that a window read would bring along for a delivery.
func (d *Dispatcher) readSize(w *store.Work) int {
	if w.DataSize > d.maxData() {
		return 0
	}
	return w.DataSize
}

// expel takes a delivery out of the out-set: it is finished, or the store has it.
func (d *Dispatcher) expel(it *item) {
	if d.out[it.work.Ref] != it {
		return
	}
	delete(d.out, it.work.Ref)
	it.lane.outRows--
	it.lane.outBytes -= d.readSize(&it.work)
	d.dropData(it)
}

// dropData gives the payload's bytes back to the budget.
func (d *Dispatcher) dropData(it *item) {
	d.held -= it.charged
	it.charged = 0
	it.work.Data = nil
}

// vacate empties what a lane holds in memory, but for what keep wants.
func (d *Dispatcher) vacate(l *lane, keep func(*item) bool) {
	stays := func(it *item) bool {
		if !it.canceled && keep(it) {
			return true
		}
		d.expel(it)
		d.recycle(it)
		return false
	}
	var kept queue
	for l.window.len() > 0 {
		if it := l.window.pop(); stays(it) {
			kept.insert(it)
		}
	}
	l.window = kept
	l.pending = slices.DeleteFunc(l.pending, func(it *item) bool { return !stays(it) })
	d.unhold(l)
}

// The free lists save an allocation per delivery; they are bounded so that a
// burst does not stay in memory.
const mostFree = 4096

func (d *Dispatcher) newItem() *item {
	if n := len(d.freeItems); n > 0 {
		it := d.freeItems[n-1]
		d.freeItems = d.freeItems[:n-1]
		return it
	}
	return &item{}
}

// recycle takes back an item that nothing refers to any more.
func (d *Dispatcher) recycle(it *item) {
	*it = item{}
	if len(d.freeItems) < mostFree {
		d.freeItems = append(d.freeItems, it)
	}
}

// revoked remembers for a minute or two which deliveries were canceled or erased
// before they were offered: their publisher may be slow to hand them over.
type revoked struct {
	young, old map[webhook.Ref]struct{}
	turned     time.Time
}

const revokedSpan = time.Minute

func (r *revoked) add(ref webhook.Ref, now time.Time) {
	r.turn(now)
	if r.young == nil {
		r.young = map[webhook.Ref]struct{}{}
	}
	r.young[ref] = struct{}{}
}

func (r *revoked) has(ref webhook.Ref, now time.Time) bool {
	if r.young == nil && r.old == nil {
		return false
	}
	r.turn(now)
	_, young := r.young[ref]
	_, old := r.old[ref]
	return young || old
}

func (r *revoked) turn(now time.Time) {
	switch age := now.Sub(r.turned); {
	case age >= 2*revokedSpan:
		r.young, r.old, r.turned = nil, nil, now
	case age >= revokedSpan:
		r.young, r.old, r.turned = nil, r.young, now
	}
}
