package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

const (
	// runSlice is how many rows one commit of a deletion takes (N25).
	runSlice = 50
	// runPageBytes bounds what one page of a run reads of its events.
	runPageBytes = 4 << 20
)

const selectRun = `SELECT r.num, (SELECT id FROM tenant WHERE num = r.tenant), r.project, r.type, r.state, r.total, r.counts, r.event,
	r.created_at, r.finished_at, e.id, e.accepted_at, r.tenant, e.deliveries FROM run r LEFT JOIN event e ON e.pos = r.event WHERE true`

// storedRun is a run with what only the store knows of it.
type storedRun struct {
	webhook.Run
	num, event int64
	deliveries int
}

// scanRun reads selectRun. Counts that can't be read are shown as none.
func (d *DB) scanRun(s *sqlite3.Stmt) storedRun {
	r := storedRun{num: s.ColumnInt64(0), event: s.ColumnInt64(7), deliveries: s.ColumnInt(13), Run: webhook.Run{
		Tenant: s.ColumnText(1), Project: s.ColumnText(2), Type: s.ColumnText(3), State: runStates.word(s.ColumnInt64(4)),
		Counts: webhook.RunCounts{Total: s.ColumnInt(5), ByType: map[string]int{}}, CreatedAt: colTime(s, 8), FinishedAt: colTime(s, 9), Event: s.ColumnText(10),
	}}
	_ = json.Unmarshal(s.ColumnRawText(6), &r.Counts.ByType)
	r.ID = d.ids.Encode(webhook.PrefixRun, r.CreatedAt, r.num)
	if r.event != 0 && r.Event == "" {
		r.Event = d.ids.Encode(webhook.PrefixEvent, colTime(s, 11), r.event)
	}
	return r
}

// findRun reads a run by its ID if it is the tenant's.
func (d *DB) findRun(c *conn, tenant, id string) (r storedRun, err error) {
	num, err := d.ids.Decode(webhook.PrefixRun, id)
	if err != nil {
		return r, store.ErrNotFound
	}
	found, err := c.one(selectRun+` AND r.num = ?`, []any{num}, func(s *sqlite3.Stmt) { r = d.scanRun(s) })
	if err == nil && (!found || tenant != store.TenantAll && r.Tenant != tenant) {
		err = store.ErrNotFound
	}
	return r, err
}

// presentRun is findRun for a change: that it is missing is a refusal.
func (t *tx) presentRun(tenant, id string) (storedRun, error) {
	r, err := t.db.findRun(t.conn, tenant, id)
	if errors.Is(err, store.ErrNotFound) {
		err = refuse(err)
	}
	return r, err
}

// CreateRun implements store.Runs. The store gives the ID.
func (d *DB) CreateRun(ctx context.Context, r webhook.Run) (*webhook.Run, error) {
	by := webhook.ActorOf(ctx)
	err := d.writer.do(ctx, func(t *tx) error {
		tenant, err := t.tenant(r.Tenant)
		if err != nil {
			return refuse(err)
		}
		r.Type, r.State, r.Counts = cmp.Or(r.Type, webhook.TypeRunFinished), webhook.RunOpen, webhook.RunCounts{ByType: map[string]int{}}
		err = t.exec(`INSERT INTO run (tenant, project, type, state, total, counts, created_at) VALUES (?,?,?,?,0,'{}',?)`,
			tenant.num, r.Project, r.Type, runStates.num(r.State), r.CreatedAt)
		if err != nil {
			return err
		}
		r.ID = d.ids.Encode(webhook.PrefixRun, r.CreatedAt, t.conn.db.LastInsertRowID())
		after, err := told(map[string]any{"project": r.Project, "type": r.Type})
		if err != nil {
			return err
		}
		return t.audit(by, webhook.AuditEntry{At: r.CreatedAt, Tenant: r.Tenant, Action: "run.created", Kind: "run", Target: r.ID, After: after})
	})
	if err != nil {
		return nil, err
	}
	return &r, nil
}

