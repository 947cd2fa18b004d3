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

const (
	// leastKept is how long events are kept at least, and with them the callers' IDs
	// (N3), and deliveries whose contract is unknown.
	leastKept = 30 * 24 * time.Hour
	// recordsKept is how long audit entries and finished replays are kept.
	recordsKept = 365 * 24 * time.Hour
	// warnBefore is how long before what is held ends its owner is told.
	warnBefore = 24 * time.Hour
)

// Retain implements store.Keeper. It goes over the deliveries by position first,
// then, below zero, over the events; last come the trail and replays, which are
// kept for a year.
func (d *DB) Retain(ctx context.Context, after webhook.Ref, now time.Time) (next webhook.Ref, removed int, done bool, err error) {
	if after >= 0 {
		at, removed, more, err := d.retainDeliveries(ctx, int64(after), now)
		if err != nil {
			return after, 0, false, err
		}
		if more {
			return webhook.Ref(at), removed, false, nil
		}
		return -1, removed, false, nil
	}
	at, removed, more, err := d.retainEvents(ctx, -int64(after)-1, now)
	if err != nil {
		return after, 0, false, err
	}
	if more {
		return webhook.Ref(-at - 1), removed, false, nil
	}
	n, err := d.retainRecords(ctx, now)
	return webhook.Ref(-at - 1), removed + n, n < removeSlice, err
}

// keeping says for how long the promises that are in the database keep history.
type keeping struct {
	by                map[int64]keepFor // by the promise's number
	shortest, longest time.Duration
}

type keepFor struct {
	history time.Duration
	// token is how long a page token is valid from the first attempt on (S13).
	token time.Duration
}

func (d *DB) keeping(c *conn) (keeping, error) {
	k := keeping{by: map[int64]keepFor{}, shortest: leastKept, longest: leastKept}
	err := c.query(`SELECT num, contract, revision FROM promise`, nil, func(s *sqlite3.Stmt) error {
		f := keepFor{history: leastKept}
		if p := d.cfg.Contract(s.ColumnText(1), s.ColumnText(2)); p != nil {
			f = keepFor{history: p.History.Keep.Std(), token: p.Run.TokenFor.Std()}
		}
		k.by[s.ColumnInt64(0)] = f
		k.shortest, k.longest = min(k.shortest, f.history), max(k.longest, f.history)
		return nil
	})
	return k, err
}

// retainDeliveries removes a slice of what is kept no longer. Positions rise with
// acceptance, and none is kept from before it was accepted: the first one that is
// too young for the shortest promise ends the walk, so that a run that finds
// nothing looks at one row (B51).
func (d *DB) retainDeliveries(ctx context.Context, after int64, now time.Time) (at int64, removed int, more bool, err error) {
	var over []int64
	at = after
	err = d.read(ctx, func(c *conn) error {
		k, err := d.keeping(c)
		if err != nil {
			return err
		}
		seen := 0
		err = c.query(`SELECT pos, created_at, finished_at, promise, flags, last_attempt FROM delivery WHERE pos > ? ORDER BY pos LIMIT ?`, []any{after, janitorLook},
			func(s *sqlite3.Stmt) error {
				if colTime(s, 1).After(now.Add(stampSlack - k.shortest)) {
					return errFull
				}
				if len(over) == janitorSlice {
					more = true
					return errFull
				}
				seen++
				at = s.ColumnInt64(0)
				finished := colTime(s, 2)
				// One in a line's chain stays until the chain has passed it.
				if finished.IsZero() || s.ColumnInt64(4)&flagLine != 0 {
					return nil
				}
				f := k.by[s.ColumnInt64(3)]
				if finished.Add(f.history).After(now) {
					return nil
				}
				if f.token > f.history {
					first, err := firstAttempt(c, s.ColumnInt64(5))
					if err != nil || first.Add(f.token).After(now) {
						return err
					}
				}
				over = append(over, at)
				return nil
			})
		if errors.Is(err, errFull) {
			return nil
		}
		more = seen == janitorLook
		return err
	})
	if err != nil || len(over) == 0 {
		return at, 0, more, err
	}
	err = d.writer.do(ctx, func(t *tx) error {
		still, err := t.stillFinal(over)
		if err != nil {
			return err
		}
		n, cut, err := t.removeAll(still)
		if removed = n; cut {
			at, more = still[n]-1, true
		}
		return err
	})
	return at, removed, more, err
}

// stillFinal leaves out deliveries that were sent again meanwhile.
func (t *tx) stillFinal(all []int64) ([]int64, error) {
	var still []int64
	for _, pos := range all {
		r, found, err := readPassed(t.conn, pos)
		if err != nil {
			return nil, err
		}
		if found && r.status.Final() {
			still = append(still, pos)
		}
	}
	return still, nil
}

