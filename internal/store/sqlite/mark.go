package sqlite

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// readSkips returns an endpoint's marks in the order in which they were made: of
// several that cover a delivery the first one holds.
func readSkips(c *conn, key webhook.EndpointKey) (skips []webhook.Skip, err error) {
	err = c.query(`SELECT first, before, reason, at FROM skip WHERE endpoint = ?`, []any{int64(key)}, func(s *sqlite3.Stmt) error {
		skips = append(skips, webhook.Skip{
			First: webhook.Ref(s.ColumnInt64(0)), Before: webhook.Ref(s.ColumnInt64(1)), Reason: reasons.word(s.ColumnInt64(2)), At: colTime(s, 3),
		})
		return nil
	})
	slices.SortFunc(skips, func(a, b webhook.Skip) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Before, b.Before))
	})
	return skips, err
}

// mark puts a mark on an endpoint (N17). It is true from the commit on; the
// janitor writes it into rows.
func (t *tx) mark(e *webhook.Endpoint, m webhook.Skip) (err error) {
	err = t.exec(`INSERT OR IGNORE INTO skip (endpoint, first, before, reason, at, due) VALUES (?,?,?,?,?,?)`,
		int64(e.Key), int64(m.First), int64(m.Before), reasons.num(m.Reason), m.At, t.db.cfg.DueNow())
	if err != nil {
		return err
	}
	t.tidy = true
	e.Skips, err = readSkips(t.conn, e.Key)
	return err
}

// cut parts the order of queueing: all that was queued so far has a seat before
// the one that it returns, all that is queued later has not. It uses up a
// position, since a resend has the seat behind the last delivery.
func (t *tx) cut() (before int64, err error) {
	t.deliveryPos++
	return t.deliveryPos + 1, t.pin()
}

// metaPositions is the name of the row in the table meta that bears the last
// positions given.
const metaPositions = "positions"

// pin notes the last positions given where the tables alone would not tell them
// after a restart: no position is given twice, also when its row is gone.
func (t *tx) pin() error {
	var text []byte
	for _, pos := range []int64{t.eventPos, t.deliveryPos, t.attemptPos} {
		text = binary.BigEndian.AppendUint64(text, uint64(pos))
	}
	return writeMeta(t.conn, metaPositions, text)
}

// loadPins raises the positions to those that pin noted.
func (w *writer) loadPins() error {
	text, err := readMeta(w.conn, metaPositions)
	if err != nil {
		return err
	}
	for _, pos := range []*int64{&w.state.eventPos, &w.state.deliveryPos, &w.state.attemptPos} {
		if len(text) >= 8 {
			*pos = max(*pos, int64(binary.BigEndian.Uint64(text)))
			text = text[8:]
		}
	}
	return nil
}

// seekDelivery returns the first position of deliveries accepted at a time or
// later, in as many steps as the number of deliveries has digits.
func seekDelivery(c *conn, at time.Time) (int64, error) {
	return walk{table: "delivery", stamp: "created_at"}.seek(c, at)
}

// skipWalk is how far an endpoint's marks were written into rows.
type skipWalk struct {
	marks []webhook.Skip
	at    int64 // positions up to it are done
	upto  int64
}

// covers finds the mark that skips a delivery which waits. Tests are never skipped.
func covers(marks []webhook.Skip, r passed) (webhook.Skip, bool) {
	if r.status.Final() || r.trigger == contract.TriggerTest {
		return webhook.Skip{}, false
	}
	e := webhook.Endpoint{Skips: marks}
	return e.Skipped(r.seat)
}

// writeSkips writes marks into the rows that they cover, and removes them then.
func (j *janitor) writeSkips() (more bool, err error) {
	var marked []webhook.EndpointKey
	err = j.read(func(c *conn) error {
		return c.query(`SELECT DISTINCT endpoint FROM skip ORDER BY endpoint`, nil, func(s *sqlite3.Stmt) error {
			marked = append(marked, webhook.EndpointKey(s.ColumnInt64(0)))
			return nil
		})
	})
	if err != nil {
		return false, err
	}
	return each(j, marked, j.writeSkip)
}

// writeSkip goes on by position, which no delivery changes: what it has passed is
// covered by none of its marks any more.
func (j *janitor) writeSkip(key webhook.EndpointKey) (more bool, err error) {
	walk := j.walks[key]
	var rows []int64
	at := int64(0)
	err = j.read(func(c *conn) (err error) {
		if walk == nil {
			if walk, err = beginSkipWalk(c, key); err != nil {
				return err
			}
		}
		rows, at, more, err = pass(c, key, walk.at, walk.upto, func(r passed) int {
			if _, covered := covers(walk.marks, r); covered {
				return 1
			}
			return 0
		})
		return err
	})
	if err != nil {
		return false, err
	}
	j.walks[key] = walk
	if len(rows) > 0 || !more {
		if err := j.write(func(t *tx) error { return t.writeSkip(key, walk.marks, rows, !more) }); err != nil {
			return false, err
		}
	}
	if walk.at = at; !more {
		delete(j.walks, key)
	}
	return more, nil
}

// beginSkipWalk starts where the endpoint's oldest waiting delivery lies.
func beginSkipWalk(c *conn, key webhook.EndpointKey) (*skipWalk, error) {
	marks, err := readSkips(c, key)
	if err != nil {
		return nil, err
	}
	first, err := firstWaiting(c, key)
	if err != nil {
		return nil, err
	}
	w := &skipWalk{marks: marks, at: first - 1}
	if first > 0 {
		for _, m := range marks {
			w.upto = max(w.upto, int64(m.Before)-1)
		}
	}
	return w, nil
}

// writeSkip ends deliveries that marks cover, and with the last of them the marks.
func (t *tx) writeSkip(key webhook.EndpointKey, marks []webhook.Skip, rows []int64, last bool) error {
	var ended []webhook.Ref
	for _, pos := range rows {
		r, found, err := readPassed(t.conn, pos)
		if err != nil {
			return err
		}
		m, covered := covers(marks, r)
		if !found || !covered {
			continue
		}
		if _, err := t.end(webhook.Ref(pos), contract.StatusSkipped, m.Reason, m.At); err != nil {
			return err
		}
		ended = append(ended, webhook.Ref(pos))
	}
	if last {
		for _, m := range marks {
			err := t.exec(`DELETE FROM skip WHERE endpoint = ? AND first = ? AND before = ?`, int64(key), int64(m.First), int64(m.Before))
			if err != nil {
				return err
			}
		}
	}
	if len(ended) > 0 {
		tenant := ""
		_, err := t.one(`SELECT t.id FROM endpoint n JOIN tenant t ON t.num = n.tenant WHERE n.num = ?`, []any{int64(key)},
			func(s *sqlite3.Stmt) { tenant = s.ColumnText(0) })
		if err != nil {
			return err
		}
		// Lanes may hold them; without the mark nothing else would say that they ended.
		t.change(store.Change{Tenant: tenant, Canceled: ended})
	}
	if !last {
		return nil
	}
	err := t.tell(key)
	if errors.Is(err, store.ErrNotFound) {
		return nil // deleted meanwhile
	}
	return err
}
