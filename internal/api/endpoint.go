package api

import (
	"errors"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// countWaitingTo bounds the counting of an endpoint's waiting deliveries.
const countWaitingTo = 10_000

// maxRepeats is how often a change is repeated that met another one.
const maxRepeats = 8

func (a *API) endpointOperations() []*operation {
	one := a.schemas.of(reflect.TypeFor[wireEndpoint]())
	created := a.schemas.of(reflect.TypeFor[wireCreatedEndpoint]())
	take := a.schemas.bodyOf(reflect.TypeFor[endpointInput](), map[string]any{"url": "https://example.com/webhooks", "events": []string{"link.created", "click"}})
	patch := *take
	patch.schema = a.schemas.mergePatch("EndpointPatch", take.schema, "secret")
	patch.schema.deref().elsewhere = map[string]string{
		"state":  "an endpoint's state changes by POST to /pause, /resume or /enable below it",
		"secret": "an endpoint's secret changes by POST to /rotate-secret below it",
	}
	patch.types = []string{"application/merge-patch+json", "application/json"}
	patch.optional = true
	patch.example = map[string]any{"description": "Orders to the warehouse", "metadata": map[string]any{"customer": nil}}
	version := param{name: "If-Match", in: "header", description: "The endpoint's version; if it has changed meanwhile, the answer is 409 and nothing is done.", example: "3",
		schema: &schema{Type: types{typeString}, Pattern: `^("?[0-9]{1,18}"?|\*)$`, form: "the endpoint's version, a number, or *"}}
	version.schema.compile()
	location := answerHeader{"Location", "The path of the new endpoint.", &schema{Type: types{typeString}}}
	return []*operation{
		{
			id: "listEndpoints", method: http.MethodGet, path: "/v1/endpoints", tag: "endpoints", scope: webhook.ScopeRead, tenancy: tenantAcross,
			summary: "List endpoints", list: true, params: append(listParams(), langParam()), handle: a.listEndpoints,
			answers: []answer{{status: 200, description: "A page of endpoints.", schema: a.schemas.listOf(one, "EndpointList")}},
		},
		{
			id: "createEndpoint", method: http.MethodPost, path: "/v1/endpoints", tag: "endpoints", scope: webhook.ScopeManage, tenancy: tenantOne,
			summary: "Create an endpoint", body: take, handle: a.createEndpoint, refusals: []webhook.Code{webhook.CodeConflict},
			answers: []answer{{status: 201, description: "The endpoint, with its signing secret. The secret is shown here and never again.", schema: created, headers: []answerHeader{location}}},
		},
		{
			id: "getEndpoint", method: http.MethodGet, path: "/v1/endpoints/{id}", tag: "endpoints", scope: webhook.ScopeRead, tenancy: tenantOne,
			summary: "Read an endpoint", params: []param{langParam()}, handle: a.getEndpoint,
			answers: []answer{{status: 200, description: "The endpoint.", schema: one}},
		},
		{
			id: "putEndpoint", method: http.MethodPut, path: "/v1/endpoints/{id}", tag: "endpoints", scope: webhook.ScopeManage, tenancy: tenantOne,
			summary: "Create or replace an endpoint under an ID of your own", body: take, params: []param{version}, handle: a.putEndpoint,
			description: "Safe to repeat. Replacing gives every member that is left out its default, except the secret and the switch, which stay as they are; a secret that is given becomes the only one.",
			refusals:    []webhook.Code{webhook.CodeConflict},
			answers: []answer{
				{status: 200, description: "The endpoint was replaced.", schema: one},
				{status: 201, description: "The endpoint was created; its secret is shown here and never again.", schema: created, headers: []answerHeader{location}},
			},
		},
		{
			id: "patchEndpoint", method: http.MethodPatch, path: "/v1/endpoints/{id}", tag: "endpoints", scope: webhook.ScopeManage, tenancy: tenantOne,
			summary: "Change an endpoint", body: &patch, params: []param{version}, handle: a.patchEndpoint,
			description: "A JSON merge patch (RFC 7396): members that are given replace what is there, null takes it away, objects are merged member by member.",
			refusals:    []webhook.Code{webhook.CodeConflict},
			answers:     []answer{{status: 200, description: "The changed endpoint.", schema: one}},
		},
		{
			id: "deleteEndpoint", method: http.MethodDelete, path: "/v1/endpoints/{id}", tag: "endpoints", scope: webhook.ScopeManage, tenancy: tenantOne,
			summary: "Delete an endpoint", handle: a.deleteEndpoint,
			description: "No attempt starts after the answer. Waiting deliveries end as canceled and the log stays, unless the contract says that the log is deleted with the endpoint.",
			answers:     []answer{{status: 204, description: "The endpoint is deleted."}},
		},
	}
}

func (a *API) listEndpoints(c *call) (reply, error) {
	page, err := a.page(c)
	if err != nil {
		return reply{}, err
	}
	listed, err := a.cfg.Store.ListEndpoints(c.r.Context(), c.tenant, page)
	if err != nil {
		return reply{}, err
	}
	return pageOf(a, c, listed, a.showEndpoints(c)), nil
}

func (a *API) getEndpoint(c *call) (reply, error) {
	e, err := a.cfg.Store.GetEndpoint(c.r.Context(), c.tenant, c.id())
	if err != nil {
		return reply{}, err
	}
	return a.endpointReply(c, e)
}

func (a *API) deleteEndpoint(c *call) (reply, error) {
	e, err := a.cfg.Store.GetEndpoint(c.r.Context(), c.tenant, c.id())
	if err != nil {
		return reply{}, err
	}
	purge := a.rulesOf(e).History.OnEndpointDelete == "delete" // P3
	if err := a.cfg.Store.DeleteEndpoint(c.r.Context(), c.tenant, c.id(), purge, c.now); err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusNoContent}, nil
}

