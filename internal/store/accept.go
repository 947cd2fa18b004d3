package store

import (
	"context"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Acceptor takes events in.
type Acceptor interface {
	// Accept makes events and their deliveries durable in one commit, together
	// with whatever else waits for it, and returns one result per event in
	// order. Single events fail by themselves (Result.Err); the returned error
	// is for all of them: ErrOverloaded before anything was done, ErrUnknown
	// when the commit's outcome is not known.
	//
	// Within one call, too, an ID that occurs twice is a repeat or a conflict.
	Accept(ctx context.Context, events []AcceptParams) ([]AcceptResult, error)
}

// Target is an endpoint that an event matched, and the promise it was made under.
type Target struct {
	Endpoint         webhook.EndpointKey
	Contract         string
	ContractRevision string
	// Skip: the endpoint is off and its contract skips what comes meanwhile; the
	// delivery is written as skipped and never waits (P5).
	Skip bool
	// DegradedUntil is the end of the endpoint's mark; deliveries made before it
	// get the degraded schedule (E8). Zero without one.
	DegradedUntil time.Time
}

// Matched is what matching an event came to.
type Matched struct {
	Revision int64
	Targets  []Target
	// Keys says for each target by which key its delivery stands in line (E9); ""
	// for none. Nil when no delivery does.
	Keys []string
}

// DueAt is when deliveries of the event may go out, on the clock of due times.
func (p *AcceptParams) DueAt() time.Time {
	ready := p.Ready
	if ready.IsZero() {
		ready = p.Now
	}
	if wait := p.DeliverAt.Sub(p.Now); !p.DeliverAt.IsZero() && wait > 0 {
		return ready.Add(wait)
	}
	return ready
}

// AcceptParams is one event with its deliveries. Data passes to the store and to
// the lanes: the caller must not change it afterwards.
type AcceptParams struct {
	Tenant string
	// Revision of the tenant's subscriptions that Targets was matched with (N2).
	// Another one now: Rematch is asked, without one the result is ErrStale.
	Revision int64
	Targets  []Target
	Keys     []string // as in Matched
	// Rematch finds revision, targets and keys anew. The store calls it inside its
	// transaction, after it has told of every change before, so it must look
	// nowhere but in memory. An event that is matched outside may be too late each
	// time while subscriptions change without a break.
	Rematch func() Matched
	// ID is the caller's; "" lets the store make one. Only a caller's ID is
	// remembered (N3).
	ID          string
	Type        string
	Data        []byte
	ContentType string
	// CreatedAt is zero when the caller gave none: acceptance time then.
	CreatedAt   time.Time
	OrderingKey string
	DeliverAt   time.Time
	// ExpiresAt that has passed is ErrExpired, but for a repeat: its answer is the
	// first one's however late it comes (N3).
	ExpiresAt time.Time
	// Fingerprint is SHA-256 of the content as given; compared for a caller's ID.
	Fingerprint [32]byte
	// Trigger of the deliveries; "" is an event's.
	Trigger contract.Trigger
	// ByPerson: they go before what waits, and pass gates and lines, one at a time.
	ByPerson bool
	// Unlogged: a test whose contract keeps none (P9). Lists leave it out, and the
	// record of its end removes it with its event.
	Unlogged bool
	// Run is the ID of the run that the event tells of; "" for a plain event.
	Run string
	// Now stamps the acceptance, by the wall clock.
	Now time.Time
	// Ready is the same moment on the clock that due times run by (N20); zero
	// takes Now. DeliverAt is put onto that clock by its distance from Now.
	Ready time.Time
}

// AcceptResult is what came of one event.
type AcceptResult struct {
	// Err is nil for an accepted event and a repeat. ErrStale, ErrExpired,
	// ErrNotFound (the tenant is gone) or *ConflictError else.
	Err error
	ID  string
	// Deliveries made at the first acceptance.
	Deliveries int
	// Replayed is true for a repeat: nothing was written.
	Replayed bool
	// Fresh are the deliveries to hand over; empty for a repeat.
	Fresh []Work
}

// ConflictError tells that an ID was used for other content before.
type ConflictError struct {
	FirstAcceptedAt time.Time
}

// Error implements error.
func (*ConflictError) Error() string { return "the event ID was used for other content" }

// Work is a delivery that may have to be sent, with all that sending it needs.
type Work struct {
	Ref      webhook.Ref
	Endpoint webhook.EndpointKey
	Tenant   string
	// DeliveryID and EventID are the public IDs.
	DeliveryID string
	EventID    string
	Type       string
	CreatedAt  time.Time
	// Data is the payload, nil when it is not in memory: LoadData reads it (N5).
	Data []byte
	// DataSize is the payload's length in bytes, whether it is here or not.
	DataSize int
	// Erased is true when the payload was deleted.
	Erased           bool
	Contract         string
	ContractRevision string
	Trigger          contract.Trigger
	Round            int
	// Attempts counts the round's counted tries; Rows the log's rows over the
	// delivery's life; Interrupted the uncounted interruptions in a row (N14).
	Attempts    int
	Rows        int
	Interrupted int
	// Due is when it may go out. What goes before the rest of its lane (by a person,
	// or while the endpoint catches up) has a due time in the last century: it only
	// says the order. IsSeat tells.
	Due       time.Time
	ExpiresAt time.Time
	// Seat is the place in the order of queueing that the round was given: the
	// delivery's own for its first round, a later one for each round begun by a
	// resend. Marks (webhook.Skip) go by it.
	Seat webhook.Ref
	// Terms of the round beside the trigger.
	Degraded, Once bool
	// ByPerson: see AcceptParams.
	ByPerson bool
	// Key is the ordering key; "" for none. Joins: it takes its place in the line
	// of the key only when its time has come (deliver_at), by RecordParams.Join.
	Key   string
	Joins bool
	// Run and RunCounts (JSON) are set for a run's notice.
	Run       string
	RunCounts []byte
}

// seatEpoch bounds the due times that only say an order.
const seatEpoch = 100_000_000_000 // Unix milliseconds, in 1973

// IsSeat tells whether a due time only says the order in a lane.
func IsSeat(due time.Time) bool { return due.UnixMilli() < seatEpoch }

// PersonDue and CatchUpDue are the due times of what goes before the rest of its
// lane: what a person asked for first, then what catches up, each by its place.
func PersonDue(seat webhook.Ref) time.Time {
	return time.UnixMilli(int64(seat) - 1<<50).UTC()
}

// CatchUpDue is the due time of what catches up, see PersonDue: place is the position of the delivery that was held
// or is redelivered, so that all go oldest first (S10).
func CatchUpDue(place webhook.Ref) time.Time { return time.UnixMilli(int64(place)).UTC() }

// ParkedDue is the due time of a delivery that waits in the line of its key: it
// is due when the one before it ends (N15).
func ParkedDue() time.Time { return time.UnixMilli(parked).UTC() }

const parked = 1 << 50 // in the year 37648

// IsParked tells whether a due time is that of a delivery in line.
func IsParked(due time.Time) bool { return due.UnixMilli() >= parked }
