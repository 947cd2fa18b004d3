package api

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/webhook"
)

// schema is the part of JSON Schema 2020-12 that describes our bodies and
// parameters. The same value is printed into the OpenAPI document and checks
// requests (check.go), so that what is described is what is enforced.
type schema struct {
	Ref                  string     `json:"$ref,omitempty"`
	Type                 types      `json:"type,omitempty"`
	Format               string     `json:"format,omitempty"`
	Description          string     `json:"description,omitempty"`
	Pattern              string     `json:"pattern,omitempty"`
	MinLength            int        `json:"minLength,omitempty"`
	MaxLength            int        `json:"maxLength,omitempty"`
	Minimum              *int       `json:"minimum,omitempty"`
	Maximum              *int       `json:"maximum,omitempty"`
	Items                *schema    `json:"items,omitempty"`
	MinItems             int        `json:"minItems,omitempty"`
	MaxItems             int        `json:"maxItems,omitempty"`
	Properties           properties `json:"properties,omitempty"`
	Required             []string   `json:"required,omitempty"`
	AdditionalProperties any        `json:"additionalProperties,omitempty"` // false, or a *schema
	MaxProperties        int        `json:"maxProperties,omitempty"`
	PropertyNames        *schema    `json:"propertyNames,omitempty"`
	Enum                 []string   `json:"enum,omitempty"`
	Known                []string   `json:"x-extensible-enum,omitempty"` // values that readers meet; more may come
	Default              any        `json:"default,omitempty"`
	Examples             []any      `json:"examples,omitempty"`
	WriteOnly            bool       `json:"writeOnly,omitempty"`

	// target is what Ref points to.
	target *schema
	// pattern is Pattern, compiled.
	pattern *regexp.Regexp
	// form says in words what Pattern and Format take.
	form string
	// limit names the limit that MaxItems, MaxProperties or MaxLength stand for
	// (GET /v1/limits); its name is the code of the fault.
	limit webhook.Code
	// elsewhere says of members that an object does not take how they are changed.
	elsewhere map[string]string
	// raw is printed in place of everything else: for schemas made elsewhere, by which
	// nothing is checked here.
	raw json.RawMessage
}

// MarshalJSON implements json.Marshaler.
func (s *schema) MarshalJSON() ([]byte, error) {
	if s.raw != nil {
		return s.raw, nil
	}
	type plain schema
	return json.Marshal((*plain)(s))
}

// The types of JSON Schema.
const (
	typeString  = "string"
	typeNumber  = "number"
	typeInteger = "integer"
	typeBoolean = "boolean"
	typeArray   = "array"
	typeObject  = "object"
	typeNull    = "null"
)

// types prints as one name where there is one.
type types []string

// MarshalJSON implements json.Marshaler.
func (t types) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

// property is a member of an object.
type property struct {
	name   string
	schema *schema
}

// properties print in the order of the Go struct's fields.
type properties []property

// MarshalJSON implements json.Marshaler.
func (p properties) MarshalJSON() ([]byte, error) {
	return marshalInOrder(len(p), func(i int) (string, any) { return p[i].name, p[i].schema })
}

// marshalInOrder writes an object whose members have an order.
func marshalInOrder(n int, member func(int) (string, any)) ([]byte, error) {
	out := []byte{'{'}
	for i := range n {
		if i > 0 {
			out = append(out, ',')
		}
		name, v := member(i)
		text, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		out = append(strconv.AppendQuote(out, name), ':')
		out = append(out, text...)
	}
	return append(out, '}'), nil
}

func (p properties) find(name string) (*schema, bool) {
	for _, member := range p {
		if member.name == name {
			return member.schema, true
		}
	}
	return nil, false
}

// registry makes schemas of Go types and holds those of structs by name, as the
// document's components.
type registry struct {
	components map[string]*schema
	// closed lists the closed sets of strings by their Go type.
	closed map[reflect.Type][]string
}

