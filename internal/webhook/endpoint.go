package webhook

import "time"

// EndpointState says whether an endpoint is sent to.
type EndpointState string

// States of an endpoint.
const (
	EndpointActive   EndpointState = "active"
	EndpointPaused   EndpointState = "paused"   // by a person, the switch, or failures in a row
	EndpointDisabled EndpointState = "disabled" // by a 410, no success for long, or staff
)

// StateReason says why an endpoint is not active.
type StateReason string

// Reasons of an endpoint's state; ReasonActive for an active one.
const (
	ReasonActive        StateReason = ""
	ReasonPerson        StateReason = "person"
	ReasonStaff         StateReason = "staff"
	ReasonSwitchedOff   StateReason = "switched_off"
	ReasonGone          StateReason = "gone"
	ReasonNoSuccess     StateReason = "no_success"
	ReasonFailuresInRow StateReason = "failures_in_row"
)

// DefaultMaxInFlight is how many requests one endpoint gets at a time unless it
// says otherwise (ENGINE N18).
const DefaultMaxInFlight = 128

// EndpointKey numbers an endpoint inside one installation. It never leaves the
// process; callers see ID.
type EndpointKey int64

// Endpoint is one URL that a tenant's events are delivered to.
type Endpoint struct {
	Key    EndpointKey
	ID     string
	Tenant string
	// URL as stored: canonical, see ParseEndpointURL. It may bear credentials
	// and is never logged whole.
	URL string
	// Events are patterns; one match is enough and makes one delivery (B69).
	Events []string
	// Contract names the promise for deliveries made now, in its present revision.
	Contract    string
	State       EndpointState
	StateReason StateReason
	// StateSince is when State last changed.
	StateSince  time.Time
	Description string
	Metadata    map[string]string
	// Headers are sent with each request, in this order. Values are secrets.
	Headers []Header
	// MaxInFlight is the most requests under way at once, 1 to 1,000.
	MaxInFlight int
	// Filter is a CEL expression that events must fulfil; "" takes all that Events
	// match.
	Filter string
	// Ordering makes the endpoint's deliveries strict by key where its contract
	// does not; nil leaves it to the contract.
	Ordering *Ordering
	// Skips are marks whose rows are not all written yet (N17), few or none.
	// CatchingUp is true while a job brings what was held into the order in which
	// it goes out: only what the store's windows bring may be sent meanwhile.
	Skips      []Skip
	CatchingUp bool
	// Secrets that sign now, newest first, at most three.
	Secrets []SigningSecret
	Health  Health
	// Version rises by one with each change by a caller or by the engine's
	// health rules; If-Match compares it.
	Version   int64
	CreatedAt time.Time
	UpdatedAt time.Time
}

// On tells whether deliveries of the endpoint may go out.
func (e *Endpoint) On() bool { return e.State == EndpointActive }

// Ordering says by which key an endpoint's deliveries are strict.
type Ordering struct {
	// From lists paths into the data, such as data.link_id; the first one present
	// is the key where the publisher gave none.
	From []string
}

// Header is a fixed request header of an endpoint.
type Header struct {
	Name  string
	Value SecretText
}

// SigningSecret is one secret that signs an endpoint's requests.
type SigningSecret struct {
	ID        string
	Text      SecretText
	CreatedAt time.Time
	// ExpiresAt ends the overlap after a rotation; zero for the present secret.
	ExpiresAt time.Time
}

// Health is what the contracts' health rules are judged by. Tests count for
// none of it.
type Health struct {
	// FailuresInRow since the last 2xx.
	FailuresInRow int
	// FirstFailureAt is the first failure after the last success, enabling or
	// resuming; zero when there is none.
	FirstFailureAt time.Time
	LastSuccessAt  time.Time
	LastAttemptAt  time.Time
	// DegradedUntil is the end of the mark degraded (E8); zero without one.
	DegradedUntil time.Time
}
