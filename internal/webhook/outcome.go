package webhook

import "time"

// Phase is the part of a request in which it ended, a bounded set that logs and
// metrics may count by.
type Phase string

// Phases of one attempt, in their order.
const (
	PhaseNone     Phase = ""
	PhaseGuard    Phase = "guard"    // the address check refused every address
	PhaseResolve  Phase = "dns"      // the name did not resolve
	PhaseConnect  Phase = "connect"  // refused, unreachable, no answer to the handshake
	PhaseTLS      Phase = "tls"      // certificate or handshake
	PhaseWrite    Phase = "write"    // reset or closed while the request was written
	PhaseHeaders  Phase = "headers"  // no complete answer headers
	PhaseBody     Phase = "body"     // the answer's body was slow, cut or broken
	PhaseInternal Phase = "internal" // our own fault, see Fault
)

// Fault marks an outcome whose fault was ours. Such a try is no attempt, but for
// FaultPrepare: what is stored wrongly would be tried for ever.
type Fault string

// Faults of our own.
const (
	FaultNone     Fault = ""
	FaultShutdown Fault = "shutdown" // the node stopped while the request was under way
	FaultHandles  Fault = "handles"  // no file handle or no local port was left
	FaultPrepare  Fault = "prepare"  // the request could not be put together (a stored row is bad)
)

// Outcome is what came of one try over HTTP. It is a fact: what it means for the
// delivery is the contract's to decide.
type Outcome struct {
	// Kind is KindNone for a success by status, else why the try failed.
	Kind FailureKind
	// Fault is set when the fault was ours.
	Fault Fault
	// Phase says where the request ended.
	Phase Phase
	// StatusCode of the answer; 0 when no complete headers came.
	StatusCode int
	// RetryAfter is the answer's Retry-After header as it stood, "" when absent
	// or repeated.
	RetryAfter string
	// StartedAt is wall time at the start; Duration is measured by the
	// monotonic clock, start to the end of reading, at least 1 µs.
	StartedAt time.Time
	Duration  time.Duration
	// Message is a text for the endpoint's owner: no URL, no secret, no Go
	// error string. "" for a success, unless the answer's body was broken.
	Message string
	// Address is the IP and port that was dialled or reused, "" when none was.
	Address string
	// Response is the beginning of the answer's body, at most the contract's
	// response.keep bytes.
	Response []byte
	// ResponseTruncated marks that the body was longer than what is kept;
	// ResponseBroken that it ended before its end or ran out of time.
	ResponseTruncated bool
	ResponseBroken    bool
}

// Delivered tells whether the answer's status made this a success (S1).
func (o *Outcome) Delivered() bool {
	return o.Kind == KindNone && o.Fault == FaultNone
}
