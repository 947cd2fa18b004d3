package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

const endpointColumns = `n.num, n.id, t.id, n.url, n.events, n.contract, n.state, n.state_reason, n.state_since,
	n.description, n.metadata, n.headers, n.max_in_flight, n.failures_in_row, n.first_failure_at, n.last_success_at,
	n.last_attempt_at, n.version, n.created_at, n.updated_at, n.filter, n.ordering, n.degraded_until, n.catch_up_at IS NOT NULL`

const selectEndpoint = `SELECT ` + endpointColumns + ` FROM endpoint n JOIN tenant t ON t.num = n.tenant WHERE n.deleted_at IS NULL`

// endpointWidth is the number of endpointColumns. selectEndpointWarned has two columns
// more: whether the owner of what an endpoint that is off holds was warned, and since
// when it has been off.
const (
	endpointWidth        = 24
	selectEndpointWarned = `SELECT ` + endpointColumns + `, n.warned_at IS NOT NULL, n.off_since FROM endpoint n JOIN tenant t ON t.num = n.tenant
		WHERE n.deleted_at IS NULL AND n.state <> ?`
)

// scanEndpoint reads endpointColumns; secrets and marks have tables of their own.
func (d *DB) scanEndpoint(s *sqlite3.Stmt) (*webhook.Endpoint, error) {
	e := &webhook.Endpoint{
		Key: webhook.EndpointKey(s.ColumnInt64(0)), ID: s.ColumnText(1), Tenant: s.ColumnText(2), URL: s.ColumnText(3),
		Contract: s.ColumnText(5),
		State:    endpointStates.word(s.ColumnInt64(6)), StateReason: stateReasons.word(s.ColumnInt64(7)), StateSince: colTime(s, 8),
		Description: s.ColumnText(9), MaxInFlight: s.ColumnInt(12),
		Health: webhook.Health{
			FailuresInRow: s.ColumnInt(13), FirstFailureAt: colTime(s, 14), LastSuccessAt: colTime(s, 15), LastAttemptAt: colTime(s, 16),
			DegradedUntil: colTime(s, 22),
		},
		Version: s.ColumnInt64(17), CreatedAt: colTime(s, 18), UpdatedAt: colTime(s, 19), Filter: s.ColumnText(20), CatchingUp: colBool(s, 23),
	}
	if s.ColumnType(21) != sqlite3.NULL {
		e.Ordering = &webhook.Ordering{}
		if err := json.Unmarshal(s.ColumnRawText(21), &e.Ordering.From); err != nil {
			return nil, fmt.Errorf("reading the ordering of endpoint %s: %w", e.ID, err)
		}
	}
	if err := json.Unmarshal(s.ColumnRawText(4), &e.Events); err != nil {
		return nil, fmt.Errorf("reading the patterns of endpoint %s: %w", e.ID, err)
	}
	if err := json.Unmarshal(s.ColumnRawText(10), &e.Metadata); err != nil {
		return nil, fmt.Errorf("reading the metadata of endpoint %s: %w", e.ID, err)
	}
	sealed := s.ColumnBlob(11, nil)
	if len(sealed) == 0 {
		return e, nil
	}
	plain, err := d.cfg.Sealer.Open(sealed, headersRow(int64(e.Key)))
	if err != nil {
		return nil, fmt.Errorf("opening the headers of endpoint %s: %w", e.ID, err)
	}
	e.Headers, err = parseHeaders(plain)
	return e, err
}

