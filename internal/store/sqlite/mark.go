package sqlite

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/ncruces/go-sqlite3"

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
	err = t.exec(`INSERT OR IGNORE INTO skip (endpoint, first, before, reason, at) VALUES (?,?,?,?,?)`,
		int64(e.Key), int64(m.First), int64(m.Before), reasons.num(m.Reason), m.At)
	if err != nil {
		return err
	}
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