// GetRun implements store.Runs.
func (d *DB) GetRun(ctx context.Context, tenant, id string) (*webhook.Run, error) {
	var r storedRun
	err := d.read(ctx, func(c *conn) (err error) {
		r, err = d.findRun(c, tenant, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &r.Run, nil
}

// ListRuns implements store.Runs.
func (d *DB) ListRuns(ctx context.Context, tenant, project string, p store.Page) (store.Listed[*webhook.Run], error) {
	sql, args := selectRun, []any{}
	if tenant != store.TenantAll {
		sql += ` AND r.tenant = (SELECT num FROM tenant WHERE id = ?)`
		args = append(args, tenant)
	}
	if project != "" {
		sql += ` AND r.project = ?`
		args = append(args, project)
	}
	return listNumbered(ctx, d, sql, args, p, func(s *sqlite3.Stmt) numbered[*webhook.Run] {
		r := d.scanRun(s)
		return numbered[*webhook.Run]{r.num, &r.Run}
	})
}

// AddRunEvents implements store.Runs.
func (d *DB) AddRunEvents(ctx context.Context, tenant, id string, events []webhook.RunEvent) (added int, err error) {
	weight := op{rows: 1 + len(events)}
	for i := range events {
		weight.bytes += len(events[i].Data)
	}
	err = d.writer.doWeighted(ctx, weight, func(t *tx) error {
		r, err := t.presentRun(tenant, id)
		if err != nil {
			return err
		}
		if r.State != webhook.RunOpen {
			return refuse(store.ErrNotEmpty)
		}
		added = 0
		for i := range events {
			e := &events[i]
			// The number stands only for an event that is new, so that it leaves no gap.
			err := t.exec(`INSERT INTO run_event (run, n, id, type, created_at, data) VALUES (?,?,?,?,?,?) ON CONFLICT (run, id) DO NOTHING`,
				r.num, r.Counts.Total+1, e.ID, e.Type, e.CreatedAt, notNil(e.Data))
			if err != nil {
				return err
			}
			if t.conn.db.Changes() > 0 {
				added++
				r.Counts.Total++
				r.Counts.ByType[e.Type]++
			}
		}
		counts, err := json.Marshal(r.Counts.ByType)
		if err != nil {
			return err
		}
		return t.exec(`UPDATE run SET total = ?, counts = ? WHERE num = ?`, r.Counts.Total, string(counts), r.num)
	})
	return added, err
}

// notNil binds no bytes as empty ones.
func notNil(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}

// FinishRun implements store.Runs. The deliveries to hand over are in the result,
// as those of any acceptance.
func (d *DB) FinishRun(ctx context.Context, tenant, id string, now time.Time, event func(webhook.Run) store.AcceptParams) (*webhook.Run, store.AcceptResult, error) {
	by := webhook.ActorOf(ctx)
	var r storedRun
	var result store.AcceptResult
	err := d.writer.do(ctx, func(t *tx) (err error) {
		if r, err = t.presentRun(tenant, id); err != nil {
			return err
		}
		switch r.State {
		case webhook.RunFinished:
			result = store.AcceptResult{ID: r.Event, Deliveries: r.deliveries, Replayed: true}
			return nil
		case webhook.RunDeleted:
			return refuse(store.ErrNotEmpty)
		case webhook.RunOpen:
		}
		r.State, r.FinishedAt = webhook.RunFinished, now
		p := event(r.Run)
		p.Run = r.ID
		result, err = t.accept(&p)
		switch {
		case own(err):
			return refuse(err)
		case err != nil:
			return err
		}
		if r.event, err = d.findEvent(t.conn, r.Tenant, result.ID); err != nil {
			return fmt.Errorf("finding a run's event: %w", err)
		}
		r.Event = result.ID
		if err := t.exec(`UPDATE run SET state = ?, event = ?, finished_at = ? WHERE num = ?`, runStates.num(r.State), r.event, now, r.num); err != nil {
			return err
		}
		after, err := told(map[string]any{"event": r.Event, "total": r.Counts.Total})
		if err != nil {
			return err
		}
		return t.audit(by, webhook.AuditEntry{At: now, Tenant: r.Tenant, Action: "run.finished", Kind: "run", Target: r.ID, After: after})
	})
	if err != nil {
		return nil, store.AcceptResult{}, err
	}
	return &r.Run, result, nil
}

// DeleteRun implements store.Runs. What it says is true with the first commit;
// the events' rows go in slices, and at the latest by the janitor.
func (d *DB) DeleteRun(ctx context.Context, tenant, id string, now time.Time) error {
	by := webhook.ActorOf(ctx)
	var rest erased
	err := d.writer.do(ctx, func(t *tx) error {
		rest = erased{}
		r, err := t.presentRun(tenant, id)
		if err != nil || r.State == webhook.RunDeleted {
			return err
		}
		rest, err = t.deleteRun(by, &r, now)
		return err
	})
	if err != nil {
		return err
	}
	d.janitor.nudge()
	return d.tellErased(ctx, rest)
}

// deleteRun marks a run as deleted and erases the notice of it, so that its
// waiting deliveries end as event_missing when their turn comes. The caller tells
// the rest of what was erased.
func (t *tx) deleteRun(by webhook.Actor, r *storedRun, now time.Time) (rest erased, err error) {
	if err := t.exec(`UPDATE run SET state = ? WHERE num = ?`, runStates.num(webhook.RunDeleted), r.num); err != nil {
		return rest, err
	}
	if r.event != 0 {
		if rest, err = t.erase(r.Tenant, r.event); err != nil {
			return rest, err
		}
	}
	return rest, t.audit(by, webhook.AuditEntry{At: now, Tenant: r.Tenant, Action: "run.deleted", Kind: "run", Target: r.ID})
}

// DeleteProject implements store.Runs, a slice of runs a commit. Repeating it goes
// on where it was cut off.
func (d *DB) DeleteProject(ctx context.Context, tenant, project string, now time.Time) (int, error) {
	by := webhook.ActorOf(ctx)
	deleted := 0
	defer d.janitor.nudge()
	for {
		n := 0
		var rest []erased
		err := d.writer.do(ctx, func(t *tx) error {
			rest = rest[:0]
			var runs []storedRun
			err := t.query(selectRun+` AND r.tenant = (SELECT num FROM tenant WHERE id = ?) AND r.project = ? AND r.state <> ? LIMIT ?`,
				[]any{tenant, project, runStates.num(webhook.RunDeleted), runSlice}, func(s *sqlite3.Stmt) error {
					runs = append(runs, d.scanRun(s))
					return nil
				})
			if err != nil {
				return err
			}
			for i := range runs {
				one, err := t.deleteRun(by, &runs[i], now)
				if err != nil {
					return err
				}
				rest = append(rest, one)
			}
			n = len(runs)
			return nil
		})
		for _, one := range rest {
			if err == nil {
				err = d.tellErased(ctx, one)
			}
		}
		if err != nil {
			return deleted, err
		}
		if deleted += n; n < runSlice {
			return deleted, nil
		}
	}
}

// clearRuns removes a slice of the events of deleted runs; a job of the janitor.
// Their bytes are overwritten first where they lie: what is merely freed would
// keep them.
func (d *DB) clearRuns() (more bool, err error) {
	ctx := context.Background()
	type row struct{ run, n int64 }
	var rows []row
	err = d.read(ctx, func(c *conn) error {
		// From the runs on (CROSS JOIN keeps the order), never over all events.
		return c.query(`SELECT v.run, v.n FROM run r CROSS JOIN run_event v ON v.run = r.num WHERE r.state = ? LIMIT ?`,
			[]any{runStates.num(webhook.RunDeleted), runSlice}, func(s *sqlite3.Stmt) error {
				rows = append(rows, row{s.ColumnInt64(0), s.ColumnInt64(1)})
				return nil
			})
	})
	if err != nil || len(rows) == 0 {
		return false, err
	}
	err = d.writer.do(ctx, func(t *tx) error {
		for _, r := range rows {
			if err := t.exec(`UPDATE run_event SET data = zeroblob(length(data)) WHERE run = ? AND n = ?`, r.run, r.n); err != nil {
				return err
			}
			if err := t.exec(`DELETE FROM run_event WHERE run = ? AND n = ?`, r.run, r.n); err != nil {
				return err
			}
		}
		return nil
	})
	return len(rows) == runSlice, err
}

// ReadRunEvents implements store.Runs. A page of large events is shorter than
// asked. A deleted run is ErrNotFound, whether its events are gone already or not.
func (d *DB) ReadRunEvents(ctx context.Context, tenant, run string, after int64, limit int) (events []webhook.RunEvent, next int64, err error) {
	err = d.read(ctx, func(c *conn) error {
		r, err := d.findRun(c, tenant, run)
		if err != nil {
			return err
		}
		if r.State == webhook.RunDeleted {
			return store.ErrNotFound
		}
		bytes, last := 0, int64(0)
		full := errors.New("page is full")
		err = c.query(`SELECT n, id, type, created_at, data FROM run_event WHERE run = ? AND n > ? ORDER BY n LIMIT ?`, []any{r.num, after, limit + 1},
			func(s *sqlite3.Stmt) error {
				if len(events) == limit || bytes > runPageBytes {
					next = last
					return full
				}
				last = s.ColumnInt64(0)
				e := webhook.RunEvent{ID: s.ColumnText(1), Type: s.ColumnText(2), CreatedAt: colTime(s, 3), Data: s.ColumnBlob(4, []byte{})}
				bytes += len(e.Data)
				events = append(events, e)
				return nil
			})
		if errors.Is(err, full) {
			err = nil
		}
		return err
	})
	return events, next, err
}

// ReadPageGrant implements store.Runs. Tests that are not logged have theirs too.
func (d *DB) ReadPageGrant(ctx context.Context, ref webhook.Ref) (g webhook.PageGrant, err error) {
	err = d.read(ctx, func(c *conn) error {
		var run, last int64
		var state webhook.RunState
		var seat webhook.Ref
		var key webhook.EndpointKey
		var trigger contract.Trigger
		found, err := c.one(`SELECT (SELECT id FROM tenant WHERE num = d.tenant), e.run, (SELECT created_at FROM run WHERE num = e.run),
			(SELECT state FROM run WHERE num = e.run), e.id, e.pos, e.accepted_at, e.erased,
			(SELECT contract FROM promise WHERE num = d.promise), (SELECT revision FROM promise WHERE num = d.promise),
			d.next_at IS NULL OR n.deleted_at IS NOT NULL, d.last_attempt, coalesce(d.seat, d.pos), d.endpoint, d.trigger
			FROM delivery d JOIN event e ON e.pos = d.event JOIN endpoint n ON n.num = d.endpoint WHERE d.pos = ? AND n.purge = 0`,
			[]any{int64(ref)}, func(s *sqlite3.Stmt) {
				g = webhook.PageGrant{
					Tenant: s.ColumnText(0), Event: s.ColumnText(4), Contract: s.ColumnText(8), ContractRevision: s.ColumnText(9), Finished: colBool(s, 10),
				}
				if run = s.ColumnInt64(1); run != 0 {
					g.Run = d.ids.Encode(webhook.PrefixRun, colTime(s, 2), run)
					state = runStates.word(s.ColumnInt64(3))
				}
				if g.Event == "" {
					g.Event = d.ids.Encode(webhook.PrefixEvent, colTime(s, 6), s.ColumnInt64(5))
				}
				g.Gone = colBool(s, 7) || state == webhook.RunDeleted
				last, seat = s.ColumnInt64(11), webhook.Ref(s.ColumnInt64(12))
				key, trigger = webhook.EndpointKey(s.ColumnInt64(13)), triggers.word(s.ColumnInt64(14))
			})
		if err != nil {
			return err
		}
		if !found {
			return store.ErrNotFound
		}
		if !g.Finished && trigger != contract.TriggerTest {
			if _, g.Finished, err = d.view(c).skipped(key, seat); err != nil {
				return err
			}
		}
		g.FirstAttemptAt, err = firstAttempt(c, last)
		return err
	})
	return g, err
}

// firstAttempt walks a delivery's log from its last row to its first, and returns
// when that was; zero without a log.
func firstAttempt(c *conn, last int64) (at time.Time, err error) {
	for last != 0 && err == nil {
		prev := int64(0)
		_, err = c.one(`SELECT prev, at FROM attempt WHERE pos = ?`, []any{last}, func(s *sqlite3.Stmt) { prev, at = s.ColumnInt64(0), colTime(s, 1) })
		last = prev
	}
	return at, err
}
