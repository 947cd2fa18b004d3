package catalog

import (
	"slices"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Action is something that a person can do to an endpoint or a delivery.
type Action string

// The actions.
const (
	ActionResend         Action = "resend"          // the same delivery again
	ActionResendSelected Action = "resend_selected" // several at once
	ActionRedeliver      Action = "redeliver"       // a new delivery in the place of a dead one
	ActionRedeliverDead  Action = "redeliver_dead"  // all dead ones of an endpoint
	ActionReplay         Action = "replay"          // new deliveries of past events
	ActionTest           Action = "test"
	ActionEnable         Action = "enable"     // after a disabling, with what came meanwhile
	ActionEnableNow      Action = "enable_now" // the same, without what came meanwhile
	ActionResume         Action = "resume"
	ActionPause          Action = "pause"
	ActionDisable        Action = "disable" // the operator's stop
	ActionSwitchOn       Action = "switch_on"
	ActionSwitchOff      Action = "switch_off"
	ActionCancel         Action = "cancel"
	ActionShowLog        Action = "show_log"
	ActionRotateSecret   Action = "rotate_secret"
	ActionDelete         Action = "delete"
)

// Actions lists the actions in the order above.
func Actions() []Action {
	return []Action{
		ActionResend, ActionResendSelected, ActionRedeliver, ActionRedeliverDead, ActionReplay, ActionTest,
		ActionEnable, ActionEnableNow, ActionResume, ActionPause, ActionDisable, ActionSwitchOn, ActionSwitchOff,
		ActionCancel, ActionShowLog, ActionRotateSecret, ActionDelete,
	}
}

// Answer is a group of answers that a contract treats alike.
type Answer string

// The answers, in the order in which a table shows them.
const (
	AnswerSuccess     Answer = "success"
	AnswerGone        Answer = "gone"
	AnswerRetryAfter  Answer = "retry_after" // a failed answer with that header
	AnswerClientError Answer = "client_error"
	AnswerServerError Answer = "server_error" // also no answer: time-out, network
	AnswerRedirect    Answer = "redirect"
	AnswerUnsafeURL   Answer = "unsafe_url" // nothing was asked
)

// Answers lists the answers in the order above.
func Answers() []Answer {
	return []Answer{
		AnswerSuccess, AnswerGone, AnswerRetryAfter, AnswerClientError, AnswerServerError, AnswerRedirect, AnswerUnsafeURL,
	}
}

// kinds are the failure kinds that the answers of a group have.
func (a Answer) kinds() []contract.FailureKind {
	switch a {
	case AnswerSuccess:
		return nil
	case AnswerGone:
		return []contract.FailureKind{contract.KindGone}
	case AnswerRetryAfter:
		return []contract.FailureKind{contract.KindHTTPStatus}
	case AnswerClientError:
		return []contract.FailureKind{contract.KindClientError}
	case AnswerServerError:
		return []contract.FailureKind{contract.KindHTTPStatus, contract.KindTimeout, contract.KindNetwork}
	case AnswerRedirect:
		return []contract.FailureKind{contract.KindRedirect}
	case AnswerUnsafeURL:
		return []contract.FailureKind{contract.KindUnsafeURL}
	}
	return nil
}

// Word is a name of something that is shown: a page, a column, a step.
type Word string

// The words.
const (
	WordLog           Word = "log"       // the list of deliveries
	WordLogSheet      Word = "log_sheet" // the same, laid over another page
	WordSwitch        Word = "switch"    // of an endpoint, on or off
	WordFailedAttempt Word = "failed_attempt"
	WordFirstAttempt  Word = "first_attempt" // steps of a schedule
	WordFirstRetry    Word = "first_retry"
	WordLastAttempt   Word = "last_attempt"
	WordTime          Word = "time" // columns of an attempt
	WordStatusCode    Word = "status_code"
	WordError         Word = "error"
	WordDuration      Word = "duration"
	WordResponseStart Word = "response_start"
)

// Words lists the words in the order above.
func Words() []Word {
	return []Word{
		WordLog, WordLogSheet, WordSwitch, WordFailedAttempt, WordFirstAttempt, WordFirstRetry, WordLastAttempt,
		WordTime, WordStatusCode, WordError, WordDuration, WordResponseStart,
	}
}

func states() []webhook.EndpointState {
	return []webhook.EndpointState{webhook.EndpointActive, webhook.EndpointPaused, webhook.EndpointDisabled}
}

func stateReasons() []webhook.StateReason {
	return []webhook.StateReason{
		webhook.ReasonPerson, webhook.ReasonStaff, webhook.ReasonSwitchedOff, webhook.ReasonGone,
		webhook.ReasonNoSuccess, webhook.ReasonFailuresInRow,
	}
}

// hasBanner tells whether an endpoint that is off for a reason shows a banner:
// not where its owner did it.
func hasBanner(r webhook.StateReason) bool {
	switch r {
	case webhook.ReasonStaff, webhook.ReasonGone, webhook.ReasonNoSuccess, webhook.ReasonFailuresInRow:
		return true
	case webhook.ReasonActive, webhook.ReasonPerson, webhook.ReasonSwitchedOff:
		return false
	}
	return false
}

// Keys of texts that are no member of a set.
const (
	keyDegradedLabel   = "mark.degraded.label"
	keyDegradedText    = "mark.degraded.text"
	keyStopped         = "answer.stopped"          // the effect of an answer that a contract stops on
	keyStoppedDisabled = "answer.stopped_disabled" // and disables on
	keyPartlyStopped   = "answer.partly_stopped"   // some of the group
)

// keys lists the key of every text that a language has.
func keys() []string {
	var all []string
	all = append(all, keysOf("status", contract.Statuses(), ".label", ".meaning")...)
	all = append(all, keysOf("kind", contract.FailureKinds(), ".label", ".what", ".remedy")...)
	all = append(all, keysOf("reason", webhook.Reasons(), ".label", ".meaning")...)
	all = append(all, keysOf("state", states(), ".label", ".meaning")...)
	all = append(all, keysOf("state_reason", stateReasons(), ".label")...)
	bannered := slices.DeleteFunc(stateReasons(), func(r webhook.StateReason) bool { return !hasBanner(r) })
	all = append(all, keysOf("banner", bannered, "")...)
	all = append(all, keyDegradedLabel, keyDegradedText)
	all = append(all, keysOf("trigger", contract.Triggers(), ".label")...)
	all = append(all, keysOf("action", Actions(), "")...)
	all = append(all, keysOf("answer", Answers(), ".label", ".effect")...)
	all = append(all, keyStopped, keyStoppedDisabled, keyPartlyStopped)
	return append(all, keysOf("word", Words(), "")...)
}

func keysOf[T ~string](section string, members []T, parts ...string) []string {
	all := make([]string, 0, len(members)*len(parts))
	for _, m := range members {
		for _, part := range parts {
			all = append(all, section+"."+string(m)+part)
		}
	}
	return all
}
