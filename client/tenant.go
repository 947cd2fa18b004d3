package client

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// Tenant owns endpoints, events and keys. Calls about tenants and their keys
// need an operator's key and take the tenant from their argument, not from
// [Client].Tenant.
type Tenant struct {
	ID              string `json:"id"`
	Name            string `json:"name,omitempty"`
	DefaultContract string `json:"default_contract,omitempty"`
	// OwnerURL is where its owner is told of endpoints in trouble, by POSTs that bear
	// no signature: a hint to look, not proof.
	OwnerURL   string    `json:"owner_url,omitempty"`
	OwnerEmail string    `json:"owner_email,omitempty"`
	CreatedAt  time.Time `json:"created_at,omitzero"`
}

// NewTenant is a tenant to create; only its ID is needed.
type NewTenant struct {
	ID              string `json:"id"`
	Name            string `json:"name,omitempty"`
	DefaultContract string `json:"default_contract,omitempty"`
	OwnerURL        string `json:"owner_url,omitempty"`
	OwnerEmail      string `json:"owner_email,omitempty"`
}

// Scope is what a key may do.
type Scope string

// The scopes.
const (
	ScopePublish  Scope = "publish"
	ScopeRead     Scope = "read"
	ScopeManage   Scope = "manage"
	ScopeOperator Scope = "operator"
)

// APIKey tells of a key.
type APIKey struct {
	ID         string    `json:"id"`
	Tenant     string    `json:"tenant,omitempty"`
	Name       string    `json:"name,omitempty"`
	Scopes     []Scope   `json:"scopes"`
	CreatedAt  time.Time `json:"created_at,omitzero"`
	ExpiresAt  time.Time `json:"expires_at,omitzero"`
	LastUsedAt time.Time `json:"last_used_at,omitzero"`
	// Key is the whole key: only in the answer to the creation.
	Key string `json:"key,omitempty"`
}

// NewAPIKey is a key to create.
type NewAPIKey struct {
	Name      string    `json:"name,omitempty"`
	Scopes    []Scope   `json:"scopes"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// CreateTenant creates a tenant.
func (c *Client) CreateTenant(ctx context.Context, t NewTenant) (Tenant, error) {
	return invokeJSON[Tenant](ctx, c, newCall(http.MethodPost, "tenants"), t)
}

// TenantPatch changes a tenant; nil fields stay as they are, "" takes a value away.
type TenantPatch struct {
	Name            *string `json:"name,omitempty"`
	DefaultContract *string `json:"default_contract,omitempty"`
	OwnerURL        *string `json:"owner_url,omitempty"`
	OwnerEmail      *string `json:"owner_email,omitempty"`
}

// UpdateTenant changes a tenant.
func (c *Client) UpdateTenant(ctx context.Context, id string, patch TenantPatch) (Tenant, error) {
	return invokeJSON[Tenant](ctx, c, newCall(http.MethodPatch, "tenants", id), patch)
}

// GetTenant returns a tenant.
func (c *Client) GetTenant(ctx context.Context, id string) (Tenant, error) {
	return invoke[Tenant](ctx, c, newCall(http.MethodGet, "tenants", id))
}

// ListTenants returns one page of tenants.
func (c *Client) ListTenants(ctx context.Context, p PageOptions) (Page[Tenant], error) {
	return listPage[Tenant](ctx, c, nil, p, "tenants")
}

// AllTenants iterates over tenants, page by page from p on.
func (c *Client) AllTenants(ctx context.Context, p PageOptions) iter.Seq2[Tenant, error] {
	return listAll[Tenant](ctx, c, nil, p, "tenants")
}

// DeleteTenant deletes a tenant that owns nothing any more.
func (c *Client) DeleteTenant(ctx context.Context, id string) error {
	_, err := c.do(ctx, newCall(http.MethodDelete, "tenants", id), nil)
	return err
}

// CreateKey creates a key of a tenant. Its answer alone bears the key.
func (c *Client) CreateKey(ctx context.Context, tenant string, k NewAPIKey) (APIKey, error) {
	k.ExpiresAt = k.ExpiresAt.UTC().Truncate(time.Millisecond)
	return invokeJSON[APIKey](ctx, c, newCall(http.MethodPost, "tenants", tenant, "keys"), k)
}

// ListKeys returns one page of a tenant's keys.
func (c *Client) ListKeys(ctx context.Context, tenant string, p PageOptions) (Page[APIKey], error) {
	return listPage[APIKey](ctx, c, nil, p, "tenants", tenant, "keys")
}

// AllKeys iterates over a tenant's keys, page by page from p on.
func (c *Client) AllKeys(ctx context.Context, tenant string, p PageOptions) iter.Seq2[APIKey, error] {
	return listAll[APIKey](ctx, c, nil, p, "tenants", tenant, "keys")
}

// RevokeKey makes a key invalid at once.
func (c *Client) RevokeKey(ctx context.Context, tenant, id string) error {
	_, err := c.do(ctx, newCall(http.MethodDelete, "tenants", tenant, "keys", id), nil)
	return err
}
