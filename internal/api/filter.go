package api

import (
	"fmt"
	"net/http"
	"reflect"
	"strconv"

	"github.com/posthorn/posthorn/internal/webhook"
)

const (
	// filterTries is how many events a filter is tried on.
	filterTries = 1000
	// maxFilterBytes is the longest expression that Filters compiles.
	maxFilterBytes = 2048
)

type filterInput struct {
	Filter string `json:"filter" min:"1" max:"2048" limit:"filter_bytes" doc:"A CEL expression over type, event (id, type, created_at, ordering_key, tenant) and data." example:"data.amount > 100"`
	Limit  int    `json:"limit,omitempty" min:"1" max:"1000" default:"1000" doc:"How many of the newest events to try it on." example:"1000"`
}

type wireFilterTrial struct {
	Examined int      `json:"examined" doc:"How many events it was tried on; fewer than asked for where there are fewer, or the time ran out." example:"1000"`
	Matched  int      `json:"matched" doc:"How many of them fulfil it." example:"17"`
	Errors   int      `json:"errors" doc:"On how many it could not be decided, because a member is missing or has another type; those are not delivered." example:"0"`
	Sample   []string `json:"sample" doc:"The IDs of some that fulfil it, newest first." example:"[\"evt_01k8x3m5t2f4v9z7q1c6b8n0da\"]"`
}

func (a *API) filterOperations() []*operation {
	if a.cfg.Filters == nil {
		return nil
	}
	return []*operation{{
		id: "checkFilter", method: http.MethodPost, path: "/v1/filters/check", tag: "endpoints", scope: webhook.ScopeRead, tenancy: tenantOne,
		summary: "Try a filter on recent events", handle: a.tryFilter,
		description: "Says how many of the tenant's newest events an endpoint with this filter would get, were its patterns to choose them all. Nothing is sent or changed.",
		body:        a.schemas.bodyOf(reflect.TypeFor[filterInput](), map[string]any{"filter": "data.amount > 100"}),
		answers:     []answer{{status: 200, description: "What the filter makes of them.", schema: a.schemas.of(reflect.TypeFor[wireFilterTrial]())}},
	}}
}

func (a *API) tryFilter(c *call) (reply, error) {
	in, err := bodyAs[filterInput](c)
	if err != nil {
		return reply{}, err
	}
	found, err := a.checkFilter(in.Filter)
	if err != nil {
		return reply{}, err
	}
	if err := found.problem(); err != nil {
		return reply{}, err
	}
	if in.Limit == 0 {
		in.Limit = filterTries
	}
	tried, err := a.cfg.Filters.Try(c.r.Context(), c.tenant, in.Filter, in.Limit)
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, value: wireFilterTrial(tried)}, nil
}

// checkFilter asks whether an expression is a filter. Compiling takes its time:
// never call it inside a change that the store runs.
func (a *API) checkFilter(expr string) (found faults, err error) {
	const pointer = "/filter"
	switch {
	case expr == "":
		return nil, nil
	case a.cfg.Filters == nil:
		found.invalid(pointer, "this server has no filters", "no filter")
		return found, nil
	case len(expr) > maxFilterBytes:
		found.add(pointer, limitFilterBytes, "it is too long", "an expression of at most "+strconv.Itoa(maxFilterBytes)+" bytes")
		return found, nil
	}
	if err = a.cfg.Filters.Compile(expr); err == nil {
		return nil, nil
	}
	p, ok := webhook.AsProblem(err)
	if !ok {
		return nil, fmt.Errorf("checking a filter: %w", err)
	}
	for _, f := range p.Fields {
		found.add(pointer, f.Code, f.Detail, f.Allowed)
	}
	return found, nil
}
