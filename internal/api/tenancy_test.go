package api

import (
	"net/http"
	"strings"
	"testing"
)

// TestTenants_SwapOnEveryOperation walks the OpenAPI document. Whatever names a
// thing of another tenant gets the same answer as what does not exist, word for
// word, with a key of the other tenant and with an operator's key and header.
func TestTenants_SwapOnEveryOperation(t *testing.T) {
	t.Parallel()
	f := newFixture(t, everything)
	alpha, beta := f.tenant("alpha"), f.tenant("beta")
	endpoint := f.endpoint(alpha)
	event := f.publish(alpha, `{"type":"a.b","data":{"secret":"of alpha"}}`)
	delivery := f.lastOffered().DeliveryID
	ids := map[string]string{"events": event, "endpoints": endpoint, "deliveries": delivery}
	missing := map[string]string{"events": "evt_missing", "endpoints": "ep_missing", "deliveries": "dlv_missing"}
	walked := 0
	for path, item := range f.document["paths"].(map[string]any) {
		segments := strings.Split(path, "/")
		if len(segments) < 4 || segments[1] != "v1" || segments[3] != "{id}" || segments[2] == "tenants" {
			continue
		}
		for method := range item.(map[string]any) {
			method = strings.ToUpper(method)
			if method == http.MethodPut {
				continue // creates: see TestTenants_PutIsAnotherThing
			}
			body := map[string]string{"PATCH": `{"description":"x"}`}[method]
			theirs, none := strings.Replace(path, "{id}", ids[segments[2]], 1), strings.Replace(path, "{id}", missing[segments[2]], 1)
			disables := strings.HasSuffix(path, "/disable")
			for _, who := range []struct{ key, tenant string }{{beta, ""}, {adminKey, "beta"}} {
				swapped := f.send(to(method, theirs, body).key(who.key).with("Posthorn-Tenant", who.tenant))
				if disables && who.key == beta {
					swapped.problem(403, "forbidden")
					continue
				}
				swapped.problem(404, "not_found")
				if absent := f.send(to(method, none, body).key(who.key).with("Posthorn-Tenant", who.tenant)); swapped.raw != absent.raw {
					t.Errorf("%s %s: another tenant's answer is %s, a missing one's is %s", method, path, swapped.raw, absent.raw)
				}
			}
			walked++
		}
	}
	if walked < 12 {
		t.Errorf("only %d operations were walked", walked)
	}
	// Nothing of it touched alpha.
	if got := f.send(to("GET", "/v1/endpoints/"+endpoint, "").key(alpha)).is(200); got.json["state"] != "active" || got.json["version"] != 1.0 {
		t.Errorf("alpha's endpoint is now %s", got.raw)
	}
	if got := f.send(to("GET", "/v1/events/"+event, "").key(alpha)).is(200); !strings.Contains(got.raw, "of alpha") {
		t.Errorf("alpha's event is now %s", got.raw)
	}
}

// TestTenants_ListsAreOnesOwn: a list never shows another tenant's things, also
// when a filter names one of them.
func TestTenants_ListsAreOnesOwn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	alpha, beta := f.tenant("alpha"), f.tenant("beta")
	endpoint := f.endpoint(alpha)
	event := f.publish(alpha, `{"type":"a.b","data":1}`)
	for _, path := range []string{
		"/v1/endpoints", "/v1/events", "/v1/deliveries", "/v1/deliveries?endpoint=" + endpoint, "/v1/deliveries?event=" + event,
	} {
		if got := f.send(to("GET", path, "").key(beta)).is(200).items(); len(got) != 0 {
			t.Errorf("beta sees of %s: %v", path, got)
		}
		if got := f.send(to("GET", path, "").key(alpha)).is(200); len(got.items()) != 1 || got.header.Get("Posthorn-Tenant") != "alpha" {
			t.Errorf("alpha sees of %s: %s (%v)", path, got.raw, got.header)
		}
		if got := f.send(to("GET", path, "").with("Posthorn-Tenant", "*")).is(200); len(got.items()) != 1 || got.header.Get("Posthorn-Tenant") != "*" {
			t.Errorf("an operator sees across tenants of %s: %s", path, got.raw)
		}
	}
	f.send(to("GET", "/v1/endpoints/"+endpoint, "").with("Posthorn-Tenant", "*")).problem(400, "tenant_required")
	f.send(to("POST", "/v1/events", `{"type":"a.b","data":1}`).with("Posthorn-Tenant", "*")).problem(400, "tenant_required")
	f.send(to("GET", "/v1/endpoints", "").key(alpha).with("Posthorn-Tenant", "beta")).problem(404, "not_found")
	f.send(to("GET", "/v1/endpoints", "").key(alpha).with("Posthorn-Tenant", "*")).problem(404, "not_found")
}

