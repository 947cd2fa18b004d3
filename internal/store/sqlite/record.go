package sqlite

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

const (
	sqlSelectCurrent = `SELECT status, round, attempts, rows, next_at, last_attempt FROM delivery WHERE pos = ?`
	sqlUpdateRecord  = `UPDATE delivery SET status=?, reason=?, kind=?, attempts=?, rows=?, interrupted=?, status_code=?,
		duration=?, next_at=?, finished_at=?, last_attempt=? WHERE pos = ?`
	sqlUpdateLog     = `UPDATE delivery SET rows=?, last_attempt=? WHERE pos = ?`
	sqlInsertAttempt = `INSERT INTO attempt (pos, delivery, prev, round, number, try, flags, at, duration, status_code, kind,
		error, address, response) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)`
)

// Flags of an attempt's row.
const (
	flagCounted = 1 << iota
	flagTruncated
	flagSuperseded
)

// Record implements store.Lanes.
func (d *DB) Record(p store.RecordParams, done func(store.RecordResult, error)) {
	d.record(p, done, true)
}

// record submits one outcome. A row that can't be written with the answer's body
// is written without it, so that a success is never sent again for it (N12, B05).
func (d *DB) record(p store.RecordParams, done func(store.RecordResult, error), withBody bool) {
	var result store.RecordResult
	o := op{
		rows: 1, forced: true,
		run: func(t *tx) (err error) {
			result, err = t.record(&p)
			return err
		},
		done: func(err error) {
			if withBody && rowFault(err) && p.Attempt != nil && len(p.Attempt.Response) > 0 {
				bare := *p.Attempt
				bare.Response, bare.Truncated = nil, true
				p.Attempt = &bare
				d.record(p, done, false)
				return
			}
			done(result, err)
		},
	}
	if err := d.writer.submit(o); err != nil {
		done(store.RecordResult{}, err)
	}
}

// rowFault tells whether err is about the row rather than about the database.
func rowFault(err error) bool {
	return err != nil && (errors.Is(err, sqlite3.TOOBIG) || errors.Is(err, sqlite3.CONSTRAINT) || errors.Is(err, sqlite3.MISMATCH))
}

// current is a delivery's row as the guard sees it.
type current struct {
	status                contract.Status
	round, attempts, rows int
	nextAt                int64
	lastAttempt           int64 // 0: none
}

func (t *tx) current(ref webhook.Ref) (c current, found bool, err error) {
	s, err := t.prepare(sqlSelectCurrent)
	if err != nil {
		return c, false, err
	}
	if err := s.BindInt64(1, int64(ref)); err != nil {
		return c, false, err
	}
	if s.Step() {
		found = true
		c = current{
			status: statuses().word(s.ColumnInt64(0)), round: s.ColumnInt(1), attempts: s.ColumnInt(2), rows: s.ColumnInt(3),
			nextAt: s.ColumnInt64(4), lastAttempt: s.ColumnInt64(5),
		}
	}
	return c, found, errors.Join(s.Err(), s.Reset())
}

// record applies one outcome under its guard.
func (t *tx) record(p *store.RecordParams) (store.RecordResult, error) {
	var r store.RecordResult
	for i := range p.Emit {
		tenant, err := t.tenant(p.Emit[i].Tenant)
		if err != nil || tenant.rev != p.Emit[i].Revision {
			return r, refuse(store.ErrStale)
		}
	}
	c, found, err := t.current(p.Ref)
	if err != nil || !found {
		return r, err
	}
	applies := !c.status.Final() && c.round == p.Round && c.attempts == p.Attempts
	r.Applied = applies
	r.Absorbed = !applies && !c.status.Final() && p.Delivered()
	if p.Attempt != nil {
		if err := t.insertAttempt(p, &c, !applies); err != nil {
			return r, err
		}
	}
	if err := t.unmark(p.Ref); err != nil {
		return r, err
	}
	if !r.Applied && !r.Absorbed {
		return r, t.exec(sqlUpdateLog, c.rows, c.lastAttempt, int64(p.Ref))
	}
	if err := t.move(p, &c); err != nil {
		return r, err
	}
	return r, t.effects(p)
}

// move changes the delivery's row and its place in the lane.
func (t *tx) move(p *store.RecordParams, c *current) error {
	attempts := c.attempts
	code, duration := 0, time.Duration(0)
	if a := p.Attempt; a != nil {
		code, duration = a.StatusCode, a.Duration
		if a.Counted {
			attempts++
		}
	}
	if err := t.leave(p.Endpoint, c.nextAt, int64(p.Ref)); err != nil {
		return err
	}
	var nextAt, finishedAt any = null{}, null{}
	if p.Status.Final() {
		finishedAt = p.Now
	} else {
		nextAt = p.NextAt
		if err := t.wait(p.Endpoint, p.NextAt, int64(p.Ref)); err != nil {
			return err
		}
	}
	s, err := t.prepare(sqlUpdateRecord)
	if err != nil {
		return err
	}
	err = errors.Join(
		s.BindInt64(1, statuses().num(p.Status)), s.BindInt64(2, reasons().num(p.Reason)), s.BindInt64(3, kinds().num(p.FailureKind)),
		s.BindInt(4, attempts), s.BindInt(5, c.rows), s.BindInt(6, p.Interrupted), s.BindInt(7, code),
		s.BindInt64(8, duration.Microseconds()), bind(s, 9, nextAt), bind(s, 10, finishedAt), bindPos(s, 11, c.lastAttempt),
		s.BindInt64(12, int64(p.Ref)))
	if err != nil {
		return err
	}
	return s.Exec()
}

