package transform

import (
	"strings"
	"testing"
)

func TestFilters_RefusalsSayWhereAndWhat(t *testing.T) {
	t.Parallel()
	f := filters(t)
	for _, c := range []struct{ expr, detail, allowed string }{
		{``, "no text, or too much", "1 to 2048 bytes"},
		{strings.Repeat(" ", MaxBytes) + `true`, "no text, or too much", "1 to 2048 bytes"},
		{`type == `, "Line 1, column 9: something stands there that no expression can have", "a CEL expression"},
		{"type == \"a\" &&\n  secret == 1", "Line 2, column 3: there is no variable or function of this name", "ordering_key and tenant"},
		{`event.headers == ""`, "there is no variable or function of this name", "event id, type"},
		{`event.i == ""`, "Line 1, column 6: there is no variable", "event id, type"},
		{`type.name == ""`, "has no such field", "event id, type"},
		{`type == 1`, "does not take values of these types", "can be compared with anything"},
		{`type && true`, "does not take values of these types", "int()"},
		{`type + 1 == ""`, "does not take values of these types", "int()"},
		{`type.exists(x, true)`, "only lists, maps and data", "int()"},
		{`type`, "is not true or false", "data.active == true"},
		{`data.active`, "is not true or false", "data.active == true"},
		{`google.protobuf.Struct{} == data`, "objects can't be made", "lists"},
		{`{"a": 1} == data`, "Line 1, column 1: maps can't be made", "lists"},
		{`type.matches(data.re)`, "must be written out", "RE2"},
		{`matches(type, type)`, "must be written out", "RE2"},
		{`type.matches("(")`, "the pattern of matches() can't be used", "RE2"},
		{`type.matches("(a{1000}){1000}")`, "the pattern of matches() can't be used", "moderate size"},
		{`type.matches("[a-z]{400}[a-z]{400}")`, "the pattern of matches() can't be used", "moderate size"},
		{`event.created_at.getHours("Europe/Berlin") == 1`, "times are in UTC", "without a zone"},
		{`data.a.all(a, data.a.all(b, data.a.all(c, data.a.all(d, a == d))))`, "too much work", "two levels"},
		{strings.Repeat("(", 100) + "true" + strings.Repeat(")", 100), "nested too deep", "50 levels"},
		{"\xff", "something stands there", "a CEL expression"},
	} {
		fault := refused(t, f, c.expr)
		if !strings.Contains(fault.Detail, c.detail) || !strings.Contains(fault.Allowed, c.allowed) {
			t.Errorf("%.60q: %q, allowed %q", c.expr, fault.Detail, fault.Allowed)
		}
		if strings.Contains(fault.Detail, "secret") || strings.Contains(fault.Detail, "ERROR") {
			t.Errorf("%.60q: the answer quotes the expression: %q", c.expr, fault.Detail)
		}
	}
}

func TestFilters_TwoLoopsPass(t *testing.T) {
	t.Parallel()
	f := filters(t)
	c := compiled(t, f, `data.items.exists(i, data.wanted.exists(w, i.sku == w))`)
	if ok, err := c.Match(opened(f, `{"items":[{"sku":"a"},{"sku":"b"}],"wanted":["c","b"]}`)); !ok || err != nil {
		t.Fatal(ok, err)
	}
}
