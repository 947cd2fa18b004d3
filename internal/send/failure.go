package send

import (
	"fmt"
	"time"

	"github.com/posthorn/posthorn/internal/webhook"
)

// failure is why no complete answer headers came. It is made where the phase is
// known, and is the error of the dialler; texts are for an endpoint's owner and
// hold no URL, no secret and no Go error string (B81).
type failure struct {
	kind  webhook.FailureKind
	fault webhook.Fault
	phase webhook.Phase
	text  string
	// address that was dialled, "" for none.
	address string
	// unreachable: no packet found its way, which says little about the server.
	unreachable bool
}

// at notes the address that was dialled.
func (f *failure) at(address string) *failure {
	f.address = address
	return f
}

// Error implements error.
func (f *failure) Error() string { return f.text }

// network is any end before complete headers that is no time-out.
func network(phase webhook.Phase, text string) *failure {
	return &failure{kind: webhook.KindNetwork, phase: phase, text: text}
}

// ours is a failure that is no attempt.
func ours(fault webhook.Fault) *failure {
	return &failure{fault: fault, phase: webhook.PhaseInternal, text: faultText(fault)}
}

func faultText(fault webhook.Fault) string {
	switch fault {
	case webhook.FaultShutdown:
		return "The service was stopped while the request was under way."
	case webhook.FaultHandles:
		return "The service had no file handle or local port left for the request."
	case webhook.FaultPrepare:
		return "The request could not be put together from what is stored."
	case webhook.FaultNone:
	}
	return ""
}

// timedOut is the end of the time in any phase before complete headers.
func timedOut(phase webhook.Phase, timeout time.Duration) *failure {
	text := fmt.Sprintf("The time of %s ran out %s.", timeout, waitingFor(phase))
	return &failure{kind: webhook.KindTimeout, phase: phase, text: text}
}

func waitingFor(phase webhook.Phase) string {
	switch phase {
	case webhook.PhaseResolve:
		return "while the host name was looked up in DNS"
	case webhook.PhaseConnect:
		return "before a connection was established"
	case webhook.PhaseTLS:
		return "during the TLS handshake"
	case webhook.PhaseWrite:
		return "while the request was being sent"
	case webhook.PhaseNone, webhook.PhaseGuard, webhook.PhaseHeaders, webhook.PhaseBody, webhook.PhaseInternal:
	}
	return "before the server had sent complete answer headers"
}