// bindPos binds 0 as NULL.
func bindPos(s *sqlite3.Stmt, i int, pos int64) error {
	if pos == 0 {
		return s.BindNull(i)
	}
	return s.BindInt64(i, pos)
}

// insertAttempt writes a row of the log and moves c's end of the log to it.
func (t *tx) insertAttempt(p *store.RecordParams, c *current, superseded bool) error {
	a := p.Attempt
	t.attemptPos++
	s, err := t.prepare(sqlInsertAttempt)
	if err != nil {
		return err
	}
	flags := flag(a.Counted, flagCounted) | flag(a.Truncated, flagTruncated) | flag(superseded, flagSuperseded)
	err = errors.Join(
		s.BindInt64(1, t.attemptPos), s.BindInt64(2, int64(p.Ref)), bindPos(s, 3, c.lastAttempt), s.BindInt(4, a.Round),
		s.BindInt(5, c.rows+1), s.BindInt(6, a.Try), s.BindInt(7, flags), s.BindInt64(8, a.At.UnixMilli()),
		s.BindInt64(9, a.Duration.Microseconds()), s.BindInt(10, a.StatusCode), s.BindInt64(11, kinds().num(a.FailureKind)),
		bind(s, 12, text(a.Error)), bind(s, 13, text(a.Address)), bind(s, 14, a.Response))
	if err != nil {
		return err
	}
	if err := s.Exec(); err != nil {
		return err
	}
	c.rows++
	c.lastAttempt = t.attemptPos
	return nil
}

func flag(on bool, bit int) int {
	if on {
		return bit
	}
	return 0
}

// effects applies what an outcome does beside its delivery: the endpoint's
// health and state, and operational events.
func (t *tx) effects(p *store.RecordParams) error {
	if p.Health {
		if err := t.changeHealth(p.Endpoint, healthAfter(p)); err != nil {
			return err
		}
	}
	disabled := false
	if p.Disable != webhook.ReasonActive {
		var err error
		if disabled, err = t.disable(p); err != nil {
			return err
		}
	}
	emit := p.Emit
	if !disabled {
		emit = slices.DeleteFunc(slices.Clone(emit), func(e store.AcceptParams) bool {
			return e.Type == webhook.TypeEndpointDisabled
		})
	}
	return t.emit(emit)
}

func healthAfter(p *store.RecordParams) func(*webhook.Health) {
	return func(h *webhook.Health) {
		h.LastAttemptAt = latest(h.LastAttemptAt, p.Now)
		if p.Delivered() {
			h.LastSuccessAt = latest(h.LastSuccessAt, p.Now)
			h.FailuresInRow, h.FirstFailureAt = 0, time.Time{}
			return
		}
		h.FailuresInRow++
		if h.FirstFailureAt.IsZero() {
			h.FirstFailureAt = p.Now
		}
	}
}

// emit takes operational events in and tells of their deliveries (N19). The
// revisions were compared before.
func (t *tx) emit(events []store.AcceptParams) error {
	for i := range events {
		tenant, err := t.tenant(events[i].Tenant)
		if err != nil {
			return err
		}
		r, err := t.insertEvent(&events[i], tenant.num, nil)
		if err != nil {
			return err
		}
		if len(r.Fresh) > 0 {
			t.changes = append(t.changes, store.Change{Tenant: events[i].Tenant, Revision: tenant.rev, Accepted: r.Fresh})
		}
	}
	return nil
}

// disable switches an endpoint off because of an answer; false when it was
// disabled before.
func (t *tx) disable(p *store.RecordParams) (bool, error) {
	e, err := t.endpointByKey(p.Endpoint)
	if err != nil {
		if errors.Is(err, store.ErrNotFound) {
			return false, nil
		}
		return false, err
	}
	if e.State == webhook.EndpointDisabled {
		return false, nil
	}
	e.State, e.StateReason, e.StateSince = webhook.EndpointDisabled, p.Disable, p.Now
	return true, t.storeEndpoint(e, p.Now)
}

// MarkRunning implements store.Lanes.
func (d *DB) MarkRunning(ctx context.Context, marks []store.Mark) error {
	return d.writer.do(ctx, func(t *tx) error {
		for _, m := range marks {
			c, found, err := t.current(m.Ref)
			if err != nil {
				return err
			}
			if !found || c.status.Final() || c.round != m.Round || c.attempts != m.Attempts {
				continue
			}
			err = t.exec(`INSERT OR IGNORE INTO running (delivery, round, attempts, try, at) VALUES (?,?,?,?,?)`,
				int64(m.Ref), m.Round, m.Attempts, m.Try, m.At)
			if err != nil {
				return err
			}
			t.marks += t.conn.db.Changes()
		}
		return nil
	})
}

// unmark removes a delivery's mark if there may be one.
func (t *tx) unmark(ref webhook.Ref) error {
	if t.db.marks.Load()+t.marks == 0 {
		return nil
	}
	if err := t.exec(`DELETE FROM running WHERE delivery = ?`, int64(ref)); err != nil {
		return err
	}
	t.marks -= t.conn.db.Changes()
	return nil
}
