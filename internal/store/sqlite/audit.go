package sqlite

import (
	"context"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// ListAudit implements store.Store.
func (d *DB) ListAudit(ctx context.Context, tenant string, f store.AuditFilter, p store.Page) (store.Listed[webhook.AuditEntry], error) {
	return store.Listed[webhook.AuditEntry]{}, errStub
}
