package auth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Across says whether a request may be about all tenants at once.
type Across bool

// Lists may cross tenants, nothing else.
const (
	OneTenant  Across = false
	AllTenants Across = true
)

// soleFor is how long one look at the store's tenants is good for.
const soleFor = time.Second

// ResolveTenant says which tenant a request is about, from who asks and the
// header Posthorn-Tenant ("" when absent):
//
//   - a tenant's key: its tenant; another one in the header is not_found, as is a
//     tenant that does not exist;
//   - an operator: the one that the header names, which must exist; without a
//     header the default tenant while no other exists, else tenant_required;
//   - "*" gives store.TenantAll to operators where across is AllTenants.
//
// The error is a *Problem unless the store failed.
func (a *Authenticator) ResolveTenant(ctx context.Context, who Identity, header string, across Across) (string, error) {
	if !who.Operator() {
		if who.Tenant == "" || header != "" && header != who.Tenant {
			return "", noTenant()
		}
		return who.Tenant, nil
	}
	switch {
	case header == "":
		return a.impliedTenant(ctx)
	case header == store.TenantAll && across == AllTenants:
		return store.TenantAll, nil
	case header == store.TenantAll:
		return "", webhook.NewProblem(webhook.CodeTenantRequired, "Only lists can be read across tenants; name one tenant in the header Posthorn-Tenant.")
	}
	if err := a.CheckTenant(ctx, header); err != nil {
		return "", err
	}
	return header, nil
}

func noTenant() *webhook.Problem {
	return webhook.NewProblem(webhook.CodeNotFound, "There is no tenant of this ID for this key.")
}

// CheckTenant returns nil for a tenant that exists, a *Problem (not_found) for
// another.
func (a *Authenticator) CheckTenant(ctx context.Context, id string) error {
	a.mu.RLock()
	_, known := a.tenants[id]
	generation := a.generation
	a.mu.RUnlock()
	if known {
		return nil
	}
	if !webhook.ValidCallerID(id) {
		return noTenant()
	}
	_, err := a.cfg.Tenants.GetTenant(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return noTenant()
	}
	if err != nil {
		return fmt.Errorf("looking up a tenant: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.generation == generation {
		if len(a.tenants) >= maxCached {
			clear(a.tenants)
		}
		a.tenants[id] = struct{}{}
	}
	return nil
}

// impliedTenant is the default tenant while it is the only one.
func (a *Authenticator) impliedTenant(ctx context.Context) (string, error) {
	now := a.cfg.Clock.Now()
	a.mu.RLock()
	sole, generation := now.Before(a.soleUntil), a.generation
	a.mu.RUnlock()
	if sole {
		return webhook.DefaultTenant, nil
	}
	sole, err := a.cfg.Tenants.SoleTenant(ctx)
	if err != nil {
		return "", fmt.Errorf("looking for the only tenant: %w", err)
	}
	if !sole {
		return "", webhook.NewProblem(webhook.CodeTenantRequired, "There are several tenants; name one in the header Posthorn-Tenant.")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.generation == generation {
		a.soleUntil = now.Add(soleFor)
	}
	return webhook.DefaultTenant, nil
}
