package sqlite

import (
	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/internal/webhook"
)

// ended does what follows when a delivery has become final: the next one of its
// key's line has its turn (N15), and a test that nobody keeps is removed (P9). It is
// called in the same transaction, after the row was written. Every end leads here,
// whoever makes it.
func (t *tx) ended(ref webhook.Ref) error {
	flags := int64(0)
	_, err := t.one(`SELECT flags FROM delivery WHERE pos = ?`, []any{int64(ref)}, func(s *sqlite3.Stmt) { flags = s.ColumnInt64(0) })
	if err != nil {
		return err
	}
	return t.settle(ref, flags)
}

// settle is ended for a delivery whose flags are known.
func (t *tx) settle(ref webhook.Ref, flags int64) error {
	if flags&flagLine != 0 {
		if err := t.leaveLine(ref); err != nil {
			return err
		}
	}
	if flags&flagUnlogged != 0 {
		return t.remove(ref)
	}
	return nil
}

// remove takes a test that nobody keeps out of the database, and its event with
// the last delivery that was made at its acceptance (P9).
func (t *tx) remove(ref webhook.Ref) error {
	var e oldEvent
	found, err := t.one(`SELECT e.pos, e.tenant, e.id FROM delivery d JOIN event e ON e.pos = d.event WHERE d.pos = ?`, []any{int64(ref)},
		func(s *sqlite3.Stmt) {
			e = oldEvent{pos: s.ColumnInt64(0), tenant: s.ColumnInt64(1), id: s.ColumnText(2)}
		})
	if err != nil || !found {
		return err
	}
	if err := t.pin(); err != nil {
		return err
	}
	if _, err := t.removeDelivery(int64(ref)); err != nil {
		return err
	}
	first, end, err := deliveriesOf(t.conn, e.pos)
	if err != nil {
		return err
	}
	left, err := t.one(`SELECT 1 FROM delivery WHERE pos >= ? AND pos < ? LIMIT 1`, []any{first, end}, func(*sqlite3.Stmt) {})
	if err != nil || left {
		return err
	}
	_, _, err = t.removeOld(e, removeSlice)
	return err
}
