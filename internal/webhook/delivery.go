package webhook

import "time"

// Reason says in engine words why a delivery waits or ended otherwise than by an
// answer. It stands beside the failure kind; both may be set.
type Reason string

// The closed list of reasons.
const (
	WhyNone            Reason = ""
	WhyRetry           Reason = "retry"            // a try failed, the next is planned
	WhyGated           Reason = "gated"            // another delivery probes the URL
	WhyPaused          Reason = "paused"           // the endpoint is paused
	WhyDisabled        Reason = "disabled"         // the endpoint is disabled
	WhyOrdered         Reason = "ordered"          // an earlier one of its key is unfinished
	WhyScheduled       Reason = "scheduled"        // deliver_at lies ahead
	WhyLimited         Reason = "limited"          // the lane's limit holds it back
	WhyExpanding       Reason = "expanding"        // a wide fan-out is being written
	WhyExhausted       Reason = "exhausted"        // no attempt is left
	WhyStopped         Reason = "stopped"          // an answer stopped it at once
	WhyEventMissing    Reason = "event_missing"    // the event or its payload is gone
	WhyExpired         Reason = "expired"          // expires_at passed
	WhyEndpointDeleted Reason = "endpoint_deleted" // its endpoint was deleted
	WhySwitchedOff     Reason = "switched_off"     // the endpoint was off
	WhyResumedNow      Reason = "resumed_now"      // enabling skipped it
	WhyCanceled        Reason = "canceled"         // a caller canceled it
	WhyTransformError  Reason = "transform_error"
	WhyProxyError      Reason = "proxy_error"
	WhyInterrupted     Reason = "interrupted" // the process died or stopped during the try
	WhyFilterBudget    Reason = "filter_budget"
)

// Reasons lists the closed list in the order above, without WhyNone.
func Reasons() []Reason {
	return []Reason{
		WhyRetry, WhyGated, WhyPaused, WhyDisabled, WhyOrdered, WhyScheduled, WhyLimited, WhyExpanding, WhyExhausted,
		WhyStopped, WhyEventMissing, WhyExpired, WhyEndpointDeleted, WhySwitchedOff, WhyResumedNow, WhyCanceled,
		WhyTransformError, WhyProxyError, WhyInterrupted, WhyFilterBudget,
	}
}

// Delivery is one event for one endpoint: the queue entry and the log row in one.
type Delivery struct {
	ID string
	// Ref is the delivery's position in the store.
	Ref      Ref
	Tenant   string
	Endpoint string
	Event    string
	// Run is the run whose notice it is; "" for a plain event's.
	Run  string
	Type string
	// WebhookID is what the receiver sees as the message's ID.
	WebhookID        string
	Contract         string
	ContractRevision string
	Trigger          Trigger
	// Status is set by the accepting commit (pending) and by recorded outcomes;
	// sending is shown while an attempt of over a second runs (N14).
	Status Status
	Reason Reason
	// FailureKind of the last failure, none after a success.
	FailureKind FailureKind
	// Round is 1 for the first sending; each resend starts another (N13).
	Round int
	// AttemptCount counts the round's counted tries.
	AttemptCount int
	// StatusCode and DurationMS are the last attempt's; zero without one.
	StatusCode int
	Duration   time.Duration
	// NextAttemptAt is zero once the delivery is final.
	NextAttemptAt time.Time
	OrderingKey   string
	ExpiresAt     time.Time
	CreatedAt     time.Time
	FinishedAt    time.Time
	// Replaces is the delivery that this redelivery or replay took the place of,
	// ReplacedBy the one that took this one's; "" for none.
	Replaces, ReplacedBy string
	// Degraded and Once are the terms of the present round, see contract.Terms.
	Degraded, Once bool
}

// Ref is the position of a delivery in the store, unique inside an installation
// and rising in the order of acceptance.
type Ref int64

// Attempt is one row of a delivery's log: a counted try, or one that was cut.
type Attempt struct {
	ID    string
	Round int
	// Number counts the log's rows over the delivery's life, from 1 (B91).
	Number int
	// Try is the counted number within the round, what a header bears. It may
	// repeat after an attempt that did not count.
	Try     int
	Counted bool
	At      time.Time
	// Duration of the try; zero for one whose end was lost.
	Duration    time.Duration
	StatusCode  int
	FailureKind FailureKind
	Error       string
	Address     string
	Response    []byte
	Truncated   bool
	// Superseded marks a try of an owner that was no longer one.
	Superseded bool
}

// The prefixes of our own IDs.
const (
	PrefixEndpoint = "ep"
	PrefixEvent    = "evt"
	PrefixDelivery = "dlv"
	PrefixAttempt  = "att"
	PrefixSecret   = "sec"
	PrefixRun      = "run"
	PrefixReplay   = "rpl"
)
