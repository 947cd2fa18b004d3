package auth

import (
	"bytes"
	"testing"

	"github.com/posthorn/posthorn/internal/clock"
	"github.com/posthorn/posthorn/internal/seal"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/store/sqlite"
	"github.com/posthorn/posthorn/internal/webhook"
)

// On a database, wired as the server wires it: what was answered holds.
func TestEngine_N2_KeysAndTenantsOnARealStore(t *testing.T) {
	t.Parallel()
	ring, err := seal.New(bytes.Repeat([]byte{1}, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	var a *Authenticator
	now := clock.Start()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir(), Sealer: ring, Now: now.Wall(), OnChange: func(c store.Change) {
		if a != nil {
			a.Apply(c)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if a, err = New(Config{Keys: db, Tenants: db, AdminKey: adminKey, Clock: now}); err != nil {
		t.Fatal(err)
	}

	admin, err := a.Authenticate(t.Context(), "Bearer "+adminKey)
	if err != nil {
		t.Fatal(err)
	}
	if tenant, err := a.ResolveTenant(t.Context(), admin, "", OneTenant); err != nil || tenant != "default" {
		t.Fatalf("%q, %v", tenant, err)
	}
	if err := db.CreateTenant(t.Context(), webhook.Tenant{ID: "acme", DefaultContract: "standard", CreatedAt: noon}); err != nil {
		t.Fatal(err)
	}
	_, err = a.ResolveTenant(t.Context(), admin, "", OneTenant)
	denied(t, err, webhook.CodeTenantRequired)

	text, key := makeKey(t, "acme", webhook.ScopePublish, webhook.ScopeRead)
	if err := db.CreateKey(t.Context(), &key); err != nil {
		t.Fatal(err)
	}
	who, err := a.Authenticate(t.Context(), "Bearer "+text)
	if err != nil || who.Tenant != "acme" || !who.Can(webhook.ScopePublish) || who.Can(webhook.ScopeManage) {
		t.Fatalf("%+v, %v", who, err)
	}
	a.Stop()
	if k, err := db.FindKey(t.Context(), key.ID); err != nil || k.LastUsedAt.IsZero() {
		t.Fatalf("last use is not kept: %+v, %v", k, err)
	}
	if err := db.RevokeKey(t.Context(), "acme", key.ID); err != nil {
		t.Fatal(err)
	}
	_, err = a.Authenticate(t.Context(), "Bearer "+text)
	denied(t, err, webhook.CodeUnauthorized)

	if text, key = makeKey(t, "acme", webhook.ScopeRead); db.CreateKey(t.Context(), &key) != nil {
		t.Fatal("the second key is not stored")
	}
	if _, err := a.Authenticate(t.Context(), "Bearer "+text); err != nil {
		t.Fatal(err)
	}
	if err := db.DeleteTenant(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	_, err = a.Authenticate(t.Context(), "Bearer "+text)
	denied(t, err, webhook.CodeUnauthorized)
	if tenant, err := a.ResolveTenant(t.Context(), admin, "", OneTenant); err != nil || tenant != "default" {
		t.Fatalf("%q, %v", tenant, err)
	}
	_, err = a.ResolveTenant(t.Context(), admin, "acme", OneTenant)
	denied(t, err, webhook.CodeNotFound)
}
