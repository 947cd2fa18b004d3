package storetest

import (
	"crypto/sha256"
	"time"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func keyCases() []testCase {
	return []testCase{
		{name: "TestStore_Keys_Life", run: keyLife},
		{name: "TestStore_Keys_OperatorsAreTheirOwn", run: operatorKeys},
		{name: "TestStore_TouchKeys_NeverGoesBack", run: touchKeys},
	}
}

func newKey(tenant, id string, now time.Time) *webhook.APIKey {
	return &webhook.APIKey{
		ID: id, Tenant: tenant, Name: "for tests", Scopes: []webhook.Scope{webhook.ScopePublish, webhook.ScopeRead},
		Hash: sha256.Sum256([]byte(id)), CreatedAt: now,
	}
}

func (f *fixture) key(tenant, id string) *webhook.APIKey {
	f.Helper()
	k := newKey(tenant, id, f.now)
	f.ok(f.CreateKey(f.ctx, k))
	return k
}

func keyLife(f *fixture) {
	k := newKey(webhook.DefaultTenant, "k1", f.now)
	k.Scopes, k.ExpiresAt = webhook.Scopes(), f.now.Add(time.Hour)
	f.ok(f.CreateKey(f.ctx, k))
	f.fails(f.CreateKey(f.ctx, k), store.ErrExists)
	f.fails(f.CreateKey(f.ctx, newKey("nobody", "k9", f.now)), store.ErrNotFound)
	bare := newKey(webhook.DefaultTenant, "k2", f.now)
	bare.Name, bare.Scopes = "", nil
	f.ok(f.CreateKey(f.ctx, bare))
	f.restart()
	got, err := f.FindKey(f.ctx, "k1")
	f.ok(err)
	f.same("key", got, k)
	got, err = f.FindKey(f.ctx, "k2")
	f.ok(err)
	f.same("bare key", got, bare)
	_, err = f.FindKey(f.ctx, "k3")
	f.fails(err, store.ErrNotFound)

	f.tenant("t2")
	told := f.heard.count()
	f.fails(f.RevokeKey(f.ctx, "t2", "k1"), store.ErrNotFound)
	f.fails(f.RevokeKey(f.ctx, "", "k1"), store.ErrNotFound)
	f.fails(f.RevokeKey(f.ctx, "nobody", "k1"), store.ErrNotFound)
	f.same("told", f.heard.count(), told)
	f.ok(f.RevokeKey(f.ctx, webhook.DefaultTenant, "k1"))
	changes := f.heard.since(told)
	if len(changes) != 1 || changes[0].KeyRevoked != "k1" || changes[0].Tenant != webhook.DefaultTenant {
		f.Fatalf("told %+v", changes)
	}
	_, err = f.FindKey(f.ctx, "k1")
	f.fails(err, store.ErrNotFound)
	f.fails(f.RevokeKey(f.ctx, webhook.DefaultTenant, "k1"), store.ErrNotFound)
}

func operatorKeys(f *fixture) {
	admin := newKey("", "op", f.now)
	admin.Scopes = []webhook.Scope{webhook.ScopeOperator}
	f.ok(f.CreateKey(f.ctx, admin))
	f.key(webhook.DefaultTenant, "k1")
	got, err := f.FindKey(f.ctx, "op")
	f.ok(err)
	f.same("key", got, admin)
	for tenant, want := range map[string][]string{webhook.DefaultTenant: {"k1"}, "": {"op"}, "nobody": {}} {
		listed, err := f.ListKeys(f.ctx, tenant, store.Page{Limit: 10})
		f.ok(err)
		ids := []string{}
		for _, k := range listed.Items {
			ids = append(ids, k.ID)
		}
		f.same("keys of "+tenant, ids, want)
	}
	f.fails(f.RevokeKey(f.ctx, webhook.DefaultTenant, "op"), store.ErrNotFound)
	f.ok(f.RevokeKey(f.ctx, "", "op"))
	_, err = f.FindKey(f.ctx, "op")
	f.fails(err, store.ErrNotFound)
}

func touchKeys(f *fixture) {
	f.key(webhook.DefaultTenant, "k1")
	f.key(webhook.DefaultTenant, "k2")
	f.ok(f.TouchKeys(f.ctx, map[string]time.Time{"k1": f.now.Add(time.Minute), "gone": f.now}))
	f.ok(f.TouchKeys(f.ctx, map[string]time.Time{"k1": f.now}))
	f.ok(f.TouchKeys(f.ctx, nil))
	k1, err := f.FindKey(f.ctx, "k1")
	f.ok(err)
	k2, err := f.FindKey(f.ctx, "k2")
	f.ok(err)
	if !k1.LastUsedAt.Equal(f.now.Add(time.Minute)) || !k2.LastUsedAt.IsZero() {
		f.Fatalf("last used %v and %v", k1.LastUsedAt, k2.LastUsedAt)
	}
}
