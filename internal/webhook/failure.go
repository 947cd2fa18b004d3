package webhook

import "github.com/posthorn/posthorn/contract"

// FailureKind says why a delivery has not got through (CONTRACTS S6). The set is
// closed and belongs to the contract, which decides by it.
type FailureKind = contract.FailureKind

// The ten kinds of S6. KindNone means that nothing failed.
const (
	KindNone                = contract.KindNone
	KindHTTPStatus          = contract.KindHTTPStatus
	KindClientError         = contract.KindClientError
	KindGone                = contract.KindGone
	KindTimeout             = contract.KindTimeout
	KindNetwork             = contract.KindNetwork
	KindRedirect            = contract.KindRedirect
	KindUnsafeURL           = contract.KindUnsafeURL
	KindEndpointUnavailable = contract.KindEndpointUnavailable
	KindEventMissing        = contract.KindEventMissing
	KindPaused              = contract.KindPaused
)

// Status is the state of a delivery (CONTRACTS S7).
type Status = contract.Status

// The engine's statuses; a contract may show some of them under another name.
const (
	StatusPending     = contract.StatusPending
	StatusSending     = contract.StatusSending
	StatusDelivered   = contract.StatusDelivered
	StatusFailed      = contract.StatusFailed
	StatusDead        = contract.StatusDead
	StatusSkipped     = contract.StatusSkipped
	StatusCanceled    = contract.StatusCanceled
	StatusRedelivered = contract.StatusRedelivered
)

// Trigger says what made a delivery or a round of it.
type Trigger = contract.Trigger

// What can make a delivery.
const (
	TriggerEvent      = contract.TriggerEvent
	TriggerTest       = contract.TriggerTest
	TriggerResend     = contract.TriggerResend
	TriggerRedelivery = contract.TriggerRedelivery
	TriggerReplay     = contract.TriggerReplay
	TriggerPoll       = contract.TriggerPoll
)
