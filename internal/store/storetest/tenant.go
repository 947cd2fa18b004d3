package storetest

import (
	"errors"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func tenantCases() []testCase {
	return []testCase{
		{name: "TestStore_Tenants_DefaultExistsFromTheStart", run: defaultTenantExists},
		{name: "TestStore_Tenants_CreateUpdateGet", run: tenantLife},
		{name: "TestStore_DeleteTenant", run: deleteTenant},
		{name: "TestStore_SoleTenant", run: soleTenant},
	}
}

func defaultTenantExists(f *fixture) {
	got, err := f.GetTenant(f.ctx, webhook.DefaultTenant)
	f.ok(err)
	f.same("tenant", got, &webhook.Tenant{ID: webhook.DefaultTenant, DefaultContract: "standard", CreatedAt: f.now})
	f.fails(f.CreateTenant(f.ctx, webhook.Tenant{ID: webhook.DefaultTenant}), store.ErrExists)
	f.fails(f.DeleteTenant(f.ctx, webhook.DefaultTenant), store.ErrNotEmpty)
	f.restart()
	again, err := f.GetTenant(f.ctx, webhook.DefaultTenant)
	f.ok(err)
	f.same("after a restart", again, got)
}

func tenantLife(f *fixture) {
	in := webhook.Tenant{
		ID: "t2", Name: "Töpferei & Söhne", DefaultContract: contractName, OwnerURL: "https://owner.example.com/", OwnerEmail: "o@example.com", CreatedAt: f.now,
	}
	f.ok(f.CreateTenant(f.ctx, in))
	f.fails(f.CreateTenant(f.ctx, in), store.ErrExists)
	got, err := f.GetTenant(f.ctx, "t2")
	f.ok(err)
	f.same("read", got, &in)
	after, err := f.UpdateTenant(f.ctx, "t2", func(t *webhook.Tenant) error {
		t.Name, t.DefaultContract, t.OwnerURL, t.OwnerEmail = "n", "other", "", ""
		return nil
	})
	f.ok(err)
	want := webhook.Tenant{ID: "t2", Name: "n", DefaultContract: "other", CreatedAt: f.now}
	f.same("answered", after, &want)
	refused := errors.New("no")
	_, err = f.UpdateTenant(f.ctx, "t2", func(t *webhook.Tenant) error { t.Name = "x"; return refused })
	f.fails(err, refused)
	f.restart()
	got, err = f.GetTenant(f.ctx, "t2")
	f.ok(err)
	f.same("after a restart", got, &want)
	_, err = f.GetTenant(f.ctx, "nobody")
	f.fails(err, store.ErrNotFound)
	_, err = f.UpdateTenant(f.ctx, "nobody", func(*webhook.Tenant) error { return nil })
	f.fails(err, store.ErrNotFound)
}

func deleteTenant(f *fixture) {
	f.tenant("t2")
	e := f.endpointOf("t2", "a")
	w := f.send(e)
	k := f.key("t2", "k1")
	mine := f.key(webhook.DefaultTenant, "k2")
	f.fails(f.DeleteTenant(f.ctx, "t2"), store.ErrNotEmpty)
	f.fails(f.DeleteTenant(f.ctx, "nobody"), store.ErrNotFound)
	_, err := f.FindKey(f.ctx, k.ID)
	f.ok(err)

	f.ok(f.DeleteEndpoint(f.ctx, "t2", "a", false, f.now))
	event := newEvent("t2", f.revision("t2"), f.now)
	told := f.heard.count()
	f.ok(f.DeleteTenant(f.ctx, "t2"))
	var revoked []string
	gone := false
	for _, c := range f.heard.since(told) {
		if c.Tenant != "t2" {
			f.Fatalf("told %+v", c)
		}
		if c.KeyRevoked != "" {
			revoked = append(revoked, c.KeyRevoked)
		}
		gone = gone || c.TenantDeleted
	}
	f.same("keys that died", revoked, []string{k.ID})
	f.same("told of the tenant's end", gone, true)

	_, err = f.FindKey(f.ctx, k.ID)
	f.fails(err, store.ErrNotFound)
	_, err = f.FindKey(f.ctx, mine.ID)
	f.ok(err)
	_, err = f.GetTenant(f.ctx, "t2")
	f.fails(err, store.ErrNotFound)
	f.fails(f.DeleteTenant(f.ctx, "t2"), store.ErrNotFound)
	results, err := f.Accept(f.ctx, []store.AcceptParams{event})
	f.ok(err)
	f.fails(results[0].Err, store.ErrNotFound)
	listed, err := f.ListTenants(f.ctx, store.Page{Limit: 10})
	f.ok(err)
	f.same("tenants", len(listed.Items), 1)
	_, err = f.GetDelivery(f.ctx, "t2", w.DeliveryID)
	f.fails(err, store.ErrNotFound)

	// Its name is free, and leads to nothing of the one before.
	f.restart()
	f.tenant("t2")
	f.same("events of the new one", f.countEvents("t2"), 0)
	_, err = f.GetDelivery(f.ctx, "t2", w.DeliveryID)
	f.fails(err, store.ErrNotFound)
}

func soleTenant(f *fixture) {
	check := func(want bool) {
		f.Helper()
		sole, err := f.SoleTenant(f.ctx)
		f.ok(err)
		f.same("sole", sole, want)
	}
	check(true)
	f.tenant("t2")
	check(false)
	f.ok(f.DeleteTenant(f.ctx, "t2"))
	check(true)
}
