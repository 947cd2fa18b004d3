package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Flags of an attempt's row.
const (
	flagCounted = 1 << iota
	flagTruncated
	flagSuperseded
)

// Record implements store.Lanes.
func (d *DB) Record(p store.RecordParams, done func(store.RecordResult, error)) {
	w := &recording{p: p, done: done}
	if err := d.writer.queue.put(op{work: w, rows: 1, forced: true}); err != nil {
		done(store.RecordResult{}, err)
	}
}

// recording is an outcome on its way to the commit.
type recording struct {
	p      store.RecordParams
	result store.RecordResult
	done   func(store.RecordResult, error)
}

func (w *recording) run(t *tx) (err error) {
	w.result, err = t.record(&w.p)
	return err
}

// lighten takes the answer's body away where the row can't be written with it, so
// that a success is never sent again for it (N12, B05).
func (w *recording) lighten(err error) bool {
	a := w.p.Attempt
	if !rowFault(err) || a == nil || len(a.Response) == 0 {
		return false
	}
	bare := *a
	bare.Response, bare.Truncated = nil, true
	w.p.Attempt = &bare
	return true
}

func (w *recording) finish(err error) {
	if err != nil {
		w.result = store.RecordResult{}
	}
	w.done(w.result, err)
}

// rowFault tells whether err is about the row rather than about the database.
func rowFault(err error) bool {
	return err != nil && (errors.Is(err, sqlite3.TOOBIG) || errors.Is(err, sqlite3.CONSTRAINT) || errors.Is(err, sqlite3.MISMATCH))
}

// current is a delivery's row as the guard sees it.
type current struct {
	status                contract.Status
	reason                webhook.Reason
	round, attempts, rows int
	nextAt                int64
	lastAttempt           int64 // 0: none
	flags                 int64
	seat                  webhook.Ref
	trigger               contract.Trigger
}

func (t *tx) current(ref webhook.Ref) (c current, found bool, err error) {
	r := t.hot(hotSelectCurrent)
	r.int(int64(ref))
	if r.err != nil {
		return c, false, r.err
	}
	s := r.s
	if found = s.Step(); found {
		c = current{
			status: statuses.word(s.ColumnInt64(0)), round: s.ColumnInt(1), attempts: s.ColumnInt(2), rows: s.ColumnInt(3),
			nextAt: s.ColumnInt64(4), lastAttempt: s.ColumnInt64(5), reason: reasons.word(s.ColumnInt64(6)),
			flags: s.ColumnInt64(7), seat: webhook.Ref(s.ColumnInt64(8)), trigger: triggers.word(s.ColumnInt64(9)),
		}
	}
	err = s.Err()
	if reset := s.Reset(); err == nil {
		err = reset
	}
	return c, found, err
}

// open tells whether a success still ends the delivery: while it waits, and when
// it only ended for what its endpoint became while the request was under way
// (deleted, switched off, resumed without what it missed).
func (c *current) open() bool {
	switch c.reason { //nolint:exhaustive // because no other reason ends what may still be under way
	case webhook.WhyEndpointDeleted:
		return !c.status.Final() || c.status == contract.StatusCanceled
	case webhook.WhySwitchedOff, webhook.WhyResumedNow:
		return !c.status.Final() || c.status == contract.StatusSkipped
	default:
		return !c.status.Final()
	}
}

// record applies one outcome under its guard.
func (t *tx) record(p *store.RecordParams) (store.RecordResult, error) {
	var r store.RecordResult
	err := t.fresh(p.Emit)
	if errors.Is(err, store.ErrNotFound) {
		p.Emit, err = nil, nil // the tenant is gone, and with it whoever would hear of it
	}
	if err != nil {
		return r, err
	}
	c, found, err := t.current(p.Ref)
	if err != nil || !found {
		return r, err
	}
	r.Applied = !c.status.Final() && c.round == p.Round && c.attempts == p.Attempts
	if p.Join {
		r.Applied = r.Applied && c.flags&flagJoins != 0
		if r.Applied {
			err = t.takePlace(p, &c)
		}
		return r, err
	}
	r.Absorbed = !r.Applied && c.open() && p.Delivered()
	if p.Attempt != nil {
		if err := t.insertAttempt(p, &c, !r.Applied); err != nil {
			return r, err
		}
	}
	if err := t.unmark(p.Ref); err != nil {
		return r, err
	}
	if !r.Applied && !r.Absorbed {
		return r, t.moveLog(p.Ref, &c)
	}
	return r, t.apply(p, &c)
}

// apply writes an outcome that holds, with all that it brings along.
func (t *tx) apply(p *store.RecordParams, c *current) error {
	after, err := t.marked(p, c)
	if err != nil {
		return err
	}
	if err := t.move(after, c); err != nil {
		return err
	}
	if err := t.effects(p); err != nil {
		return err
	}
	if !after.Status.Final() || c.status.Final() {
		return nil
	}
	return t.settle(p.Ref, c.flags)
}

