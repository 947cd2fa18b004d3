package api

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/posthorn/posthorn/internal/webhook"
)

// faults gathers what is wrong with a request, so that its sender can mend all of
// it at once.
type faults []webhook.FieldFault

func (f *faults) add(pointer string, code webhook.Code, detail, allowed string) {
	*f = append(*f, webhook.FieldFault{Pointer: pointer, Code: code, Detail: detail, Allowed: allowed})
}

func (f *faults) invalid(pointer, detail, allowed string) {
	f.add(pointer, webhook.CodeInvalidField, detail, allowed)
}

// problem makes one problem of the faults; nil when there are none. Its code is
// unknown_field when nothing else is wrong.
func (f faults) problem() error {
	if len(f) == 0 {
		return nil
	}
	slices.SortStableFunc(f, func(a, b webhook.FieldFault) int { return strings.Compare(a.Pointer, b.Pointer) })
	code := webhook.CodeUnknownField
	if slices.ContainsFunc(f, func(one webhook.FieldFault) bool { return one.Code != webhook.CodeUnknownField }) {
		code = webhook.CodeInvalidField
	}
	detail := "One field of the request can't be taken."
	if len(f) > 1 {
		detail = strconv.Itoa(len(f)) + " fields of the request can't be taken."
	}
	return &webhook.Problem{Code: code, Detail: detail, Fields: f}
}

// check compares a decoded JSON value with the schema. at is the value's JSON
// pointer. The value itself is never repeated in a fault.
func (s *schema) check(v any, at string, out *faults) {
	s = s.deref()
	if v == nil && s.nullable() {
		return
	}
	switch s.kind() {
	case typeString:
		if text, ok := v.(string); ok {
			s.checkText(text, at, out)
			return
		}
	case typeBoolean:
		if _, ok := v.(bool); ok {
			return
		}
	case typeInteger, typeNumber:
		if n, ok := v.(float64); ok && (s.kind() == typeNumber || n == float64(int64(n))) {
			s.checkNumber(n, at, out)
			return
		}
	case typeArray:
		if items, ok := v.([]any); ok {
			s.checkItems(items, at, out)
			return
		}
	case typeObject:
		if members, ok := v.(map[string]any); ok {
			s.checkMembers(members, at, out)
			return
		}
	default:
		return
	}
	out.invalid(at, "it has the wrong type", s.describe())
}

func (s *schema) checkText(text, at string, out *faults) {
	length := utf8.RuneCountInString(text)
	switch {
	case s.MaxLength > 0 && length > s.MaxLength:
		out.add(at, s.limitCode(), "it is too long", s.describe())
	case length < s.MinLength:
		out.invalid(at, "it is too short", s.describe())
	case s.pattern != nil && !s.pattern.MatchString(text):
		out.invalid(at, "it does not have the form that is asked for", s.describe())
	case len(s.Enum) > 0 && !slices.Contains(s.Enum, text):
		out.invalid(at, "it is none of the values that are possible", s.describe())
	case s.Format == "date-time":
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			out.invalid(at, "it is no time", s.describe())
		}
	}
}

func (s *schema) checkNumber(n float64, at string, out *faults) {
	if s.Minimum != nil && n < float64(*s.Minimum) || s.Maximum != nil && n > float64(*s.Maximum) {
		out.invalid(at, "it lies outside the range", s.describe())
	}
}

func (s *schema) checkItems(items []any, at string, out *faults) {
	if s.MaxItems > 0 && len(items) > s.MaxItems {
		out.add(at, s.limitCode(), "it holds too many items", s.describe())
		return
	}
	if len(items) < s.MinItems {
		out.invalid(at, "it holds too few items", s.describe())
	}
	for i, item := range items {
		s.Items.check(item, at+"/"+strconv.Itoa(i), out)
	}
}

func (s *schema) checkMembers(members map[string]any, at string, out *faults) {
	if s.MaxProperties > 0 && len(members) > s.MaxProperties {
		out.add(at, s.limitCode(), "it holds too many members", s.describe())
		return
	}
	for _, name := range s.Required {
		if _, ok := members[name]; !ok {
			member, _ := s.Properties.find(name)
			out.invalid(pointerTo(at, name), "it is missing", member.deref().describe())
		}
	}
	for name, v := range members {
		s.checkMember(name, v, at, out)
	}
}

func (s *schema) checkMember(name string, v any, at string, out *faults) {
	pointer := pointerTo(at, name)
	if member, ok := s.Properties.find(name); ok {
		member.check(v, pointer, out)
		return
	}
	values, ok := s.AdditionalProperties.(*schema)
	if !ok {
		detail := "there is no field of this name"
		if way, known := s.elsewhere[name]; known {
			detail += "; " + way
		}
		out.add(pointer, webhook.CodeUnknownField, detail, s.memberNames())
		return
	}
	if s.PropertyNames != nil {
		s.PropertyNames.check(name, pointer, out)
	}
	values.check(v, pointer, out)
}

func (s *schema) memberNames() string {
	names := make([]string, len(s.Properties))
	for i, member := range s.Properties {
		names[i] = member.name
	}
	if len(names) == 0 {
		return "no fields: the body is empty or {}"
	}
	return "the fields " + strings.Join(names, ", ")
}

func (s *schema) limitCode() webhook.Code {
	if s.limit != "" {
		return s.limit
	}
	return webhook.CodeInvalidField
}

// describe says in words what the schema takes.
func (s *schema) describe() string {
	text := s.describeType()
	if s.nullable() {
		text += ", or null"
	}
	return text
}

func (s *schema) describeType() string {
	switch s.kind() {
	case typeString:
		switch {
		case len(s.Enum) > 0:
			return "one of " + strings.Join(s.Enum, ", ")
		case s.form != "":
			return s.form
		default:
			return "a text" + bounds(s.MinLength, s.MaxLength, "characters")
		}
	case typeBoolean:
		return "true or false"
	case typeInteger:
		return "a whole number" + s.describeRange()
	case typeNumber:
		return "a number" + s.describeRange()
	case typeArray:
		return "an array" + bounds(s.MinItems, s.MaxItems, "items") + ", each " + s.Items.deref().describe()
	case typeObject:
		if values, ok := s.AdditionalProperties.(*schema); ok {
			return "an object" + bounds(0, s.MaxProperties, "members") + ", each value " + values.describe()
		}
		return "an object"
	default:
		return "any JSON value"
	}
}

func (s *schema) describeRange() string {
	if s.Minimum == nil || s.Maximum == nil {
		return ""
	}
	return " from " + strconv.Itoa(*s.Minimum) + " to " + strconv.Itoa(*s.Maximum)
}

func bounds(low, high int, unit string) string {
	switch {
	case low > 0 && high > 0:
		return " of " + strconv.Itoa(low) + " to " + strconv.Itoa(high) + " " + unit
	case low > 0:
		return " of at least " + strconv.Itoa(low) + " " + unit
	case high > 0:
		return " of at most " + strconv.Itoa(high) + " " + unit
	default:
		return ""
	}
}

// maxPointerName bounds a member's name inside a pointer: names are the caller's,
// and an answer is no place to send long ones back.
const maxPointerName = 128

// pointerTo appends a member to a JSON pointer (RFC 6901). Of a name that is too
// long it points to the object instead.
func pointerTo(at, name string) string {
	if len(name) > maxPointerName {
		return at
	}
	return at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