// oldEvent is an event that nothing refers to any more.
type oldEvent struct {
	pos, tenant, run int64
	id               string // the caller's
}

// retainEvents removes a slice of the events that are older than the longest
// history kept and have no deliveries any more.
func (d *DB) retainEvents(ctx context.Context, after int64, now time.Time) (at int64, removed int, more bool, err error) {
	var over []oldEvent
	at = after
	err = d.read(ctx, func(c *conn) error {
		k, err := d.keeping(c)
		if err != nil {
			return err
		}
		seen := 0
		err = c.query(`SELECT pos, accepted_at, tenant, id, coalesce(run, 0),
				EXISTS (SELECT 1 FROM delivery WHERE pos >= e.first_delivery AND pos < e.first_delivery + e.deliveries)
				OR EXISTS (SELECT 1 FROM further WHERE event = e.pos)
			FROM event e WHERE pos > ? ORDER BY pos LIMIT ?`, []any{after, janitorLook}, func(s *sqlite3.Stmt) error {
			if colTime(s, 1).After(now.Add(-k.longest)) {
				return errFull
			}
			if len(over) == janitorSlice {
				more = true
				return errFull
			}
			seen++
			at = s.ColumnInt64(0)
			if !colBool(s, 5) {
				over = append(over, oldEvent{pos: at, tenant: s.ColumnInt64(2), id: s.ColumnText(3), run: s.ColumnInt64(4)})
			}
			return nil
		})
		if errors.Is(err, errFull) {
			return nil
		}
		more = seen == janitorLook
		return err
	})
	if err != nil || len(over) == 0 {
		return at, 0, more, err
	}
	err = d.writer.do(ctx, func(t *tx) error {
		removed = 0
		for _, e := range over {
			whole, n, err := t.removeOld(e, removeSlice-removed)
			if err != nil {
				return err
			}
			if removed += n; !whole {
				at, more = e.pos-1, true
				break
			}
		}
		return t.pin()
	})
	return at, removed, more, err
}

// removeOld removes an event that has no deliveries, and the run that it told of,
// most rows at most; whole tells whether all went.
func (t *tx) removeOld(e oldEvent, most int) (whole bool, n int, err error) {
	if most <= 0 {
		return false, 0, nil
	}
	// A replay may have made a delivery of it since it was looked at.
	used, err := t.one(`SELECT 1 FROM further WHERE event = ?`, []any{e.pos}, func(*sqlite3.Stmt) {})
	if err != nil || used {
		return true, 0, err
	}
	if e.run != 0 {
		if whole, n, err = t.removeRun(e.run, most); err != nil || !whole {
			return false, n, err
		}
	}
	if e.id != "" {
		if err := t.exec(`DELETE FROM event_key WHERE hash = ? AND event = ?`, eventKey(e.tenant, e.id), e.pos); err != nil {
			return false, n, err
		}
	}
	return true, n + 1, t.exec(`DELETE FROM event WHERE pos = ?`, e.pos)
}

// removeRun removes a run with its events, most rows at most.
func (t *tx) removeRun(run int64, most int) (whole bool, n int, err error) {
	err = t.exec(`DELETE FROM run_event WHERE run = ? AND n IN (SELECT n FROM run_event WHERE run = ? ORDER BY n LIMIT ?)`, run, run, most)
	if n = int(t.conn.db.Changes()); err != nil || n == most {
		return false, n, err
	}
	return true, n, t.exec(`DELETE FROM run WHERE num = ?`, run)
}

// retainRecords removes a slice of the trail and of finished replays; both are
// small. An endpoint's open replay is never touched.
func (d *DB) retainRecords(ctx context.Context, now time.Time) (removed int, err error) {
	before := now.Add(-recordsKept)
	var audit, replays []int64
	err = d.read(ctx, func(c *conn) error {
		err := c.query(`SELECT pos FROM audit WHERE pos <= (SELECT min(pos) FROM audit) + ? AND at < ?`, []any{removeSlice, before}, func(s *sqlite3.Stmt) error {
			audit = append(audit, s.ColumnInt64(0))
			return nil
		})
		if err != nil {
			return err
		}
		return c.query(`SELECT num FROM replay WHERE finished_at < ? LIMIT ?`, []any{before, removeSlice}, func(s *sqlite3.Stmt) error {
			replays = append(replays, s.ColumnInt64(0))
			return nil
		})
	})
	if err != nil || len(audit)+len(replays) == 0 {
		return 0, err
	}
	audit = audit[:min(len(audit), removeSlice)]
	replays = replays[:min(len(replays), removeSlice-len(audit))]
	err = d.writer.do(ctx, func(t *tx) error {
		for _, pos := range audit {
			if err := t.exec(`DELETE FROM audit WHERE pos = ?`, pos); err != nil {
				return err
			}
		}
		for _, num := range replays {
			if err := t.exec(`DELETE FROM replay WHERE num = ?`, num); err != nil {
				return err
			}
		}
		return nil
	})
	return len(audit) + len(replays), err
}