// TestTenants_PutIsAnotherThing: endpoint IDs are a tenant's own; the same one
// names two endpoints in two tenants.
func TestTenants_PutIsAnotherThing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	alpha, beta := f.tenant("alpha"), f.tenant("beta")
	f.send(to("PUT", "/v1/endpoints/crm", `{"url":"https://alpha.example/","events":["*"]}`).key(alpha)).is(201)
	f.send(to("PUT", "/v1/endpoints/crm", `{"url":"https://beta.example/","events":["*"]}`).key(beta)).is(201)
	if got := f.send(to("GET", "/v1/endpoints/crm", "").key(alpha)).is(200); got.text("url") != "https://alpha.example/" {
		t.Errorf("alpha's endpoint is %s", got.raw)
	}
}

// TestTenants_OperatorNamesTheTenant: the header's rules.
func TestTenants_OperatorNamesTheTenant(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if got := f.send(to("GET", "/v1/endpoints", "")).is(200); got.header.Get("Posthorn-Tenant") != "default" {
		t.Errorf("without a header the tenant is %q", got.header.Get("Posthorn-Tenant"))
	}
	f.tenant("acme")
	f.send(to("GET", "/v1/endpoints", "")).problem(400, "tenant_required")
	f.send(to("POST", "/v1/events", `{"type":"a.b","data":1}`)).problem(400, "tenant_required")
	f.send(to("GET", "/v1/endpoints", "").with("Posthorn-Tenant", "nobody")).problem(404, "not_found")
	f.send(to("GET", "/v1/tenants/nobody", "")).problem(404, "not_found")
	f.send(to("GET", "/v1/limits", "")).is(200)
	f.send(to("GET", "/v1/tenants", "")).is(200)
}

// TestKeys_Scopes: each operation asks for its scope, whatever the key has else.
func TestKeys_Scopes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.tenant("acme")
	keys := map[string]string{}
	for _, scope := range []string{"publish", "read", "manage"} {
		keys[scope] = f.send(to("POST", "/v1/tenants/acme/keys", `{"scopes":["`+scope+`"]}`)).is(201).text("key")
	}
	for _, op := range f.api.operations() {
		for scope, key := range keys {
			path := strings.NewReplacer("{id}", "x", "{key}", "x", "{name}", "x").Replace(op.path)
			got := f.send(to(op.method, path, "").key(key))
			allowed := op.scope == "" || string(op.scope) == scope
			if (got.status == 403) == allowed {
				t.Errorf("%s %s needs %q; with %s the answer is %d", op.method, op.path, op.scope, scope, got.status)
			}
		}
		if got := f.send(to(op.method, strings.NewReplacer("{id}", "x", "{key}", "x", "{name}", "x").Replace(op.path), "").with("Authorization", "")); op.scope != "" {
			got.problem(401, "unauthorized")
			if !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("a 401 without WWW-Authenticate")
			}
		}
	}
}

