package sqlite

import (
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// countHealth lets an outcome count for its endpoint's health. The row is written
// once per batch, by writeHealth.
func (t *tx) countHealth(p *store.RecordParams) error {
	h, ok := t.health[p.Endpoint]
	if !ok {
		var err error
		if ok, err = t.readHealth(p.Endpoint, &h); err != nil || !ok {
			return err
		}
	}
	h.LastAttemptAt = latest(h.LastAttemptAt, p.Now)
	switch {
	case p.Delivered():
		h.LastSuccessAt = latest(h.LastSuccessAt, p.Now)
		h.FailuresInRow, h.FirstFailureAt = 0, time.Time{}
	default:
		h.FailuresInRow++
		if h.FirstFailureAt.IsZero() {
			h.FirstFailureAt = p.Now
		}
	}
	if len(t.health) > maxCached {
		if err := t.writeHealth(); err != nil {
			return err
		}
		clear(t.health)
		clear(t.sick)
	}
	t.health[p.Endpoint] = h
	t.sick[p.Endpoint] = true
	return nil
}

// laneState is what the writer keeps in memory of an endpoint beside its health.
type laneState struct {
	on, catchingUp, deleted bool
	skips                   []webhook.Skip
}

// laneState returns the state of an endpoint, as the last told change left it.
func (t *tx) laneState(key webhook.EndpointKey) (laneState, error) {
	if l, ok := t.lanes[key]; ok {
		return l, nil
	}
	var l laneState
	_, err := t.one(`SELECT state, catch_up_at IS NOT NULL, deleted_at IS NOT NULL FROM endpoint WHERE num = ?`, []any{int64(key)},
		func(s *sqlite3.Stmt) {
			l.catchingUp, l.deleted = colBool(s, 1), colBool(s, 2)
			l.on = endpointStates.word(s.ColumnInt64(0)) == webhook.EndpointActive && !l.deleted
		})
	if err != nil {
		return l, err
	}
	if l.skips, err = readSkips(t.conn, key); err != nil {
		return l, err
	}
	if len(t.lanes) > maxCached {
		clear(t.lanes)
	}
	t.lanes[key] = l
	return l, nil
}

func (t *tx) readHealth(key webhook.EndpointKey, h *webhook.Health) (found bool, err error) {
	return t.one(`SELECT failures_in_row, first_failure_at, last_success_at, last_attempt_at FROM endpoint WHERE num = ?`,
		[]any{int64(key)}, func(s *sqlite3.Stmt) {
			*h = webhook.Health{FailuresInRow: s.ColumnInt(0), FirstFailureAt: colTime(s, 1), LastSuccessAt: colTime(s, 2), LastAttemptAt: colTime(s, 3)}
		})
}

// writeHealth writes the health of the endpoints that the batch changed, once
// each.
func (t *tx) writeHealth() error {
	for key := range t.sick {
		h := t.health[key]
		r := t.hot(hotUpdateHealth)
		r.int(int64(h.FailuresInRow))
		r.at(h.FirstFailureAt)
		r.at(h.LastSuccessAt)
		r.at(h.LastAttemptAt)
		r.int(int64(key))
		if err := r.exec(); err != nil {
			return err
		}
	}
	return nil
}

// latest is the later of two times, so that what a batch saw out of order does
// not go back.
func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
