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
var statuses = words[contract.Status]{ //nolint:gochecknoglobals // because a table is a constant in all but type; nothing writes it
	contract.StatusPending, contract.StatusSending, contract.StatusDelivered, contract.StatusFailed,
	contract.StatusDead, contract.StatusSkipped, contract.StatusCanceled, contract.StatusRedelivered,
}

var kinds = words[contract.FailureKind]{ //nolint:gochecknoglobals // because a table is a constant in all but type; nothing writes it
	contract.KindNone, contract.KindHTTPStatus, contract.KindClientError, contract.KindGone,
	contract.KindTimeout, contract.KindNetwork, contract.KindRedirect, contract.KindUnsafeURL,
	contract.KindEndpointUnavailable, contract.KindEventMissing, contract.KindPaused,
}

var reasons = words[webhook.Reason]{ //nolint:gochecknoglobals // because a table is a constant in all but type; nothing writes it
	webhook.WhyNone, webhook.WhyRetry, webhook.WhyGated, webhook.WhyPaused, webhook.WhyDisabled,
	webhook.WhyOrdered, webhook.WhyScheduled, webhook.WhyLimited, webhook.WhyExpanding,
	webhook.WhyExhausted, webhook.WhyStopped, webhook.WhyEventMissing, webhook.WhyExpired,
	webhook.WhyEndpointDeleted, webhook.WhySwitchedOff, webhook.WhyResumedNow, webhook.WhyCanceled,
	webhook.WhyTransformError, webhook.WhyProxyError, webhook.WhyInterrupted, webhook.WhyFilterBudget,
}

var triggers = words[contract.Trigger]{ //nolint:gochecknoglobals // because a table is a constant in all but type; nothing writes it
	contract.TriggerEvent, contract.TriggerTest, contract.TriggerResend, contract.TriggerRedelivery,
	contract.TriggerReplay, contract.TriggerPoll,
}

var endpointStates = words[webhook.EndpointState]{webhook.EndpointActive, webhook.EndpointPaused, webhook.EndpointDisabled} //nolint:gochecknoglobals // because a table is a constant in all but type; nothing writes it

var stateReasons = words[webhook.StateReason]{ //nolint:gochecknoglobals // because a table is a constant in all but type; nothing writes it
	webhook.ReasonActive, webhook.ReasonPerson, webhook.ReasonStaff, webhook.ReasonSwitchedOff,
	webhook.ReasonGone, webhook.ReasonNoSuccess, webhook.ReasonFailuresInRow,
}

var runStates = words[webhook.RunState]{webhook.RunOpen, webhook.RunFinished, webhook.RunDeleted} //nolint:gochecknoglobals // because a table is a constant in all but type; nothing writes it

var replayStates = words[webhook.ReplayState]{ //nolint:gochecknoglobals // because a table is a constant in all but type; nothing writes it
	webhook.ReplayCounting, webhook.ReplayRunning, webhook.ReplayPaused, webhook.ReplayDone, webhook.ReplayCanceled,
}
