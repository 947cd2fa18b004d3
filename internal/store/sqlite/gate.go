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

// moveGate closes or opens a gate (N16).
func (t *tx) moveGate(m *store.GateMove) error {
	if m.Until.IsZero() {
		return t.exec(`DELETE FROM gate WHERE key = ?`, m.Key[:])
	}
	return t.exec(`INSERT INTO gate (key, until, probe) VALUES (?,?,?)
		ON CONFLICT (key) DO UPDATE SET until = excluded.until, probe = excluded.probe`, m.Key[:], m.Until, int64(m.Probe))
}
