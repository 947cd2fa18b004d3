package sqlite

import (
	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/internal/webhook"
)

// purge removes the logs of endpoints that were deleted with them (P3), once
// nothing of them waits.
func (j *janitor) purge() (more bool, err error) {
	var gone []webhook.EndpointKey
	err = j.read(func(c *conn) error {
		return c.query(`SELECT num FROM endpoint n WHERE purge = 1 AND deleted_at IS NOT NULL
			AND (EXISTS (SELECT 1 FROM delivery WHERE endpoint = n.num) OR EXISTS (SELECT 1 FROM line WHERE endpoint = n.num))
			AND NOT EXISTS (SELECT 1 FROM waiting WHERE endpoint = n.num)`, nil, func(s *sqlite3.Stmt) error {
			gone = append(gone, webhook.EndpointKey(s.ColumnInt64(0)))
			return nil
		})
	})
	if err != nil {
		return false, err
	}
	return each(j, gone, j.purgeOne)
}

func (j *janitor) purgeOne(key webhook.EndpointKey) (more bool, err error) {
	var rows []int64
	err = j.read(func(c *conn) error {
		return c.query(`SELECT pos FROM delivery WHERE endpoint = ? ORDER BY pos LIMIT ?`, []any{int64(key), janitorSlice}, func(s *sqlite3.Stmt) error {
			rows = append(rows, s.ColumnInt64(0))
			return nil
		})
	})
	if err != nil {
		return false, err
	}
	err = j.write(func(t *tx) error {
		// Nobody stands in its lines any more.
		err := t.exec(`DELETE FROM line WHERE endpoint = ? AND key IN (SELECT key FROM line WHERE endpoint = ? LIMIT ?)`, int64(key), int64(key), janitorSlice)
		if err != nil {
			return err
		}
		more = t.conn.db.Changes() == janitorSlice || len(rows) == janitorSlice
		_, cut, err := t.removeAll(rows)
		more = more || cut
		return err
	})
	return more, err
}

// removeSlice is how many rows of whatever table one piece of work removes.
const removeSlice = 300

// removeAll removes deliveries with their attempts until removeSlice rows are gone:
// n deliveries went then, and cut tells that not all did.
func (t *tx) removeAll(deliveries []int64) (n int, cut bool, err error) {
	weight := 0
	for _, pos := range deliveries {
		if weight >= removeSlice {
			cut = true
			break
		}
		rows, err := t.removeDelivery(pos)
		if err != nil {
			return n, false, err
		}
		weight += rows
		n++
	}
	return n, cut, t.pin()
}

// removeDelivery takes a final delivery out of the database, with its attempts, and returns
// how many rows went.
func (t *tx) removeDelivery(pos int64) (rows int, err error) {
	var event, attempt int64
	found, err := t.one(`SELECT event, coalesce(last_attempt, 0) FROM delivery WHERE pos = ?`, []any{pos}, func(s *sqlite3.Stmt) {
		event, attempt = s.ColumnInt64(0), s.ColumnInt64(1)
	})
	if err != nil || !found {
		return 0, err
	}
	for attempt != 0 {
		before := int64(0)
		if _, err := t.one(`SELECT prev FROM attempt WHERE pos = ?`, []any{attempt}, func(s *sqlite3.Stmt) { before = s.ColumnInt64(0) }); err != nil {
			return rows, err
		}
		if err := t.exec(`DELETE FROM attempt WHERE pos = ?`, attempt); err != nil {
			return rows, err
		}
		rows++
		attempt = before
	}
	if err := t.unmark(webhook.Ref(pos)); err != nil {
		return rows, err
	}
	if err := t.exec(`DELETE FROM further WHERE event = ? AND delivery = ?`, event, pos); err != nil {
		return rows, err
	}
	return rows + 1, t.exec(`DELETE FROM delivery WHERE pos = ?`, pos)
}
