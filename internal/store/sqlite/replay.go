package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

const selectReplay = `SELECT r.num, (SELECT id FROM tenant WHERE num = r.tenant), (SELECT id FROM endpoint WHERE num = r.endpoint), r.selection,
	r.rate, r.state, r.count, r.done, r.failed, r.created_at, r.finished_at, r.at, r.upto, r.endpoint FROM replay r WHERE true`

// storedReplay is a replay with its cursor.
type storedReplay struct {
	webhook.Replay
	num      int64
	endpoint webhook.EndpointKey
	// at is the position that it has reached, upto the last one that it takes: of
	// deliveries, or of events for EventsMissing.
	at, upto int64
}

func (d *DB) scanReplay(s *sqlite3.Stmt) (storedReplay, error) {
	r := storedReplay{
		num: s.ColumnInt64(0), at: s.ColumnInt64(11), upto: s.ColumnInt64(12), endpoint: webhook.EndpointKey(s.ColumnInt64(13)), Replay: webhook.Replay{
			Tenant: s.ColumnText(1), Endpoint: s.ColumnText(2), Rate: s.ColumnInt(4), State: replayStates.word(s.ColumnInt64(5)),
			Count: s.ColumnInt(6), Done: s.ColumnInt(7), Failed: s.ColumnInt(8), CreatedAt: colTime(s, 9), FinishedAt: colTime(s, 10),
		},
	}
	r.ID = d.ids.Encode(webhook.PrefixReplay, r.CreatedAt, r.num)
	if err := json.Unmarshal(s.ColumnRawText(3), &r.Selection); err != nil {
		return r, fmt.Errorf("reading the selection of replay %s: %w", r.ID, err)
	}
	return r, nil
}

// replays reads stored replays; tail ends the selection.
func (d *DB) replays(c *conn, tail string, args ...any) (all []storedReplay, err error) {
	err = c.query(selectReplay+tail, args, func(s *sqlite3.Stmt) error {
		r, err := d.scanReplay(s)
		all = append(all, r)
		return err
	})
	return all, err
}

// findReplay reads a replay by its ID if it is the tenant's.
func (d *DB) findReplay(c *conn, tenant, id string) (storedReplay, error) {
	num, err := d.ids.Decode(webhook.PrefixReplay, id)
	if err != nil {
		return storedReplay{}, store.ErrNotFound
	}
	all, err := d.replays(c, ` AND r.num = ?`, num)
	if err != nil {
		return storedReplay{}, err
	}
	if len(all) == 0 || tenant != store.TenantAll && all[0].Tenant != tenant {
		return storedReplay{}, store.ErrNotFound
	}
	return all[0], nil
}

// presentReplay is findReplay for a change: that it is missing is a refusal.
func (t *tx) presentReplay(tenant, id string) (storedReplay, error) {
	r, err := t.db.findReplay(t.conn, tenant, id)
	if errors.Is(err, store.ErrNotFound) {
		err = refuse(err)
	}
	return r, err
}

// isOpen is the condition for replays that still have work.
func isOpen() string {
	return fmt.Sprintf(` AND r.state NOT IN (%d, %d)`, replayStates.num(webhook.ReplayDone), replayStates.num(webhook.ReplayCanceled))
}

// CreateReplay implements store.Replays. It takes what there is at this moment:
// what it makes itself lies behind that.
func (d *DB) CreateReplay(ctx context.Context, r webhook.Replay) (*webhook.Replay, error) {
	by := webhook.ActorOf(ctx)
	err := d.writer.do(ctx, func(t *tx) error {
		e, err := t.presentEndpoint(r.Tenant, r.Endpoint)
		if errors.Is(err, store.ErrNotFound) {
			return refuse(err)
		}
		if err != nil {
			return err
		}
		open, err := t.one(selectReplay+isOpen()+` AND r.endpoint = ? LIMIT 1`, []any{int64(e.Key)}, func(*sqlite3.Stmt) {})
		if err != nil {
			return err
		}
		if open {
			return refuse(store.ErrExists)
		}
		r.Tenant, r.State, r.Count, r.Done, r.Failed, r.FinishedAt = e.Tenant, webhook.ReplayCounting, 0, 0, 0, time.Time{}
		r.Selection.Events = cmp.Or(r.Selection.Events, webhook.EventsAttempted)
		selection, err := json.Marshal(r.Selection)
		if err != nil {
			return err
		}
		tenant, err := t.tenant(e.Tenant)
		if err != nil {
			return err
		}
		err = t.exec(`INSERT INTO replay (tenant, endpoint, selection, rate, state, count, done, failed, at, upto, created_at) VALUES (?,?,?,?,?,0,0,0,0,?,?)`,
			tenant.num, int64(e.Key), string(selection), r.Rate, replayStates.num(r.State), t.lastFor(r.Selection), r.CreatedAt)
		if err != nil {
			return err
		}
		r.ID = d.ids.Encode(webhook.PrefixReplay, r.CreatedAt, t.conn.db.LastInsertRowID())
		return t.audit(by, webhook.AuditEntry{
			At: r.CreatedAt, Tenant: e.Tenant, Action: "replay.created", Kind: "replay", Target: r.ID, After: selection,
		})
	})
	if err != nil {
		return nil, err
	}
	return &r, nil
}

