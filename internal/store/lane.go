package store

import (
	"context"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Lanes is what the dispatcher needs: which endpoints have something waiting,
// the head of each one's queue, and the recording of outcomes.
type Lanes interface {
	// ListLanes returns each endpoint that has waiting deliveries with the
	// earliest due time among them. Its cost grows with endpoints, not backlog.
	ListLanes(ctx context.Context) ([]LaneHead, error)
	// ReadWindow reads the head of an endpoint's waiting deliveries that are due
	// by Now, in the order due, position. It sees at least everything committed
	// before it was called.
	ReadWindow(ctx context.Context, p WindowParams) (Window, error)
	// LoadWork reads one delivery; found is false when it does not wait any more.
	// The probe of a gate is read so, wherever it stands in its lane.
	LoadWork(ctx context.Context, ref webhook.Ref) (w Work, found bool, err error)
	// ListGates returns the gates that are closed.
	ListGates(ctx context.Context) ([]Gate, error)
	// LoadData reads the payload of a delivery. ErrNotFound: the event or its
	// payload is gone.
	LoadData(ctx context.Context, ref webhook.Ref) ([]byte, error)
	// Record commits outcomes, together with whatever else waits for the commit,
	// and calls done once from the writer, in the order of commits; done must
	// not block. The order in one lane is the order of calls.
	//
	// A transition is a compare-and-set on (Ref, Round, Attempts, not final). One
	// that does not apply any more still leaves its attempt in the log, marked
	// superseded; a delivered one turns a delivery that waits into delivered all
	// the same (N12), also one that ended because its endpoint was deleted while
	// the request was under way. ErrStale: Emit was matched with an old revision; nothing
	// was written, match again. If the row can't be written with its answer's
	// body, it is written without (N12).
	Record(p RecordParams, done func(RecordResult, error))
	// MarkRunning notes that attempts have run for over a second (N14): this is
	// what the status sending shows, and what a restart finds.
	MarkRunning(ctx context.Context, marks []Mark) error
	// ListMarks returns the marks of a process that is gone. The dispatcher
	// records each as interrupted at its start.
	ListMarks(ctx context.Context) ([]Marked, error)
}

// LaneHead is one endpoint's earliest waiting delivery.
type LaneHead struct {
	Endpoint webhook.EndpointKey
	Due      time.Time
}

// WindowParams asks for a window.
type WindowParams struct {
	Endpoint webhook.EndpointKey
	// Now bounds the due time.
	Now time.Time
	// Limit is the most rows; Bytes the most payload that is read along (further
	// rows come without Data). MaxData leaves out the payload of larger events.
	Limit   int
	Bytes   int
	MaxData int
}

// Window is the head of a lane.
type Window struct {
	Work []Work
	// Complete is true when the read came back short: nothing else was due.
	Complete bool
	// NextDue is when the earliest row that is not due yet will be; zero when
	// there is none (a parked one is none). Only set when Complete.
	NextDue time.Time
	// CatchingUp: the lane catches up, and only what has its place in the order is
	// here. Never Complete then; read again soon.
	CatchingUp bool
}

// Gate holds back the deliveries of a scope until its probe got through (N16).
type Gate struct {
	Key webhook.GateKey
	// Until is when the probe is tried next.
	Until time.Time
	// Probe is 0 when the delivery that closed the gate waits no more: the oldest
	// waiting one of the scope is the probe then.
	Probe webhook.Ref
	// ProbeEndpoint is the probe's lane.
	ProbeEndpoint webhook.EndpointKey
}

// GateMove is what a try does to the gate of its scope. A zero Until opens it.
type GateMove struct {
	Key   webhook.GateKey
	Until time.Time
	Probe webhook.Ref
}

// RecordParams is the outcome of one try, or an end without one.
type RecordParams struct {
	Ref      webhook.Ref
	Tenant   string
	Endpoint webhook.EndpointKey
	// Round and Attempts guard the transition: the values before the try.
	Round    int
	Attempts int
	// Attempt is the log's row; nil for an end without a try (expired, event
	// missing, held). Number is the store's to give.
	Attempt *webhook.Attempt
	// Status and the rest are the delivery afterwards.
	Status      contract.Status
	Reason      webhook.Reason
	FailureKind contract.FailureKind
	// NextAt is the next due time for a pending one.
	NextAt time.Time
	// Interrupted is the count of uncounted interruptions in a row afterwards.
	Interrupted int
	// Contract is the delivery's; nil when it is unknown.
	Contract *contract.Contract
	// Counts says that the try counts for the endpoint's health: the store asks
	// Contract.Judge with the present standing, inside the commit, and applies what
	// it says: marks, pausing, disabling, what the contract's off rules do to what
	// waits, the audit trail, the owner's notice.
	Counts bool
	// Lapse divides the spans that Judge compares with (N21); 0 is 1.
	Lapse int
	// Disable asks for the endpoint to be disabled with this reason, in the same
	// commit, if it is not disabled already; ReasonActive for not.
	Disable webhook.StateReason
	// Emit are operational events about the delivery to accept in the same commit
	// (N19). Rematch is asked as in Accept.
	Emit []AcceptParams
	// Raise prepares an operational event about the endpoint, as the record has
	// left it, in the same commit; false for none. It looks in memory only. Nil
	// raises none.
	Raise func(eventType string, after *webhook.Endpoint) (AcceptParams, bool)
	// Gate moves the gate of the delivery's scope; nil leaves it.
	Gate *GateMove
	// Join: the delivery takes its place at the tail of its key's line now, which
	// is all that the record does: it is due at once if it is the head.
	Join bool
	// Now is the end of the try on the wall clock.
	Now time.Time
}

// RecordResult is what Record did.
type RecordResult struct {
	// Applied is false when the delivery had moved on: nothing but the
	// superseded attempt was written.
	Applied bool
	// Absorbed is true when a success of a try that was no longer current ended
	// the delivery (N12).
	Absorbed bool
}

// Mark is an attempt that has run for over a second.
type Mark struct {
	Ref      webhook.Ref
	Round    int
	Attempts int
	Try      int
	At       time.Time
}

// Marked is a mark with the delivery it belongs to.
type Marked struct {
	Mark Mark
	Work Work
}
