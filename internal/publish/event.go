package publish

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/posthorn/posthorn/internal/webhook"
)

// ContentTypeJSON is the content type of events posted as JSON.
const ContentTypeJSON = "application/json"

// Event is one posted event that is fit to be accepted.
type Event struct {
	// ID is the caller's, "" when none was given.
	ID   string
	Type string
	// Data is the payload's bytes as posted, without the white space around
	// them. It is a part of the body that was parsed, not a copy.
	Data        []byte
	ContentType string
	// CreatedAt is the caller's in UTC, cut to milliseconds; zero when not given.
	CreatedAt time.Time
	// DeliverAt is zero when not given; a past one was raised to now.
	DeliverAt time.Time
	// ExpiresAt is zero when not given.
	ExpiresAt time.Time
	// OrderingKey is stored and shown. It orders deliveries only where the
	// contract or the endpoint does; standard does not (N15).
	OrderingKey string
	// Run is the ID of the run that the event tells of. Callers can't give it.
	Run string
	// Fingerprint says what "the same event" means for a repeated ID (N3):
	// SHA-256 over type, data bytes, created_at, ordering_key, deliver_at and
	// expires_at as given, each with its length before it.
	Fingerprint [32]byte
}

// The members of a posted event.
const (
	memberID = iota
	memberType
	memberData
	memberCreatedAt
	memberOrderingKey
	memberDeliverAt
	memberExpiresAt
	memberCount
)

const memberNames = "id, type, data, created_at, ordering_key, deliver_at, expires_at"

// memberOf finds a member by name, -1 for none.
func memberOf(name []byte) int {
	switch string(name) {
	case "id":
		return memberID
	case "type":
		return memberType
	case "data":
		return memberData
	case "created_at":
		return memberCreatedAt
	case "ordering_key":
		return memberOrderingKey
	case "deliver_at":
		return memberDeliverAt
	case "expires_at":
		return memberExpiresAt
	default:
		return -1
	}
}

// ParseEvent reads one event from a JSON object. The error is a *Problem:
//
//   - invalid_body (400): no JSON object, invalid UTF-8, a byte order mark, raw
//     control characters, nested deeper than MaxDepth, a member twice at the top
//     level; with the reason and the offset in bytes from 0;
//   - invalid_field, unknown_field (422): every field that is wrong, by pointer;
//     null is no value for any member but data;
//   - too_large (413): data exceeds the limit.
//
// Inside data everything that is JSON passes byte for byte: repeated names,
// escaped zeros, lone surrogates, any layout and number (B10, B22, B87).
func ParseEvent(body []byte, limits Limits, now time.Time) (Event, error) {
	raw, err := readMembers(body)
	if err != nil {
		return Event{}, err
	}
	e := Event{Data: raw.values[memberData], ContentType: ContentTypeJSON}
	raw.readIdentity(&e, &limits)
	raw.readTimes(&e, now)
	if problem := raw.faults.problem(); problem != nil {
		return Event{}, problem
	}
	if most := limits.eventBytes(); len(e.Data) > most {
		detail := fmt.Sprintf("The event's data has %d bytes; the limit is %d.", len(e.Data), most)
		return Event{}, tooLarge("/data", LimitEventBytes, detail, fmt.Sprintf("at most %d bytes", most))
	}
	e.Fingerprint = fingerprint(&raw, &e)
	return e, nil
}

// fingerprint hashes the content as given; the texts in raw are what was posted,
// not what it was normalised to.
func fingerprint(raw *members, e *Event) [32]byte {
	room := make([]byte, 0, 256)
	room = appendSized(room, e.Type)
	room = binary.BigEndian.AppendUint64(room, uint64(len(e.Data)))
	h := sha256.New()
	h.Write(room)
	h.Write(e.Data)
	room = room[:0]
	for _, text := range []string{raw.createdAt, e.OrderingKey, raw.deliverAt, raw.expiresAt} {
		room = appendSized(room, text)
	}
	h.Write(room)
	var sum [32]byte
	h.Sum(sum[:0])
	return sum
}

func appendSized(to []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint64(to, uint64(len(text))), text...)
}

// faults collects what is wrong with fields, no more than a reader can use.
type faults []webhook.FieldFault

const maxFaults = 16

func (f *faults) add(pointer string, code webhook.Code, detail, allowed string) {
	if len(*f) < maxFaults {
		*f = append(*f, webhook.FieldFault{Pointer: pointer, Code: code, Detail: detail, Allowed: allowed})
	}
}

func (f *faults) invalid(pointer, detail, allowed string) {
	f.add(pointer, webhook.CodeInvalidField, detail, allowed)
}

// problem is nil when there are none. Its code is that of an unknown field only
// if nothing else is wrong.
func (f *faults) problem() *webhook.Problem {
	if len(*f) == 0 {
		return nil
	}
	p := &webhook.Problem{Code: webhook.CodeUnknownField, Detail: "One field of the event can't be taken.", Fields: *f}
	if len(*f) > 1 {
		p.Detail = fmt.Sprintf("%d fields of the event can't be taken.", len(*f))
	}
	if slices.ContainsFunc(*f, func(one webhook.FieldFault) bool { return one.Code != webhook.CodeUnknownField }) {
		p.Code = webhook.CodeInvalidField
	}
	return p
}
