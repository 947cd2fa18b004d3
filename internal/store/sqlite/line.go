package sqlite

import (
	"context"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// lineSteps is how many ended deliveries of a line one piece of work passes over
// (N25). What is behind them is the janitor's, see mendLines.
const lineSteps = 500

// mendSlice is how many lines the janitor goes on with at a time.
const mendSlice = 10

// Flags of a delivery.
const (
	flagDegraded = 1 << iota
	flagOnce
	flagByPerson
	// flagJoins: it takes its place in line when its time comes.
	flagJoins
	flagUnlogged
	// flagLine stands while the chain of its key's line leads over the delivery,
	// also after it ended behind an unfinished head: its row must stay until then.
	flagLine
)

// join puts a delivery at the tail of its key's line (N15) and tells whether it is
// the head. One behind the head is parked: its due time is store.ParkedDue.
func (t *tx) join(endpoint webhook.EndpointKey, key string, pos int64) (head bool, err error) {
	var tail int64
	found, err := t.one(`SELECT tail FROM line WHERE endpoint = ? AND key = ?`, []any{int64(endpoint), key},
		func(s *sqlite3.Stmt) { tail = s.ColumnInt64(0) })
	if err != nil {
		return false, err
	}
	if !found {
		return true, t.exec(`INSERT INTO line (endpoint, key, head, tail) VALUES (?,?,?,?)`, int64(endpoint), key, pos, pos)
	}
	if err := t.exec(`UPDATE delivery SET line_next = ? WHERE pos = ?`, pos, tail); err != nil {
		return false, err
	}
	return false, t.exec(`UPDATE line SET tail = ? WHERE endpoint = ? AND key = ?`, pos, int64(endpoint), key)
}

// leaveLine gives the turn to the next delivery of a line that has not ended, if
// the one that ended was the head.
func (t *tx) leaveLine(ref webhook.Ref) error {
	var endpoint, head int64
	var key string
	stands, err := t.one(`SELECT d.endpoint, d.line_key, l.head FROM delivery d JOIN line l ON l.endpoint = d.endpoint AND l.key = d.line_key
		WHERE d.pos = ? AND d.flags & ? <> 0`, []any{int64(ref), flagLine}, func(s *sqlite3.Stmt) {
		endpoint, key, head = s.ColumnInt64(0), s.ColumnText(1), s.ColumnInt64(2)
	})
	if err != nil || !stands || head != int64(ref) {
		return err
	}
	return t.advance(endpoint, key, head)
}

// advance makes the first unfinished delivery from head on the line's head. An
// empty line goes. It stops after lineSteps; a head below zero then says from
// where the janitor goes on, and that nobody is due meanwhile.
func (t *tx) advance(endpoint int64, key string, head int64) error {
	for range lineSteps {
		var next int64
		waits := false
		_, err := t.one(`SELECT line_next, next_at IS NOT NULL AND seat IS NULL FROM delivery WHERE pos = ?`, []any{head}, func(s *sqlite3.Stmt) {
			next, waits = s.ColumnInt64(0), colBool(s, 1) // a round with a seat is a resend: it takes no turn
		})
		if err != nil {
			return err
		}
		if waits {
			if err := t.setHead(endpoint, key, head); err != nil {
				return err
			}
			return t.promote(webhook.EndpointKey(endpoint), head)
		}
		if err := t.exec(`UPDATE delivery SET flags = flags & ~? WHERE pos = ?`, flagLine, head); err != nil {
			return err
		}
		if next == 0 {
			return t.exec(`DELETE FROM line WHERE endpoint = ? AND key = ?`, endpoint, key)
		}
		head = next
	}
	t.lineCut = true
	return t.setHead(endpoint, key, -head)
}

func (t *tx) setHead(endpoint int64, key string, head int64) error {
	return t.exec(`UPDATE line SET head = ? WHERE endpoint = ? AND key = ?`, head, endpoint, key)
}

// promote makes the new head of a line due and tells its lane, so that it goes out
// without another read.
func (t *tx) promote(endpoint webhook.EndpointKey, pos int64) error {
	if err := t.release(endpoint, pos); err != nil {
		return err
	}
	return t.handOver(pos)
}

// release gives a delivery that has waited for its turn its due time: now, or its
// place in the order where a person asked for it or its endpoint catches up.
func (t *tx) release(endpoint webhook.EndpointKey, pos int64) error {
	lane, err := t.laneState(endpoint)
	if err != nil {
		return err
	}
	due := t.db.cfg.DueNow()
	place, flags, old := pos, int64(0), int64(0)
	_, err = t.one(`SELECT next_at, flags, coalesce(replaces, pos) FROM delivery WHERE pos = ?`, []any{pos}, func(s *sqlite3.Stmt) {
		old, flags, place = s.ColumnInt64(0), s.ColumnInt64(1), s.ColumnInt64(2)
	})
	if err != nil {
		return err
	}
	switch {
	case flags&flagByPerson != 0:
		due = store.PersonDue(webhook.Ref(pos))
	case lane.catchingUp:
		due = store.CatchUpDue(webhook.Ref(place))
	}
	return t.requeue(endpoint, pos, old, due)
}

// requeue gives a delivery that waits another due time.
func (t *tx) requeue(endpoint webhook.EndpointKey, pos, old int64, due time.Time) error {
	if err := t.leave(endpoint, old, pos); err != nil {
		return err
	}
	if err := t.wait(endpoint, due, pos); err != nil {
		return err
	}
	return t.exec(`UPDATE delivery SET next_at = ? WHERE pos = ?`, due, pos)
}

// handOver tells a lane of a delivery that became due by this commit.
func (t *tx) handOver(pos int64) error {
	w, found, err := t.db.loadWork(t.conn, webhook.Ref(pos))
	if err != nil || !found {
		return err
	}
	tenant, err := t.tenant(w.Tenant)
	if err != nil {
		return err
	}
	t.changes = append(t.changes, store.Change{Tenant: w.Tenant, Revision: tenant.rev, Accepted: []store.Work{w}})
	return nil
}

// mendLines goes on with lines where lineSteps cut them and returns how many there
// were: the janitor calls it until there is none. The first call after a start
// looks in any case, since the process may have ended between.
func (d *DB) mendLines(ctx context.Context) (n int, err error) {
	if !d.linesCut.Swap(false) {
		return 0, nil
	}
	type cut struct {
		endpoint, head int64
		key            string
	}
	var lines []cut
	err = d.read(ctx, func(c *conn) error {
		return c.query(`SELECT endpoint, key FROM line WHERE head < 0 LIMIT ?`, []any{mendSlice}, func(s *sqlite3.Stmt) error {
			lines = append(lines, cut{endpoint: s.ColumnInt64(0), key: s.ColumnText(1)})
			return nil
		})
	})
	for _, l := range lines {
		if err != nil {
			break
		}
		err = d.writer.do(ctx, func(t *tx) error {
			found, err := t.one(`SELECT head FROM line WHERE endpoint = ? AND key = ? AND head < 0`, []any{l.endpoint, l.key},
				func(s *sqlite3.Stmt) { l.head = -s.ColumnInt64(0) })
			if err != nil || !found {
				return err
			}
			return t.advance(l.endpoint, l.key, l.head)
		})
	}
	if err != nil || len(lines) == mendSlice {
		d.linesCut.Store(true)
	}
	return len(lines), err
}