// marked is the outcome as a mark on the endpoint leaves it: what would wait for
// another try is skipped (N17).
func (t *tx) marked(p *store.RecordParams, c *current) (*store.RecordParams, error) {
	if p.Status.Final() || c.trigger == contract.TriggerTest {
		return p, nil
	}
	l, err := t.laneState(p.Endpoint)
	if err != nil || len(l.skips) == 0 {
		return p, err
	}
	m, skipped := (&webhook.Endpoint{Skips: l.skips}).Skipped(c.seat)
	if !skipped {
		return p, nil
	}
	after := *p
	after.Status, after.Reason, after.NextAt = contract.StatusSkipped, m.Reason, time.Time{}
	return &after, nil
}

// takePlace puts a delivery whose time has come at the tail of its key's line
// (N15).
func (t *tx) takePlace(p *store.RecordParams, c *current) error {
	key, pos := "", int64(p.Ref)
	_, err := t.one(`SELECT line_key FROM delivery WHERE pos = ?`, []any{pos}, func(s *sqlite3.Stmt) { key = s.ColumnText(0) })
	if err != nil {
		return err
	}
	head, err := t.join(p.Endpoint, key, pos)
	if err != nil {
		return err
	}
	if err := t.exec(`UPDATE delivery SET flags = flags & ~? | ? WHERE pos = ?`, flagJoins, flagLine, pos); err != nil {
		return err
	}
	if head {
		return t.promote(p.Endpoint, pos)
	}
	return t.requeue(p.Endpoint, pos, c.nextAt, store.ParkedDue())
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
	var nextAt, finishedAt time.Time
	if p.Status.Final() {
		finishedAt = p.Now
	} else {
		nextAt = p.NextAt
		if err := t.wait(p.Endpoint, p.NextAt, int64(p.Ref)); err != nil {
			return err
		}
	}
	r := t.hot(hotUpdateRecord)
	r.int(statuses.num(p.Status))
	r.int(reasons.num(p.Reason))
	r.int(kinds.num(p.FailureKind))
	r.int(int64(attempts))
	r.int(int64(c.rows))
	r.int(int64(p.Interrupted))
	r.int(int64(code))
	r.int(duration.Microseconds())
	r.at(nextAt)
	r.at(finishedAt)
	r.pos(c.lastAttempt)
	r.int(int64(p.Ref))
	return r.exec()
}

// moveLog writes the end of a delivery's log, and nothing else of it.
func (t *tx) moveLog(ref webhook.Ref, c *current) error {
	r := t.hot(hotUpdateLog)
	r.int(int64(c.rows))
	r.pos(c.lastAttempt)
	r.int(int64(ref))
	return r.exec()
}

// insertAttempt writes a row of the log and moves c's end of the log to it.
func (t *tx) insertAttempt(p *store.RecordParams, c *current, superseded bool) error {
	a := p.Attempt
	t.attemptPos++
	r := t.hot(hotInsertAttempt)
	r.int(t.attemptPos)
	r.int(int64(p.Ref))
	r.pos(c.lastAttempt)
	r.int(int64(a.Round))
	r.int(int64(c.rows + 1))
	r.int(int64(a.Try))
	r.int(flagIf(a.Counted, flagCounted) | flagIf(a.Truncated, flagTruncated) | flagIf(superseded, flagSuperseded))
	r.int(a.At.UnixMilli())
	r.int(a.Duration.Microseconds())
	r.int(int64(a.StatusCode))
	r.int(kinds.num(a.FailureKind))
	r.text(a.Error)
	r.text(a.Address)
	r.blob(a.Response)
	if err := r.exec(); err != nil {
		return err
	}
	c.rows++
	c.lastAttempt = t.attemptPos
	return nil
}

func flagIf(on bool, bit int64) int64 {
	if on {
		return bit
	}
	return 0
}

// effects applies what an outcome does beside its delivery: its gate, the
// endpoint's health and state, and operational events.
func (t *tx) effects(p *store.RecordParams) error {
	if p.Gate != nil {
		if err := t.moveGate(p.Gate); err != nil {
			return err
		}
	}
	if err := t.judge(p); err != nil {
		return err
	}
	return t.emit(p.Emit)
}

// fresh has operational events matched with the present subscriptions, and refuses
// those that can't be (N2).
func (t *tx) fresh(events []store.AcceptParams) error {
	for i := range events {
		tenant, err := t.tenant(events[i].Tenant)
		if err != nil {
			return err
		}
		if !matched(&events[i], tenant.rev) {
			return refuse(store.ErrStale)
		}
	}
	return nil
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
