package publish

import (
	"fmt"

	"github.com/posthorn/posthorn/internal/webhook"
)

// What is allowed at most. Sizes are bytes.
const (
	// DefaultEventBytes is the limit of an event's data unless configured;
	// MaxEventBytes the most that can be.
	DefaultEventBytes = 256 << 10
	MaxEventBytes     = 5 << 20
	// MaxLines and MaxLinesBytes bound one NDJSON request.
	MaxLines      = 1000
	MaxLinesBytes = 16 << 20
	// roomAround is what a posted event may have beside its data.
	roomAround = 16 << 10
)

// Names of the limits, as errors bear them.
const (
	LimitEventBytes webhook.Code = "event_bytes"
	LimitLines      webhook.Code = "ndjson_lines"
	LimitLinesBytes webhook.Code = "ndjson_bytes"
	LimitDeliverAt  webhook.Code = "deliver_at_ahead"
)

// Limits is what ParseEvent and ParseLines hold events against.
type Limits struct {
	// EventBytes bounds the data of one event; 0 means DefaultEventBytes.
	EventBytes int
	// IsOwn tells whether an ID has the form of those that the engine makes;
	// callers can't give such a one. nil: none has.
	IsOwn func(id string) bool
}

// eventBytes is the limit in force.
func (l *Limits) eventBytes() int {
	if l.EventBytes == 0 {
		return DefaultEventBytes
	}
	return l.EventBytes
}

// BodyBytes is how much of a request with one event needs to be read: what is
// longer is refused, see BodyTooLarge.
func (l *Limits) BodyBytes() int { return l.eventBytes() + roomAround }

// BodyTooLarge refuses a body of one event longer than BodyBytes.
func (l *Limits) BodyTooLarge() *webhook.Problem {
	return tooLarge("/data", LimitEventBytes, "The body is too large for one event.", fmt.Sprintf("data of at most %d bytes", l.eventBytes()))
}

// LinesTooLarge refuses an NDJSON body longer than MaxLinesBytes.
func LinesTooLarge() *webhook.Problem {
	return tooLarge("", LimitLinesBytes, "The body is too large. Nothing of it was accepted.", fmt.Sprintf("at most %d bytes", MaxLinesBytes))
}

func tooLarge(pointer string, limit webhook.Code, detail, allowed string) *webhook.Problem {
	return &webhook.Problem{
		Code:   webhook.CodeTooLarge,
		Detail: detail,
		Fields: []webhook.FieldFault{{Pointer: pointer, Code: limit, Detail: "it is too large", Allowed: allowed}},
	}
}
