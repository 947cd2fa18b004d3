package sqlite

import (
	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/webhook"
)

// words maps a closed set to the numbers that stand in the database. Positions
// are part of the file format: only ever append.
type words[T ~string] []T

func (w words[T]) num(v T) int64 {
	for i, x := range w {
		if x == v {
			return int64(i)
		}
	}
	return -1
}

func (w words[T]) word(n int64) T {
	if n < 0 || n >= int64(len(w)) {
		return ""
	}
	return w[n]
}

// The closed sets.
var ( //nolint:gochecknoglobals // because a table is a constant in all but type; nothing writes them
	statuses = words[contract.Status]{
		contract.StatusPending, contract.StatusSending, contract.StatusDelivered, contract.StatusFailed,
		contract.StatusDead, contract.StatusSkipped, contract.StatusCanceled, contract.StatusRedelivered,
	}
	kinds = words[contract.FailureKind]{
		contract.KindNone, contract.KindHTTPStatus, contract.KindClientError, contract.KindGone,
		contract.KindTimeout, contract.KindNetwork, contract.KindRedirect, contract.KindUnsafeURL,
		contract.KindEndpointUnavailable, contract.KindEventMissing, contract.KindPaused,
	}
	reasons = words[webhook.Reason]{
		webhook.WhyNone, webhook.WhyRetry, webhook.WhyGated, webhook.WhyPaused, webhook.WhyDisabled,
		webhook.WhyOrdered, webhook.WhyScheduled, webhook.WhyLimited, webhook.WhyExpanding,
		webhook.WhyExhausted, webhook.WhyStopped, webhook.WhyEventMissing, webhook.WhyExpired,
		webhook.WhyEndpointDeleted, webhook.WhySwitchedOff, webhook.WhyResumedNow, webhook.WhyCanceled,
		webhook.WhyTransformError, webhook.WhyProxyError, webhook.WhyInterrupted, webhook.WhyFilterBudget,
	}
	triggers = words[contract.Trigger]{
		contract.TriggerEvent, contract.TriggerTest, contract.TriggerResend, contract.TriggerRedelivery,
		contract.TriggerReplay, contract.TriggerPoll,
	}
	endpointStates = words[webhook.EndpointState]{webhook.EndpointActive, webhook.EndpointPaused, webhook.EndpointDisabled}
	stateReasons   = words[webhook.StateReason]{
		webhook.ReasonActive, webhook.ReasonPerson, webhook.ReasonStaff, webhook.ReasonSwitchedOff,
		webhook.ReasonGone, webhook.ReasonNoSuccess, webhook.ReasonFailuresInRow,
	}
)
