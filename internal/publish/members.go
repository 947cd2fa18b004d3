package publish

import (
	"bytes"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/posthorn/posthorn/internal/webhook"
)

// members is a posted object taken apart: the raw bytes of each known member's
// value, nil where it was not given, and the faults found so far.
type members struct {
	values [memberCount][]byte
	// The texts of the times as given, for the fingerprint.
	createdAt, deliverAt, expiresAt string
	unknown                         [][]byte
	faults                          faults
}

// readMembers takes a posted object apart. The error is a *Problem about the
// body as a whole; unknown members are faults.
func readMembers(body []byte) (members, error) {
	var m members
	if fault := checkText(body); fault != nil {
		return m, notJSON(fault)
	}
	s := scanner{text: body}
	if s.space() != '{' {
		return m, notObject(&s)
	}
	s.at++
	more := s.space() != '}'
	if !more {
		s.at++
	}
	for more {
		if err := m.readMember(&s); err != nil {
			return m, err
		}
		switch s.space() {
		case ',':
			s.at++
			s.space()
		case '}':
			s.at++
			more = false
		default:
			return m, notJSON(s.fault("a comma or the object's end was expected"))
		}
	}
	if s.space(); s.at < len(body) {
		return m, notJSON(s.fault("more text follows the object"))
	}
	return m, nil
}

// readMember reads a name, a colon and a value.
func (m *members) readMember(s *scanner) error {
	from := s.at
	if fault := s.name(); fault != nil {
		return notJSON(fault)
	}
	name, err := unquote(s.text[from : bytes.LastIndexByte(s.text[:s.at], '"')+1])
	if err != nil {
		return notJSON(&syntaxFault{reason: "a member's name is not valid Unicode", offset: from})
	}
	s.space()
	start := s.at
	if fault := s.value(); fault != nil {
		return notJSON(fault)
	}
	i := memberOf(name)
	if i < 0 {
		return m.addUnknown(name, from)
	}
	if m.values[i] != nil {
		return notJSON(&syntaxFault{reason: fmt.Sprintf("the member %q stands twice", name), offset: from})
	}
	m.values[i] = s.text[start:s.at:s.at]
	return nil
}

// addUnknown notes an unknown member, no more of them than faults hold.
func (m *members) addUnknown(name []byte, offset int) error {
	for _, seen := range m.unknown {
		if bytes.Equal(seen, name) {
			return notJSON(&syntaxFault{reason: "a member stands twice", offset: offset})
		}
	}
	if len(m.unknown) == maxFaults {
		return nil
	}
	m.unknown = append(m.unknown, name)
	const longest = 64
	pointer := "/" + strings.ReplaceAll(strings.ReplaceAll(string(name), "~", "~0"), "/", "~1")
	if len(name) > longest {
		pointer = ""
	}
	m.faults.add(pointer, webhook.CodeUnknownField, "an event has no field of this name", "the fields "+memberNames)
	return nil
}

// unquote decodes a string that the scanner has passed. It fails for lone
// surrogates. Without escapes the result is a part of quoted.
func unquote(quoted []byte) ([]byte, error) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1], nil
	}
	return jsontext.AppendUnquote(nil, quoted)
}

// text reads a member that must be a string; ok is false when it was not given
// or is none, the latter being noted as a fault.
func (m *members) text(member int, pointer, allowed string) (text string, ok bool) {
	raw := m.values[member]
	if raw == nil {
		return "", false
	}
	if raw[0] != '"' {
		m.faults.invalid(pointer, "it must be a string", allowed)
		return "", false
	}
	decoded, err := unquote(raw)
	if err != nil {
		m.faults.invalid(pointer, "it is not valid Unicode", allowed)
		return "", false
	}
	return string(decoded), true
}

