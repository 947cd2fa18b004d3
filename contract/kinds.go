package contract

// FailureKind says why a delivery has not got through (rule S6). The set is
// closed.
type FailureKind string

// The ten failure kinds, and KindNone for no failure.
const (
	KindNone                FailureKind = ""
	KindHTTPStatus          FailureKind = "http_status"          // 5xx, 408, 413, 429, 101, or no HTTP status at all
	KindClientError         FailureKind = "client_error"         // any other 4xx
	KindGone                FailureKind = "gone"                 // 410
	KindTimeout             FailureKind = "timeout"              // the time ran out before complete headers
	KindNetwork             FailureKind = "network"              // DNS, refused, reset, TLS: any other end before complete headers
	KindRedirect            FailureKind = "redirect"             // 3xx, never followed
	KindUnsafeURL           FailureKind = "unsafe_url"           // no allowed address among those resolved
	KindEndpointUnavailable FailureKind = "endpoint_unavailable" // held back by a gate; nothing was sent
	KindEventMissing        FailureKind = "event_missing"        // the event is gone; nothing was sent
	KindPaused              FailureKind = "paused"               // cut by a pause; not counted
)

// FailureKinds lists the ten kinds in the order of rule S6.
func FailureKinds() []FailureKind {
	return []FailureKind{
		KindHTTPStatus, KindClientError, KindGone, KindTimeout, KindNetwork, KindRedirect, KindUnsafeURL,
		KindEndpointUnavailable, KindEventMissing, KindPaused,
	}
}

// Status is the state of a delivery (rule S7). The set is closed.
type Status string

// The engine's statuses.
const (
	StatusPending     Status = "pending"     // waits for its next try, also while its endpoint is off
	StatusSending     Status = "sending"     // a try of over a second is under way
	StatusDelivered   Status = "delivered"   // final: a 2xx came
	StatusFailed      Status = "failed"      // final: out of attempts or ended off the schedule
	StatusDead        Status = "dead"        // final: stopped, can be redelivered
	StatusSkipped     Status = "skipped"     // final: not sent, by a rule
	StatusCanceled    Status = "canceled"    // final: a caller ended it
	StatusRedelivered Status = "redelivered" // final: replaced by a new delivery
)

// Statuses lists the statuses in the order above.
func Statuses() []Status {
	return []Status{
		StatusPending, StatusSending, StatusDelivered, StatusFailed, StatusDead, StatusSkipped, StatusCanceled,
		StatusRedelivered,
	}
}

// Final tells whether a delivery of this status has ended its round.
func (s Status) Final() bool { return s != StatusPending && s != StatusSending }

// Trigger says what made a delivery or a round of it.
type Trigger string

// The triggers. One decision function serves them all.
const (
	TriggerEvent      Trigger = "event"
	TriggerTest       Trigger = "test"
	TriggerResend     Trigger = "resend"
	TriggerRedelivery Trigger = "redelivery"
	TriggerReplay     Trigger = "replay"
	TriggerPoll       Trigger = "poll"
)

// Triggers lists the triggers in the order above.
func Triggers() []Trigger {
	return []Trigger{TriggerEvent, TriggerTest, TriggerResend, TriggerRedelivery, TriggerReplay, TriggerPoll}
}

// Classify gives the failure kind of a status line, KindNone for a success of
// the contract. The table is the same under every contract (open points,
// "Kinds"); interim 1xx never reach it.
func (c *Contract) Classify(status int) FailureKind {
	for _, r := range c.Success {
		if r.Contains(status) {
			return KindNone
		}
	}
	switch {
	case status == 410:
		return KindGone
	case status >= 300 && status <= 399:
		return KindRedirect
	case status == 408, status == 413, status == 429:
		return KindHTTPStatus
	case status >= 400 && status <= 499:
		return KindClientError
	default:
		return KindHTTPStatus
	}
}
