package sqlite

import (
	"errors"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// catchingUp is an endpoint whose backlog is being brought into order (N17).
type catchingUp struct {
	endpoint webhook.EndpointKey
	at, upto int64
	// dead deliveries up to that position are redelivered too; 0 for none.
	dead     int64
	contract string
}

const selectCatchingUp = `SELECT num, catch_up_at, catch_up_to, catch_up_dead, contract FROM endpoint WHERE catch_up_at IS NOT NULL AND deleted_at IS NULL`

func scanCatchingUp(s *sqlite3.Stmt) catchingUp {
	return catchingUp{endpoint: webhook.EndpointKey(s.ColumnInt64(0)), at: s.ColumnInt64(1), upto: s.ColumnInt64(2), dead: s.ColumnInt64(3), contract: s.ColumnText(4)}
}

// Weights of what catching up does to a row, in parts of a janitor's slice.
const (
	weighsReseat    = 1
	weighsRedeliver = 4
)

// catchUp brings what endpoints were held back from into the order in which it
// goes out: oldest first (S10). It goes by position, and its cursor is part of each
// commit, so that a restart neither leaves one out nor redelivers one twice.
func (j *janitor) catchUp() (more bool, err error) {
	var all []catchingUp
	err = j.read(func(c *conn) error {
		return c.query(selectCatchingUp, nil, func(s *sqlite3.Stmt) error {
			all = append(all, scanCatchingUp(s))
			return nil
		})
	})
	if err != nil {
		return false, err
	}
	return each(j, all, j.catchUpOne)
}

func (j *janitor) catchUpOne(u catchingUp) (more bool, err error) {
	if u.dead > 0 && j.db.cfg.Contract(u.contract, "") == nil {
		return false, errLater // stored contracts are loaded after the start
	}
	var rows []int64
	at := u.at
	err = j.read(func(c *conn) error {
		marks, err := readSkips(c, u.endpoint)
		if err != nil {
			return err
		}
		from, upto := u.at, u.upto
		if from == 0 && u.dead == 0 {
			first, err := firstWaiting(c, u.endpoint)
			if err != nil {
				return err
			}
			if from = first - 1; first == 0 {
				upto = 0 // nothing waits
			}
		}
		rows, at, more, err = pass(c, u.endpoint, u.jump(marks, from), upto, func(r passed) int { return u.weigh(j.db, marks, r) })
		return err
	})
	if err != nil {
		return false, err
	}
	err = j.write(func(t *tx) error {
		var present catchingUp
		_, err := t.one(selectCatchingUp+` AND num = ?`, []any{int64(u.endpoint)}, func(s *sqlite3.Stmt) { present = scanCatchingUp(s) })
		present.contract = u.contract // the endpoint says it
		if err != nil || present != u {
			return err // it went off, or began anew
		}
		return t.catchUp(u, rows, at, !more)
	})
	return more, err
}

// jump passes over the positions that marks cover: beside what they end there is
// only what a person sent again since, which has its place.
func (u *catchingUp) jump(marks []webhook.Skip, from int64) int64 {
	for _, m := range marks {
		if from >= u.dead && int64(m.First) <= from+1 {
			from = max(from, int64(m.Before)-1)
		}
	}
	return from
}

// weigh tells what a delivery means to catching up; 0 for nothing. Left alone are
// tests, what a mark skips, what stands in line or has its place already, and what
// is not to be sent before a time that lies ahead.
func (u *catchingUp) weigh(d *DB, marks []webhook.Skip, r passed) int {
	if r.trigger == contract.TriggerTest {
		return 0
	}
	if r.status.Final() {
		if r.pos <= u.dead && r.status == contract.StatusDead {
			return weighsRedeliver
		}
		return 0
	}
	now := d.cfg.DueNow().UnixMilli()
	_, skipped := covers(marks, r)
	due := millis(r.due)
	if skipped || store.IsSeat(due) || store.IsParked(due) || r.untried && r.due > now {
		return 0
	}
	return weighsReseat
}

// catchUp takes a slice of an endpoint's deliveries and moves the cursor to at.
func (t *tx) catchUp(u catchingUp, rows []int64, at int64, last bool) error {
	e, err := t.endpointByKey(u.endpoint)
	if err != nil {
		return err
	}
	for _, pos := range rows {
		r, found, err := readPassed(t.conn, pos)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		switch u.weigh(t.db, e.Skips, r) {
		case weighsReseat:
			err = t.reseat(r)
		case weighsRedeliver:
			err = t.redeliver(e, r)
		}
		if err != nil {
			return err
		}
	}
	if !last {
		return t.exec(`UPDATE endpoint SET catch_up_at = ? WHERE num = ?`, at, int64(u.endpoint))
	}
	if err := t.exec(`UPDATE endpoint SET catch_up_at = NULL, catch_up_dead = 0 WHERE num = ?`, int64(u.endpoint)); err != nil {
		return err
	}
	return t.tell(u.endpoint)
}

// reseat gives a delivery that waits its place in the order of catching up.
func (t *tx) reseat(r passed) error {
	due := store.CatchUpDue(webhook.Ref(r.place))
	if err := t.leave(r.endpoint, r.due, r.pos); err != nil {
		return err
	}
	if err := t.wait(r.endpoint, due, r.pos); err != nil {
		return err
	}
	return t.exec(`UPDATE delivery SET next_at = ? WHERE pos = ?`, due, r.pos)
}

// redeliver makes a new delivery in place of a dead one, under the endpoint's
// present contract, in the place of the old one (S10, S11).
func (t *tx) redeliver(e *webhook.Endpoint, r passed) error {
	promised := t.db.cfg.Contract(e.Contract, "")
	if promised == nil {
		return errLater
	}
	now := t.db.cfg.DueNow()
	n := further{
		endpoint: r.endpoint, contract: e.Contract, revision: promised.Revision(), due: store.CatchUpDue(webhook.Ref(r.pos)),
		terms:    contract.Terms{Trigger: contract.TriggerRedelivery, Degraded: now.Before(e.Health.DegradedUntil)},
		replaces: webhook.Ref(r.pos), markOld: true, now: now,
	}
	_, err := t.one(`SELECT event, line_key FROM delivery WHERE pos = ?`, []any{r.pos}, func(s *sqlite3.Stmt) {
		n.event = s.ColumnInt64(0)
		if promised.Orders() || e.Ordering != nil {
			n.key = s.ColumnText(1)
		}
	})
	if err != nil {
		return err
	}
	_, err = t.insertFurther(n)
	if errors.Is(err, store.ErrNotFound) {
		return nil // its event is no more: nothing is left to send
	}
	return err
}