func (a *API) createEndpoint(c *call) (reply, error) {
	in, err := bodyAs[endpointInput](c)
	if err != nil {
		return reply{}, err
	}
	filter, err := a.checkFilter(in.Filter)
	if err != nil {
		return reply{}, err
	}
	return a.addEndpoint(c, "", &in, filter)
}

// addEndpoint creates an endpoint; for the id "" it makes one. filter is what is
// wrong with its filter.
func (a *API) addEndpoint(c *call, id string, in *endpointInput, filter faults) (reply, error) {
	t, err := a.cfg.Store.GetTenant(c.r.Context(), c.tenant)
	if err != nil {
		return reply{}, err
	}
	if id == "" {
		if id, err = a.newID(webhook.PrefixEndpoint, c.now); err != nil {
			return reply{}, err
		}
	}
	e := &webhook.Endpoint{
		ID: id, Tenant: c.tenant, State: webhook.EndpointActive, StateSince: c.now, Version: 1, CreatedAt: c.now, UpdatedAt: c.now,
	}
	secret, err := a.apply(e, in, t.DefaultContract, filter, c.now)
	if err != nil {
		return reply{}, err
	}
	if in.Active != nil && !*in.Active {
		e.State, e.StateReason = webhook.EndpointPaused, webhook.ReasonSwitchedOff
	}
	made, err := a.cfg.Store.CreateEndpoint(c.r.Context(), e)
	if err != nil {
		return reply{}, err
	}
	shown, err := a.showWithWaiting(c, made)
	if err != nil {
		return reply{}, err
	}
	header := endpointHeader(made)
	header.Set("Location", "/v1/endpoints/"+made.ID)
	return reply{status: http.StatusCreated, value: wireCreatedEndpoint{shown, secret}, header: header}, nil
}

func (a *API) putEndpoint(c *call) (reply, error) {
	if !webhook.ValidCallerID(c.id()) {
		return reply{}, webhook.InvalidField("id", "the ID in the path can't name an endpoint", webhook.CallerIDForm)
	}
	in, err := bodyAs[endpointInput](c)
	if err != nil {
		return reply{}, err
	}
	filter, err := a.checkFilter(in.Filter)
	if err != nil {
		return reply{}, err
	}
	// Another request may create or delete it between the two steps.
	for range maxRepeats {
		replaced, err := a.replaceEndpoint(c, &in, filter)
		if !errors.Is(err, store.ErrNotFound) {
			return replaced, err
		}
		if c.r.Header.Get("If-Match") != "" {
			return reply{}, errStaleVersion()
		}
		created, err := a.addEndpoint(c, c.id(), &in, filter)
		if !errors.Is(err, store.ErrExists) {
			return created, err
		}
	}
	return reply{}, store.ErrStale
}

func (a *API) replaceEndpoint(c *call, in *endpointInput, filter faults) (reply, error) {
	t, err := a.cfg.Store.GetTenant(c.r.Context(), c.tenant)
	if err != nil {
		return reply{}, err
	}
	return a.changeEndpoint(c, func(e *webhook.Endpoint) (changed, error) {
		if _, err := a.apply(e, in, t.DefaultContract, filter, c.now); err != nil {
			return changed{}, err
		}
		s := a.switching(e, c)
		err := flipTo(s, in.Active)
		return s.done, err
	})
}

