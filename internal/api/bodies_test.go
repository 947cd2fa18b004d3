package api

import (
	"testing"
)

// All bodies together have a bound, whatever each may have by itself.
func TestEngine_N5_BodiesShareABudget(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.endpoint(adminKey)
	f.api.bodies.most = 1000
	f.send(to("POST", "/v1/events", `{"type":"a.b","data":{}}`)).is(202)
	if used := f.api.bodies.used.Load(); used != 0 {
		t.Fatalf("%d bytes stay taken after the answer", used)
	}
	if !f.api.bodies.take(990) {
		t.Fatal("the budget is not free")
	}
	refused := f.send(to("POST", "/v1/events", `{"type":"a.b","data":{"n":1}}`)).problem(503, "overloaded")
	if refused.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	f.api.bodies.give(990)
	f.send(to("POST", "/v1/events", `{"type":"a.b","data":{"n":1}}`)).is(202)
}
