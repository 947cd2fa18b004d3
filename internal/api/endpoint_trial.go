package api

import (
	"net/http"
	"reflect"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/webhook"
)

// wireTest is the one attempt of a test, and the delivery that it belongs to.
type wireTest struct {
	wireAttempt
	Delivery *string         `json:"delivery" doc:"The test's delivery; null where the contract logs no tests." example:"dlv_01k8x3m5t2f4v9z7q1c6b8n0da"`
	Status   contract.Status `json:"status" doc:"How the test ended: delivered or failed." example:"delivered"`
}

func (a *API) testOperations() []*operation {
	if a.cfg.Test == nil {
		return nil
	}
	return []*operation{{
		id: "testEndpoint", method: http.MethodPost, path: "/v1/endpoints/{id}/test", tag: "endpoints", scope: webhook.ScopeManage, tenancy: tenantOne,
		summary: "Send an endpoint a test event", body: a.schemas.emptyBody(), handle: a.testEndpoint,
		description: "One try of the contract's test event, whatever the endpoint's patterns and filter; it counts for nothing, and goes out at once. The answer waits for its end: a time-out of the receiver is a result, too.",
		refusals:    []webhook.Code{webhook.CodeEndpointOff, webhook.CodeConflict},
		answers:     []answer{{status: 200, description: "The attempt.", schema: a.schemas.of(reflect.TypeFor[wireTest]())}},
	}}
}

func (a *API) testEndpoint(c *call) (reply, error) {
	e, err := a.cfg.Store.GetEndpoint(c.r.Context(), c.tenant, c.id())
	if err != nil {
		return reply{}, err
	}
	found, ok := a.cfg.Contracts.Lookup(e.Contract)
	switch {
	case !ok:
		return reply{}, webhook.NewProblem(webhook.CodeConflict, "the endpoint's contract is not known to this server")
	case !e.On() && !found.Contract.Test.WhileOff:
		return reply{}, webhook.NewProblem(webhook.CodeEndpointOff, "the endpoint is off, and its contract tests none that is")
	}
	result, err := a.cfg.Test(c.r.Context(), e, found.Contract)
	if err != nil {
		return reply{}, err
	}
	if result.Attempt == nil {
		return reply{}, webhook.NewProblem(webhook.CodeOverloaded, "the test did not come to its end in the time that there is; it may still be sent")
	}
	return reply{status: http.StatusOK, value: wireTest{showAttempt(result.Attempt), orNull(result.Delivery), result.Status}}, nil
}
