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

// scanBudget is how many rows one page of a list examines at most. A page that
// reaches it is short and goes on where it stopped.
const scanBudget = 20_000

const selectEvent = `SELECT e.pos, (SELECT id FROM tenant WHERE num = e.tenant), (SELECT text FROM word WHERE num = e.type), e.id,
	e.accepted_at, e.created_at, e.deliver_at, e.expires_at, e.ordering_key, e.deliveries, e.erased, e.tenant, e.run,
	(SELECT created_at FROM run WHERE num = e.run) FROM event e WHERE ` + loggedEvent + ` AND `

// loggedEvent leaves out the events of tests whose contract keeps none (P9). Such
// an event has one delivery, made at its acceptance.
const loggedEvent = `NOT (e.deliveries = 1 AND coalesce((SELECT flags & 16 FROM delivery WHERE pos = e.first_delivery), 0) <> 0)`

func (d *DB) scanEvent(s *sqlite3.Stmt) *webhook.Event {
	e := &webhook.Event{
		Tenant: s.ColumnText(1), Type: s.ColumnText(2), ID: s.ColumnText(3), ContentType: "application/json",
		AcceptedAt: colTime(s, 4), CreatedAt: colTime(s, 5), DeliverAt: colTime(s, 6), ExpiresAt: colTime(s, 7),
		OrderingKey: s.ColumnText(8), Deliveries: s.ColumnInt(9), Erased: colBool(s, 10),
	}
	if e.ID == "" {
		e.ID = d.ids.Encode(webhook.PrefixEvent, e.AcceptedAt, s.ColumnInt64(0))
	}
	if e.CreatedAt.IsZero() {
		e.CreatedAt = e.AcceptedAt
	}
	if run := s.ColumnInt64(12); run != 0 {
		e.Run = d.ids.Encode(webhook.PrefixRun, colTime(s, 13), run)
	}
	return e
}

// findEvent returns the position of an event by the caller's ID or ours.
func (d *DB) findEvent(c *conn, tenant, id string) (int64, error) {
	var pos int64
	if own, err := d.ids.Decode(webhook.PrefixEvent, id); err == nil {
		pos = own
	} else {
		var num int64
		found, err := c.one(`SELECT num FROM tenant WHERE id = ?`, []any{tenant}, func(s *sqlite3.Stmt) { num = s.ColumnInt64(0) })
		if err != nil || !found {
			return 0, errors.Join(err, store.ErrNotFound)
		}
		found, err = c.one(`SELECT event FROM event_key WHERE hash = ?`, []any{eventKey(num, id)}, func(s *sqlite3.Stmt) { pos = s.ColumnInt64(0) })
		if err != nil || !found {
			return 0, errors.Join(err, store.ErrNotFound)
		}
	}
	return pos, c.owned(`SELECT (SELECT id FROM tenant WHERE num = e.tenant) FROM event e WHERE `+loggedEvent+` AND pos = ?`, pos, tenant)
}

// GetEvent implements store.Events.
func (d *DB) GetEvent(ctx context.Context, tenant, id string) (e *webhook.Event, err error) {
	err = d.read(ctx, func(c *conn) error {
		pos, err := d.findEvent(c, tenant, id)
		if err != nil {
			return err
		}
		e, err = d.wholeEvent(c, pos)
		return err
	})
	return e, err
}

// wholeEvent reads an event with its payload; nil where there is none.
func (d *DB) wholeEvent(c *conn, pos int64) (e *webhook.Event, err error) {
	_, err = c.one(selectEvent+`e.pos = ?`, []any{pos}, func(s *sqlite3.Stmt) { e = d.scanEvent(s) })
	if err != nil || e == nil || e.Erased {
		return e, err
	}
	_, err = c.one(`SELECT data FROM event WHERE pos = ?`, []any{pos}, func(s *sqlite3.Stmt) { e.Data = s.ColumnBlob(0, []byte{}) })
	return e, err
}

