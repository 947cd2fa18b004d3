package api

import (
	"errors"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/posthorn/posthorn/internal/webhook"
)

// stamp is a time on the wire: RFC 3339, UTC, milliseconds.
type stamp time.Time

const stampLayout = "2006-01-02T15:04:05.000Z07:00"

// MarshalText implements encoding.TextMarshaler.
func (s stamp) MarshalText() ([]byte, error) {
	return time.Time(s).UTC().AppendFormat(nil, stampLayout), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *stamp) UnmarshalText(text []byte) error {
	t, err := time.Parse(time.RFC3339, string(text))
	*s = stamp(t.UTC())
	return err
}

// stampOrNull is nil for the zero time.
func stampOrNull(t time.Time) *stamp {
	if t.IsZero() {
		return nil
	}
	s := stamp(t)
	return &s
}

// orNull is nil for the zero value.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// milliseconds is a duration on the wire, to the microsecond; nil for none.
func milliseconds(d time.Duration) *float64 {
	if d <= 0 {
		return nil
	}
	ms := float64(max(d.Microseconds(), 1)) / 1000
	return &ms
}

// encode writes our own values: lists and maps are never null, members of maps
// are sorted, and bytes of receivers that are no UTF-8 can't break an answer.
func encode(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	text, err := encode(v)
	if err != nil {
		// Our own types always encode; TestWire_Encodes proves it.
		panic(err)
	}
	text = append(text, '\n')
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// asText shows bytes as a text, or as base64 where they are none.
func asText(b []byte) (text, encoding string) {
	if utf8.Valid(b) {
		return string(b), "utf8"
	}
	return base64Text(b), "base64"
}

// decodeDocument reads the body as JSON and checks it against the operation's
// schema. JSON is read strictly: UTF-8, no member twice, nothing behind the end.
func decodeDocument(c *call) error {
	if err := json.Unmarshal(c.body, &c.document); err != nil {
		return syntaxProblem(err)
	}
	var found faults
	c.op.body.schema.check(c.document, "", &found)
	return found.problem()
}

// syntaxProblem says where JSON breaks. The parser's text may hold a part of the
// body, so only the place is taken from it.
func syntaxProblem(err error) error {
	const allowed = "one JSON document in UTF-8, each member once"
	if tooLarge, ok := errors.AsType[*json.SemanticError](err); ok {
		return webhook.InvalidField(shortPointer(string(tooLarge.JSONPointer)), "it is a number too large to be read", "a smaller number")
	}
	p := &webhook.Problem{Code: webhook.CodeInvalidBody, Detail: "The body is no valid JSON."}
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok {
		return p
	}
	detail := "the JSON breaks at byte " + strconv.FormatInt(syntax.ByteOffset, 10)
	if errors.Is(err, jsontext.ErrDuplicateName) {
		detail = "a member stands twice at byte " + strconv.FormatInt(syntax.ByteOffset, 10)
	}
	p.Fields = []webhook.FieldFault{{Pointer: shortPointer(string(syntax.JSONPointer)), Code: webhook.CodeInvalidBody, Detail: detail, Allowed: allowed}}
	return p
}

// shortPointer keeps long names of the caller out of the answer.
func shortPointer(pointer string) string {
	if len(pointer) > 4*maxPointerName {
		return ""
	}
	return pointer
}

// bodyAs decodes the body into the type that the operation's schema was made of.
func bodyAs[T any](c *call) (T, error) { return decodeAs[T](c.document) }

// decodeAs gives a document that fits a schema its Go type; that it can't is a
// bug. The way leads over the document, not over the text as posted: 28.0 and
// 2.8e1 are whole numbers to a schema, and no int to a decoder.
func decodeAs[T any](document any) (T, error) {
	var v T
	text, err := json.Marshal(document)
	if err != nil {
		return v, err
	}
	return v, json.Unmarshal(text, &v, json.RejectUnknownMembers(true))
}
