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

func statuses() words[contract.Status] {
	return words[contract.Status]{
		contract.StatusPending, contract.StatusSending, contract.StatusDelivered, contract.StatusFailed,
		contract.StatusDead, contract.StatusSkipped, contract.StatusCanceled, contract.StatusRedelivered,
	}
}

func kinds() words[contract.FailureKind] {
	return words[contract.FailureKind]{
		contract.KindNone, contract.KindHTTPStatus, contract.KindClientError, contract.KindGone,
		contract.KindTimeout, contract.KindNetwork, contract.KindRedirect, contract.KindUnsafeURL,
		contract.KindEndpointUnavailable, contract.KindEventMissing, contract.KindPaused,
	}
}

func reasons() words[webhook.Reason] {
	return words[webhook.Reason]{
		webhook.WhyNone, webhook.WhyRetry, webhook.WhyGated, webhook.WhyPaused, webhook.WhyDisabled,
		webhook.WhyOrdered, webhook.WhyScheduled, webhook.WhyLimited, webhook.WhyExpanding,
		webhook.WhyExhausted, webhook.WhyStopped, webhook.WhyEventMissing, webhook.WhyExpired,
		webhook.WhyEndpointDeleted, webhook.WhySwitchedOff, webhook.WhyResumedNow, webhook.WhyCanceled,
		webhook.WhyTransformError, webhook.WhyProxyError, webhook.WhyInterrupted, webhook.WhyFilterBudget,
	}
}

func triggers() words[contract.Trigger] {
	return words[contract.Trigger]{
		contract.TriggerEvent, contract.TriggerTest, contract.TriggerResend, contract.TriggerRedelivery,
		contract.TriggerReplay, contract.TriggerPoll,
	}
}

func endpointStates() words[webhook.EndpointState] {
	return words[webhook.EndpointState]{webhook.EndpointActive, webhook.EndpointPaused, webhook.EndpointDisabled}
}

func stateReasons() words[webhook.StateReason] {
	return words[webhook.StateReason]{
		webhook.ReasonActive, webhook.ReasonPerson, webhook.ReasonStaff, webhook.ReasonSwitchedOff,
		webhook.ReasonGone, webhook.ReasonNoSuccess, webhook.ReasonFailuresInRow,
	}
}
