package api

import (
	"errors"
	"net/http"
	"net/mail"
	"reflect"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// tenantChanges is what PUT takes; creating takes the ID besides.
type tenantChanges struct {
	Name            string `json:"name,omitempty" max:"200" doc:"Free text for people." example:"Acme Inc."`
	DefaultContract string `json:"default_contract,omitempty" min:"1" max:"64" default:"standard" doc:"The contract of endpoints that name none." example:"standard"`
	OwnerURL        string `json:"owner_url,omitempty" min:"1" max:"2048" form:"a URL such as https://example.com/webhooks, of at most 2048 bytes" doc:"Where the owner is told of an endpoint in trouble, as its contract says: by a POST of JSON with a webhook-id and without a signature. Whoever knows the URL can send such a thing, so what comes there is a hint to look, not proof." example:"https://example.com/notices"`
	OwnerEmail      string `json:"owner_email,omitempty" min:"3" max:"254" form:"an e-mail address such as owner@example.com" doc:"Who is told of an endpoint in trouble, by mail, as its contract says." example:"owner@example.com"`
}

type tenantInput struct {
	ID string `json:"id" min:"1" max:"64" pattern:"^[a-z0-9][a-z0-9_-]{0,63}$" form:"1 to 64 of a-z, 0-9, _ and -, beginning with a letter or digit" doc:"The tenant's ID, yours to choose; it never changes." example:"acme"`
	tenantChanges
}

type wireTenant struct {
	ID              string `json:"id" example:"acme"`
	Name            string `json:"name" example:"Acme Inc."`
	DefaultContract string `json:"default_contract" example:"standard"`
	OwnerURL        string `json:"owner_url,omitempty" example:"https://example.com/notices"`
	OwnerEmail      string `json:"owner_email,omitempty" example:"owner@example.com"`
	CreatedAt       stamp  `json:"created_at" example:"2026-05-22T14:32:18.847Z"`
}

func showTenant(t *webhook.Tenant) wireTenant {
	return wireTenant{
		ID: t.ID, Name: t.Name, DefaultContract: t.DefaultContract, OwnerURL: t.OwnerURL, OwnerEmail: t.OwnerEmail, CreatedAt: stamp(t.CreatedAt),
	}
}

func (a *API) tenantOperations() []*operation {
	one := a.schemas.of(reflect.TypeFor[wireTenant]())
	create := a.schemas.bodyOf(reflect.TypeFor[tenantInput](), map[string]any{"id": "acme", "name": "Acme Inc."})
	put := a.schemas.bodyOf(reflect.TypeFor[tenantChanges](), map[string]any{"name": "Acme Inc."})
	patch := *put
	patch.schema = a.schemas.mergePatch("TenantPatch", put.schema)
	patch.types = []string{"application/merge-patch+json", "application/json"}
	row := func(id, method, path, summary string) *operation {
		return &operation{id: id, method: method, path: path, tag: "tenants", scope: webhook.ScopeOperator, summary: summary}
	}
	list := row("listTenants", http.MethodGet, "/v1/tenants", "List tenants")
	list.list, list.params, list.handle = true, listParams(), a.listTenants
	list.answers = []answer{{status: 200, description: "A page of tenants.", schema: a.schemas.listOf(one, "TenantList")}}

	add := row("createTenant", http.MethodPost, "/v1/tenants", "Create a tenant")
	add.body, add.handle, add.refusals = create, a.createTenant, []webhook.Code{webhook.CodeConflict}
	add.answers = []answer{{status: 201, description: "The tenant.", schema: one, headers: []answerHeader{{"Location", "The path of the new tenant.", &schema{Type: types{typeString}}}}}}

	get := row("getTenant", http.MethodGet, "/v1/tenants/{id}", "Read a tenant")
	get.tenancy, get.handle = tenantPath, a.getTenant
	get.answers = []answer{{status: 200, description: "The tenant.", schema: one}}

	replace := row("putTenant", http.MethodPut, "/v1/tenants/{id}", "Create or replace a tenant")
	replace.description = "Safe to repeat. Members that are left out get their default."
	replace.body, replace.handle, replace.refusals = put, a.putTenant, []webhook.Code{webhook.CodeNotFound}
	replace.answers = []answer{{status: 200, description: "The tenant was replaced.", schema: one}, {status: 201, description: "The tenant was created.", schema: one}}

	change := row("patchTenant", http.MethodPatch, "/v1/tenants/{id}", "Change a tenant")
	change.description = "A JSON merge patch (RFC 7396): members that are given replace what is there, null takes it away."
	change.tenancy, change.body, change.handle = tenantPath, &patch, a.patchTenant
	change.answers = []answer{{status: 200, description: "The changed tenant.", schema: one}}

	remove := row("deleteTenant", http.MethodDelete, "/v1/tenants/{id}", "Delete a tenant")
	remove.description = "Only a tenant without endpoints can be deleted. Its keys end at once."
	remove.tenancy, remove.handle, remove.refusals = tenantPath, a.deleteTenant, []webhook.Code{webhook.CodeConflict}
	remove.answers = []answer{{status: 204, description: "The tenant is deleted."}}
	return []*operation{list, add, get, replace, change, remove}
}

func (a *API) listTenants(c *call) (reply, error) {
	page, err := a.page(c)
	if err != nil {
		return reply{}, err
	}
	listed, err := a.cfg.Store.ListTenants(c.r.Context(), page)
	if err != nil {
		return reply{}, err
	}
	return pageOf(a, c, listed, showTenant), nil
}

func (a *API) getTenant(c *call) (reply, error) {
	t, err := a.cfg.Store.GetTenant(c.r.Context(), c.tenant)
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, value: showTenant(t)}, nil
}

