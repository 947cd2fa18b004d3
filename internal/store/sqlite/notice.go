package sqlite

import (
	"context"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// tellOwner queues a notice to the owner of an endpoint's tenant, if it has one
// that can be told.
func (t *tx) tellOwner(e *webhook.Endpoint, became contract.Transition, now time.Time) error {
	return t.exec(`INSERT INTO notice (tenant, endpoint, became, why, at, tries, due)
		SELECT num, ?, ?, ?, ?, 0, ? FROM tenant WHERE id = ? AND (owner_url <> '' OR owner_email <> '')`,
		int64(e.Key), string(became), string(e.StateReason), now, now, e.Tenant)
}

// DueNotices implements store.Notices.
func (d *DB) DueNotices(ctx context.Context, now time.Time, limit int) (due []store.Notice, next time.Time, err error) {
	err = d.read(ctx, func(c *conn) error {
		var endpoints []int64
		err := c.query(`SELECT m.num, m.endpoint, m.became, m.why, m.at, m.tries, m.due, t.id, t.name, t.default_contract, t.owner_url,
			t.owner_email, t.created_at FROM notice m JOIN tenant t ON t.num = m.tenant WHERE t.id NOT LIKE '~%' ORDER BY m.due, m.num LIMIT ?`,
			[]any{limit + 1}, func(s *sqlite3.Stmt) error {
				at := colTime(s, 6)
				if at.After(now) || len(due) == limit {
					if next.IsZero() {
						next = at
					}
					return nil
				}
				endpoints = append(endpoints, s.ColumnInt64(1))
				due = append(due, store.Notice{
					ID: s.ColumnInt64(0), Became: contract.Transition(s.ColumnText(2)), Why: webhook.StateReason(s.ColumnText(3)),
					At: colTime(s, 4), Tries: s.ColumnInt(5), Due: at,
					Tenant: webhook.Tenant{
						ID: s.ColumnText(7), Name: s.ColumnText(8), DefaultContract: s.ColumnText(9), OwnerURL: s.ColumnText(10),
						OwnerEmail: s.ColumnText(11), CreatedAt: colTime(s, 12),
					},
				})
				return nil
			})
		if err != nil {
			return err
		}
		for i, num := range endpoints {
			all, err := d.endpoints(c, selectEndpoint+` AND n.num = ?`, num)
			if err != nil {
				return err
			}
			if len(all) > 0 {
				due[i].Endpoint = all[0]
			}
		}
		return nil
	})
	return due, next, err
}

// SettleNotice implements store.Notices.
func (d *DB) SettleNotice(ctx context.Context, id int64, again time.Time) error {
	return d.writer.do(ctx, func(t *tx) error {
		if again.IsZero() {
			return t.exec(`DELETE FROM notice WHERE num = ?`, id)
		}
		return t.exec(`UPDATE notice SET due = ?, tries = tries + 1 WHERE num = ?`, again, id)
	})
}