// lastFor is the last position there is of what a selection chooses from.
func (t *tx) lastFor(s webhook.Selection) int64 {
	if s.Events == webhook.EventsMissing {
		return t.eventPos
	}
	return t.deliveryPos
}

// GetReplay implements store.Replays.
func (d *DB) GetReplay(ctx context.Context, tenant, id string) (*webhook.Replay, error) {
	var r storedReplay
	err := d.read(ctx, func(c *conn) (err error) {
		r, err = d.findReplay(c, tenant, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &r.Replay, nil
}

// ListReplays implements store.Replays.
func (d *DB) ListReplays(ctx context.Context, tenant, endpoint string, p store.Page) (store.Listed[*webhook.Replay], error) {
	var page store.Listed[*webhook.Replay]
	err := d.read(ctx, func(c *conn) error {
		where, args := "", []any{}
		if tenant != store.TenantAll {
			where += ` AND r.tenant = (SELECT num FROM tenant WHERE id = ?)`
			args = append(args, tenant)
		}
		if endpoint != "" {
			where += ` AND r.endpoint IN (SELECT num FROM endpoint WHERE id = ?)`
			args = append(args, endpoint)
		}
		where, args = pageSQL(where, "r.num", p, args)
		all, err := d.replays(c, where, args...)
		if err != nil {
			return err
		}
		rows := make([]numbered[*webhook.Replay], len(all))
		for i := range all {
			rows[i] = numbered[*webhook.Replay]{all[i].num, &all[i].Replay}
		}
		page = unnumber(paged(rows, position[*webhook.Replay], p))
		return nil
	})
	return page, err
}

// CancelReplay implements store.Replays.
func (d *DB) CancelReplay(ctx context.Context, tenant, id string, now time.Time) (canceled bool, err error) {
	by := webhook.ActorOf(ctx)
	err = d.writer.do(ctx, func(t *tx) error {
		r, err := t.presentReplay(tenant, id)
		if err != nil {
			return err
		}
		if canceled = r.Open(); !canceled {
			return nil
		}
		r.State, r.FinishedAt = webhook.ReplayCanceled, now
		if err := t.storeReplay(&r); err != nil {
			return err
		}
		return t.audit(by, webhook.AuditEntry{At: now, Tenant: r.Tenant, Action: "replay.canceled", Kind: "replay", Target: r.ID})
	})
	return canceled, err
}

// storeReplay writes what changes of a replay.
func (t *tx) storeReplay(r *storedReplay) error {
	return t.exec(`UPDATE replay SET state = ?, count = ?, done = ?, failed = ?, at = ?, finished_at = ? WHERE num = ?`,
		replayStates.num(r.State), r.Count, r.Done, r.Failed, r.at, r.FinishedAt, r.num)
}

// ListOpenReplays implements store.Replays.
func (d *DB) ListOpenReplays(ctx context.Context) ([]*webhook.Replay, error) {
	var open []*webhook.Replay
	err := d.read(ctx, func(c *conn) error {
		all, err := d.replays(c, isOpen()+` ORDER BY r.num`)
		for i := range all {
			open = append(open, &all[i].Replay)
		}
		return err
	})
	return open, err
}

// CountReplay implements store.Replays. A replay that is not stored (a preview)
// counts what there is now.
func (d *DB) CountReplay(ctx context.Context, p store.StepParams, after int64) (n int, next int64, done bool, err error) {
	err = d.read(ctx, func(c *conn) error {
		r, e, err := d.toCount(c, &p)
		if err != nil {
			return err
		}
		if e == nil {
			done = true
			return nil
		}
		r.at = after
		found, err := d.choose(c, &p, &r, e, replayBudget, replayBudget)
		n, next, done = len(found.take), found.at, found.done
		return err
	})
	return n, next, done, err
}

// toCount finds what a count goes over. The endpoint is nil when it is deleted: it
// has nothing left to take.
func (d *DB) toCount(c *conn, p *store.StepParams) (r storedReplay, e *webhook.Endpoint, err error) {
	if p.Replay.ID != "" {
		if r, err = d.findReplay(c, p.Replay.Tenant, p.Replay.ID); err != nil {
			return r, nil, err
		}
		e, err = d.endpoint(c, selectEndpoint+` AND n.num = ?`, int64(r.endpoint))
		if errors.Is(err, store.ErrNotFound) {
			return r, nil, nil
		}
		return r, e, err
	}
	if e, err = d.endpointByID(c, p.Replay.Tenant, p.Replay.Endpoint); err != nil {
		return r, nil, err
	}
	r = storedReplay{Replay: p.Replay, endpoint: e.Key}
	table := "delivery"
	if p.Replay.Selection.Events == webhook.EventsMissing {
		table = "event"
	}
	_, err = c.one(`SELECT coalesce(max(pos), 0) FROM `+table, nil, func(s *sqlite3.Stmt) { r.upto = s.ColumnInt64(0) })
	return r, e, err
}
