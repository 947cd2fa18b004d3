package sqlite

import (
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// transition stores an endpoint as it has become, with all that the change brings
// along, in one commit and told as one Change: marks, catching up, the audit
// entry, the owner's notice, operational events. It is the one place for changes
// by callers and by the engine alike. e bears the new state; what stands in the
// database is the old one. Its cost does not grow with what waits (N17).
func (t *tx) transition(e *webhook.Endpoint, u store.EndpointUpdate, by webhook.Actor, now time.Time) error {
	if err := t.fresh(u.Emit); err != nil {
		return err
	}
	before, err := t.db.endpoint(t.conn, selectEndpoint+` AND n.num = ?`, int64(e.Key))
	if err != nil {
		return err
	}
	e.Skips, e.CatchingUp = before.Skips, before.CatchingUp
	if u.Skip != webhook.WhyNone {
		if err := t.skip(before, e, u, now); err != nil {
			return err
		}
	}
	owed := false
	switch {
	case before.On() && !e.On():
		err = t.goOff(e, now)
	case !before.On() && e.On():
		owed, err = t.goOn(e)
	}
	if err != nil {
		return err
	}
	if before.URL != e.URL {
		if err := t.leaveGate(before, webhook.GateURL); err != nil {
			return err
		}
	}
	if u.CatchUp || u.Redeliver || owed {
		if err := t.beginCatchUp(e, u.Redeliver); err != nil {
			return err
		}
	}
	if err := t.auditEndpoint(by, before, e, u.Action, u.Why, now); err != nil {
		return err
	}
	if u.TellOwner != "" {
		if err := t.tellOwner(e, u.TellOwner, now); err != nil {
			return err
		}
	}
	if err := t.storeEndpoint(e, now); err != nil {
		return err
	}
	return t.emit(u.Emit)
}

// goOff notes when an endpoint went off, and where in the order of queueing.
// Catching up ends: what it has not reached is held as before, and the redeliveries
// that it has not made are owed.
func (t *tx) goOff(e *webhook.Endpoint, now time.Time) error {
	before, err := t.cut()
	if err != nil {
		return err
	}
	e.CatchingUp = false
	return t.exec(`UPDATE endpoint SET off_at = ?, off_since = ?, catch_up_at = NULL WHERE num = ?`, before-1, now, int64(e.Key))
}

// goOn takes back what goOff noted. owed tells that catching up was cut before it
// had made all redeliveries.
func (t *tx) goOn(e *webhook.Endpoint) (owed bool, err error) {
	if _, err = t.one(`SELECT catch_up_dead > 0 FROM endpoint WHERE num = ?`, []any{int64(e.Key)}, func(s *sqlite3.Stmt) { owed = colBool(s, 0) }); err != nil {
		return false, err
	}
	return owed, t.exec(`UPDATE endpoint SET off_at = NULL, off_since = NULL, warned_at = NULL WHERE num = ?`, int64(e.Key))
}

// skip marks what an update says is skipped. before is the endpoint's old state.
func (t *tx) skip(before, e *webhook.Endpoint, u store.EndpointUpdate, now time.Time) error {
	first := int64(0)
	if u.SkipMissed {
		if before.On() {
			return nil // nothing was missed
		}
		off, err := t.offAt(before)
		if err != nil {
			return err
		}
		first = off + 1
	}
	end, err := t.cut()
	if err != nil {
		return err
	}
	return t.mark(e, webhook.Skip{First: webhook.Ref(first), Before: webhook.Ref(end), Reason: u.Skip, At: now})
}

// offAt is the seat at which an endpoint that is off went off.
func (t *tx) offAt(e *webhook.Endpoint) (int64, error) {
	off, since := int64(-1), e.StateSince
	_, err := t.one(`SELECT coalesce(off_at, -1), off_since FROM endpoint WHERE num = ? AND off_since IS NOT NULL`, []any{int64(e.Key)},
		func(s *sqlite3.Stmt) { off, since = s.ColumnInt64(0), colTime(s, 1) })
	if err != nil || off >= 0 {
		return off, err
	}
	// It went off under a release that noted only the time.
	first, err := seekDelivery(t.conn, since)
	return first - 1, err
}

// beginCatchUp lets a job bring what waits up to now into the order of queueing, and
// redeliver what is dead up to now. Without dead, redeliveries that are owed since
// an earlier time are made all the same; those themselves have later positions, so
// that none is made of another.
func (t *tx) beginCatchUp(e *webhook.Endpoint, dead bool) error {
	e.CatchingUp, t.tidy = true, true
	return t.exec(`UPDATE endpoint SET catch_up_at = 0, catch_up_to = ?1, catch_up_dead = CASE WHEN ?2 THEN ?1 ELSE catch_up_dead END WHERE num = ?3`,
		t.deliveryPos, dead, int64(e.Key))
}

// tell tells of an endpoint whose marks have changed and nothing else.
func (t *tx) tell(key webhook.EndpointKey) error {
	e, err := t.endpointByKey(key)
	if err != nil {
		return err
	}
	tenant, err := t.tenant(e.Tenant)
	if err != nil {
		return err
	}
	t.change(store.Change{Tenant: e.Tenant, Revision: tenant.rev, Endpoint: e})
	return nil
}
