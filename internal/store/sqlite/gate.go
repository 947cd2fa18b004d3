package sqlite

import (
	"context"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// selectGate reads closed gates with their probes. One that ended, whose endpoint is
// gone or that a mark skips waits no more: its columns are NULL.
const selectGate = `SELECT g.key, g.until, d.pos, d.endpoint, (SELECT state FROM endpoint WHERE num = d.endpoint)
	FROM gate g LEFT JOIN delivery d ON d.pos = g.probe AND d.next_at IS NOT NULL
		AND EXISTS (SELECT 1 FROM endpoint n WHERE n.num = d.endpoint AND n.deleted_at IS NULL)
		AND NOT EXISTS (SELECT 1 FROM skip k WHERE k.endpoint = d.endpoint AND coalesce(d.seat, d.pos) BETWEEN k.first AND k.before - 1)`

// ListGates implements store.Lanes.
func (d *DB) ListGates(ctx context.Context) (gates []store.Gate, err error) {
	err = d.readLane(ctx, func(c *conn) error {
		return c.query(selectGate, nil, func(s *sqlite3.Stmt) error {
			g := store.Gate{Until: colTime(s, 1), Probe: webhook.Ref(s.ColumnInt64(2)), ProbeEndpoint: webhook.EndpointKey(s.ColumnInt64(3))}
			copy(g.Key[:], s.ColumnRawBlob(0))
			gates = append(gates, g)
			return nil
		})
	})
	return gates, err
}

// moveGate closes or opens a gate (N16). It closes none of a URL that its probe's
// endpoint has left while the request was under way: nobody would open that one.
func (t *tx) moveGate(m *store.GateMove) error {
	if m.Until.IsZero() {
		return t.exec(`DELETE FROM gate WHERE key = ?`, m.Key[:])
	}
	left, err := t.one(`SELECT 1 FROM delivery d JOIN endpoint n ON n.num = d.endpoint
		WHERE d.pos = ? AND (n.deleted_at IS NOT NULL OR ? NOT IN (n.url_gate, n.own_gate))`, []any{int64(m.Probe), m.Key[:]}, func(*sqlite3.Stmt) {})
	if err != nil || left {
		return err
	}
	return t.exec(`INSERT INTO gate (key, until, probe) VALUES (?,?,?)
		ON CONFLICT (key) DO UPDATE SET until = excluded.until, probe = excluded.probe`, m.Key[:], m.Until, int64(m.Probe))
}

// leaveGate removes the gate of a scope that an endpoint leaves, unless others of
// its tenant are in it. e is the endpoint as it was.
func (t *tx) leaveGate(e *webhook.Endpoint, scope webhook.GateScope) error {
	key := e.GateKey(scope)
	closed, err := t.one(`SELECT 1 FROM gate WHERE key = ?`, []any{key[:]}, func(*sqlite3.Stmt) {})
	if err != nil || !closed {
		return err
	}
	if scope == webhook.GateURL {
		shared, err := t.one(`SELECT 1 FROM endpoint WHERE tenant = (SELECT num FROM tenant WHERE id = ?) AND deleted_at IS NULL AND url = ? AND num <> ? LIMIT 1`,
			[]any{e.Tenant, e.URL, int64(e.Key)}, func(*sqlite3.Stmt) {})
		if err != nil || shared {
			return err
		}
	}
	return t.exec(`DELETE FROM gate WHERE key = ?`, key[:])
}