func (a *API) createTenant(c *call) (reply, error) {
	in, err := bodyAs[tenantInput](c)
	if err != nil {
		return reply{}, err
	}
	return a.addTenant(c, in.ID, &in.tenantChanges)
}

func (a *API) addTenant(c *call, id string, in *tenantChanges) (reply, error) {
	t := webhook.Tenant{ID: id, CreatedAt: c.now}
	if err := a.applyTenant(&t, in); err != nil {
		return reply{}, err
	}
	if err := a.cfg.Store.CreateTenant(c.r.Context(), t); err != nil {
		return reply{}, err
	}
	c.w.Header().Set(tenantHeader, id)
	return reply{status: http.StatusCreated, value: showTenant(&t), header: http.Header{"Location": {"/v1/tenants/" + id}}}, nil
}

// applyTenant validates the input and writes it into t; what is left out gets its
// default.
func (a *API) applyTenant(t *webhook.Tenant, in *tenantChanges) error {
	var found faults
	name := in.DefaultContract
	if name == "" {
		name = a.cfg.DefaultContract
	}
	if a.contractFor(name, "", &found) == nil {
		found[len(found)-1].Pointer = "/default_contract"
	}
	if in.OwnerURL != "" {
		if _, err := webhook.ParseEndpointURL(in.OwnerURL, []string{"https", "http"}, false); err != nil {
			found.urlFault("/owner_url", err)
		}
	}
	if in.OwnerEmail != "" {
		if parsed, err := mail.ParseAddress(in.OwnerEmail); err != nil || parsed.Address != in.OwnerEmail {
			found.invalid("/owner_email", "it is no e-mail address", "an e-mail address such as owner@example.com")
		}
	}
	checkText("/name", in.Name, &found)
	if err := found.problem(); err != nil {
		return err
	}
	t.Name, t.DefaultContract, t.OwnerURL, t.OwnerEmail = in.Name, name, in.OwnerURL, in.OwnerEmail
	return nil
}

func (a *API) putTenant(c *call) (reply, error) {
	if !webhook.ValidCallerID(c.id()) {
		return reply{}, webhook.InvalidField("id", "the ID in the path can't name a tenant", webhook.CallerIDForm)
	}
	in, err := bodyAs[tenantChanges](c)
	if err != nil {
		return reply{}, err
	}
	for range maxRepeats {
		t, err := a.cfg.Store.UpdateTenant(c.r.Context(), c.id(), func(t *webhook.Tenant) error { return a.applyTenant(t, &in) })
		if err == nil {
			c.w.Header().Set(tenantHeader, t.ID)
			return reply{status: http.StatusOK, value: showTenant(t)}, nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return reply{}, err
		}
		created, err := a.addTenant(c, c.id(), &in)
		if !errors.Is(err, store.ErrExists) {
			return created, err
		}
	}
	return reply{}, store.ErrStale
}

func (a *API) patchTenant(c *call) (reply, error) {
	patch, _ := c.document.(map[string]any)
	t, err := a.cfg.Store.UpdateTenant(c.r.Context(), c.tenant, func(t *webhook.Tenant) error {
		merged := mergePatch(tenantDocument(t), patch)
		var found faults
		a.schemas.components["TenantChanges"].check(merged, "", &found)
		if err := found.problem(); err != nil {
			return err
		}
		in, err := decodeAs[tenantChanges](merged)
		if err != nil {
			return err
		}
		return a.applyTenant(t, &in)
	})
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, value: showTenant(t)}, nil
}

// tenantDocument is a tenant in the form that PUT takes.
func tenantDocument(t *webhook.Tenant) map[string]any {
	doc := map[string]any{"name": t.Name, "default_contract": t.DefaultContract}
	if t.OwnerURL != "" {
		doc["owner_url"] = t.OwnerURL
	}
	if t.OwnerEmail != "" {
		doc["owner_email"] = t.OwnerEmail
	}
	return doc
}

func (a *API) deleteTenant(c *call) (reply, error) {
	if c.tenant == webhook.DefaultTenant {
		return reply{}, webhook.NewProblem(webhook.CodeConflict, "the tenant default always exists; it can't be deleted")
	}
	if err := a.cfg.Store.DeleteTenant(c.r.Context(), c.tenant); err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusNoContent}, nil
}
