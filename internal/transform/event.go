package transform

import (
	"bytes"
	"strconv"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/posthorn/posthorn/internal/webhook"
)

// maxDepth is how deep data may be nested to be read by filters; what is accepted
// is never deeper.
const maxDepth = 1000

// Event is an event as filters see it, with the work that they have done on it.
// It is for one goroutine.
type Event struct {
	of   *webhook.Event
	data func() any
	work uint64
}

var _ interpreter.Activation = (*Event)(nil)

// NewEvent opens an event. data gives what Decode made of its data; it is called
// once a filter reads it, and may be called again.
func NewEvent(of *webhook.Event, data func() any) *Event { return &Event{of: of, data: data} }

// ResolveName implements interpreter.Activation. An event that has not been
// accepted yet has the ID that its caller gave, which may be none.
func (e *Event) ResolveName(name string) (any, bool) {
	switch name {
	case "type", "event.type":
		return types.String(e.of.Type), true
	case "data":
		return e.data(), true
	case "event.id":
		return types.String(e.of.ID), true
	case "event.created_at":
		return types.Timestamp{Time: e.of.CreatedAt.UTC().Truncate(time.Millisecond)}, true
	case "event.ordering_key":
		return types.String(e.of.OrderingKey), true
	case "event.tenant":
		return types.String(e.of.Tenant), true
	default:
		return nil, false
	}
}

// Parent implements interpreter.Activation.
func (*Event) Parent() interpreter.Activation { return nil }

// Decode reads data into the form that filters work on, for NewEvent's data. What is no JSON becomes a value that each expression fails on which reads
// it. Whole numbers without fraction or exponent that fit 64 bits are ints, all
// others doubles, to the nearest; of repeated names the last counts; an escaped
// lone surrogate reads as U+FFFD.
func (*Filters) Decode(data []byte) any {
	dec := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	v, ok := decode(dec, 0)
	if !ok {
		return types.NewErr("the data is no JSON")
	}
	return v
}

func decode(dec *jsontext.Decoder, depth int) (ref.Val, bool) {
	token, err := dec.ReadToken()
	if err != nil || depth > maxDepth {
		return nil, false
	}
	switch token.Kind() {
	case jsontext.KindNull:
		return types.NullValue, true
	case jsontext.KindTrue, jsontext.KindFalse:
		return types.Bool(token.Bool()), true
	case jsontext.KindString:
		return types.String(token.String()), true
	case jsontext.KindNumber:
		return number(token.String()), true
	case jsontext.KindBeginObject:
		return decodeObject(dec, depth)
	case jsontext.KindBeginArray:
		return decodeArray(dec, depth)
	case jsontext.KindInvalid, jsontext.KindEndObject, jsontext.KindEndArray:
	}
	return nil, false
}

func decodeObject(dec *jsontext.Decoder, depth int) (ref.Val, bool) {
	o := &object{}
	for dec.PeekKind() == jsontext.KindString {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, false
		}
		text := name.String()
		v, ok := decode(dec, depth+1)
		if !ok {
			return nil, false
		}
		o.put(text, v)
	}
	end, err := dec.ReadToken()
	return o, err == nil && end.Kind() == jsontext.KindEndObject
}

func decodeArray(dec *jsontext.Decoder, depth int) (ref.Val, bool) {
	var values []ref.Val
	for k := dec.PeekKind(); k != jsontext.KindEndArray; k = dec.PeekKind() {
		v, ok := decode(dec, depth+1)
		if !ok {
			return nil, false
		}
		values = append(values, v)
	}
	_, err := dec.ReadToken()
	return types.NewRefValList(types.DefaultTypeAdapter, values), err == nil
}

// number reads a number by the grammar of JSON. A double that is too large is
// infinite.
func number(text string) ref.Val {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return types.Int(n)
	}
	// The grammar is checked; what is left is out of range, which gives infinity.
	n, _ := strconv.ParseFloat(text, 64)
	return types.Double(n)
}