// offEndpoint is an endpoint that is off, as far as what it holds goes.
type offEndpoint struct {
	*webhook.Endpoint
	warned bool
	since  time.Time // it went off, whatever kind of off it has become since
}

// SkipHeld implements store.Keeper: what an endpoint that has been off for that
// long was to get, and was accepted before, is marked as skipped.
func (d *DB) SkipHeld(ctx context.Context, now time.Time) error {
	var off []offEndpoint
	err := d.read(ctx, func(c *conn) error {
		return c.query(selectEndpointWarned, []any{endpointStates.num(webhook.EndpointActive)}, func(s *sqlite3.Stmt) error {
			e, err := d.scanEndpoint(s)
			off = append(off, offEndpoint{e, colBool(s, endpointWidth), colTime(s, endpointWidth+1)})
			return err
		})
	})
	if err != nil {
		return err
	}
	for _, e := range off {
		keep := leastKept
		if p := d.cfg.Contract(e.Contract, ""); p != nil {
			keep = p.History.Keep.Std()
		}
		if err := d.skipHeld(ctx, e, now, keep); err != nil {
			return fmt.Errorf("skipping what endpoint %s has held too long: %w", e.ID, err)
		}
	}
	return nil
}

// skipHeld marks what an endpoint has held for longer than keep, and has its owner
// told a day before that happens for the first time.
func (d *DB) skipHeld(ctx context.Context, e offEndpoint, now time.Time, keep time.Duration) error {
	over, soon := now.Add(-keep), now.Add(warnBefore-keep)
	if e.since.After(soon) || e.warned && e.since.After(over) {
		return nil
	}
	var end int64
	var warn bool
	err := d.read(ctx, func(c *conn) (err error) {
		if !e.warned {
			if warn, err = holdsBefore(c, e.Key, soon); err != nil {
				return err
			}
		}
		if e.since.After(over) {
			return nil
		}
		held, err := holdsBefore(c, e.Key, over)
		if err == nil && held {
			end, err = seekDelivery(c, over)
		}
		return err
	})
	if err != nil || !warn && end == 0 {
		return err
	}
	return d.writer.do(ctx, func(t *tx) error {
		present, err := t.endpointByKey(e.Key)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		still, err := t.one(`SELECT 1 FROM endpoint WHERE num = ? AND off_since = ?`, []any{int64(e.Key), e.since}, func(*sqlite3.Stmt) {})
		if err != nil || !still {
			return err // it was switched on meanwhile
		}
		if warn {
			if err := t.warn(present, now); err != nil {
				return err
			}
		}
		if end == 0 {
			return nil
		}
		if err := t.mark(present, webhook.Skip{Before: webhook.Ref(end), Reason: webhook.WhySwitchedOff, At: now}); err != nil {
			return err
		}
		return t.tell(e.Key)
	})
}

// warn queues the notice that what is held ends soon, once for as long as the
// endpoint is off.
func (t *tx) warn(e *webhook.Endpoint, now time.Time) error {
	if err := t.exec(`UPDATE endpoint SET warned_at = ? WHERE num = ?`, now, int64(e.Key)); err != nil {
		return err
	}
	return t.tellOwner(e, store.BecameExpiring, now)
}

// holdsBefore tells whether an endpoint holds something that was accepted before a
// time and that no mark covers yet.
func holdsBefore(c *conn, key webhook.EndpointKey, at time.Time) (holds bool, err error) {
	end, err := seekDelivery(c, at)
	if err != nil {
		return false, err
	}
	marks, err := readSkips(c, key)
	if err != nil {
		return false, err
	}
	err = c.query(`SELECT pos FROM waiting WHERE endpoint = ? AND pos < ?`, []any{int64(key), end}, func(s *sqlite3.Stmt) error {
		r, found, err := readPassed(c, s.ColumnInt64(0))
		if err != nil || !found || r.trigger == contract.TriggerTest || int64(r.seat) >= end {
			return err
		}
		if _, covered := covers(marks, r); covered {
			return nil
		}
		holds = true
		return errFull
	})
	if errors.Is(err, errFull) {
		err = nil
	}
	return holds, err
}
