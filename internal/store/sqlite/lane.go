package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// ListLanes implements store.Lanes, by jumping from one endpoint to the next.
func (d *DB) ListLanes(ctx context.Context) ([]store.LaneHead, error) {
	var heads []store.LaneHead
	err := d.readLane(ctx, func(c *conn) error {
		last := int64(0)
		for {
			found, err := c.one(`SELECT endpoint, due FROM waiting WHERE endpoint > ? ORDER BY endpoint, due LIMIT 1`, []any{last},
				func(s *sqlite3.Stmt) {
					last = s.ColumnInt64(0)
					heads = append(heads, store.LaneHead{Endpoint: webhook.EndpointKey(last), Due: colTime(s, 1)})
				})
			if err != nil || !found {
				return err
			}
		}
	})
	return heads, err
}

// workColumns are what sendable needs, of delivery d, event e, and names.
const workColumns = `d.pos, d.endpoint, (SELECT id FROM tenant WHERE num = d.tenant), d.created_at, e.pos, e.id, e.accepted_at, e.created_at,
	(SELECT text FROM word WHERE num = d.type), e.size, e.erased, d.promise, d.trigger, d.round, d.attempts, d.rows, d.interrupted,
	d.next_at, e.expires_at, d.flags, d.seat, d.line_key, e.run`

// workMore is the number of workColumns: the first column behind them.
const workMore = 23

// lastSeat is the last due time, in milliseconds, that only says an order; see
// store.IsSeat.
const lastSeat = 100_000_000_000 - 1

// While marks of an endpoint are not written into rows, a window examines no more
// than markedBudget waiting deliveries from the head of the lane, and then passes
// over no more than beyondBudget entries of the lane's order, without looking at
// their deliveries. dueSlack is how long before its commit a due time may have been
// told.
const (
	markedBudget = 5000
	beyondBudget = 50_000
	dueSlack     = 10 * time.Second
)

// ReadWindow implements store.Lanes.
func (d *DB) ReadWindow(ctx context.Context, p store.WindowParams) (store.Window, error) {
	var w store.Window
	err := d.readLane(ctx, func(c *conn) error {
		w = store.Window{}
		until := p.Now.UnixMilli()
		marked := false
		_, err := c.one(`SELECT catch_up_at IS NOT NULL, EXISTS (SELECT 1 FROM skip WHERE endpoint = num) FROM endpoint WHERE num = ?`,
			[]any{int64(p.Endpoint)}, func(s *sqlite3.Stmt) { w.CatchingUp, marked = colBool(s, 0), colBool(s, 1) })
		if err != nil {
			return err
		}
		if w.CatchingUp {
			until = min(until, lastSeat)
		}
		all := false
		if marked {
			w.Work, all, err = d.unmarked(c, p, until)
		} else {
			w.Work, err = d.head(c, p, until)
			all = len(w.Work) < p.Limit
		}
		if err != nil {
			return fmt.Errorf("reading a window: %w", err)
		}
		if err := loadPayloads(c, w.Work, p); err != nil {
			return err
		}
		if w.Complete = all && !w.CatchingUp; !w.Complete {
			return nil
		}
		_, err = c.one(`SELECT due FROM waiting WHERE endpoint = ? AND due > ? AND due < ? ORDER BY due LIMIT 1`,
			[]any{int64(p.Endpoint), until, store.ParkedDue()}, func(s *sqlite3.Stmt) { w.NextDue = colTime(s, 0) })
		return err
	})
	return w, err
}

// head reads the head of a lane.
func (d *DB) head(c *conn, p store.WindowParams, until int64) (work []store.Work, err error) {
	names := names{promiseReader: promiseReader{c: c}, d: d}
	err = c.query(`SELECT `+workColumns+` FROM waiting w JOIN delivery d ON d.pos = w.pos JOIN event e ON e.pos = d.event
		WHERE w.endpoint = ? AND w.due <= ? ORDER BY w.due, w.pos LIMIT ?`, []any{int64(p.Endpoint), until, p.Limit},
		func(s *sqlite3.Stmt) error {
			w, err := d.sendable(s, &names)
			work = append(work, w)
			return err
		})
	return work, err
}

