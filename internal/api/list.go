package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func base64Text(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// listParams are those that every list takes.
func listParams() []param {
	low, high := 1, 250
	return []param{
		{name: "cursor", in: "query", description: "Where to go on: next or prev of a page of the same list, with the same filters and order.", schema: &schema{Type: types{typeString}, MaxLength: 64, form: "next or prev of an earlier page of this list, with the same tenant, filters and order"}},
		{name: "limit", in: "query", description: "How many items a page may have. It may have fewer while next is set.", schema: &schema{Type: types{typeInteger}, Minimum: &low, Maximum: &high, Default: 50}},
		{name: "order", in: "query", description: "Newest first, or oldest first, by acceptance.", schema: &schema{Type: types{typeString}, Enum: []string{"desc", "asc"}, Default: "desc"}},
	}
}

// spanParams bound a list by time.
func spanParams() []param {
	moment := &schema{Type: types{typeString}, Format: "date-time", form: "an RFC 3339 time such as 2026-05-22T14:32:18.847Z; a + in it is written %2B"}
	return []param{
		{name: "since", in: "query", schema: moment, description: "Only what was accepted at this time or later.", example: "2026-05-22T00:00:00Z"},
		{name: "until", in: "query", schema: moment, description: "Only what was accepted before this time.", example: "2026-05-23T00:00:00Z"},
	}
}

// checkParams reads the query and checks each parameter against its schema.
func checkParams(c *call) error {
	query, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return webhook.InvalidField("query", "The query string can't be read.", "name=value pairs joined by &, percent-encoded UTF-8")
	}
	c.query = query
	var found faults
	for name, values := range query {
		i := slices.IndexFunc(c.op.params, func(p param) bool { return p.in == "query" && p.name == name })
		switch {
		case i < 0:
			found.add(shortName(name), webhook.CodeUnknownField, "there is no query parameter of this name", paramNames(c.op.params))
		case len(values) > 1:
			found.invalid(name, "it is given more than once", "each parameter once; several values separated by commas where that is possible")
		default:
			c.op.params[i].check(values[0], &found)
		}
	}
	for _, p := range c.op.params {
		if values := c.r.Header.Values(p.name); p.in == "header" && len(values) > 0 {
			if len(values) > 1 {
				found.invalid(p.name, "it is given more than once", "the header once")
				continue
			}
			p.check(values[0], &found)
		}
	}
	return found.problem()
}

func (p *param) check(text string, found *faults) {
	texts := []string{text}
	if p.many {
		texts = strings.Split(text, ",")
	}
	for _, one := range texts {
		var v any = one
		if p.schema.kind() == typeInteger {
			n, err := strconv.ParseInt(one, 10, 32)
			if err != nil {
				found.invalid(p.name, "it is no whole number", p.schema.describe())
				return
			}
			v = float64(n)
		}
		before := len(*found)
		p.schema.check(v, p.name, found)
		if len(*found) > before {
			return
		}
	}
}

func shortName(name string) string {
	if len(name) > maxPointerName {
		return "query"
	}
	return strings.ToValidUTF8(name, "\uFFFD")
}

func paramNames(params []param) string {
	var names []string
	for _, p := range params {
		if p.in == "query" {
			names = append(names, p.name)
		}
	}
	if len(names) == 0 {
		return "no parameters"
	}
	return "the parameters " + strings.Join(names, ", ")
}

// many returns the values of a parameter that takes several, nil when absent.
func many[T ~string](c *call, name string) []T {
	if !c.query.Has(name) {
		return nil
	}
	var out []T
	for text := range strings.SplitSeq(c.query.Get(name), ",") {
		if !slices.Contains(out, T(text)) {
			out = append(out, T(text))
		}
	}
	return out
}

// span reads since and until, which are times: they were checked.
func (c *call) span() store.Span {
	at := func(name string) time.Time {
		t, err := time.Parse(time.RFC3339, c.query.Get(name))
		if err != nil {
			return time.Time{}
		}
		return t.UTC()
	}
	return store.Span{Since: at("since"), Until: at("until")}
}

// A cursor is 24 bytes in base64url: 8 for the position with the direction in
// its lowest bit, 16 of an HMAC over that and over everything that the list
// depends on. It tells its holder nothing and fits no other list.
const cursorSize = 8 + 16

// page reads the list parameters.
func (a *API) page(c *call) (store.Page, error) {
	p := store.Page{Limit: 50, Ascending: c.query.Get("order") == "asc"}
	if c.query.Has("limit") {
		n, err := strconv.Atoi(c.query.Get("limit"))
		if err != nil {
			return p, err
		}
		p.Limit = n
	}
	text := c.query.Get("cursor")
	if text == "" {
		return p, nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != cursorSize || !hmac.Equal(raw, a.sealCursor(c, raw[:8])) {
		return p, webhook.InvalidField("cursor", "The cursor is not one of this list.", "next or prev of an earlier page of this list, with the same tenant, filters and order")
	}
	bits := binary.BigEndian.Uint64(raw)
	p.After, p.Backward = int64(bits>>1), bits&1 == 1
	return p, nil
}

// sealCursor appends the HMAC to a cursor's position.
func (a *API) sealCursor(c *call, position []byte) []byte {
	mac := hmac.New(sha256.New, a.cfg.CursorKey)
	part := func(text string) {
		mac.Write(binary.BigEndian.AppendUint32(nil, uint32(len(text))))
		mac.Write([]byte(text))
	}
	part("list cursor 1")
	part(c.op.id)
	part(c.tenant)
	part(c.id()) // of a list inside something, "" for others
	part(strconv.FormatBool(c.query.Get("order") == "asc"))
	for _, p := range c.op.params {
		if p.in == "query" && p.name != "cursor" && p.name != "limit" && p.name != "order" {
			part(c.query.Get(p.name))
		}
	}
	mac.Write(position)
	return mac.Sum(slices.Clone(position))[:cursorSize]
}

func (a *API) cursor(c *call, position int64, backward bool) *string {
	if position == 0 {
		return nil
	}
	bits := uint64(position) << 1
	if backward {
		bits |= 1
	}
	text := base64.RawURLEncoding.EncodeToString(a.sealCursor(c, binary.BigEndian.AppendUint64(nil, bits)))
	return &text
}

// wirePage is a page of a list.
type wirePage struct {
	Data any     `json:"data"`
	Next *string `json:"next"`
	Prev *string `json:"prev"`
}

// pageOf answers with a page, each item shown by show.
func pageOf[T, W any](a *API, c *call, listed store.Listed[T], show func(T) W) reply {
	data := make([]W, len(listed.Items))
	for i, item := range listed.Items {
		data[i] = show(item)
	}
	return reply{status: http.StatusOK, value: wirePage{
		Data: data, Next: a.cursor(c, listed.Next, false), Prev: a.cursor(c, listed.Prev, true),
	}}
}

// listOf is the schema of a page.
func (g *registry) listOf(item *schema, name string) *schema {
	cursor := func(doc string) *schema {
		return &schema{Type: types{typeString, typeNull}, Description: doc}
	}
	g.components[name] = &schema{
		Type: types{typeObject}, Required: []string{"data", "next", "prev"},
		Properties: properties{
			{"data", &schema{Type: types{typeArray}, Items: item, Description: "The items. There may be fewer than asked for, even none, while next is set."}},
			{"next", cursor("The cursor of the page behind this one; null at the end.")},
			{"prev", cursor("The cursor of the page before this one; null at the beginning.")},
		},
	}
	return &schema{Ref: "#/components/schemas/" + name, target: g.components[name]}
}