// readIdentity reads what says which event this is: id, type, ordering_key; and
// that there is data.
func (m *members) readIdentity(e *Event, limits *Limits) {
	if id, ok := m.text(memberID, "/id", webhook.EventIDForm); ok {
		switch {
		case !webhook.ValidEventID(id):
			m.faults.invalid("/id", "it does not have the form of an event's ID", webhook.EventIDForm)
		case limits.IsOwn != nil && limits.IsOwn(id):
			m.faults.invalid("/id", "it has the form of the IDs that are made here", "an ID that this server did not make, "+webhook.EventIDForm+"; or none at all")
		}
		e.ID = id
	}
	if m.values[memberType] == nil {
		m.faults.invalid("/type", "it is missing", webhook.EventTypeForm)
	}
	if eventType, ok := m.text(memberType, "/type", webhook.EventTypeForm); ok {
		switch {
		case !webhook.ValidEventType(eventType):
			m.faults.invalid("/type", "it does not have the form of an event type", webhook.EventTypeForm)
		case webhook.Operational(eventType):
			m.faults.invalid("/type", "it is kept for events that are made here", "any but "+strings.Join(webhook.OperationalTypes(), ", "))
		}
		e.Type = eventType
	}
	if m.values[memberData] == nil {
		m.faults.invalid("/data", "it is missing", "any JSON value")
	}
	if key, ok := m.text(memberOrderingKey, "/ordering_key", orderingKeyForm); ok {
		if len(key) == 0 || len(key) > webhook.MaxOrderingKeyLength || strings.ContainsFunc(key, unicode.IsControl) {
			m.faults.invalid("/ordering_key", "it is empty, too long or has control characters", orderingKeyForm)
		}
		e.OrderingKey = key
	}
}

const (
	orderingKeyForm = "1 to 256 bytes without control characters"
	timeForm        = "an RFC 3339 time such as 2026-01-31T12:00:00.000Z"
	deliverAtForm   = timeForm + ", at most 30 days ahead, without ordering_key"
	expiresAtForm   = timeForm + ", after now and after deliver_at"
)

// readTimes reads the three times and holds them against now and each other. That
// expires_at has passed is the store's to say: a repeat may come late (N3).
func (m *members) readTimes(e *Event, now time.Time) {
	e.CreatedAt, m.createdAt = m.time(memberCreatedAt, "/created_at", timeForm)
	e.DeliverAt, m.deliverAt = m.time(memberDeliverAt, "/deliver_at", deliverAtForm)
	e.ExpiresAt, m.expiresAt = m.time(memberExpiresAt, "/expires_at", expiresAtForm)
	if !e.ExpiresAt.IsZero() && !e.ExpiresAt.After(e.DeliverAt) {
		m.faults.invalid("/expires_at", "it does not lie after deliver_at", expiresAtForm)
	}
	if !e.DeliverAt.IsZero() {
		if m.values[memberOrderingKey] != nil {
			m.faults.invalid("/deliver_at", "it can't be combined with ordering_key", deliverAtForm)
		}
		if e.DeliverAt.After(now.Add(webhook.DeliverAtAhead)) {
			m.faults.add("/deliver_at", LimitDeliverAt, "it lies too far ahead", deliverAtForm)
		}
		if e.DeliverAt.Before(now) {
			e.DeliverAt = now.UTC().Truncate(time.Millisecond)
		}
	}
}

// expired refuses an event whose time has passed.
func expired() *webhook.Problem {
	var f faults
	f.invalid("/expires_at", "it has passed", expiresAtForm)
	return f.problem()
}

// time reads a member that must be an RFC 3339 time, in UTC and cut to
// milliseconds; zero when it was not given or is none. text is what was given.
func (m *members) time(member int, pointer, allowed string) (at time.Time, text string) {
	text, ok := m.text(member, pointer, allowed)
	if !ok {
		return time.Time{}, ""
	}
	at, err := time.Parse(time.RFC3339, text)
	at = at.UTC().Truncate(time.Millisecond)
	if err != nil || !strictTime(text) || at.Year() < 1 || at.Year() > 9999 || at.IsZero() {
		m.faults.invalid(pointer, "it is no time in the form of RFC 3339", allowed)
		return time.Time{}, text
	}
	return at, text
}

// strictTime refuses what time.Parse takes beyond RFC 3339: one digit an hour, a
// comma before the fraction, offsets of 24 hours.
func strictTime(text string) bool {
	if len(text) < len("2006-01-02T15:04:05Z") || text[13] != ':' || text[19] == ',' {
		return false
	}
	return text[len(text)-1] == 'Z' || text[len(text)-5:len(text)-3] <= "23"
}

// notJSON refuses a body as a whole.
func notJSON(fault *syntaxFault) *webhook.Problem {
	return webhook.NewProblem(webhook.CodeInvalidBody, "The body is no JSON object that can be taken: "+fault.Error()+".")
}

// notObject says what stands in place of the object.
func notObject(s *scanner) *webhook.Problem {
	if s.at == len(s.text) {
		return webhook.NewProblem(webhook.CodeInvalidBody, "The body is empty; a JSON object with type and data was expected.")
	}
	return notJSON(s.fault("a JSON object was expected"))
}