func newRegistry() *registry {
	return &registry{components: map[string]*schema{}, closed: map[reflect.Type][]string{
		reflect.TypeFor[webhook.EndpointState](): texts([]webhook.EndpointState{webhook.EndpointActive, webhook.EndpointPaused, webhook.EndpointDisabled}),
		reflect.TypeFor[webhook.StateReason](): texts([]webhook.StateReason{
			webhook.ReasonPerson, webhook.ReasonStaff, webhook.ReasonSwitchedOff, webhook.ReasonGone, webhook.ReasonNoSuccess, webhook.ReasonFailuresInRow,
		}),
		reflect.TypeFor[contract.Status]():      texts(contract.Statuses()),
		reflect.TypeFor[contract.FailureKind](): texts(contract.FailureKinds()),
		reflect.TypeFor[contract.Trigger]():     texts(contract.Triggers()),
		reflect.TypeFor[webhook.Reason]():       texts(metReasons()),
		reflect.TypeFor[webhook.Scope]():        texts(webhook.Scopes()),
		reflect.TypeFor[webhook.RunState]():     texts([]webhook.RunState{webhook.RunOpen, webhook.RunFinished, webhook.RunDeleted}),
		reflect.TypeFor[webhook.ReplayState](): texts([]webhook.ReplayState{
			webhook.ReplayCounting, webhook.ReplayRunning, webhook.ReplayPaused, webhook.ReplayDone, webhook.ReplayCanceled,
		}),
		reflect.TypeFor[Explained](): texts(explanations()),
	}}
}

func texts[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// of makes the schema of a Go type. Structs become components. Fields are
// described by tags:
//
//	json      name; omitempty or omitzero makes the member optional, a pointer
//	          without either makes it nullable
//	doc       description
//	example   a value: a text as it stands, anything else as JSON
//	default   likewise: what an absent member means
//	enum      the values of a closed set, by comma; checked
//	min, max  bounds of a text's length, a number, an array's or object's size
//	pattern, form   regular expression, and what it means in words
//	secret    "in" for a secret that is taken, "out" for one that is shown once
//	limit     the name of the limit that max stands for
//	items     tags of an array's items or an object's values: "max=…;pattern=…"
//	keys      the same for an object's member names
//
// It is only called with our own types, when the API is made; a mistake in a tag
// is a bug and panics.
func (g *registry) of(t reflect.Type) *schema {
	switch t {
	case reflect.TypeFor[stamp]():
		return &schema{Type: types{typeString}, Format: "date-time", form: "an RFC 3339 time such as 2026-05-22T14:32:18.847Z"}
	case reflect.TypeFor[json.RawMessage]():
		return &schema{}
	}
	switch t.Kind() { //nolint:exhaustive // because bodies have no other kinds; the default says so
	case reflect.Pointer:
		return g.of(t.Elem())
	case reflect.String:
		return &schema{Type: types{typeString}, Known: g.closed[t]}
	case reflect.Bool:
		return &schema{Type: types{typeBoolean}}
	case reflect.Int, reflect.Int64:
		return &schema{Type: types{typeInteger}}
	case reflect.Float64:
		return &schema{Type: types{typeNumber}}
	case reflect.Slice:
		return &schema{Type: types{typeArray}, Items: g.of(t.Elem())}
	case reflect.Map:
		return &schema{Type: types{typeObject}, AdditionalProperties: g.of(t.Elem())}
	case reflect.Struct:
		return g.component(t)
	default:
		panic(fmt.Sprintf("api: no schema for %v", t))
	}
}

// component makes or finds the schema of a struct and returns a reference to it.
func (g *registry) component(t reflect.Type) *schema {
	name := strings.TrimPrefix(t.Name(), "wire")
	name = strings.ToUpper(name[:1]) + name[1:]
	made, ok := g.components[name]
	if !ok {
		made = &schema{Type: types{typeObject}}
		g.components[name] = made
		g.addFields(made, t)
	}
	return &schema{Ref: "#/components/schemas/" + name, target: made}
}

func (g *registry) addFields(s *schema, t reflect.Type) {
	for field := range t.Fields() {
		if field.Anonymous {
			g.addFields(s, field.Type)
			continue
		}
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		member := g.of(field.Type)
		optional := strings.Contains(options, "omit")
		if !optional {
			s.Required = append(s.Required, name)
			if field.Type.Kind() == reflect.Pointer {
				member = member.orNull()
			}
		}
		applyTags(member, field.Tag)
		s.Properties = append(s.Properties, property{name, member})
	}
}

func applyTags(s *schema, tag reflect.StructTag) {
	s.Description = tag.Get("doc")
	if kind, ok := tag.Lookup("secret"); ok {
		s.Format, s.WriteOnly = "password", kind == "in"
	}
	if text, ok := tag.Lookup("example"); ok {
		s.Examples = []any{s.value(text)}
	}
	if text, ok := tag.Lookup("default"); ok {
		s.Default = s.value(text)
	}
	for _, name := range []string{"enum", "min", "max", "pattern", "form", "limit"} {
		if text, ok := tag.Lookup(name); ok {
			s.set(name, text)
		}
	}
	if s.Items != nil {
		s.Items.setAll(tag.Get("items"))
	}
	if values, ok := s.AdditionalProperties.(*schema); ok {
		values.setAll(tag.Get("items"))
		if keys := tag.Get("keys"); keys != "" {
			s.PropertyNames = &schema{Type: types{typeString}}
			s.PropertyNames.setAll(keys)
		}
	}
}

// value reads a tag's value: of a text as it stands, of anything else as JSON.
func (s *schema) value(text string) any {
	if s.kind() == typeString && (text != "null" || !s.nullable()) {
		return text
	}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		panic(fmt.Sprintf("api: a tag's value is no JSON: %v", err))
	}
	return v
}