// ListEvents implements store.Events.
func (d *DB) ListEvents(ctx context.Context, tenant string, f store.EventFilter, p store.Page) (store.Listed[*webhook.Event], error) {
	var page store.Listed[*webhook.Event]
	err := d.read(ctx, func(c *conn) error {
		num, types, none, err := scope(c, tenant, f.Types)
		if err != nil || none {
			return err
		}
		walk := walk{table: "event e", column: "e.pos", stamp: "accepted_at", stampAt: 4, page: p, span: f.Span}
		var rows []numbered[*webhook.Event]
		last, more, err := walk.run(c, selectEvent, nil, func(s *sqlite3.Stmt) (bool, error) {
			if num != 0 && s.ColumnInt64(11) != num {
				return false, nil
			}
			if len(types) > 0 && !types[s.ColumnText(2)] {
				return false, nil
			}
			if f.OrderingKey != "" && s.ColumnText(8) != f.OrderingKey {
				return false, nil
			}
			rows = append(rows, numbered[*webhook.Event]{s.ColumnInt64(0), d.scanEvent(s)})
			return true, nil
		})
		page = unnumber(listed(rows, position[*webhook.Event], p, last, more))
		return err
	})
	return page, err
}

func position[T any](r numbered[T]) int64 { return r.num }

func unnumber[T any](in store.Listed[numbered[T]]) store.Listed[T] {
	out := store.Listed[T]{Next: in.Next, Prev: in.Prev, Items: make([]T, len(in.Items))}
	for i, r := range in.Items {
		out.Items[i] = r.value
	}
	return out
}

// scope resolves a tenant and the set of types; none is true when nothing can
// match.
func scope(c *conn, tenant string, types []string) (num int64, set map[string]bool, none bool, err error) {
	if tenant != store.TenantAll {
		found, err := c.one(`SELECT num FROM tenant WHERE id = ?`, []any{tenant}, func(s *sqlite3.Stmt) { num = s.ColumnInt64(0) })
		if err != nil {
			return 0, nil, false, err
		}
		if !found {
			return 0, nil, true, nil
		}
	}
	if len(types) > 0 {
		set = map[string]bool{}
		for _, t := range types {
			set[t] = true
		}
	}
	return num, set, false, nil
}

// walk reads a table clustered by position, newest or oldest first, within a
// span of time and up to scanBudget rows.
type walk struct {
	table, column string
	// stamp is the column of the acceptance time, stampAt its place in the
	// selection.
	stamp   string
	stampAt int
	page    store.Page
	span    store.Span
}

// stampSlack is by how much stamps may fall behind the order of positions: a
// publisher takes its stamp before it queues for the commit.
const stampSlack = 2 * time.Second

// run calls take for each row until the page is full; take tells whether it kept
// the row. where holds further conditions with args.
func (w walk) run(c *conn, sql string, args []any, take func(*sqlite3.Stmt) (bool, error)) (last int64, more bool, err error) {
	low, high, err := w.bounds(c)
	if err != nil {
		return 0, false, err
	}
	up := w.page.Ascending != w.page.Backward
	sql += w.column + ` >= ? AND ` + w.column + ` < ?`
	args = append(args, low, high)
	sql += ` ORDER BY ` + w.column
	if !up {
		sql += ` DESC`
	}
	kept, seen := 0, 0
	stop := errors.New("page is full")
	err = c.query(sql+` LIMIT ?`, append(args, scanBudget+1), func(s *sqlite3.Stmt) error {
		if kept == w.page.Limit || seen == scanBudget {
			more = true
			return stop
		}
		seen++
		last = s.ColumnInt64(0)
		if !w.within(colTime(s, w.stampAt)) {
			return nil
		}
		ok, err := take(s)
		if ok {
			kept++
		}
		return err
	})
	if errors.Is(err, stop) {
		err = nil
	}
	return last, more, err
}

// within tells whether a stamp lies in the span.
func (w walk) within(stamp time.Time) bool {
	return (w.span.Since.IsZero() || !stamp.Before(w.span.Since)) && (w.span.Until.IsZero() || stamp.Before(w.span.Until))
}

// bounds turns the page's start and the span into positions [low, high), with
// room for stamps that do not rise with positions.
func (w walk) bounds(c *conn) (low, high int64, err error) {
	high = 1 << 60
	if w.page.After != 0 {
		if w.page.Ascending != w.page.Backward {
			low = w.page.After + 1
		} else {
			high = w.page.After
		}
	}
	if !w.span.Since.IsZero() {
		at, err := w.seek(c, w.span.Since.Add(-stampSlack))
		if err != nil {
			return 0, 0, err
		}
		low = max(low, at)
	}
	if !w.span.Until.IsZero() {
		at, err := w.seek(c, w.span.Until.Add(stampSlack))
		if err != nil {
			return 0, 0, err
		}
		high = min(high, at)
	}
	return low, high, nil
}

