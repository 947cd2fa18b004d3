package sqlite

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// audit writes into the trail, in the transaction of what it tells of. Before and
// After must bear no secret, no header's value and no URL. An entry without a
// time gets the present one.
func (t *tx) audit(by webhook.Actor, e webhook.AuditEntry) error {
	var tenant any = null{}
	if e.Tenant != "" {
		s, err := t.tenant(e.Tenant)
		if err != nil {
			return err
		}
		tenant = s.num
	}
	if e.At.IsZero() {
		e.At = t.db.cfg.DueNow()
	}
	return t.exec(`INSERT INTO audit (at, tenant, actor_kind, actor_id, action, kind, target, why, before, after) VALUES (?,?,?,?,?,?,?,?,?,?)`,
		e.At, tenant, by.Kind, by.ID, e.Action, e.Kind, e.Target, e.Why, jsonText(e.Before), jsonText(e.After))
}

// jsonText binds JSON as text, none as NULL.
func jsonText(v json.RawMessage) any {
	if v == nil {
		return null{}
	}
	return string(v)
}

// told is a JSON object for an entry's Before or After.
func told(members map[string]any) (json.RawMessage, error) { return json.Marshal(members) }

const selectAudit = `SELECT a.pos, a.at, (SELECT id FROM tenant WHERE num = a.tenant), a.actor_kind, a.actor_id, a.action, a.kind, a.target,
	a.why, a.before, a.after, a.tenant FROM audit a WHERE `

func scanAudit(s *sqlite3.Stmt) webhook.AuditEntry {
	e := webhook.AuditEntry{
		Pos: s.ColumnInt64(0), At: colTime(s, 1), Tenant: s.ColumnText(2), Actor: webhook.Actor{Kind: s.ColumnText(3), ID: s.ColumnText(4)},
		Action: s.ColumnText(5), Kind: s.ColumnText(6), Target: s.ColumnText(7), Why: s.ColumnText(8),
	}
	if s.ColumnType(9) != sqlite3.NULL {
		e.Before = json.RawMessage(s.ColumnText(9))
	}
	if s.ColumnType(10) != sqlite3.NULL {
		e.After = json.RawMessage(s.ColumnText(10))
	}
	return e
}

// ListAudit implements store.Audit.
func (d *DB) ListAudit(ctx context.Context, tenant string, f store.AuditFilter, p store.Page) (store.Listed[webhook.AuditEntry], error) {
	var page store.Listed[webhook.AuditEntry]
	err := d.read(ctx, func(c *conn) error {
		num, _, none, err := scope(c, tenant, nil)
		if err != nil || none {
			return err
		}
		// Stamps of the trail are of several clocks, so the span bounds no positions.
		span := walk{span: f.Span}
		walk := walk{table: "audit", column: "a.pos", stamp: "at", stampAt: 1, page: p}
		var rows []numbered[webhook.AuditEntry]
		last, more, err := walk.run(c, selectAudit, nil, func(s *sqlite3.Stmt) (bool, error) {
			if num != 0 && s.ColumnInt64(11) != num || !span.within(colTime(s, 1)) {
				return false, nil
			}
			e := scanAudit(s)
			if f.Kind != "" && e.Kind != f.Kind || f.Target != "" && e.Target != f.Target ||
				len(f.Actions) > 0 && !slices.Contains(f.Actions, e.Action) {
				return false, nil
			}
			rows = append(rows, numbered[webhook.AuditEntry]{e.Pos, e})
			return true, nil
		})
		page = unnumber(listed(rows, position[webhook.AuditEntry], p, last, more))
		return err
	})
	return page, err
}
