package sqlite

import (
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// further is a delivery of an event beside those made at its acceptance: a
// redelivery or a replay.
type further struct {
	event    int64 // position
	endpoint webhook.EndpointKey
	// contract and revision are the promise that it is made under.
	contract, revision string
	terms              contract.Terms
	// byPerson gives it the place that a person's wish has (store.PersonDue), due
	// is without meaning then.
	byPerson bool
	due      time.Time
	// key is that of the line that it joins at its tail; "" for none.
	key string
	// replaces is the delivery that it takes the place of, 0 for none; markOld
	// makes that one redelivered.
	replaces webhook.Ref
	markOld  bool
	now      time.Time
}

// insertFurther makes a further delivery and returns it as it stands: parked where
// it waits behind others of its key. The caller tells lanes of it
// (store.Change.Accepted). store.ErrNotFound: the event is gone.
func (t *tx) insertFurther(n further) (store.Work, error) {
	var tenant, kind int64
	found, err := t.one(`SELECT tenant, type FROM event WHERE pos = ?`, []any{n.event}, func(s *sqlite3.Stmt) {
		tenant, kind = s.ColumnInt64(0), s.ColumnInt64(1)
	})
	if err != nil {
		return store.Work{}, err
	}
	if !found {
		return store.Work{}, store.ErrNotFound
	}
	promise, err := t.promise(n.contract, n.revision)
	if err != nil {
		return store.Work{}, err
	}
	t.deliveryPos++
	row := newRow{
		pos: t.deliveryPos, event: n.event, tenant: tenant, endpoint: n.endpoint, kind: kind, promise: promise, trigger: n.terms.Trigger,
		flags: termFlags(n.terms) | flagIf(n.byPerson, flagByPerson), due: n.due, key: n.key, at: n.now,
	}
	if n.byPerson {
		row.due = store.PersonDue(webhook.Ref(row.pos))
	}
	if row.key != "" {
		if err := t.joinNew(&row); err != nil {
			return store.Work{}, err
		}
	}
	if err := t.insertRow(&row); err != nil {
		return store.Work{}, err
	}
	if err := t.exec(`INSERT INTO further (event, delivery) VALUES (?,?)`, n.event, row.pos); err != nil {
		return store.Work{}, err
	}
	if n.replaces != 0 {
		if err := t.replace(n.replaces, row.pos, n.markOld); err != nil {
			return store.Work{}, err
		}
	}
	w, _, err := t.db.loadWork(t.conn, webhook.Ref(row.pos))
	return w, err
}

// replace notes which delivery took the place of which; with mark the old row's
// status says so, too.
func (t *tx) replace(old webhook.Ref, by int64, mark bool) error {
	if err := t.exec(`UPDATE delivery SET replaces = ? WHERE pos = ?`, int64(old), by); err != nil {
		return err
	}
	if !mark {
		return t.exec(`UPDATE delivery SET replaced_by = ? WHERE pos = ?`, by, int64(old))
	}
	return t.exec(`UPDATE delivery SET replaced_by = ?, status = ? WHERE pos = ?`, by, statuses.num(contract.StatusRedelivered), int64(old))
}

func termFlags(t contract.Terms) int64 {
	return flagIf(t.Degraded, flagDegraded) | flagIf(t.Once, flagOnce)
}

// renew begins another round of a delivery that has ended (N13) and returns it.
// The round stands in no line, and passes marks that were made before it (N17):
// its seat is behind all that was queued. ready is when it may go out, unless a
// person's wish gives it its place. The caller tells lanes of it.
func (t *tx) renew(ref webhook.Ref, terms contract.Terms, byPerson bool, ready time.Time) (store.Work, error) {
	endpoint := int64(0)
	found, err := t.one(`SELECT endpoint FROM delivery WHERE pos = ? AND next_at IS NULL`, []any{int64(ref)},
		func(s *sqlite3.Stmt) { endpoint = s.ColumnInt64(0) })
	if err != nil {
		return store.Work{}, err
	}
	if !found {
		return store.Work{}, store.ErrNotFound
	}
	seat := t.deliveryPos + 1
	due := ready
	if byPerson {
		due = store.PersonDue(webhook.Ref(seat))
	}
	// A line's chain may still lead over it: its seat tells that it takes no turn.
	err = t.exec(`UPDATE delivery SET round = round + 1, attempts = 0, interrupted = 0, status = ?, reason = ?, kind = ?, trigger = ?,
		flags = flags & ? | ?, seat = ?, next_at = ?, finished_at = NULL WHERE pos = ?`,
		statuses.num(contract.StatusPending), reasons.num(webhook.WhyNone), kinds.num(contract.KindNone), triggers.num(terms.Trigger),
		flagLine, termFlags(terms)|flagIf(byPerson, flagByPerson), seat, due, int64(ref))
	if err != nil {
		return store.Work{}, err
	}
	if err := t.wait(webhook.EndpointKey(endpoint), due, int64(ref)); err != nil {
		return store.Work{}, err
	}
	w, _, err := t.db.loadWork(t.conn, ref)
	return w, err
}