// endpoints reads whole endpoints.
func (d *DB) endpoints(c *conn, sql string, args ...any) ([]*webhook.Endpoint, error) {
	var all []*webhook.Endpoint
	err := c.query(sql, args, func(s *sqlite3.Stmt) error {
		e, err := d.scanEndpoint(s)
		all = append(all, e)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		if err := d.readSecrets(c, e); err != nil {
			return nil, err
		}
		if e.Skips, err = readSkips(c, e.Key); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (d *DB) endpoint(c *conn, sql string, args ...any) (*webhook.Endpoint, error) {
	all, err := d.endpoints(c, sql, args...)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, store.ErrNotFound
	}
	return all[0], nil
}

func (d *DB) endpointByID(c *conn, tenant, id string) (*webhook.Endpoint, error) {
	if tenant == store.TenantAll {
		return d.endpoint(c, selectEndpoint+` AND n.id = ?`, id)
	}
	return d.endpoint(c, selectEndpoint+` AND t.id = ? AND n.id = ?`, tenant, id)
}

func (t *tx) endpointByKey(key webhook.EndpointKey) (*webhook.Endpoint, error) {
	return t.withHealth(t.db.endpoint(t.conn, selectEndpoint+` AND n.num = ?`, int64(key)))
}

// presentEndpoint is an endpoint as the batch has left it so far.
func (t *tx) presentEndpoint(tenant, id string) (*webhook.Endpoint, error) {
	return t.withHealth(t.db.endpointByID(t.conn, tenant, id))
}

// withHealth puts in the health that the batch has not written yet.
func (t *tx) withHealth(e *webhook.Endpoint, err error) (*webhook.Endpoint, error) {
	if err != nil {
		return nil, err
	}
	if h, ok := t.health[e.Key]; ok {
		e.Health = h
	}
	return e, nil
}

// CreateEndpoint implements store.Endpoints.
func (d *DB) CreateEndpoint(ctx context.Context, e *webhook.Endpoint) (*webhook.Endpoint, error) {
	var made webhook.Endpoint
	err := d.writer.do(ctx, func(t *tx) error {
		made = *e
		return t.create(&made, webhook.ActorOf(ctx))
	})
	if err != nil {
		return nil, err
	}
	return &made, nil
}

// create stores a new endpoint and gives it its key, and an ID if it has none.
func (t *tx) create(e *webhook.Endpoint, by webhook.Actor) error {
	tenant, err := t.tenant(e.Tenant)
	if err != nil {
		return refuse(err)
	}
	taken, err := t.one(`SELECT num FROM endpoint WHERE tenant = ? AND id = ? AND deleted_at IS NULL`, []any{tenant.num, e.ID}, func(*sqlite3.Stmt) {})
	if err != nil {
		return err
	}
	if taken {
		return refuse(store.ErrExists)
	}
	e.Version, e.Skips, e.CatchingUp = 0, nil, false
	err = t.exec(`INSERT INTO endpoint (tenant, id, url, events, contract, state, state_reason, state_since, description,
		metadata, max_in_flight, failures_in_row, version, created_at, updated_at) VALUES (?,?,'','[]','',0,0,0,'','{}',0,0,0,?,?)`,
		tenant.num, e.ID, e.CreatedAt, e.CreatedAt)
	if err != nil {
		return err
	}
	e.Key = webhook.EndpointKey(t.conn.db.LastInsertRowID())
	if e.ID == "" {
		e.ID = t.db.ids.Encode(webhook.PrefixEndpoint, e.CreatedAt, int64(e.Key))
		if err := t.exec(`UPDATE endpoint SET id = ? WHERE num = ?`, e.ID, int64(e.Key)); err != nil {
			return err
		}
	}
	if !e.On() {
		if err := t.goOff(e, e.StateSince); err != nil {
			return err
		}
	}
	if err := t.auditEndpoint(by, nil, e, "endpoint.created", "", e.CreatedAt); err != nil {
		return err
	}
	return t.storeEndpoint(e, e.CreatedAt)
}

// storeEndpoint writes an endpoint whole as its next version, raises the tenant's
// revision and tells others.
func (t *tx) storeEndpoint(e *webhook.Endpoint, now time.Time) error {
	events, err := json.Marshal(e.Events)
	if err != nil {
		return err
	}
	metadata, err := json.Marshal(e.Metadata)
	if err != nil {
		return err
	}
	var headers []byte
	if len(e.Headers) > 0 {
		plain, err := formatHeaders(e.Headers)
		if err != nil {
			return err
		}
		if headers, err = t.db.cfg.Sealer.Seal(plain, headersRow(int64(e.Key))); err != nil {
			return err
		}
	}
	var ordering any = null{}
	if e.Ordering != nil {
		paths, err := json.Marshal(e.Ordering.From)
		if err != nil {
			return err
		}
		ordering = string(paths)
	}
	url, own := e.GateKey(webhook.GateURL), e.GateKey(webhook.GateEndpoint)
	e.UpdatedAt = now
	e.Version++
	err = t.exec(`UPDATE endpoint SET url=?, events=?, contract=?, state=?, state_reason=?, state_since=?,
		description=?, metadata=?, headers=?, max_in_flight=?, failures_in_row=?, first_failure_at=?, last_success_at=?,
		last_attempt_at=?, version=?, updated_at=?, filter=?, ordering=?, degraded_until=?, url_gate=?, own_gate=? WHERE num=?`,
		e.URL, string(events), e.Contract, endpointStates.num(e.State), stateReasons.num(e.StateReason),
		e.StateSince, e.Description, string(metadata), headers, e.MaxInFlight, e.Health.FailuresInRow, e.Health.FirstFailureAt,
		e.Health.LastSuccessAt, e.Health.LastAttemptAt, e.Version, now, e.Filter, ordering, e.Health.DegradedUntil, url[:], own[:], int64(e.Key))
	if err != nil {
		return err
	}
	delete(t.health, e.Key)
	delete(t.sick, e.Key)
	if err := t.storeSecrets(e); err != nil {
		return err
	}
	rev, err := t.raise(e.Tenant)
	if err != nil {
		return err
	}
	told := *e
	t.change(store.Change{Tenant: e.Tenant, Revision: rev, Endpoint: &told})
	return nil
}

// UpdateEndpoint implements store.Endpoints.
func (d *DB) UpdateEndpoint(ctx context.Context, tenant, id string, now time.Time, change func(*webhook.Endpoint) (store.EndpointUpdate, error)) (*webhook.Endpoint, error) {
	var after *webhook.Endpoint
	err := d.writer.do(ctx, func(t *tx) error {
		e, err := t.presentEndpoint(tenant, id)
		if errors.Is(err, store.ErrNotFound) {
			return refuse(err)
		}
		if err != nil {
			return err
		}
		after = e
		update, err := change(e)
		if err != nil {
			return refuse(err)
		}
		if update.Unchanged {
			after, err = t.presentEndpoint(tenant, id) // e may bear what change tried
			return err
		}
		return t.transition(e, update, webhook.ActorOf(ctx), now)
	})
	if err != nil {
		return nil, err
	}
	return after, nil
}

// DeleteEndpoint implements store.Endpoints.
func (d *DB) DeleteEndpoint(ctx context.Context, tenant, id string, purge bool, now time.Time) error {
	return d.writer.do(ctx, func(t *tx) error {
		e, err := t.presentEndpoint(tenant, id)
		if errors.Is(err, store.ErrNotFound) {
			return refuse(err)
		}
		if err != nil {
			return err
		}
		// Its marks stay: what they skipped before ends as skipped.
		err = t.exec(`UPDATE endpoint SET deleted_at = ?, headers = NULL, purge = ?, catch_up_at = NULL WHERE num = ?`, now, purge, int64(e.Key))
		if err != nil {
			return err
		}
		if err := t.exec(`DELETE FROM endpoint_secret WHERE endpoint = ?`, int64(e.Key)); err != nil {
			return err
		}
		for _, scope := range []webhook.GateScope{webhook.GateURL, webhook.GateEndpoint} {
			if err := t.leaveGate(e, scope); err != nil {
				return err
			}
		}
		delete(t.health, e.Key)
		delete(t.sick, e.Key)
		if err := t.auditEndpoint(webhook.ActorOf(ctx), e, nil, "endpoint.deleted", "", now); err != nil {
			return err
		}
		rev, err := t.raise(e.Tenant)
		if err != nil {
			return err
		}
		t.tidy = true
		t.change(store.Change{Tenant: e.Tenant, Revision: rev, EndpointDeleted: e.Key})
		return nil
	})
}

// GetEndpoint implements store.Endpoints.
func (d *DB) GetEndpoint(ctx context.Context, tenant, id string) (e *webhook.Endpoint, err error) {
	err = d.read(ctx, func(c *conn) error {
		e, err = d.endpointByID(c, tenant, id)
		return err
	})
	return e, err
}

// ListEndpoints implements store.Endpoints.
func (d *DB) ListEndpoints(ctx context.Context, tenant string, p store.Page) (store.Listed[*webhook.Endpoint], error) {
	var page store.Listed[*webhook.Endpoint]
	err := d.read(ctx, func(c *conn) error {
		where, args := tenantWhere(tenant)
		sql, args := pageSQL(selectEndpoint+where, "n.num", p, args)
		all, err := d.endpoints(c, sql, args...)
		if err != nil {
			return err
		}
		page = paged(all, func(e *webhook.Endpoint) int64 { return int64(e.Key) }, p)
		return nil
	})
	return page, err
}

// CountWaiting implements store.Endpoints.
func (d *DB) CountWaiting(ctx context.Context, tenant, id string, most int) (n int, oldest time.Time, err error) {
	err = d.read(ctx, func(c *conn) error {
		e, err := d.endpointByID(c, tenant, id)
		if err != nil {
			return err
		}
		w := waitingCount{now: d.cfg.DueNow()}
		if len(e.Skips) > 0 {
			err = w.unmarked(c, e)
		} else {
			err = w.all(c, e.Key, most)
		}
		n, oldest = min(w.n, most), w.oldest
		return err
	})
	return n, oldest, err
}

// CountDue implements store.Endpoints.
func (d *DB) CountDue(ctx context.Context, tenant, id string, now time.Time, most int) (n int, err error) {
	err = d.read(ctx, func(c *conn) error {
		e, err := d.endpointByID(c, tenant, id)
		if err != nil {
			return err
		}
		_, err = c.one(`SELECT count(*) FROM (SELECT 1 FROM waiting WHERE endpoint = ? AND due <= ? LIMIT ?)`,
			[]any{int64(e.Key), now, most}, func(s *sqlite3.Stmt) { n = s.ColumnInt(0) })
		return err
	})
	return n, err
}

// waitingCount counts what waits for an endpoint and finds the earliest of the
// times that are shown for it: a seat shows as now, a place in line as nothing.
type waitingCount struct {
	now    time.Time
	n      int
	oldest time.Time
}

func (w *waitingCount) see(due time.Time) {
	if store.IsParked(due) {
		return
	}
	if store.IsSeat(due) {
		due = w.now
	}
	if w.oldest.IsZero() || due.Before(w.oldest) {
		w.oldest = due
	}
}

// all counts up to most. The times lie at the beginnings of two spans: of what has
// a seat, and of the rest.
func (w *waitingCount) all(c *conn, key webhook.EndpointKey, most int) error {
	_, err := c.one(`SELECT count(*) FROM (SELECT 1 FROM waiting WHERE endpoint = ? LIMIT ?)`, []any{int64(key), most},
		func(s *sqlite3.Stmt) { w.n = s.ColumnInt(0) })
	for _, from := range []int64{math.MinInt64, lastSeat + 1} {
		if err != nil {
			break
		}
		_, err = c.one(`SELECT due FROM waiting WHERE endpoint = ? AND due >= ? ORDER BY due LIMIT 1`, []any{int64(key), from},
			func(s *sqlite3.Stmt) { w.see(colTime(s, 0)) })
	}
	return err
}

// unmarked leaves out what the endpoint's marks skip (N17). Until the janitor has
// written them it looks at no more than markedBudget rows from either end of the
// lane: what was queued after the marks mostly lies at the far one.
func (w *waitingCount) unmarked(c *conn, e *webhook.Endpoint) error {
	const rows = `SELECT w.due, w.pos, coalesce(d.seat, d.pos), d.trigger FROM waiting w CROSS JOIN delivery d ON d.pos = w.pos WHERE w.endpoint = ?`
	var seen int
	var lastDue, lastPos int64
	take := func(s *sqlite3.Stmt) error {
		seen, lastDue, lastPos = seen+1, s.ColumnInt64(0), s.ColumnInt64(1)
		if _, skipped := e.Skipped(webhook.Ref(s.ColumnInt64(2))); !skipped || triggers.word(s.ColumnInt64(3)) == contract.TriggerTest {
			w.n++
			w.see(colTime(s, 0))
		}
		return nil
	}
	err := c.query(rows+` ORDER BY w.due, w.pos LIMIT ?`, []any{int64(e.Key), markedBudget}, take)
	if err != nil || seen < markedBudget {
		return err
	}
	return c.query(rows+` AND (w.due, w.pos) > (?, ?) ORDER BY w.due DESC, w.pos DESC LIMIT ?`,
		[]any{int64(e.Key), lastDue, lastPos, markedBudget}, take)
}

// LoadSubscriptions implements store.Endpoints.
func (d *DB) LoadSubscriptions(ctx context.Context) (all []*webhook.Endpoint, revisions map[string]int64, err error) {
	revisions = map[string]int64{}
	err = d.read(ctx, func(c *conn) error {
		if all, err = d.endpoints(c, selectEndpoint+` ORDER BY n.num`); err != nil {
			return err
		}
		return c.query(`SELECT id, rev FROM tenant`, nil, func(s *sqlite3.Stmt) error {
			revisions[s.ColumnText(0)] = s.ColumnInt64(1)
			return nil
		})
	})
	return all, revisions, err
}

// tenantWhere restricts a selection to a tenant, unless it is every one.
func tenantWhere(tenant string) (string, []any) {
	if tenant == store.TenantAll {
		return "", nil
	}
	return ` AND t.id = ?`, []any{tenant}
}

// joinWords writes words separated by spaces.
func joinWords[T ~string](all []T) string {
	parts := make([]string, len(all))
	for i, w := range all {
		parts[i] = string(w)
	}
	return strings.Join(parts, " ")
}
