package api

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/posthorn/posthorn/internal/webhook"
)

// filters takes "data.n > 1" and nothing else.
type filters struct {
	tried []string
	// compiling is called first; may be nil.
	compiling func()
}

func (f *filters) Compile(expr string) error {
	if f.compiling != nil {
		f.compiling()
	}
	if expr == "broken" {
		return errors.New("engine: out of tune")
	}
	if expr != "data.n > 1" {
		return webhook.InvalidField("/filter", "Line 1, column 3: there is no such name.", "type, event, data")
	}
	return nil
}

func (f *filters) Try(_ context.Context, tenant, expr string, limit int) (FilterTrial, error) {
	f.tried = append(f.tried, tenant+" "+expr+" "+jsonText(limit))
	return FilterTrial{Examined: limit, Matched: 2, Errors: 1, Sample: []string{"evt_1"}}, nil
}

// TestEndpoints_FilterAndOrdering: checked when they are given, shown, changed and
// taken away by a merge patch, reset by a replacing PUT.
func TestEndpoints_FilterAndOrdering(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.Filters = &filters{} })
	const base = `{"url":"https://example.com/","events":["*"]`
	fault := f.send(to("POST", "/v1/endpoints", base+`,"filter":"x"}`)).problem(422, "invalid_field").faultAt("/filter", "invalid_field")
	if fault["detail"] != "Line 1, column 3: there is no such name." || fault["allowed"] != "type, event, data" {
		t.Errorf("the fault is %v", fault)
	}
	for _, bad := range []string{`{"from":[]}`, `{}`, `{"from":["link_id"]}`, `{"from":["data"]}`, `{"from":["data.a"],"key":1}`, `"data.a"`} {
		f.send(to("POST", "/v1/endpoints", base+`,"ordering":`+bad+`}`)).is(422)
	}
	made := f.send(to("PUT", "/v1/endpoints/mine", base+`,"filter":"data.n > 1","ordering":{"from":["data.link_id","data.link.id"]}}`)).is(201)
	if made.text("filter") != "data.n > 1" || jsonText(made.json["ordering"]) != `{"from":["data.link_id","data.link.id"]}` {
		t.Errorf("made %s", made.raw)
	}
	stored, err := f.db.GetEndpoint(t.Context(), "default", "mine")
	if err != nil || stored.Filter != "data.n > 1" || stored.Ordering == nil || len(stored.Ordering.From) != 2 {
		t.Fatalf("stored %+v: %v", stored, err)
	}
	f.send(to("PATCH", "/v1/endpoints/mine", `{"filter":"y"}`)).problem(422, "invalid_field")
	kept := f.send(to("PATCH", "/v1/endpoints/mine", `{"description":"d","ordering":{"from":["data.a"]}}`)).is(200)
	if kept.json["filter"] != "data.n > 1" || jsonText(kept.json["ordering"]) != `{"from":["data.a"]}` {
		t.Errorf("patched to %s", kept.raw)
	}
	gone := f.send(to("PATCH", "/v1/endpoints/mine", `{"filter":null,"ordering":null}`)).is(200)
	if gone.json["filter"] != nil || gone.json["ordering"] != nil {
		t.Errorf("patched to %s", gone.raw)
	}
	f.send(to("PATCH", "/v1/endpoints/mine", `{"filter":"data.n > 1"}`)).is(200)
	if got := f.send(to("PUT", "/v1/endpoints/mine", base+`}`)).is(200); got.json["filter"] != nil {
		t.Errorf("replaced by %s", got.raw)
	}
}

