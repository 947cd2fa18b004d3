package api

import (
	"net/http"
	"reflect"
	"time"

	"github.com/posthorn/posthorn/internal/auth"
	"github.com/posthorn/posthorn/internal/webhook"
)

type keyInput struct {
	Name      string   `json:"name,omitempty" max:"200" doc:"Free text for people." example:"checkout service"`
	Scopes    []string `json:"scopes" min:"1" max:"3" items:"enum=publish,read,manage" doc:"What the key may do: publish events, read, manage endpoints and deliveries." example:"[\"publish\",\"read\"]"`
	ExpiresAt *stamp   `json:"expires_at,omitempty" doc:"When it stops to work. Absent: never." example:"2027-05-22T00:00:00.000Z"`
}

type wireKey struct {
	ID         string          `json:"id" doc:"The key's public part." example:"01k8x3m5t2f4v9z7"`
	Tenant     string          `json:"tenant" example:"acme"`
	Name       string          `json:"name" example:"checkout service"`
	Scopes     []webhook.Scope `json:"scopes" example:"[\"publish\",\"read\"]"`
	CreatedAt  stamp           `json:"created_at" example:"2026-05-22T14:32:18.847Z"`
	ExpiresAt  *stamp          `json:"expires_at" example:"null"`
	LastUsedAt *stamp          `json:"last_used_at" doc:"To the minute; null when it was never used." example:"null"`
}

// wireCreatedKey is the one answer that shows the key.
type wireCreatedKey struct {
	wireKey
	Key string `json:"key" secret:"out" doc:"The key itself. It is shown here and never again." example:"phk_01k8x3m5t2f4v9z7_…"`
}

func showKey(k *webhook.APIKey) wireKey {
	return wireKey{
		ID: k.ID, Tenant: k.Tenant, Name: k.Name, Scopes: k.Scopes, CreatedAt: stamp(k.CreatedAt),
		ExpiresAt: stampOrNull(k.ExpiresAt), LastUsedAt: stampOrNull(k.LastUsedAt),
	}
}

func (a *API) keyOperations() []*operation {
	row := func(id, method, path, summary string, handle func(*call) (reply, error)) *operation {
		return &operation{id: id, method: method, path: path, tag: "tenants", scope: webhook.ScopeOperator, tenancy: tenantPath, summary: summary, handle: handle}
	}
	list := row("listKeys", http.MethodGet, "/v1/tenants/{id}/keys", "List a tenant's keys", a.listKeys)
	list.list, list.params = true, listParams()
	list.answers = []answer{{status: 200, description: "A page of keys, without the keys themselves.", schema: a.schemas.listOf(a.schemas.of(reflect.TypeFor[wireKey]()), "KeyList")}}

	create := row("createKey", http.MethodPost, "/v1/tenants/{id}/keys", "Make a key for a tenant", a.createKey)
	create.description = "The key can't leave its tenant."
	create.body = a.schemas.bodyOf(reflect.TypeFor[keyInput](), map[string]any{"scopes": []string{"publish", "read"}})
	create.answers = []answer{{status: 201, description: "The key. It is shown here and never again.", schema: a.schemas.of(reflect.TypeFor[wireCreatedKey]())}}

	revoke := row("revokeKey", http.MethodDelete, "/v1/tenants/{id}/keys/{key}", "Revoke a key", a.revokeKey)
	revoke.description = "No request with it is let in after the answer."
	revoke.answers = []answer{{status: 204, description: "The key is revoked."}}
	return []*operation{list, create, revoke}
}

func (a *API) listKeys(c *call) (reply, error) {
	page, err := a.page(c)
	if err != nil {
		return reply{}, err
	}
	listed, err := a.cfg.Store.ListKeys(c.r.Context(), c.tenant, page)
	if err != nil {
		return reply{}, err
	}
	return pageOf(a, c, listed, showKey), nil
}

func (a *API) createKey(c *call) (reply, error) {
	in, err := bodyAs[keyInput](c)
	if err != nil {
		return reply{}, err
	}
	var expires time.Time
	if in.ExpiresAt != nil {
		expires = time.Time(*in.ExpiresAt).Truncate(time.Millisecond)
	}
	scopes := make([]webhook.Scope, len(in.Scopes))
	for i, scope := range in.Scopes {
		scopes[i] = webhook.Scope(scope)
	}
	var found faults
	if checkText("/name", in.Name, &found); len(found) > 0 {
		return reply{}, found.problem()
	}
	text, k, err := auth.NewKey(a.cfg.Rand, c.tenant, scopes, in.Name, c.now, expires)
	if err != nil {
		return reply{}, err
	}
	if err := a.cfg.Store.CreateKey(c.r.Context(), &k); err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusCreated, value: wireCreatedKey{showKey(&k), text}}, nil
}

func (a *API) revokeKey(c *call) (reply, error) {
	if err := a.cfg.Store.RevokeKey(c.r.Context(), c.tenant, c.r.PathValue("key")); err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusNoContent}, nil
}