// seek finds the first position whose stamp is not before at, by halving:
// positions rise with acceptance.
func (w walk) seek(c *conn, at time.Time) (int64, error) {
	var low, high int64
	// Apart, each is one step down the tree; together they would be a scan.
	_, err := c.one(`SELECT coalesce((SELECT min(pos) FROM `+w.table+`), 1), coalesce((SELECT max(pos) FROM `+w.table+`), 0) + 1`, nil,
		func(s *sqlite3.Stmt) { low, high = s.ColumnInt64(0), s.ColumnInt64(1) })
	if err != nil {
		return 0, err
	}
	for low < high {
		middle := low + (high-low)/2
		var pos int64
		var stamp time.Time
		found, err := c.one(`SELECT pos, `+w.stamp+` FROM `+w.table+` WHERE pos >= ? ORDER BY pos LIMIT 1`, []any{middle}, func(s *sqlite3.Stmt) {
			pos, stamp = s.ColumnInt64(0), colTime(s, 1)
		})
		if err != nil {
			return 0, err
		}
		if found && pos < high && stamp.Before(at) {
			low = pos + 1
		} else {
			high = middle
		}
	}
	return low, nil
}

// CountDeliveries implements store.Events. Statuses are counted as their contract
// shows them.
func (d *DB) CountDeliveries(ctx context.Context, tenant, event string) (map[contract.Status]int, error) {
	counts := map[contract.Status]int{}
	err := d.read(ctx, func(c *conn) error {
		pos, err := d.findEvent(c, tenant, event)
		if err != nil {
			return err
		}
		part, args, err := ofEvent(c, pos)
		if err != nil {
			return err
		}
		v := d.view(c)
		return c.query(selectDelivery+part+`true`, args, func(s *sqlite3.Stmt) error {
			shown, err := v.read(s)
			if err == nil {
				counts[shown.listed]++
			}
			return err
		})
	})
	return counts, err
}

// deliveriesOf returns the positions [first, end) of the deliveries that were made
// at an event's acceptance.
func deliveriesOf(c *conn, event int64) (first, end int64, err error) {
	_, err = c.one(`SELECT first_delivery, deliveries FROM event WHERE pos = ?`, []any{event}, func(s *sqlite3.Stmt) {
		first = s.ColumnInt64(0)
		end = first + s.ColumnInt64(1)
	})
	return first, end, err
}

// eventSlice is how many deliveries of an event one commit ends, or tells of (N25):
// an event may have one for each of very many endpoints.
const eventSlice = 100

// refsOf returns deliveries of an event in the order of positions: those behind
// after (0 begins) of the ones made at its acceptance, then of those made since. At
// most eventSlice come at a time; a shorter slice is the last.
func refsOf(c *conn, event int64, after webhook.Ref) ([]webhook.Ref, error) {
	first, end, err := deliveriesOf(c, event)
	if err != nil {
		return nil, err
	}
	var refs []webhook.Ref
	for pos := max(first, int64(after)+1); pos < end && len(refs) < eventSlice; pos++ {
		refs = append(refs, webhook.Ref(pos))
	}
	err = c.query(`SELECT delivery FROM further WHERE event = ? AND delivery > ? ORDER BY delivery LIMIT ?`,
		[]any{event, int64(after), eventSlice - len(refs)}, func(s *sqlite3.Stmt) error {
			refs = append(refs, webhook.Ref(s.ColumnInt64(0)))
			return nil
		})
	return refs, err
}

// ofEvent is the condition that narrows selectDelivery to an event's deliveries,
// ending in AND. Those of the acceptance are read in their order; a set is only
// made where there are further ones.
func ofEvent(c *conn, event int64) (sql string, args []any, err error) {
	first, end, err := deliveriesOf(c, event)
	if err != nil {
		return "", nil, err
	}
	more, err := c.one(`SELECT 1 FROM further WHERE event = ? LIMIT 1`, []any{event}, func(*sqlite3.Stmt) {})
	if err != nil {
		return "", nil, err
	}
	if !more {
		return `d.pos >= ? AND d.pos < ? AND `, []any{first, end}, nil
	}
	return `d.pos IN (SELECT pos FROM delivery WHERE pos >= ? AND pos < ? UNION ALL SELECT delivery FROM further WHERE event = ?) AND `,
		[]any{first, end, event}, nil
}

