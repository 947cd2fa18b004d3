package api

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

type wireAuditEntry struct {
	ID     string          `json:"id" doc:"The entry's place in the trail, a rising number." example:"42"`
	At     stamp           `json:"at" example:"2026-05-22T14:32:18.847Z"`
	Tenant *string         `json:"tenant" doc:"null for what belongs to the whole installation, such as contracts." example:"default"`
	Actor  wireActor       `json:"actor" doc:"Who did it."`
	Action string          `json:"action" doc:"What happened, such as endpoint.paused or contract.put." example:"endpoint.paused"`
	Kind   string          `json:"kind" doc:"What kind of thing was changed." example:"endpoint"`
	Target string          `json:"target" doc:"Its ID or name." example:"ep_01k8x3m5t2f4v9z7q1c6b8n0da"`
	Why    *string         `json:"why" doc:"The reason that was given, or the server's own." example:"person"`
	Before json.RawMessage `json:"before" doc:"What changed, as it was; null for what did not exist. Never a secret."`
	After  json.RawMessage `json:"after" doc:"What changed, as it is; null for what is no more. Never a secret."`
}

type wireActor struct {
	Kind string  `json:"kind" doc:"key: an API key. admin: the admin key. engine: the server by its own rules." example:"key"`
	ID   *string `json:"id" doc:"The key's ID; null for the others." example:"01k8x3m5t2f4v9z7"`
}

func (a *API) auditOperations() []*operation {
	return []*operation{{
		id: "listAudit", method: http.MethodGet, path: "/v1/audit", tag: "server", scope: webhook.ScopeRead, tenancy: tenantAcross,
		summary: "List who changed what", handle: a.listAudit, list: true, params: auditParams(),
		description: "The trail of changes of endpoints, tenants, keys, contracts, runs and replays, by people and by the server. What belongs to the whole installation is in it across tenants only.",
		answers:     []answer{{status: 200, description: "A page of the trail.", schema: a.schemas.listOf(a.schemas.of(reflect.TypeFor[wireAuditEntry]()), "AuditList")}},
	}}
}

func auditParams() []param {
	word := func(name string, many bool, example, description string) param {
		return param{
			name: name, in: "query", many: many, example: example, description: description,
			schema: &schema{Type: types{typeString}, MinLength: 1, MaxLength: 128},
		}
	}
	params := append(listParams(),
		word("kind", false, "endpoint", "Only changes of this kind of thing."),
		word("target", false, "ep_01k8x3m5t2f4v9z7q1c6b8n0da", "Only changes of the thing of this ID or name."),
		word("action", true, "endpoint.paused", "Only these actions."),
	)
	for _, p := range spanParams() {
		p.description = map[string]string{"since": "Only what happened at this time or later.", "until": "Only what happened before this time."}[p.name]
		params = append(params, p)
	}
	return params
}

func (a *API) listAudit(c *call) (reply, error) {
	page, err := a.page(c)
	if err != nil {
		return reply{}, err
	}
	filter := store.AuditFilter{Kind: c.query.Get("kind"), Target: c.query.Get("target"), Actions: many[string](c, "action"), Span: c.span()}
	listed, err := a.cfg.Store.ListAudit(c.r.Context(), c.tenant, filter, page)
	if err != nil {
		return reply{}, err
	}
	return pageOf(a, c, listed, showAudit), nil
}

func showAudit(e webhook.AuditEntry) wireAuditEntry {
	return wireAuditEntry{
		ID: strconv.FormatInt(e.Pos, 10), At: stamp(e.At), Tenant: orNull(e.Tenant), Actor: wireActor{Kind: e.Actor.Kind, ID: orNull(e.Actor.ID)},
		Action: e.Action, Kind: e.Kind, Target: e.Target, Why: orNull(e.Why), Before: jsonOrNull(e.Before), After: jsonOrNull(e.After),
	}
}

// jsonOrNull is null for no JSON at all.
func jsonOrNull(text json.RawMessage) json.RawMessage {
	if len(text) == 0 {
		return json.RawMessage("null")
	}
	return text
}
