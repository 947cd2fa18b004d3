package sqlite

import (
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// hot numbers the statements of the path that every event takes, so that finding
// one costs nothing.
type hot int

const (
	hotBegin hot = iota
	hotBeginRead
	hotCommit
	hotInsertEvent
	hotInsertEventKey
	hotInsertDelivery
	hotInsertWaiting
	hotDeleteWaiting
	hotSelectCurrent
	hotInsertAttempt
	hotUpdateRecord
	hotUpdateLog
	hotUpdateHealth
	hotCount
)

func (h hot) sql() string {
	switch h {
	case hotBegin:
		return `BEGIN IMMEDIATE`
	case hotBeginRead:
		return `BEGIN`
	case hotCommit:
		return `COMMIT`
	case hotInsertEvent:
		return `INSERT INTO event (pos, tenant, type, id, accepted_at, created_at, deliver_at, expires_at, ordering_key, first_delivery,
			deliveries, erased, size, data, run) VALUES (?,?,?,?,?,?,?,?,?,?,?,0,?,?,?)`
	case hotInsertEventKey:
		return `INSERT INTO event_key (hash, event, fingerprint) VALUES (?,?,?)`
	case hotInsertDelivery:
		return `INSERT INTO delivery (pos, event, tenant, endpoint, type, promise, trigger, status, reason, kind, round, attempts, rows,
			interrupted, status_code, duration, next_at, created_at, finished_at, flags, line_key)
			VALUES (?,?,?,?,?,?,?,?,?,0,1,0,0,0,0,0,?,?,?,?,?)`
	case hotInsertWaiting:
		return `INSERT INTO waiting (endpoint, due, pos) VALUES (?,?,?)`
	case hotDeleteWaiting:
		return `DELETE FROM waiting WHERE endpoint = ? AND due = ? AND pos = ?`
	case hotSelectCurrent:
		return `SELECT status, round, attempts, rows, next_at, last_attempt, reason, flags, coalesce(seat, pos), trigger FROM delivery WHERE pos = ?`
	case hotInsertAttempt:
		return `INSERT INTO attempt (pos, delivery, prev, round, number, try, flags, at, duration, status_code, kind, error, address,
			response) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)`
	case hotUpdateRecord:
		return `UPDATE delivery SET status=?, reason=?, kind=?, attempts=?, rows=?, interrupted=?, status_code=?, duration=?, next_at=?,
			finished_at=?, last_attempt=? WHERE pos = ?`
	case hotUpdateLog:
		return `UPDATE delivery SET rows=?, last_attempt=? WHERE pos = ?`
	case hotUpdateHealth:
		return `UPDATE endpoint SET failures_in_row = ?, first_failure_at = ?, last_success_at = ?, last_attempt_at = ? WHERE num = ?`
	case hotCount:
	}
	return ""
}

// row is a hot statement whose parameters are bound in their order. It keeps the
// first error; nothing runs after one.
type row struct {
	s   *sqlite3.Stmt
	n   int
	err error
}

// hot begins a hot statement.
func (c *conn) hot(h hot) row {
	s := c.hots[h]
	if s == nil {
		var err error
		if s, _, err = c.db.PrepareFlags(h.sql(), sqlite3.PREPARE_PERSISTENT); err != nil {
			return row{err: fmt.Errorf("preparing a statement: %w", err)}
		}
		c.hots[h] = s
	}
	return row{s: s}
}

// put notes the outcome of a binding.
func (r *row) put(err error) {
	if err != nil {
		r.err = fmt.Errorf("binding parameter %d: %w", r.n, err)
	}
}

func (r *row) next() bool {
	r.n++
	return r.err == nil
}

func (r *row) int(v int64) {
	if r.next() {
		r.put(r.s.BindInt64(r.n, v))
	}
}

func (r *row) null() {
	if r.next() {
		r.put(r.s.BindNull(r.n))
	}
}

// pos binds a position, 0 as NULL.
func (r *row) pos(v int64) {
	if v == 0 {
		r.null()
		return
	}
	r.int(v)
}

// text binds a string, "" as NULL.
func (r *row) text(v string) {
	if v == "" {
		r.null()
	} else if r.next() {
		r.put(r.s.BindText(r.n, v))
	}
}

// blob binds bytes, nil as NULL.
func (r *row) blob(v []byte) {
	if r.next() {
		r.put(r.s.BindBlob(r.n, v))
	}
}

// at binds a time as Unix milliseconds, the zero time as NULL.
func (r *row) at(v time.Time) {
	if v.IsZero() {
		r.null()
		return
	}
	r.int(v.UnixMilli())
}

// exec runs the statement.
func (r *row) exec() error {
	if r.err != nil {
		return r.err
	}
	return r.s.Exec()
}

// run runs a hot statement without parameters.
func (c *conn) run(h hot) error {
	r := c.hot(h)
	return r.exec()
}
