package sqlite

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Columns 0 to 6 are what shownStatus and shownReason need beside the filter.
const selectDelivery = `SELECT d.pos, d.status, d.reason, n.state, n.state_reason, n.deleted_at, (SELECT at FROM running WHERE delivery = d.pos),
	d.event, d.tenant, d.endpoint, d.kind, d.trigger, d.round, d.attempts, d.status_code, d.duration, d.next_at, d.created_at, d.finished_at,
	e.id, e.accepted_at, e.ordering_key, e.expires_at, n.id, (SELECT id FROM tenant WHERE num = d.tenant),
	(SELECT text FROM word WHERE num = d.type), (SELECT contract FROM promise WHERE num = d.promise),
	(SELECT revision FROM promise WHERE num = d.promise)
	FROM delivery d JOIN endpoint n ON n.num = d.endpoint JOIN event e ON e.pos = d.event WHERE `

// shownStatus is the status as it is now: what holds for a whole endpoint and
// what runs is not written into its rows.
func shownStatus(s *sqlite3.Stmt) contract.Status {
	status := statuses.word(s.ColumnInt64(1))
	switch {
	case status.Final():
		return status
	case s.ColumnType(5) != sqlite3.NULL:
		return contract.StatusCanceled
	case s.ColumnType(6) != sqlite3.NULL:
		return contract.StatusSending
	default:
		return status
	}
}

// shownReason is the reason as it is now, see shownStatus.
func shownReason(s *sqlite3.Stmt, shown contract.Status, due, now time.Time) webhook.Reason {
	reason := reasons.word(s.ColumnInt64(2))
	switch shown {
	case contract.StatusCanceled:
		if s.ColumnType(5) != sqlite3.NULL && reason != webhook.WhyCanceled {
			return webhook.WhyEndpointDeleted
		}
		return reason
	case contract.StatusPending:
		switch endpointStates.word(s.ColumnInt64(3)) {
		case webhook.EndpointPaused:
			return webhook.WhyPaused
		case webhook.EndpointDisabled:
			return webhook.WhyDisabled
		case webhook.EndpointActive:
		}
		if reason == webhook.WhyNone && due.After(now) {
			return webhook.WhyScheduled
		}
		return reason
	case contract.StatusSending, contract.StatusDelivered, contract.StatusFailed, contract.StatusDead,
		contract.StatusSkipped, contract.StatusRedelivered:
		return reason
	}
	return reason
}

func (d *DB) scanDelivery(s *sqlite3.Stmt, now time.Time) *webhook.Delivery {
	v := &webhook.Delivery{
		Ref: webhook.Ref(s.ColumnInt64(0)), Status: shownStatus(s), FailureKind: kinds.word(s.ColumnInt64(10)),
		Trigger: triggers.word(s.ColumnInt64(11)), Round: s.ColumnInt(12), AttemptCount: s.ColumnInt(13), StatusCode: s.ColumnInt(14),
		Duration: time.Duration(s.ColumnInt64(15)) * time.Microsecond, NextAttemptAt: colTime(s, 16), CreatedAt: colTime(s, 17),
		FinishedAt: colTime(s, 18), Event: s.ColumnText(19), OrderingKey: s.ColumnText(21), ExpiresAt: colTime(s, 22),
		Endpoint: s.ColumnText(23), Tenant: s.ColumnText(24), Type: s.ColumnText(25), Contract: s.ColumnText(26), ContractRevision: s.ColumnText(27),
	}
	v.ID = d.ids.Encode(webhook.PrefixDelivery, v.CreatedAt, int64(v.Ref))
	if v.Event == "" {
		v.Event = d.ids.Encode(webhook.PrefixEvent, colTime(s, 20), s.ColumnInt64(7))
	}
	v.WebhookID = v.Event
	v.Reason = shownReason(s, v.Status, v.NextAttemptAt, now)
	if v.Status.Final() {
		v.NextAttemptAt = time.Time{}
	}
	return v
}

