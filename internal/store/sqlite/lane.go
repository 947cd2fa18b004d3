package sqlite

import (
	"context"
	"fmt"

	"github.com/ncruces/go-sqlite3"

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
	d.next_at, e.expires_at`

// ReadWindow implements store.Lanes.
func (d *DB) ReadWindow(ctx context.Context, p store.WindowParams) (store.Window, error) {
	var w store.Window
	err := d.readLane(ctx, func(c *conn) error {
		w = store.Window{}
		promises := promiseReader{c: c}
		bytes := p.Bytes
		now := p.Now.UnixMilli()
		err := c.query(`SELECT `+workColumns+` FROM waiting w JOIN delivery d ON d.pos = w.pos JOIN event e ON e.pos = d.event
			WHERE w.endpoint = ? AND w.due <= ? ORDER BY w.due, w.pos LIMIT ?`, []any{int64(p.Endpoint), now, p.Limit},
			func(s *sqlite3.Stmt) error {
				work, err := d.sendable(s, &promises)
				w.Work = append(w.Work, work)
				return err
			})
		if err != nil {
			return fmt.Errorf("reading a window: %w", err)
		}
		for i := range w.Work {
			size := w.Work[i].DataSize
			if w.Work[i].Erased || size > p.MaxData || size > bytes {
				continue
			}
			bytes -= size
			if w.Work[i].Data, err = readData(c, w.Work[i].Ref); err != nil {
				return err
			}
		}
		if w.Complete = len(w.Work) < p.Limit; !w.Complete {
			return nil
		}
		_, err = c.one(`SELECT due FROM waiting WHERE endpoint = ? AND due > ? ORDER BY due LIMIT 1`, []any{int64(p.Endpoint), now},
			func(s *sqlite3.Stmt) { w.NextDue = colTime(s, 0) })
		return err
	})
	return w, err
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
func (d *DB) sendable(s *sqlite3.Stmt, promises *promiseReader) (store.Work, error) {
	pos := s.ColumnInt64(0)
	w := store.Work{
		Ref: webhook.Ref(pos), Endpoint: webhook.EndpointKey(s.ColumnInt64(1)), Tenant: s.ColumnText(2),
		DeliveryID: d.ids.Encode(webhook.PrefixDelivery, colTime(s, 3), pos),
		EventID:    s.ColumnText(5), CreatedAt: colTime(s, 7), Type: s.ColumnText(8), DataSize: s.ColumnInt(9), Erased: colBool(s, 10),
		Trigger: triggers.word(s.ColumnInt64(12)), Round: s.ColumnInt(13), Attempts: s.ColumnInt(14), Rows: s.ColumnInt(15),
		Interrupted: s.ColumnInt(16), Due: colTime(s, 17), ExpiresAt: colTime(s, 18),
	}
	accepted := colTime(s, 6)
	if w.EventID == "" {
		w.EventID = d.ids.Encode(webhook.PrefixEvent, accepted, s.ColumnInt64(4))
	}
	if w.CreatedAt.IsZero() {
		w.CreatedAt = accepted
	}
	var err error
	w.Contract, w.ContractRevision, err = promises.read(s.ColumnInt64(11))
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
		promises := promiseReader{c: c}
		return c.query(`SELECT `+workColumns+`, r.round, r.attempts, r.try, r.at FROM running r
			JOIN delivery d ON d.pos = r.delivery JOIN event e ON e.pos = d.event ORDER BY r.delivery`, nil,
			func(s *sqlite3.Stmt) error {
				w, err := d.sendable(s, &promises)
				marked = append(marked, store.Marked{Work: w, Mark: store.Mark{
					Ref: w.Ref, Round: s.ColumnInt(19), Attempts: s.ColumnInt(20), Try: s.ColumnInt(21), At: colTime(s, 22),
				}})
				return err
			})
	})
	return marked, err
}
