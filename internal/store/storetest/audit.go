package storetest

import (
	"strings"
	"time"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func auditCases() []testCase {
	return []testCase{
		{name: "TestStore_Audit_EveryChangeIsToldWithItsActor", run: everyChangeIsTold},
		{name: "TestStore_Audit_Filters", run: auditFilters},
		{name: "TestStore_Audit_Pages", run: auditPages},
	}
}

// trail lists a tenant's entries, oldest first.
func (f *fixture) trail(tenant string, filter store.AuditFilter) []webhook.AuditEntry {
	f.Helper()
	page, err := f.ListAudit(f.ctx, tenant, filter, store.Page{Limit: 250, Ascending: true})
	f.ok(err)
	return page.Items
}

func actions(trail []webhook.AuditEntry) []string {
	all := []string{}
	for _, e := range trail {
		all = append(all, e.Action+" "+e.Target)
	}
	return all
}

func everyChangeIsTold(f *fixture) {
	by := webhook.Actor{Kind: webhook.ActorKey, ID: "k0"}
	ctx := webhook.WithActor(f.ctx, by)
	f.ok(f.CreateTenant(ctx, webhook.Tenant{ID: "t1", Name: "One", DefaultContract: contractName, CreatedAt: f.now}))
	change := func(set func(*webhook.Tenant)) {
		_, err := f.UpdateTenant(ctx, "t1", func(t *webhook.Tenant) error { set(t); return nil })
		f.ok(err)
	}
	change(func(t *webhook.Tenant) {
		t.Name, t.OwnerEmail, t.OwnerURL = "Two", "owner@example.com", "https://user:pass@example.com/hook"
	})
	change(func(*webhook.Tenant) {}) // changes nothing, and is not told
	k := &webhook.APIKey{ID: "k1", Tenant: "t1", Name: "CI", Scopes: []webhook.Scope{webhook.ScopeRead}, CreatedAt: f.now}
	copy(k.Hash[:], "hash of the key's text")
	f.ok(f.CreateKey(ctx, k))
	f.fails(f.CreateKey(ctx, k), store.ErrExists)
	f.ok(f.RevokeKey(ctx, "t1", "k1"))
	f.fails(f.RevokeKey(ctx, "t1", "k1"), store.ErrNotFound)
	run, err := f.CreateRun(ctx, webhook.Run{Tenant: "t1", Project: "p", CreatedAt: f.now})
	f.ok(err)
	f.ok(f.DeleteRun(ctx, "t1", run.ID, f.now))
	f.ok(f.DeleteTenant(ctx, "t1"))
	_, err = f.PutContract(ctx, store.ContractRevision{Name: "own", Revision: "r1", Text: "name: own", CreatedAt: f.now}, false)
	f.ok(err)
	f.ok(f.DeleteContract(ctx, "own", f.now))

	f.restart()
	trail := f.trail(store.TenantAll, store.AuditFilter{})
	f.same("trail", actions(trail), []string{
		"tenant.created t1", "tenant.updated t1", "key.created k1", "key.revoked k1", "run.created " + run.ID, "run.deleted " + run.ID,
		"tenant.deleted t1", "contract.put own", "contract.deleted own",
	})
	for _, e := range trail {
		f.same("actor of "+e.Action, e.Actor, by)
		if e.At.IsZero() {
			f.Errorf("%s has no time", e.Action)
		}
		for _, secret := range []string{"owner@", "user:pass", "hash of"} {
			if strings.Contains(string(e.Before)+string(e.After), secret) {
				f.Errorf("%s tells a secret: %s → %s", e.Action, e.Before, e.After)
			}
		}
	}
	f.same("before", string(trail[1].Before), `{"name":"One"}`)
	f.same("after", string(trail[1].After), `{"name":"Two","owner_email":"changed","owner_url":"changed"}`)
	f.same("no before", trail[0].Before == nil, true)
}

func auditFilters(f *fixture) {
	f.tenant("t1")
	f.tenant("t2")
	ctx := webhook.WithActor(f.ctx, webhook.Actor{Kind: webhook.ActorAdmin})
	at := f.later(time.Hour)
	for i, tenant := range []string{"t1", "t1", "t2", ""} {
		f.ok(f.CreateKey(ctx, &webhook.APIKey{ID: string(rune('a' + i)), Tenant: tenant, CreatedAt: at.Add(time.Duration(i) * time.Minute)}))
	}
	for _, c := range []struct {
		name   string
		tenant string
		filter store.AuditFilter
		want   []string
	}{
		{"a tenant's", "t1", store.AuditFilter{}, []string{"tenant.created t1", "key.created a", "key.created b"}},
		{"no such tenant", "nobody", store.AuditFilter{}, []string{}},
		{"a kind", store.TenantAll, store.AuditFilter{Kind: "key"}, []string{"key.created a", "key.created b", "key.created c", "key.created d"}},
		{"a target", store.TenantAll, store.AuditFilter{Kind: "key", Target: "c"}, []string{"key.created c"}},
		{"a target of another", "t1", store.AuditFilter{Target: "c"}, []string{}},
		{"actions", "t1", store.AuditFilter{Actions: []string{"tenant.created", "tenant.deleted"}}, []string{"tenant.created t1"}},
		{"a span", store.TenantAll, store.AuditFilter{Span: store.Span{Since: at.Add(time.Minute), Until: at.Add(3 * time.Minute)}}, []string{"key.created b", "key.created c"}},
	} {
		f.same(c.name, actions(f.trail(c.tenant, c.filter)), c.want)
	}
	f.same("nobody's", f.trail(store.TenantAll, store.AuditFilter{Target: "d"})[0].Tenant, "")
}

func auditPages(f *fixture) {
	want := []string{}
	for i := range 11 {
		f.tenant("t" + string(rune('a'+i)))
		want = append([]string{"t" + string(rune('a'+i))}, want...)
	}
	f.pages("audit", func(p store.Page) ([]string, int64, int64, error) {
		listed, err := f.ListAudit(f.ctx, store.TenantAll, store.AuditFilter{}, p)
		return named(listed, err, func(e webhook.AuditEntry) string { return e.Target })
	}, want, 1, 2, 5, 11, 12)
}
