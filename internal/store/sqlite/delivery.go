package sqlite

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// selectDelivery reads what view.read shows. A log that went with its endpoint,
// and tests that are not logged, are nowhere (P3, P9). The order of the tables is
// fixed: it is read by positions.
const selectDelivery = `SELECT d.pos, d.status, d.reason, n.state, n.deleted_at, d.flags, coalesce(d.seat, d.pos), d.event, d.tenant, d.endpoint,
	d.kind, d.trigger, d.round, d.attempts, d.status_code, d.duration, d.next_at, d.created_at, d.finished_at, d.promise,
	d.line_key, d.replaces, d.replaced_by, e.id, e.accepted_at, e.ordering_key, e.expires_at, e.run, n.id,
	(SELECT id FROM tenant WHERE num = d.tenant), (SELECT text FROM word WHERE num = d.type),
	CASE WHEN d.next_at IS NOT NULL THEN (SELECT at FROM running WHERE delivery = d.pos) END, n.url_gate, n.own_gate,
	(SELECT created_at FROM delivery WHERE pos = d.replaces), (SELECT created_at FROM delivery WHERE pos = d.replaced_by),
	(SELECT created_at FROM run WHERE num = e.run)
	FROM delivery d CROSS JOIN endpoint n ON n.num = d.endpoint CROSS JOIN event e ON e.pos = d.event
	WHERE n.purge = 0 AND d.flags & 16 = 0 AND `

// Columns of selectDelivery that lists filter by.
const (
	colTenant  = 8
	colCreated = 17
	colKind    = 30
)

// findDelivery returns a delivery's position if it is the tenant's.
func (d *DB) findDelivery(c *conn, tenant, id string) (int64, error) {
	pos, err := d.ids.Decode(webhook.PrefixDelivery, id)
	if err != nil {
		return 0, store.ErrNotFound
	}
	return pos, c.owned(`SELECT (SELECT id FROM tenant WHERE num = d.tenant) FROM delivery d JOIN endpoint n ON n.num = d.endpoint
		WHERE d.pos = ? AND n.purge = 0 AND d.flags & 16 = 0`, pos, tenant)
}

// owned checks that sql, a selection of an owner by position, gives the tenant;
// ErrNotFound where it gives none or another one.
func (c *conn) owned(sql string, pos int64, tenant string) error {
	owner := ""
	_, err := c.one(sql, []any{pos}, func(s *sqlite3.Stmt) { owner = s.ColumnText(0) })
	if err == nil && (owner == "" || (owner != tenant && tenant != store.TenantAll)) {
		return store.ErrNotFound
	}
	return err
}

// GetDelivery implements store.Deliveries.
func (d *DB) GetDelivery(ctx context.Context, tenant, id string) (v *webhook.Delivery, err error) {
	err = d.read(ctx, func(c *conn) error {
		pos, err := d.findDelivery(c, tenant, id)
		if err != nil {
			return err
		}
		shown, err := d.view(c).one(pos)
		v = shown.Delivery
		return err
	})
	return v, err
}

// ListAttempts implements store.Deliveries, walking the chain from its end.
func (d *DB) ListAttempts(ctx context.Context, tenant, delivery string) (all []webhook.Attempt, err error) {
	err = d.read(ctx, func(c *conn) error {
		pos, err := d.findDelivery(c, tenant, delivery)
		if err != nil {
			return err
		}
		var next int64
		_, err = c.one(`SELECT last_attempt FROM delivery WHERE pos = ?`, []any{pos}, func(s *sqlite3.Stmt) { next = s.ColumnInt64(0) })
		for err == nil && next != 0 {
			found := false
			found, err = c.one(`SELECT prev, round, number, try, flags, at, duration, status_code, kind, error, address, response FROM attempt WHERE pos = ?`,
				[]any{next}, func(s *sqlite3.Stmt) {
					all = append(all, d.scanAttempt(s, next))
					next = s.ColumnInt64(0)
				})
			if !found {
				break
			}
		}
		return err
	})
	slices.Reverse(all)
	return all, err
}

func (d *DB) scanAttempt(s *sqlite3.Stmt, pos int64) webhook.Attempt {
	flags := s.ColumnInt(4)
	a := webhook.Attempt{
		Round: s.ColumnInt(1), Number: s.ColumnInt(2), Try: s.ColumnInt(3), At: colTime(s, 5),
		Counted: flags&flagCounted != 0, Truncated: flags&flagTruncated != 0, Superseded: flags&flagSuperseded != 0,
		Duration: time.Duration(s.ColumnInt64(6)) * time.Microsecond, StatusCode: s.ColumnInt(7), FailureKind: kinds.word(s.ColumnInt64(8)),
		Error: s.ColumnText(9), Address: s.ColumnText(10), Response: s.ColumnBlob(11, nil),
	}
	a.ID = d.ids.Encode(webhook.PrefixAttempt, a.At, pos)
	return a
}