// TestEngine_N25_FiltersAreCompiledOutsideTheWriter: the store's only writer waits for
// no filter, whichever way it is given.
func TestEngine_N25_FiltersAreCompiledOutsideTheWriter(t *testing.T) {
	t.Parallel()
	s, spying := watched()
	compiled := 0
	f := newFixture(t, spying, func(c *Config) {
		c.Filters = &filters{compiling: func() {
			if compiled++; s.changing.Load() {
				t.Error("a filter is compiled inside a change")
			}
		}}
	})
	const base = `{"url":"https://example.com/","events":["*"],"filter":`
	for _, method := range []string{"PUT", "PATCH"} {
		f.send(to("PUT", "/v1/endpoints/mine", base+`"data.n > 1"}`)).is(map[string]int{"PUT": 201, "PATCH": 200}[method])
		compiled = 0
		f.send(to(method, "/v1/endpoints/mine", base+`"data.n > 1"}`)).is(200)
		f.send(to(method, "/v1/endpoints/mine", base+`"x"}`)).problem(422, "invalid_field").faultAt("/filter", "invalid_field")
		if compiled != 2 {
			t.Errorf("%s: %d times compiled", method, compiled)
		}
	}
	// What does not touch it compiles nothing; all faults are told at once.
	compiled = 0
	f.send(to("PATCH", "/v1/endpoints/mine", `{"description":"d"}`)).is(200)
	if compiled != 0 {
		t.Error("a filter that stays is compiled again")
	}
	both := f.send(to("PATCH", "/v1/endpoints/mine", `{"filter":"x","events":["a..b"]}`)).is(422)
	both.faultAt("/events/0", "invalid_field")
	f.send(to("PATCH", "/v1/endpoints/mine", `{"filter":"x","max_in_flight":0}`)).is(422)
	f.send(to("PATCH", "/v1/endpoints/none", `{"filter":"x"}`)).problem(404, "not_found")
}

// TestFilters_Bounds: a filter that is too long names its limit, by bytes; an error
// that is not for the caller is not shown.
func TestFilters_Bounds(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.Filters = &filters{} })
	for _, long := range []string{strings.Repeat("x", 2049), strings.Repeat("ä", 1025)} {
		f.send(to("POST", "/v1/filters/check", `{"filter":"`+long+`"}`)).problem(422, "invalid_field").faultAt("/filter", "filter_bytes")
		f.send(to("POST", "/v1/endpoints", `{"url":"https://example.com/","events":["*"],"filter":"`+long+`"}`)).problem(422, "invalid_field").faultAt("/filter", "filter_bytes")
	}
	f.send(to("POST", "/v1/filters/check", `{"filter":"`+strings.Repeat("x", 2048)+`"}`)).problem(422, "invalid_field").faultAt("/filter", "invalid_field")
	if got := f.send(to("POST", "/v1/filters/check", `{"filter":"broken"}`)).problem(500, "internal"); strings.Contains(got.raw, "tune") {
		t.Errorf("an internal error is shown: %s", got.raw)
	}
}

// TestFilters_Check: a dry run, of the tenant's own events.
func TestFilters_Check(t *testing.T) {
	t.Parallel()
	all := &filters{}
	f := newFixture(t, func(c *Config) { c.Filters = all })
	key := f.tenant("acme")
	got := f.send(to("POST", "/v1/filters/check", `{"filter":"data.n > 1"}`).key(key)).is(200)
	if got.json["examined"] != 1000.0 || got.json["matched"] != 2.0 || got.json["errors"] != 1.0 || jsonText(got.json["sample"]) != `["evt_1"]` {
		t.Errorf("tried as %s", got.raw)
	}
	f.send(to("POST", "/v1/filters/check", `{"filter":"data.n > 1","limit":5}`).key(key)).is(200)
	if jsonText(all.tried) != `["acme data.n \u003e 1 1000","acme data.n \u003e 1 5"]` {
		t.Errorf("tried %v", all.tried)
	}
	f.send(to("POST", "/v1/filters/check", `{"filter":"x"}`).key(key)).problem(422, "invalid_field").faultAt("/filter", "invalid_field")
	f.send(to("POST", "/v1/filters/check", `{"filter":"data.n > 1","limit":1001}`).key(key)).problem(422, "invalid_field")
	none := newFixture(t)
	none.send(to("POST", "/v1/filters/check", `{"filter":"data.n > 1"}`)).problem(404, "not_found")
	none.send(to("POST", "/v1/endpoints", `{"url":"https://example.com/","events":["*"],"filter":"data.n > 1"}`)).problem(422, "invalid_field").faultAt("/filter", "invalid_field")
}
