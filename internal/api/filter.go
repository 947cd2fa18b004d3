package api

import (
	"net/http"
	"reflect"

	"github.com/posthorn/posthorn/internal/webhook"
)

// filterTries is how many events a filter is tried on.
const filterTries = 1000

type filterInput struct {
	Filter string `json:"filter" min:"1" max:"4096" doc:"A CEL expression over type, headers and data." example:"data.amount > 100"`
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
	var found faults
	if a.checkFilter("/filter", in.Filter, &found); len(found) > 0 {
		return reply{}, found.problem()
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

// checkFilter asks whether an expression is a filter.
func (a *API) checkFilter(pointer, expr string, found *faults) {
	const allowed = "a CEL expression that is true or false, over type, headers and data, such as data.amount > 100"
	if expr == "" {
		return
	}
	if a.cfg.Filters == nil {
		found.invalid(pointer, "this server has no filters", "no filter")
		return
	}
	if err := a.cfg.Filters.Compile(expr); err != nil {
		found.invalid(pointer, err.Error(), allowed)
	}
}