// ListDeliveries implements store.Deliveries.
func (d *DB) ListDeliveries(ctx context.Context, tenant string, f store.DeliveryFilter, p store.Page) (store.Listed[*webhook.Delivery], error) {
	var page store.Listed[*webhook.Delivery]
	err := d.read(ctx, func(c *conn) error {
		num, types, none, err := scope(c, tenant, f.Types)
		if err != nil || none {
			return err
		}
		sql, args, none, err := d.narrow(c, tenant, f)
		if err != nil || none {
			return err
		}
		v := d.view(c)
		var rows []numbered[*webhook.Delivery]
		walk := walk{table: "delivery", column: "d.pos", stamp: "created_at", stampAt: colCreated, page: p, span: f.Span}
		last, more, err := walk.run(c, sql, args, func(s *sqlite3.Stmt) (bool, error) {
			if num != 0 && s.ColumnInt64(colTenant) != num || len(types) > 0 && !types[s.ColumnText(colKind)] {
				return false, nil
			}
			shown, err := v.read(s)
			if err != nil || !shown.takenBy(&f) {
				return false, err
			}
			rows = append(rows, numbered[*webhook.Delivery]{s.ColumnInt64(0), shown.Delivery})
			return true, nil
		})
		page = unnumber(listed(rows, position[*webhook.Delivery], p, last, more))
		return err
	})
	return page, err
}

// narrow uses what lies together: an endpoint's deliveries by the index, an
// event's by their positions. none is true when nothing can match.
func (d *DB) narrow(c *conn, tenant string, f store.DeliveryFilter) (sql string, args []any, none bool, err error) {
	sql = selectDelivery
	var events []int64
	if f.Event != "" {
		pos, err := d.findEvent(c, tenant, f.Event)
		if errors.Is(err, store.ErrNotFound) {
			return "", nil, true, nil
		}
		if err != nil {
			return "", nil, false, err
		}
		events = append(events, pos)
	}
	if f.Run != "" {
		pos, err := d.eventOfRun(c, tenant, f.Run)
		if errors.Is(err, store.ErrNotFound) {
			return "", nil, true, nil
		}
		if err != nil {
			return "", nil, false, err
		}
		events = append(events, pos)
	}
	for _, pos := range events {
		part, more, err := ofEvent(c, pos)
		if err != nil {
			return "", nil, false, err
		}
		sql += part
		args = append(args, more...)
	}
	if f.Endpoint != "" {
		var num int64
		// The newest endpoint of that name, also a deleted one: its log stays.
		found, err := c.one(`SELECT n.num FROM endpoint n JOIN tenant t ON t.num = n.tenant
			WHERE n.id = ? AND (t.id = ? OR ? = '*') AND n.purge = 0 ORDER BY n.num DESC LIMIT 1`,
			[]any{f.Endpoint, tenant, tenant}, func(s *sqlite3.Stmt) { num = s.ColumnInt64(0) })
		if err != nil || !found {
			return "", nil, true, err
		}
		sql += `d.endpoint = ? AND `
		args = append(args, num)
	}
	return sql, args, false, nil
}

// eventOfRun returns the position of the event that tells of a run. A plain event
// is a run of one, named by its own ID (S14). ErrNotFound also for a run that has
// not finished.
func (d *DB) eventOfRun(c *conn, tenant, id string) (int64, error) {
	r, err := d.findRun(c, tenant, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return d.findEvent(c, tenant, id)
	case err == nil && r.event == 0:
		return 0, store.ErrNotFound
	}
	return r.event, err
}

// CancelDelivery implements store.Deliveries.
func (d *DB) CancelDelivery(ctx context.Context, tenant, id string, now time.Time) (canceled bool, err error) {
	by := webhook.ActorOf(ctx)
	err = d.writer.do(ctx, func(t *tx) error {
		pos, err := d.findDelivery(t.conn, tenant, id)
		if errors.Is(err, store.ErrNotFound) {
			return refuse(err)
		}
		if err != nil {
			return err
		}
		n, err := t.cancel(tenant, []webhook.Ref{webhook.Ref(pos)}, now)
		if canceled = n > 0; err != nil || !canceled {
			return err
		}
		return t.audit(by, webhook.AuditEntry{At: now, Tenant: tenant, Action: "delivery.canceled", Kind: "delivery", Target: id})
	})
	return canceled, err
}
