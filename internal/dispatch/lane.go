package dispatch

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// lane is one endpoint's queue as far as it is in memory. The dispatcher's mutex
// guards it, but for epoch.
type lane struct {
	key webhook.EndpointKey
	// endpoint is a snapshot that nobody changes; Apply puts another in its place.
	endpoint *webhook.Endpoint
	deleted  bool
	// epoch rises whenever an attempt that was picked, but not yet begun, must
	// look again whether it still may go out.
	epoch atomic.Uint64

	window queue
	// pending are fresh deliveries that came while a read was under way: they
	// join the window when that read came back short (N11).
	pending []*item
	// onWire counts requests under way; outRows and outBytes what a read of this
	// lane will find although it is in the out-set.
	onWire, outRows, outBytes int

	// complete: memory holds all that is due (N11). dirty: something became due
	// in the store alone while a read was under way, so that one proves nothing.
	// backlog: the last read was not short.
	complete, dirty, backlog bool
	reading                  *read
	// nextDue is the earliest due time among what is not in memory, as far as
	// known; exact when complete.
	nextDue time.Time
	// seen is the highest position that a read returned. Positions rise in the
	// order of commits, so whatever was accepted at or below it was committed
	// before that read and needs no hand-over: its offer is only late.
	seen      webhook.Ref
	readAt    time.Time // no read before
	readFails int

	restUntil time.Time // no attempt before: our own fault, not the endpoint's
	rests     int
	// barred counts outcomes on their way to the store that switch the endpoint
	// off.
	barred  int
	starved bool
	// held is the gate that the head of the window stands before; nil for none.
	held *gate
	keys *gateKeys
	// pace is the adaptive limit (N18).
	pace int
	// marks are the endpoint's last ones, also when all their rows are written: a
	// read or an offer may be older. A mark stays true, since its seats are given
	// once.
	marks []webhook.Skip
	// standing is the endpoint's health as far as this process has seen it; nil
	// while that is as the endpoint's snapshot says.
	standing *contract.Standing

	inReady, inReads bool
	alarm            alarm

	// The last contract that was looked up, since a lane rarely has two.
	contractName, contractRevision string
	contract                       *contract.Contract
}

func newLane(e *webhook.Endpoint) *lane {
	l := &lane{key: e.Key, pace: firstPace}
	l.alarm.lane = l
	l.set(e)
	return l
}

// set puts an endpoint's snapshot in place.
func (l *lane) set(e *webhook.Endpoint) {
	l.endpoint = e
	for _, s := range e.Skips {
		if !slices.ContainsFunc(l.marks, func(m webhook.Skip) bool { return m.First == s.First && m.Before == s.Before }) {
			l.marks = append(l.marks, s)
		}
	}
	if n := len(l.marks) - max(mostMarks, len(e.Skips)); n > 0 {
		l.marks = slices.Delete(l.marks, 0, n)
	}
}

// mostMarks is how many marks a lane remembers.
const mostMarks = 8

// firstPace is the adaptive limit of a lane that nothing is known of.
const firstPace = 8

// most is how many requests may be under way at once, however well all goes.
func (l *lane) most() int {
	if l.endpoint.MaxInFlight <= 0 {
		return webhook.DefaultMaxInFlight
	}
	return l.endpoint.MaxInFlight
}

// limit is how many requests may be under way at once now.
func (l *lane) limit() int { return min(l.pace, l.most()) }

// adapt doubles the limit after a success and halves it after a failure (N18): a
// receiver that is down meets one request at a time, one that is back no herd.
func (l *lane) adapt(delivered bool) {
	switch {
	case !delivered:
		l.pace = max(l.pace/2, 1)
	case l.pace < l.most():
		l.pace *= 2
	}
}