// findDelivery returns a delivery's position if it is the tenant's.
func (d *DB) findDelivery(c *conn, tenant, id string) (int64, error) {
	pos, err := d.ids.Decode(webhook.PrefixDelivery, id)
	if err != nil {
		return 0, store.ErrNotFound
	}
	return pos, c.owned(`SELECT (SELECT id FROM tenant WHERE num = d.tenant) FROM delivery d WHERE pos = ?`, pos, tenant)
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
		_, err = c.one(selectDelivery+`d.pos = ?`, []any{pos}, func(s *sqlite3.Stmt) { v = d.scanDelivery(s, d.cfg.DueNow()) })
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
		now := d.cfg.DueNow()
		sql, args, none, err := d.narrow(c, tenant, f)
		if err != nil || none {
			return err
		}
		var rows []numbered[*webhook.Delivery]
		walk := walk{table: "delivery", column: "d.pos", stamp: "created_at", stampAt: 17, page: p, span: f.Span}
		last, more, err := walk.run(c, sql, args, func(s *sqlite3.Stmt) (bool, error) {
			if num != 0 && s.ColumnInt64(8) != num || len(types) > 0 && !types[s.ColumnText(25)] || !takes(&f, s, now) {
				return false, nil
			}
			rows = append(rows, numbered[*webhook.Delivery]{s.ColumnInt64(0), d.scanDelivery(s, now)})
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
	if f.Event != "" {
		pos, err := d.findEvent(c, tenant, f.Event)
		if errors.Is(err, store.ErrNotFound) {
			return "", nil, true, nil
		}
		if err != nil {
			return "", nil, false, err
		}
		first, end, err := deliveriesOf(c, pos)
		if err != nil {
			return "", nil, false, err
		}
		sql += `d.pos >= ? AND d.pos < ? AND `
		args = append(args, first, end)
	}
	if f.Endpoint != "" {
		var num int64
		// The newest endpoint of that name, also a deleted one: its log stays.
		found, err := c.one(`SELECT n.num FROM endpoint n JOIN tenant t ON t.num = n.tenant WHERE n.id = ? AND (t.id = ? OR ? = '*') ORDER BY n.num DESC LIMIT 1`,
			[]any{f.Endpoint, tenant, tenant}, func(s *sqlite3.Stmt) { num = s.ColumnInt64(0) })
		if err != nil || !found {
			return "", nil, true, err
		}
		sql += `d.endpoint = ? AND `
		args = append(args, num)
	}
	return sql, args, false, nil
}

// takes applies the part of the filter that is judged by the row as shown.
func takes(f *store.DeliveryFilter, s *sqlite3.Stmt, now time.Time) bool {
	status := shownStatus(s)
	if len(f.Statuses) > 0 && !slices.Contains(f.Statuses, status) {
		return false
	}
	if len(f.FailureKinds) > 0 && !slices.Contains(f.FailureKinds, kinds.word(s.ColumnInt64(10))) {
		return false
	}
	if len(f.Triggers) > 0 && !slices.Contains(f.Triggers, triggers.word(s.ColumnInt64(11))) {
		return false
	}
	if len(f.Reasons) > 0 && !slices.Contains(f.Reasons, shownReason(s, status, colTime(s, 16), now)) {
		return false
	}
	return f.OrderingKey == "" || s.ColumnText(21) == f.OrderingKey
}

// CancelDelivery implements store.Deliveries.
func (d *DB) CancelDelivery(ctx context.Context, tenant, id string, now time.Time) (canceled bool, err error) {
	err = d.writer.do(ctx, func(t *tx) error {
		pos, err := d.findDelivery(t.conn, tenant, id)
		if errors.Is(err, store.ErrNotFound) {
			return refuse(err)
		}
		if err != nil {
			return err
		}
		if canceled, err = t.cancel(webhook.Ref(pos), webhook.WhyCanceled, now); err != nil {
			return err
		}
		if canceled {
			t.change(store.Change{Tenant: tenant, Canceled: []webhook.Ref{webhook.Ref(pos)}})
		}
		return nil
	})
	return canceled, err
}