// unmarked reads the head of a lane without what its endpoint's marks skip (N17).
// all is false when more may be due: the janitor is about to write the marks into
// their rows. Where they cover more than one read examines, what was queued after
// the marks is looked for behind them, so that it need not wait for the janitor.
func (d *DB) unmarked(c *conn, p store.WindowParams, until int64) (work []store.Work, all bool, err error) {
	e := webhook.Endpoint{}
	if e.Skips, err = readSkips(c, p.Endpoint); err != nil {
		return nil, false, err
	}
	var found []webhook.Ref
	examined, last := 0, place{}
	err = c.query(`SELECT w.due, w.pos, coalesce(d.seat, d.pos), d.trigger FROM waiting w JOIN delivery d ON d.pos = w.pos
		WHERE w.endpoint = ? AND w.due <= ? ORDER BY w.due, w.pos LIMIT ?`, []any{int64(p.Endpoint), until, markedBudget},
		func(s *sqlite3.Stmt) error {
			examined++
			last = place{s.ColumnInt64(0), s.ColumnInt64(1)}
			_, skipped := e.Skipped(webhook.Ref(s.ColumnInt64(2)))
			if (!skipped || triggers.word(s.ColumnInt64(3)) == contract.TriggerTest) && len(found) < p.Limit {
				found = append(found, webhook.Ref(last.pos))
			}
			return nil
		})
	if err == nil && examined == markedBudget && len(found) < p.Limit {
		var fresh []webhook.Ref
		fresh, err = beyond(c, p.Endpoint, last, until, p.Limit-len(found))
		found = append(found, fresh...)
	}
	for _, ref := range found {
		if err != nil {
			break
		}
		var w store.Work
		if w, _, err = d.loadWork(c, ref); err == nil {
			work = append(work, w)
		}
	}
	return work, examined < markedBudget && len(found) < p.Limit, err
}

// place is one in the order of a lane.
type place struct{ due, pos int64 }

// beyond finds what was queued after an endpoint's last mark, behind a place in its
// lane. It begins where due times of the mark's time lie, and knows by the position
// alone that no mark covers a delivery: it was accepted later.
func beyond(c *conn, key webhook.EndpointKey, after place, until int64, limit int) (found []webhook.Ref, err error) {
	before, due := int64(0), int64(0)
	_, err = c.one(`SELECT before, due FROM skip WHERE endpoint = ? ORDER BY before DESC LIMIT 1`, []any{int64(key)},
		func(s *sqlite3.Stmt) { before, due = s.ColumnInt64(0), s.ColumnInt64(1) })
	if err != nil {
		return nil, err
	}
	if from := due - dueSlack.Milliseconds(); from > after.due {
		after = place{due: from}
	}
	err = c.query(`SELECT pos FROM (SELECT due, pos FROM waiting WHERE endpoint = ? AND (due, pos) > (?, ?) AND due <= ? ORDER BY due, pos LIMIT ?)
		WHERE pos >= ? ORDER BY due, pos LIMIT ?`, []any{int64(key), after.due, after.pos, until, beyondBudget, before, limit}, func(s *sqlite3.Stmt) error {
		found = append(found, webhook.Ref(s.ColumnInt64(0)))
		return nil
	})
	return found, err
}

// loadPayloads reads payloads along as far as the window's bounds allow.
func loadPayloads(c *conn, work []store.Work, p store.WindowParams) (err error) {
	bytes := p.Bytes
	for i := range work {
		size := work[i].DataSize
		if work[i].Erased || size > p.MaxData || size > bytes {
			continue
		}
		bytes -= size
		if work[i].Data, err = readData(c, work[i].Ref); err != nil {
			return err
		}
	}
	return nil
}

// LoadWork implements store.Lanes.
func (d *DB) LoadWork(ctx context.Context, ref webhook.Ref) (w store.Work, found bool, err error) {
	err = d.readLane(ctx, func(c *conn) error {
		w, found, err = d.loadWork(c, ref)
		return err
	})
	return w, found, err
}

// loadWork reads a delivery that waits at an endpoint that there is.
func (d *DB) loadWork(c *conn, ref webhook.Ref) (w store.Work, found bool, err error) {
	names := names{promiseReader: promiseReader{c: c}, d: d}
	err = c.query(`SELECT `+workColumns+` FROM delivery d JOIN event e ON e.pos = d.event JOIN endpoint n ON n.num = d.endpoint
		WHERE d.pos = ? AND d.next_at IS NOT NULL AND n.deleted_at IS NULL`, []any{int64(ref)}, func(s *sqlite3.Stmt) error {
		found = true
		w, err = d.sendable(s, &names)
		return err
	})
	return w, found, err
}

// names reads what many deliveries share once per read.
type names struct {
	promiseReader
	d    *DB
	runs map[int64]runName
}

// runName is a run as work bears it.
type runName struct {
	id     string
	counts []byte // JSON, as webhook.RunCounts
}

func (r *names) run(num int64) (runName, error) {
	if n, ok := r.runs[num]; ok {
		return n, nil
	}
	n, err := r.d.runName(r.c, num)
	if r.runs == nil {
		r.runs = map[int64]runName{}
	}
	r.runs[num] = n
	return n, err
}

