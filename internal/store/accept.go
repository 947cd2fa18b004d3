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
	// Rematch finds revision and targets anew. The store calls it inside its
	// transaction, after it has told of every change before, so it must look
	// nowhere but in memory. An event that is matched outside may be too late each
	// time while subscriptions change without a break.
	Rematch func() (revision int64, targets []Target)
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
	// Due is when it may go out.
	Due       time.Time
	ExpiresAt time.Time
}
