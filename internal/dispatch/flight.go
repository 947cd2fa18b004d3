package dispatch

import (
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// how says how a flight's turn at a worker ended.
type how int

const (
	howTried       how = iota // an attempt was made: outcome says what came of it
	howMissing                // the event or its payload is gone
	howExpired                // expires_at has passed
	howWithdrawn              // the lane changed before the attempt began
	howUnread                 // the payload could not be read: our own fault
	howInterrupted            // cut by the end of the process
	howJoined                 // no try: it takes its place in the line of its key
)

// flight is a delivery that uses one of the node's slots, from the moment it is
// picked until the commit of its outcome is known. Flights are used again.
type flight struct {
	it       *item
	lane     *lane
	endpoint *webhook.Endpoint
	contract *contract.Contract
	verdict  contract.Verdict
	// epoch is the lane's when the flight was picked.
	epoch   uint64
	started time.Time
	// wired: it counts as a request under way. loaded are the bytes of payload
	// read for it.
	wired  bool
	loaded int

	how     how
	outcome webhook.Outcome
	// dec is what the contract says of the outcome, nextAt when the next try is.
	dec    contract.Decision
	nextAt time.Time
	// gate and role: it goes out although the gate is closed. moves: its record
	// bears how the gate gateKey is.
	gate    *gate
	role    gateRole
	moves   bool
	gateKey webhook.GateKey
	// The endpoint as it stood right after the try.
	state   webhook.EndpointState
	deleted bool

	attempt webhook.Attempt
	record  store.RecordParams
	// bars: the lane starts nothing until this outcome is written.
	bars bool
	// marked is a restart's leftover, not an attempt of this process.
	marked bool

	// done and raise are made once and given to each Record; result and err are
	// what done got.
	done   func(store.RecordResult, error)
	raise  func(string, *webhook.Endpoint) (store.AcceptParams, bool)
	result store.RecordResult
	err    error
	writes int // writes that went wrong so far

	// marking: MarkRunning is under way for it, and was when it landed (late):
	// its outcome is then written after the mark (N14), when it waits for that.
	marking, late, waits bool
	list                 *flightList
	prev, next           *flight
}

func (d *Dispatcher) newFlight() *flight {
	if n := len(d.freeFlights); n > 0 {
		f := d.freeFlights[n-1]
		d.freeFlights = d.freeFlights[:n-1]
		return f
	}
	f := &flight{}
	f.done = func(result store.RecordResult, err error) { d.settled(f, result, err) }
	f.raise = func(eventType string, after *webhook.Endpoint) (store.AcceptParams, bool) {
		return d.raiseAbout(f, eventType, after)
	}
	return f
}

// ground ends a flight: its slot is free, its delivery out of the out-set.
func (d *Dispatcher) ground(f *flight) {
	d.inFlight--
	if f.bars {
		f.lane.barred--
	}
	if f.marked {
		d.startWait--
		if d.startWait == 0 {
			close(d.started)
		}
	}
	if f.it != nil {
		d.expel(f.it)
		d.recycle(f.it)
	}
	*f = flight{done: f.done, raise: f.raise}
	if len(d.freeFlights) < d.cfg.Slots {
		d.freeFlights = append(d.freeFlights, f)
	}
}

// flightList is a list of flights in the order of their start.
type flightList struct{ head, tail *flight }

func (q *flightList) add(f *flight) {
	f.list, f.prev, f.next = q, q.tail, nil
	if q.tail == nil {
		q.head = f
	} else {
		q.tail.next = f
	}
	q.tail = f
}

func (q *flightList) remove(f *flight) {
	if f.list != q {
		return
	}
	if f.prev == nil {
		q.head = f.next
	} else {
		f.prev.next = f.next
	}
	if f.next == nil {
		q.tail = f.prev
	} else {
		f.next.prev = f.prev
	}
	f.list, f.prev, f.next = nil, nil, nil
}