func (a *API) patchEndpoint(c *call) (reply, error) {
	patch, _ := c.document.(map[string]any)
	if taken, ok := patch["contract"]; ok && taken == nil {
		// Without a contract of its own it has the tenant's. Looked up here: the
		// change itself runs inside the store's transaction and reads nothing.
		t, err := a.cfg.Store.GetTenant(c.r.Context(), c.tenant)
		if err != nil {
			return reply{}, err
		}
		patch["contract"] = t.DefaultContract
	}
	// A filter that stays was checked when it was set.
	given, _ := patch["filter"].(string)
	filter, err := a.checkFilter(given)
	if err != nil {
		return reply{}, err
	}
	return a.changeEndpoint(c, func(e *webhook.Endpoint) (changed, error) {
		if len(patch) == 0 {
			return changed{EndpointUpdate: store.EndpointUpdate{Unchanged: true}}, nil
		}
		in, err := a.patched(e, patch)
		if err != nil {
			return changed{}, err
		}
		if _, err := a.apply(e, in, e.Contract, filter, c.now); err != nil {
			return changed{}, err
		}
		s := a.switching(e, c)
		err = flipTo(s, in.Active)
		return s.done, err
	})
}

// patched applies a merge patch to what an endpoint was made of, and holds the
// result against the rules of creating one: they are the same for both ways.
func (a *API) patched(e *webhook.Endpoint, patch map[string]any) (*endpointInput, error) {
	current := endpointDocument(e)
	if headers, ok := patch["headers"].(map[string]any); ok {
		patch["headers"] = alignNames(current["headers"], headers)
	}
	merged := mergePatch(current, patch)
	var found faults
	a.schemas.components["EndpointInput"].check(merged, "", &found)
	if err := found.problem(); err != nil {
		return nil, err
	}
	in, err := decodeAs[endpointInput](merged)
	return &in, err
}

// endpointDocument is an endpoint in the form that creates it, without the secret
// and the switch. Header values are in clear: it never leaves this package.
func endpointDocument(e *webhook.Endpoint) map[string]any {
	headers, metadata := map[string]any{}, map[string]any{}
	for _, h := range e.Headers {
		headers[h.Name] = h.Value.Reveal()
	}
	for name, text := range e.Metadata {
		metadata[name] = text
	}
	doc := map[string]any{
		"url": e.URL, "events": anyOf(e.Events), "contract": e.Contract, "description": e.Description, "headers": headers, "metadata": metadata,
		"max_in_flight": float64(e.MaxInFlight),
	}
	if e.Filter != "" {
		doc["filter"] = e.Filter
	}
	if e.Ordering != nil {
		doc["ordering"] = map[string]any{"from": anyOf(e.Ordering.From)}
	}
	return doc
}

func anyOf(texts []string) []any {
	out := make([]any, len(texts))
	for i, text := range texts {
		out[i] = text
	}
	return out
}

// changeEndpoint runs a change of the path's endpoint: the version that the
// caller expects, the change, its operational events in the same commit (N19).
func (a *API) changeEndpoint(c *call, change func(*webhook.Endpoint) (changed, error)) (reply, error) {
	expected := strings.Trim(c.r.Header.Get("If-Match"), `"`)
	for range maxRepeats {
		e, err := a.cfg.Store.UpdateEndpoint(c.r.Context(), c.tenant, c.id(), c.now, func(e *webhook.Endpoint) (store.EndpointUpdate, error) {
			if expected != "" && expected != "*" && expected != strconv.FormatInt(e.Version, 10) {
				return store.EndpointUpdate{}, errStaleVersion()
			}
			done, err := change(e)
			if err != nil {
				return store.EndpointUpdate{}, err
			}
			return a.endpointUpdate(e, done, c)
		})
		if errors.Is(err, store.ErrStale) {
			continue
		}
		if err != nil {
			return reply{}, err
		}
		return a.endpointReply(c, e)
	}
	return reply{}, store.ErrStale
}

func errStaleVersion() error {
	return &webhook.Problem{Code: webhook.CodeConflict, Detail: "the endpoint is not at the version that was expected; nothing was changed", Fields: []webhook.FieldFault{
		{Pointer: "If-Match", Code: webhook.CodeConflict, Detail: "it is not the present version", Allowed: "the present version, or no If-Match"},
	}}
}

func (a *API) endpointReply(c *call, e *webhook.Endpoint) (reply, error) {
	shown, err := a.showWithWaiting(c, e)
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, value: shown, header: endpointHeader(e)}, nil
}

func endpointHeader(e *webhook.Endpoint) http.Header {
	return http.Header{"Etag": {`"` + strconv.FormatInt(e.Version, 10) + `"`}}
}

func (a *API) showWithWaiting(c *call, e *webhook.Endpoint) (wireEndpoint, error) {
	n, oldest, err := a.cfg.Store.CountWaiting(c.r.Context(), e.Tenant, e.ID, countWaitingTo)
	if err != nil {
		return wireEndpoint{}, err
	}
	shown := a.showEndpoints(c)(e)
	shown.Waiting, shown.OldestDueAt = &n, stampOrNull(oldest)
	return shown, nil
}