// TestKeys_Lifecycle: a key is shown once, listed without its text, and ends when
// it is revoked or its tenant is deleted.
func TestKeys_Lifecycle(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.send(to("POST", "/v1/tenants", `{"id":"acme"}`)).is(201)
	made := f.send(to("POST", "/v1/tenants/acme/keys", `{"name":"shop","scopes":["read"],"expires_at":"2999-01-01T00:00:00Z"}`)).is(201)
	key, id := made.text("key"), made.text("id")
	if !strings.HasPrefix(key, "phk_"+id+"_") || made.text("expires_at") != "2999-01-01T00:00:00.000Z" {
		t.Errorf("the key is %s", made.raw)
	}
	f.send(to("GET", "/v1/endpoints", "").key(key)).is(200)
	listed := f.send(to("GET", "/v1/tenants/acme/keys", "")).is(200)
	if len(listed.items()) != 1 || strings.Contains(listed.raw, key) {
		t.Errorf("keys are listed as %s", listed.raw)
	}
	f.send(to("POST", "/v1/tenants/acme/keys", `{"scopes":["operator"]}`)).problem(422, "invalid_field").faultAt("/scopes/0", "invalid_field")
	f.send(to("POST", "/v1/tenants/acme/keys", `{"scopes":["read"],"expires_at":"2001-01-01T00:00:00Z"}`)).problem(422, "invalid_field").faultAt("/expires_at", "invalid_field")
	f.send(to("POST", "/v1/tenants/nobody/keys", `{"scopes":["read"]}`)).problem(404, "not_found")
	f.send(to("DELETE", "/v1/tenants/default/keys/"+id, "")).problem(404, "not_found")
	f.send(to("DELETE", "/v1/tenants/acme/keys/"+id, "")).is(204)
	f.send(to("DELETE", "/v1/tenants/acme/keys/"+id, "")).problem(404, "not_found")
	f.send(to("GET", "/v1/endpoints", "").key(key)).problem(401, "unauthorized")
}

// TestTenants_Lifecycle: create, replace, patch, delete, and what stands in the way.
func TestTenants_Lifecycle(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	made := f.send(to("POST", "/v1/tenants", `{"id":"acme","name":"Acme","owner_email":"a@acme.example"}`)).is(201)
	if made.header.Get("Location") != "/v1/tenants/acme" || made.json["default_contract"] != "standard" || made.json["owner_url"] != nil {
		t.Errorf("created %s", made.raw)
	}
	f.send(to("POST", "/v1/tenants", `{"id":"acme"}`)).problem(409, "conflict")
	f.send(to("POST", "/v1/tenants", `{"id":"Acme!"}`)).problem(422, "invalid_field").faultAt("/id", "invalid_field")
	f.send(to("POST", "/v1/tenants", `{}`)).problem(422, "invalid_field").faultAt("/id", "invalid_field")
	f.send(to("PUT", "/v1/tenants/No-Good", `{}`)).problem(422, "invalid_field").faultAt("id", "invalid_field")
	f.send(to("PUT", "/v1/tenants/acme", `{"default_contract":"nope"}`)).problem(422, "invalid_field").faultAt("/default_contract", "invalid_field")
	f.send(to("PUT", "/v1/tenants/acme", `{"owner_url":"ftp://x","owner_email":"nobody"}`)).problem(422, "invalid_field").faultAt("/owner_email", "invalid_field")
	if got := f.send(to("PATCH", "/v1/tenants/acme", `{"owner_url":"https://acme.example/x","owner_email":null}`)).is(200); got.json["name"] != "Acme" || got.json["owner_email"] != nil || got.json["owner_url"] != "https://acme.example/x" {
		t.Errorf("patched %s", got.raw)
	}
	if got := f.send(to("PUT", "/v1/tenants/acme", "")).is(200); got.json["name"] != "" || got.json["owner_url"] != nil {
		t.Errorf("replaced %s", got.raw)
	}
	f.send(to("PATCH", "/v1/tenants/acme", `{"id":"other"}`)).problem(422, "unknown_field").faultAt("/id", "unknown_field")
	key := f.send(to("POST", "/v1/tenants/acme/keys", `{"scopes":["read","manage"]}`)).is(201).text("key")
	id := f.endpoint(key)
	f.send(to("DELETE", "/v1/tenants/acme", "")).problem(409, "conflict")
	f.send(to("DELETE", "/v1/endpoints/"+id, "").key(key)).is(204)
	f.send(to("DELETE", "/v1/tenants/acme", "")).is(204)
	f.send(to("DELETE", "/v1/tenants/acme", "")).problem(404, "not_found")
	f.send(to("GET", "/v1/endpoints", "").key(key)).problem(401, "unauthorized")
	f.send(to("DELETE", "/v1/tenants/default", "")).problem(409, "conflict")
}
