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

// remove takes a delivery out of the log, with its attempts, and its event with
// the last one that was made at its acceptance (P9).
func (t *tx) remove(ref webhook.Ref) error {
	var event, attempt int64
	found, err := t.one(`SELECT event, last_attempt FROM delivery WHERE pos = ?`, []any{int64(ref)}, func(s *sqlite3.Stmt) {
		event, attempt = s.ColumnInt64(0), s.ColumnInt64(1)
	})
	if err != nil || !found {
		return err
	}
	if err := t.pin(); err != nil {
		return err
	}
	for attempt != 0 {
		var prev int64
		if _, err := t.one(`SELECT prev FROM attempt WHERE pos = ?`, []any{attempt}, func(s *sqlite3.Stmt) { prev = s.ColumnInt64(0) }); err != nil {
			return err
		}
		if err := t.exec(`DELETE FROM attempt WHERE pos = ?`, attempt); err != nil {
			return err
		}
		attempt = prev
	}
	if err := t.exec(`DELETE FROM delivery WHERE pos = ?`, int64(ref)); err != nil {
		return err
	}
	first, end, err := deliveriesOf(t.conn, event)
	if err != nil {
		return err
	}
	left, err := t.one(`SELECT 1 FROM delivery WHERE pos >= ? AND pos < ? LIMIT 1`, []any{first, end}, func(*sqlite3.Stmt) {})
	if err != nil || left {
		return err
	}
	return t.removeEvent(event)
}

// removeEvent removes an event that no delivery is left of, and what is remembered
// of its ID.
func (t *tx) removeEvent(event int64) error {
	if err := t.exec(`DELETE FROM event_key WHERE hash = (SELECT hash FROM event_key WHERE event = ?)`, event); err != nil {
		return err
	}
	return t.exec(`DELETE FROM event WHERE pos = ?`, event)
}
