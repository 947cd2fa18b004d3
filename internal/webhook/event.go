package webhook

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// Event is one fact that a tenant published. Data is the bytes as posted, never
// decoded and encoded again.
type Event struct {
	// ID is the caller's or ours ("evt_…").
	ID     string
	Tenant string
	Type   string
	// Data is nil when it was erased, see Erased.
	Data        []byte
	ContentType string
	// CreatedAt is the caller's, else AcceptedAt. Millisecond precision, UTC.
	CreatedAt   time.Time
	AcceptedAt  time.Time
	OrderingKey string
	// DeliverAt and ExpiresAt are zero when not given.
	DeliverAt time.Time
	ExpiresAt time.Time
	// Run is the run that the event tells of; "" for a plain one.
	Run string
	// Erased is true after the payload was deleted; the log stays.
	Erased bool
	// Deliveries counts those made at acceptance.
	Deliveries int
}

// Limits of an event's fields, in bytes or as said.
const (
	MaxTypeLength        = 128
	MaxOrderingKeyLength = 256
	MaxPatterns          = 50
	// DeliverAtAhead is how far in the future deliver_at may lie.
	DeliverAtAhead = 30 * 24 * time.Hour
)

var (
	eventType = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
	eventID   = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9_:-]{0,127}$`)
)

// EventTypeForm and EventIDForm describe the allowed forms, for error texts.
const (
	EventTypeForm = "words of A-Z, a-z, 0-9, _ and -, joined by dots, 128 bytes at most"
	EventIDForm   = "1 to 128 of A-Z, a-z, 0-9, _, - and :, not beginning with :"
)

// ValidEventType tells whether t can name an event type.
func ValidEventType(t string) bool { return len(t) <= MaxTypeLength && eventType.MatchString(t) }

// ValidEventID tells whether a caller may give id to an event. A dot would make
// the signed text "id.timestamp.body" ambiguous (ENGINE N3).
func ValidEventID(id string) bool { return eventID.MatchString(id) }

// Operational event types (ENGINE N19): made by the engine, never published by
// callers, matched only when a pattern writes them or their family out.
const (
	TypeWebhookFailed     = "webhook.failed"
	TypeEndpointDegraded  = "endpoint.degraded"
	TypeEndpointRecovered = "endpoint.recovered"
	TypeEndpointPaused    = "endpoint.paused"
	TypeEndpointResumed   = "endpoint.resumed"
	TypeEndpointDisabled  = "endpoint.disabled"
	TypeEndpointEnabled   = "endpoint.enabled"
	TypeReplayFinished    = "replay.finished"
)

// OperationalTypes lists them.
func OperationalTypes() []string {
	return []string{
		TypeWebhookFailed, TypeEndpointDegraded, TypeEndpointRecovered, TypeEndpointPaused,
		TypeEndpointResumed, TypeEndpointDisabled, TypeEndpointEnabled, TypeReplayFinished,
	}
}

// Operational tells whether t is one of the engine's own types.
func Operational(t string) bool {
	if !strings.HasPrefix(t, "webhook.") && !strings.HasPrefix(t, "endpoint.") && !strings.HasPrefix(t, "replay.") {
		return false
	}
	return slices.Contains(OperationalTypes(), t)
}

// ValidPattern tells whether p can stand in an endpoint's events: a type, "*",
// or a family such as "link.*".
func ValidPattern(p string) bool {
	if p == "*" {
		return true
	}
	return ValidEventType(strings.TrimSuffix(p, ".*"))
}

// MatchPattern tells whether pattern p takes events of type t. "*" takes all but
// operational ones; "link.*" all that begin with "link.".
func MatchPattern(p, t string) bool {
	if p == "*" {
		return !Operational(t)
	}
	if family, ok := strings.CutSuffix(p, "*"); ok {
		return strings.HasPrefix(t, family)
	}
	return p == t
}

// MatchAny tells whether any of the patterns takes t.
func MatchAny(patterns []string, t string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return MatchPattern(p, t) })
}