// runName reads a run; store.ErrNotFound without one.
func (d *DB) runName(c *conn, num int64) (n runName, err error) {
	found, err := c.one(`SELECT created_at, total, counts FROM run WHERE num = ?`, []any{num}, func(s *sqlite3.Stmt) {
		n.id = d.ids.Encode(webhook.PrefixRun, colTime(s, 0), num)
		n.counts = fmt.Appendf(nil, `{"total":%d,"by_type":%s}`, s.ColumnInt64(1), s.ColumnText(2))
	})
	if err == nil && !found {
		err = store.ErrNotFound
	}
	return n, err
}

// promiseReader reads contracts' revisions once per read.
type promiseReader struct {
	c    *conn
	seen map[int64][2]string
}

func (r *promiseReader) read(num int64) (contract, revision string, err error) {
	if p, ok := r.seen[num]; ok {
		return p[0], p[1], nil
	}
	_, err = r.c.one(`SELECT contract, revision FROM promise WHERE num = ?`, []any{num}, func(s *sqlite3.Stmt) {
		contract, revision = s.ColumnText(0), s.ColumnText(1)
	})
	if r.seen == nil {
		r.seen = map[int64][2]string{}
	}
	r.seen[num] = [2]string{contract, revision}
	return contract, revision, err
}

// sendable reads workColumns.
func (d *DB) sendable(s *sqlite3.Stmt, names *names) (store.Work, error) {
	pos, flags := s.ColumnInt64(0), s.ColumnInt64(19)
	w := store.Work{
		Ref: webhook.Ref(pos), Endpoint: webhook.EndpointKey(s.ColumnInt64(1)), Tenant: s.ColumnText(2),
		DeliveryID: d.ids.Encode(webhook.PrefixDelivery, colTime(s, 3), pos),
		EventID:    s.ColumnText(5), CreatedAt: colTime(s, 7), Type: s.ColumnText(8), DataSize: s.ColumnInt(9), Erased: colBool(s, 10),
		Trigger: triggers.word(s.ColumnInt64(12)), Round: s.ColumnInt(13), Attempts: s.ColumnInt(14), Rows: s.ColumnInt(15),
		Interrupted: s.ColumnInt(16), Due: colTime(s, 17), ExpiresAt: colTime(s, 18), Seat: webhook.Ref(pos),
		Degraded: flags&flagDegraded != 0, Once: flags&flagOnce != 0, ByPerson: flags&flagByPerson != 0, Joins: flags&flagJoins != 0,
		Key: s.ColumnText(21),
	}
	if seat := s.ColumnInt64(20); seat != 0 {
		w.Seat = webhook.Ref(seat)
	}
	accepted := colTime(s, 6)
	if w.EventID == "" {
		w.EventID = d.ids.Encode(webhook.PrefixEvent, accepted, s.ColumnInt64(4))
	}
	if w.CreatedAt.IsZero() {
		w.CreatedAt = accepted
	}
	promise, run := s.ColumnInt64(11), s.ColumnInt64(22)
	if run != 0 {
		n, err := names.run(run)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return w, err
		}
		w.Run, w.RunCounts = n.id, n.counts
	}
	var err error
	w.Contract, w.ContractRevision, err = names.read(promise)
	return w, err
}

func readData(c *conn, ref webhook.Ref) (data []byte, err error) {
	found, err := c.one(`SELECT e.data FROM delivery d JOIN event e ON e.pos = d.event WHERE d.pos = ? AND e.erased = 0`,
		[]any{int64(ref)}, func(s *sqlite3.Stmt) { data = s.ColumnBlob(0, []byte{}) })
	if err == nil && !found {
		err = store.ErrNotFound
	}
	return data, err
}

// LoadData implements store.Lanes.
func (d *DB) LoadData(ctx context.Context, ref webhook.Ref) (data []byte, err error) {
	err = d.readLane(ctx, func(c *conn) error {
		data, err = readData(c, ref)
		return err
	})
	return data, err
}

// ListMarks implements store.Lanes.
func (d *DB) ListMarks(ctx context.Context) ([]store.Marked, error) {
	var marked []store.Marked
	err := d.readLane(ctx, func(c *conn) error {
		names := names{promiseReader: promiseReader{c: c}, d: d}
		return c.query(`SELECT `+workColumns+`, r.round, r.attempts, r.try, r.at FROM running r
			JOIN delivery d ON d.pos = r.delivery JOIN event e ON e.pos = d.event ORDER BY r.delivery`, nil,
			func(s *sqlite3.Stmt) error {
				w, err := d.sendable(s, &names)
				marked = append(marked, store.Marked{Work: w, Mark: store.Mark{
					Ref: w.Ref, Round: s.ColumnInt(workMore), Attempts: s.ColumnInt(workMore + 1), Try: s.ColumnInt(workMore + 2), At: colTime(s, workMore+3),
				}})
				return err
			})
	})
	return marked, err
}
