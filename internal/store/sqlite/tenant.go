package sqlite

import (
	"context"
	"errors"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

const selectTenant = `SELECT num, id, name, default_contract, owner_url, owner_email, created_at FROM tenant WHERE true`

type numbered[T any] struct {
	num   int64
	value T
}

func scanTenant(s *sqlite3.Stmt) numbered[*webhook.Tenant] {
	return numbered[*webhook.Tenant]{s.ColumnInt64(0), &webhook.Tenant{
		ID: s.ColumnText(1), Name: s.ColumnText(2), DefaultContract: s.ColumnText(3), OwnerURL: s.ColumnText(4),
		OwnerEmail: s.ColumnText(5), CreatedAt: colTime(s, 6),
	}}
}

// CreateTenant implements store.Tenants.
func (d *DB) CreateTenant(ctx context.Context, n webhook.Tenant) error {
	by := webhook.ActorOf(ctx)
	return d.writer.do(ctx, func(t *tx) error {
		_, err := t.tenant(n.ID)
		if err == nil {
			return refuse(store.ErrExists)
		}
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		err = t.exec(`INSERT INTO tenant (id, name, default_contract, owner_url, owner_email, created_at, rev) VALUES (?,?,?,?,?,?,1)`,
			n.ID, n.Name, n.DefaultContract, n.OwnerURL, n.OwnerEmail, n.CreatedAt)
		if err != nil {
			return err
		}
		t.change(store.Change{Tenant: n.ID, Revision: 1})
		after, err := told(map[string]any{"name": n.Name, "default_contract": n.DefaultContract})
		if err != nil {
			return err
		}
		return t.audit(by, webhook.AuditEntry{At: n.CreatedAt, Tenant: n.ID, Action: "tenant.created", Kind: "tenant", Target: n.ID, After: after})
	})
}

// UpdateTenant implements store.Tenants.
func (d *DB) UpdateTenant(ctx context.Context, id string, change func(*webhook.Tenant) error) (*webhook.Tenant, error) {
	by := webhook.ActorOf(ctx)
	var after *webhook.Tenant
	err := d.writer.do(ctx, func(t *tx) error {
		n, err := tenantByID(t.conn, id)
		if errors.Is(err, store.ErrNotFound) {
			return refuse(err)
		}
		if err != nil {
			return err
		}
		after = n
		before := *n
		if err := change(n); err != nil {
			return refuse(err)
		}
		err = t.exec(`UPDATE tenant SET name=?, default_contract=?, owner_url=?, owner_email=? WHERE id=?`,
			n.Name, n.DefaultContract, n.OwnerURL, n.OwnerEmail, id)
		if err != nil {
			return err
		}
		return t.auditTenant(by, &before, n)
	})
	if err != nil {
		return nil, err
	}
	return after, nil
}

// auditTenant tells what changed of a tenant. Where its owner is reached is not
// for the trail: it says only that it changed.
func (t *tx) auditTenant(by webhook.Actor, old, now *webhook.Tenant) error {
	before, after := map[string]any{}, map[string]any{}
	plain := func(name, was, is string) {
		if was != is {
			before[name], after[name] = was, is
		}
	}
	plain("name", old.Name, now.Name)
	plain("default_contract", old.DefaultContract, now.DefaultContract)
	for name, changed := range map[string]bool{"owner_url": old.OwnerURL != now.OwnerURL, "owner_email": old.OwnerEmail != now.OwnerEmail} {
		if changed {
			after[name] = "changed"
		}
	}
	if len(after) == 0 {
		return nil
	}
	e := webhook.AuditEntry{Tenant: old.ID, Action: "tenant.updated", Kind: "tenant", Target: old.ID}
	var err error
	if e.Before, err = told(before); err != nil {
		return err
	}
	if e.After, err = told(after); err != nil {
		return err
	}
	return t.audit(by, e)
}

// DeleteTenant implements store.Tenants.
func (d *DB) DeleteTenant(ctx context.Context, id string) error {
	by := webhook.ActorOf(ctx)
	return d.writer.do(ctx, func(t *tx) error {
		s, err := t.tenant(id)
		if err != nil {
			return refuse(err)
		}
		owns, err := t.one(`SELECT 1 FROM endpoint WHERE tenant = ? AND deleted_at IS NULL LIMIT 1`, []any{s.num}, func(*sqlite3.Stmt) {})
		if err != nil {
			return err
		}
		if owns || id == webhook.DefaultTenant {
			return refuse(store.ErrNotEmpty)
		}
		var revoked []string
		err = t.query(`SELECT id FROM api_key WHERE tenant = ?`, []any{s.num}, func(s *sqlite3.Stmt) error {
			revoked = append(revoked, s.ColumnText(0))
			return nil
		})
		if err != nil {
			return err
		}
		if err := t.exec(`DELETE FROM api_key WHERE tenant = ?`, s.num); err != nil {
			return err
		}
		if err := t.audit(by, webhook.AuditEntry{Tenant: id, Action: "tenant.deleted", Kind: "tenant", Target: id}); err != nil {
			return err
		}
		// The row stays under a name that no caller can give: the log refers to
		// its number.
		if err := t.exec(`UPDATE tenant SET id = '~' || num WHERE num = ?`, s.num); err != nil {
			return err
		}
		delete(t.tenants, id)
		for _, key := range revoked {
			t.change(store.Change{Tenant: id, KeyRevoked: key})
		}
		t.change(store.Change{Tenant: id, TenantDeleted: true})
		return nil
	})
}

func tenantByID(c *conn, id string) (*webhook.Tenant, error) {
	var n *webhook.Tenant
	found, err := c.one(selectTenant+` AND id = ?`, []any{id}, func(s *sqlite3.Stmt) { n = scanTenant(s).value })
	if err == nil && !found {
		err = store.ErrNotFound
	}
	return n, err
}

// GetTenant implements store.Tenants.
func (d *DB) GetTenant(ctx context.Context, id string) (n *webhook.Tenant, err error) {
	err = d.read(ctx, func(c *conn) error {
		n, err = tenantByID(c, id)
		return err
	})
	return n, err
}

// ListTenants implements store.Tenants.
func (d *DB) ListTenants(ctx context.Context, p store.Page) (store.Listed[*webhook.Tenant], error) {
	return listNumbered(ctx, d, selectTenant+` AND id NOT LIKE '~%'`, nil, p, scanTenant)
}

// listNumbered lists a small table whose scan gives each row's number.
func listNumbered[T any](ctx context.Context, d *DB, sql string, args []any, p store.Page, scan func(*sqlite3.Stmt) numbered[T]) (store.Listed[T], error) {
	var page store.Listed[T]
	err := d.read(ctx, func(c *conn) error {
		var rows []numbered[T]
		sql, args := pageSQL(sql, "num", p, args)
		err := c.query(sql, args, func(s *sqlite3.Stmt) error {
			rows = append(rows, scan(s))
			return nil
		})
		if err != nil {
			return err
		}
		page = unnumber(paged(rows, position[T], p))
		return nil
	})
	return page, err
}

// SoleTenant implements store.Tenants.
func (d *DB) SoleTenant(ctx context.Context) (sole bool, err error) {
	err = d.read(ctx, func(c *conn) error {
		_, err := c.one(`SELECT count(*) FROM (SELECT 1 FROM tenant WHERE id NOT LIKE '~%' LIMIT 2)`, nil,
			func(s *sqlite3.Stmt) { sole = s.ColumnInt64(0) == 1 })
		return err
	})
	return sole, err
}