func (s *schema) setAll(list string) {
	for part := range strings.SplitSeq(list, ";") {
		if name, text, ok := strings.Cut(part, "="); ok {
			s.set(name, text)
		}
	}
}

func (s *schema) set(name, text string) {
	switch name {
	case "enum":
		s.Enum, s.Known = strings.Split(text, ","), nil
	case "pattern":
		s.Pattern = text
		s.compile()
	case "form":
		s.form = text
	case "limit":
		s.limit = webhook.Code(text)
	case "min", "max":
		s.bound(name == "max", mustInt(text))
	default:
		panic("api: unknown tag " + name)
	}
}

// compile readies Pattern for checking.
func (s *schema) compile() { s.pattern = regexp.MustCompile(s.Pattern) }

func mustInt(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic("api: bound " + text + " is no number")
	}
	return n
}

func (s *schema) bound(upper bool, n int) {
	var low, high *int
	switch s.kind() {
	case typeString:
		low, high = &s.MinLength, &s.MaxLength
	case typeArray:
		low, high = &s.MinItems, &s.MaxItems
	case typeObject:
		low, high = new(int), &s.MaxProperties
	default:
		s.Minimum, s.Maximum = orNew(s.Minimum, !upper, n), orNew(s.Maximum, upper, n)
		return
	}
	if upper {
		*high = n
	} else {
		*low = n
	}
}

func orNew(old *int, replace bool, n int) *int {
	if replace {
		return &n
	}
	return old
}

// kind is the schema's type apart from null; "" takes anything.
func (s *schema) kind() string {
	for _, t := range s.Type {
		if t != typeNull {
			return t
		}
	}
	return ""
}

// orNull is the schema, taking null besides. A component is written out for that:
// null beside a reference would be asked of what it leads to.
func (s *schema) orNull() *schema {
	made := *s.deref()
	made.Type = append(append(types{}, made.Type...), typeNull)
	return &made
}

func (s *schema) nullable() bool {
	return slices.Contains(s.Type, typeNull)
}

// deref follows a reference.
func (s *schema) deref() *schema {
	if s.target != nil {
		return s.target
	}
	return s
}

// request makes the schema of a request's body: unlike answers, which may grow,
// it takes no unknown members.
func (g *registry) request(t reflect.Type) *schema {
	s := g.of(t)
	s.closeMembers()
	return s
}

// closeMembers refuses unknown members, in the objects inside too.
func (s *schema) closeMembers() {
	s.target.AdditionalProperties = false
	for _, member := range s.target.Properties {
		if member.schema.target != nil {
			member.schema.closeMembers()
		}
	}
}

// mergePatch makes the schema of a JSON merge patch (RFC 7396) out of that of
// the resource: nothing is required, and null takes a member away. without are
// members that a patch can't change.
func (g *registry) mergePatch(name string, of *schema, without ...string) *schema {
	made := &schema{Type: types{typeObject}, AdditionalProperties: false}
	for _, member := range of.deref().Properties {
		if slices.Contains(without, member.name) {
			continue
		}
		patched := *member.schema.orNull()
		patched.Description, patched.Default = member.schema.Description, nil
		if values, ok := patched.AdditionalProperties.(*schema); ok {
			inner := *values
			inner.Type = append(append(types{}, inner.Type...), typeNull)
			patched.AdditionalProperties = &inner
		}
		made.Properties = append(made.Properties, property{member.name, &patched})
	}
	g.components[name] = made
	return &schema{Ref: "#/components/schemas/" + name, target: made}
}