// health is the endpoint's standing, to be changed.
func (l *lane) health() *contract.Standing {
	if l.standing == nil {
		h := &l.endpoint.Health
		l.standing = &contract.Standing{
			FailuresInRow: h.FailuresInRow, FirstFailureAt: h.FirstFailureAt,
			LastSuccessAt: h.LastSuccessAt, LastAttemptAt: h.LastAttemptAt, DegradedUntil: h.DegradedUntil,
		}
	}
	l.standing.On = l.endpoint.On()
	return l.standing
}

// well notes a success in the standing.
func (l *lane) well() {
	if l.standing == nil && l.endpoint.Health.FailuresInRow == 0 {
		return
	}
	h := l.health()
	h.FailuresInRow, h.FirstFailureAt = 0, time.Time{}
}

// skips tells whether a mark on the endpoint ends a delivery (N17).
func (l *lane) skips(w *store.Work) bool {
	if len(l.marks) == 0 || w.Trigger == contract.TriggerTest {
		return false
	}
	seat := seatOf(w)
	return slices.ContainsFunc(l.marks, func(m webhook.Skip) bool { return seat >= m.First && seat < m.Before })
}

// seatOf is a delivery's place in the order of queueing.
func seatOf(w *store.Work) webhook.Ref {
	if w.Seat == 0 {
		return w.Ref
	}
	return w.Seat
}

// on tells whether the lane's deliveries may go out; tests pass even if not.
func (l *lane) on() bool { return !l.deleted && l.endpoint.On() }

// startable tells whether the head of the window may go out now.
func (l *lane) startable(now time.Time) bool {
	switch {
	case l.deleted, l.barred > 0, l.starved, l.window.len() == 0, l.onWire >= l.limit(), now.Before(l.restUntil):
		return false
	case !l.endpoint.On() && l.window.first().work.Trigger != contract.TriggerTest:
		return false
	default:
		return l.held == nil || (l.window.first().passes && !l.held.passing)
	}
}

// readable tells whether a read would help now or at readAt. low is the fill at
// which a window is read again.
func (l *lane) readable(low int) bool {
	return l.on() && !l.complete && l.reading == nil && !l.inReads && l.barred == 0 && l.window.len() <= low
}

// behind tells whether something that is not in memory is due.
func (l *lane) behind(now time.Time) bool {
	return !l.nextDue.IsZero() && !now.Before(l.nextDue)
}

// distrust says that the store has something due that memory has not.
func (l *lane) distrust() {
	l.complete = false
	l.dirty = true
}

// expect says that something outside memory becomes due at t.
func (l *lane) expect(t time.Time) {
	l.nextDue = earlier(l.nextDue, t)
	if l.reading != nil {
		l.reading.expected = earlier(l.reading.expected, t)
	}
}

// earlier returns the earlier of two times, where zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// contractFor finds the contract that a delivery was made under; nil if that is
// unknown.
func (d *Dispatcher) contractFor(l *lane, w *store.Work) *contract.Contract {
	if l.contract != nil && l.contractName == w.Contract && l.contractRevision == w.ContractRevision {
		return l.contract
	}
	c := d.cfg.Contracts(w.Contract, w.ContractRevision)
	l.contract, l.contractName, l.contractRevision = c, w.Contract, w.ContractRevision
	return c
}

// laneQueue is a queue of lanes; a lane stands in it once at most.
type laneQueue struct {
	buf  []*lane
	head int
	flag func(*lane) *bool
}

func (q *laneQueue) push(l *lane) {
	if standing := q.flag(l); !*standing {
		*standing = true
		q.buf = append(q.buf, l)
	}
}

// pop takes the first lane, nil when there is none.
func (q *laneQueue) pop() *lane {
	if q.head == len(q.buf) {
		return nil
	}
	l := q.buf[q.head]
	q.buf[q.head] = nil
	q.head++
	if q.head*2 >= len(q.buf) {
		n := copy(q.buf, q.buf[q.head:])
		clear(q.buf[n:])
		q.buf, q.head = q.buf[:n], 0
	}
	*q.flag(l) = false
	return l
}

func (q *laneQueue) len() int { return len(q.buf) - q.head }
