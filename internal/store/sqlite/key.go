package sqlite

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

const selectKey = `SELECT num, id, (SELECT id FROM tenant WHERE num = k.tenant), name, scopes, hash, created_at, expires_at, last_used_at
	FROM api_key k WHERE true`

func scanKey(s *sqlite3.Stmt) numbered[*webhook.APIKey] {
	k := &webhook.APIKey{
		ID: s.ColumnText(1), Tenant: s.ColumnText(2), Name: s.ColumnText(3), CreatedAt: colTime(s, 6), ExpiresAt: colTime(s, 7), LastUsedAt: colTime(s, 8),
	}
	for word := range strings.FieldsSeq(s.ColumnText(4)) {
		k.Scopes = append(k.Scopes, webhook.Scope(word))
	}
	copy(k.Hash[:], s.ColumnRawBlob(5))
	return numbered[*webhook.APIKey]{s.ColumnInt64(0), k}
}

// CreateKey implements store.Keys.
func (d *DB) CreateKey(ctx context.Context, k *webhook.APIKey) error {
	by := webhook.ActorOf(ctx)
	return d.writer.do(ctx, func(t *tx) error {
		var tenant any = null{}
		if k.Tenant != "" {
			s, err := t.tenant(k.Tenant)
			if err != nil {
				return refuse(err)
			}
			tenant = s.num
		}
		err := t.exec(`INSERT INTO api_key (id, tenant, name, scopes, hash, created_at, expires_at) VALUES (?,?,?,?,?,?,?)`,
			k.ID, tenant, k.Name, joinWords(k.Scopes), k.Hash[:], k.CreatedAt, k.ExpiresAt)
		if errors.Is(err, sqlite3.CONSTRAINT_UNIQUE) {
			return refuse(store.ErrExists) // a failed INSERT changed nothing
		}
		if err != nil {
			return err
		}
		after, err := told(map[string]any{"name": k.Name, "scopes": k.Scopes})
		if err != nil {
			return err
		}
		return t.audit(by, webhook.AuditEntry{At: k.CreatedAt, Tenant: k.Tenant, Action: "key.created", Kind: "key", Target: k.ID, After: after})
	})
}

// RevokeKey implements store.Keys.
func (d *DB) RevokeKey(ctx context.Context, tenant, id string) error {
	by := webhook.ActorOf(ctx)
	return d.writer.do(ctx, func(t *tx) error {
		var owner any = null{}
		if tenant != "" {
			s, err := t.tenant(tenant)
			if err != nil {
				return refuse(err)
			}
			owner = s.num
		}
		if err := t.exec(`DELETE FROM api_key WHERE id = ? AND tenant IS ?`, id, owner); err != nil {
			return err
		}
		if t.conn.db.Changes() == 0 {
			return refuse(store.ErrNotFound)
		}
		t.change(store.Change{Tenant: tenant, KeyRevoked: id})
		return t.audit(by, webhook.AuditEntry{Tenant: tenant, Action: "key.revoked", Kind: "key", Target: id})
	})
}

// FindKey implements store.Keys.
func (d *DB) FindKey(ctx context.Context, id string) (k *webhook.APIKey, err error) {
	err = d.read(ctx, func(c *conn) error {
		found, err := c.one(selectKey+` AND id = ?`, []any{id}, func(s *sqlite3.Stmt) { k = scanKey(s).value })
		if err == nil && !found {
			err = store.ErrNotFound
		}
		return err
	})
	return k, err
}

// ListKeys implements store.Keys.
func (d *DB) ListKeys(ctx context.Context, tenant string, p store.Page) (store.Listed[*webhook.APIKey], error) {
	if tenant == "" {
		return listNumbered(ctx, d, selectKey+` AND tenant IS NULL`, nil, p, scanKey)
	}
	return listNumbered(ctx, d, selectKey+` AND tenant = (SELECT num FROM tenant WHERE id = ?)`, []any{tenant}, p, scanKey)
}

// TouchKeys implements store.Keys.
func (d *DB) TouchKeys(ctx context.Context, used map[string]time.Time) error {
	return d.writer.do(ctx, func(t *tx) error {
		for id, at := range used {
			if err := t.exec(`UPDATE api_key SET last_used_at = max(coalesce(last_used_at, 0), ?) WHERE id = ?`, at, id); err != nil {
				return err
			}
		}
		return nil
	})
}