// CancelEvent implements store.Events, a slice of its deliveries a commit.
func (d *DB) CancelEvent(ctx context.Context, tenant, event string, now time.Time) (canceled int, err error) {
	by := webhook.ActorOf(ctx)
	for after, more := webhook.Ref(0), true; more; {
		begins := after == 0
		n, last := 0, webhook.Ref(0)
		err := d.writer.do(ctx, func(t *tx) error {
			pos, err := d.findEvent(t.conn, tenant, event)
			if errors.Is(err, store.ErrNotFound) {
				return refuse(err)
			}
			if err != nil {
				return err
			}
			refs, err := refsOf(t.conn, pos, after)
			if err != nil {
				return err
			}
			if more = len(refs) == eventSlice; more {
				last = refs[len(refs)-1]
			}
			if n, err = t.cancel(tenant, refs, now); err != nil || !begins {
				return err
			}
			return t.audit(by, webhook.AuditEntry{At: now, Tenant: tenant, Action: "event.canceled", Kind: "event", Target: event})
		})
		if err != nil {
			return canceled, err
		}
		canceled, after = canceled+n, last
	}
	return canceled, nil
}

// cancel ends those of some deliveries that wait and returns how many those were.
// What has ended already without its row saying so is written as it is shown.
func (t *tx) cancel(tenant string, refs []webhook.Ref, now time.Time) (n int, err error) {
	v := t.db.view(t.conn)
	var ended []webhook.Ref
	for _, ref := range refs {
		one, err := v.one(int64(ref))
		if errors.Is(err, store.ErrNotFound) {
			continue // it is shown nowhere
		}
		if err != nil {
			return 0, err
		}
		if one.written {
			continue
		}
		if !one.Status.Final() {
			one.end(contract.StatusCanceled, webhook.Skip{Reason: webhook.WhyCanceled, At: now})
			n++
		}
		if err := t.writeEnd(&one); err != nil {
			return 0, err
		}
		ended = append(ended, ref)
	}
	if len(ended) > 0 {
		t.change(store.Change{Tenant: tenant, Canceled: ended})
	}
	return n, nil
}

// EraseEventData implements store.Events.
func (d *DB) EraseEventData(ctx context.Context, tenant, event string, now time.Time) error {
	var rest erased
	by := webhook.ActorOf(ctx)
	err := d.writer.do(ctx, func(t *tx) error {
		pos, err := d.findEvent(t.conn, tenant, event)
		if errors.Is(err, store.ErrNotFound) {
			return refuse(err)
		}
		if err != nil {
			return err
		}
		if rest, err = t.erase(tenant, pos); err != nil {
			return err
		}
		return t.audit(by, webhook.AuditEntry{At: now, Tenant: tenant, Action: "event.erased", Kind: "event", Target: event})
	})
	if err != nil {
		return err
	}
	return d.tellErased(ctx, rest)
}

// erased is an event whose payload is gone, of which lanes know up to a delivery;
// after is 0 when they know all.
type erased struct {
	tenant string
	event  int64
	after  webhook.Ref
}

// erase deletes an event's payload and tells of the first slice of its deliveries;
// the caller has tellErased do the rest. The bytes are overwritten where they lie:
// pages that are merely freed would keep them.
func (t *tx) erase(tenant string, event int64) (erased, error) {
	if err := t.exec(`UPDATE event SET data = zeroblob(length(data)), erased = 1 WHERE pos = ?`, event); err != nil {
		return erased{}, err
	}
	return t.tellErased(erased{tenant: tenant, event: event})
}

// tellErased tells of the next slice and returns what is left.
func (t *tx) tellErased(e erased) (erased, error) {
	refs, err := refsOf(t.conn, e.event, e.after)
	if err != nil {
		return e, err
	}
	if len(refs) > 0 {
		t.change(store.Change{Tenant: e.tenant, Erased: refs})
	}
	e.after = 0
	if len(refs) == eventSlice {
		e.after = refs[len(refs)-1]
	}
	return e, nil
}

// tellErased tells of what is left of an erased event, a slice at a time, so that
// no lane sends its payload afterwards. It does not stop with the caller: the
// payload is gone.
func (d *DB) tellErased(ctx context.Context, e erased) error {
	for e.after != 0 {
		var left erased
		err := d.writer.do(context.WithoutCancel(ctx), func(t *tx) (err error) {
			left, err = t.tellErased(e)
			return err
		})
		if err != nil {
			return err
		}
		e = left
	}
	return nil
}
