package sqlite

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

const (
	sqlInsertEvent = `INSERT INTO event (pos, tenant, type, id, accepted_at, created_at, deliver_at, expires_at,
		ordering_key, first_delivery, deliveries, erased, size, data) VALUES (?,?,?,?,?,?,?,?,?,?,?,0,?,?)`
	sqlInsertDelivery = `INSERT INTO delivery (pos, event, tenant, endpoint, type, promise, trigger, status, reason, kind,
		round, attempts, rows, interrupted, status_code, duration, next_at, created_at)
		VALUES (?,?,?,?,?,?,?,0,0,0,1,0,0,0,0,0,?,?)`
	sqlInsertWaiting = `INSERT INTO waiting (endpoint, due, pos) VALUES (?,?,?)`
	sqlDeleteWaiting = `DELETE FROM waiting WHERE endpoint = ? AND due = ? AND pos = ?`
)

// Accept implements store.Acceptor.
func (d *DB) Accept(ctx context.Context, events []store.AcceptParams) ([]store.AcceptResult, error) {
	results := make([]store.AcceptResult, len(events))
	o := op{run: func(t *tx) error {
		for i := range events {
			r, err := t.accept(&events[i])
			if err != nil && !own(err) {
				return err
			}
			r.Err = err
			results[i] = r
		}
		return nil
	}}
	for i := range events {
		o.rows += 1 + len(events[i].Targets)
		o.bytes += len(events[i].Data)
	}
	if err := d.writer.doWeighted(ctx, o); err != nil {
		return nil, err
	}
	return results, nil
}

// own tells whether err is an event's own result rather than the commit's.
func own(err error) bool {
	var conflict *store.ConflictError
	return errors.Is(err, store.ErrStale) || errors.Is(err, store.ErrNotFound) || errors.As(err, &conflict)
}

// accept takes one event in. An error that is its own comes before any change.
func (t *tx) accept(p *store.AcceptParams) (store.AcceptResult, error) {
	tenant, err := t.tenant(p.Tenant)
	if err != nil {
		return store.AcceptResult{}, err
	}
	var key []byte
	if p.ID != "" {
		key = eventKey(tenant.num, p.ID)
		r, known, err := t.repeat(p, key)
		if known || err != nil {
			return r, err
		}
	}
	if tenant.rev != p.Revision {
		return store.AcceptResult{}, store.ErrStale
	}
	return t.insertEvent(p, tenant.num, key)
}

// repeat answers for an ID that was accepted before (N3).
func (t *tx) repeat(p *store.AcceptParams, key []byte) (r store.AcceptResult, known bool, err error) {
	var event int64
	same := false
	known, err = t.one(`SELECT event, fingerprint FROM event_key WHERE hash = ?`, []any{key}, func(s *sqlite3.Stmt) {
		event = s.ColumnInt64(0)
		same = subtle.ConstantTimeCompare(s.ColumnRawBlob(1), p.Fingerprint[:]) == 1
	})
	if err != nil || !known {
		return r, false, err
	}
	var acceptedAt time.Time
	_, err = t.one(`SELECT accepted_at, deliveries FROM event WHERE pos = ?`, []any{event}, func(s *sqlite3.Stmt) {
		acceptedAt, r.Deliveries = colTime(s, 0), s.ColumnInt(1)
	})
	if err != nil {
		return r, true, err
	}
	if !same {
		return store.AcceptResult{}, true, &store.ConflictError{FirstAcceptedAt: acceptedAt}
	}
	r.ID, r.Replayed = p.ID, true
	return r, true, nil
}

// eventKey is what a caller's ID is remembered by.
func eventKey(tenant int64, id string) []byte {
	text := make([]byte, 8, 8+len(id))
	binary.BigEndian.PutUint64(text, uint64(tenant))
	sum := sha256.Sum256(append(text, id...))
	return sum[:16]
}

// insertEvent writes an event and its deliveries.
func (t *tx) insertEvent(p *store.AcceptParams, tenant int64, key []byte) (store.AcceptResult, error) {
	kind, err := t.word(p.Type)
	if err != nil {
		return store.AcceptResult{}, err
	}
	t.eventPos++
	pos := t.eventPos
	if err := t.writeEvent(p, pos, tenant, kind); err != nil {
		return store.AcceptResult{}, err
	}
	if key != nil {
		err := t.exec(`INSERT INTO event_key (hash, event, fingerprint) VALUES (?,?,?)`, key, pos, p.Fingerprint[:])
		if err != nil {
			return store.AcceptResult{}, err
		}
	}
	r := store.AcceptResult{ID: p.ID, Deliveries: len(p.Targets)}
	if r.ID == "" {
		r.ID = t.db.ids.Encode(webhook.PrefixEvent, p.Now, pos)
	}
	r.Fresh = make([]store.Work, len(p.Targets))
	for i, target := range p.Targets {
		if err := t.insertDelivery(p, target, pos, tenant, kind, r.ID, &r.Fresh[i]); err != nil {
			return store.AcceptResult{}, err
		}
	}
	return r, nil
}

func (t *tx) writeEvent(p *store.AcceptParams, pos, tenant, kind int64) error {
	s, err := t.prepare(sqlInsertEvent)
	if err != nil {
		return err
	}
	err = errors.Join(
		s.BindInt64(1, pos), s.BindInt64(2, tenant), s.BindInt64(3, kind), bind(s, 4, text(p.ID)),
		s.BindInt64(5, p.Now.UnixMilli()), bind(s, 6, p.CreatedAt), bind(s, 7, p.DeliverAt), bind(s, 8, p.ExpiresAt),
		bind(s, 9, text(p.OrderingKey)), s.BindInt64(10, t.deliveryPos+1), s.BindInt(11, len(p.Targets)),
		s.BindInt(12, len(p.Data)), s.BindBlob(13, p.Data))
	if err != nil {
		return err
	}
	return s.Exec()
}

func (t *tx) insertDelivery(p *store.AcceptParams, target store.Target, event, tenant, kind int64, eventID string, w *store.Work) error {
	promise, err := t.promise(target.Contract, target.ContractRevision)
	if err != nil {
		return err
	}
	t.deliveryPos++
	pos := t.deliveryPos
	due := p.DueAt()
	s, err := t.prepare(sqlInsertDelivery)
	if err != nil {
		return err
	}
	err = errors.Join(
		s.BindInt64(1, pos), s.BindInt64(2, event), s.BindInt64(3, tenant), s.BindInt64(4, int64(target.Endpoint)),
		s.BindInt64(5, kind), s.BindInt64(6, promise), s.BindInt64(7, triggers().num(contract.TriggerEvent)),
		s.BindInt64(8, due.UnixMilli()), s.BindInt64(9, p.Now.UnixMilli()))
	if err != nil {
		return err
	}
	if err := s.Exec(); err != nil {
		return err
	}
	if err := t.wait(target.Endpoint, due, pos); err != nil {
		return err
	}
	created := p.CreatedAt
	if created.IsZero() {
		created = p.Now
	}
	*w = store.Work{
		Ref: webhook.Ref(pos), Endpoint: target.Endpoint, Tenant: p.Tenant,
		DeliveryID: t.db.ids.Encode(webhook.PrefixDelivery, p.Now, pos), EventID: eventID,
		Type: p.Type, CreatedAt: created, Data: p.Data, DataSize: len(p.Data),
		Contract: target.Contract, ContractRevision: target.ContractRevision,
		Trigger: contract.TriggerEvent, Round: 1, Due: time.UnixMilli(due.UnixMilli()).UTC(), ExpiresAt: p.ExpiresAt,
	}
	return nil
}

// wait puts a delivery into its lane.
func (t *tx) wait(endpoint webhook.EndpointKey, due time.Time, pos int64) error {
	return t.lane(sqlInsertWaiting, endpoint, due.UnixMilli(), pos)
}

// leave takes a delivery out of its lane.
func (t *tx) leave(endpoint webhook.EndpointKey, due, pos int64) error {
	return t.lane(sqlDeleteWaiting, endpoint, due, pos)
}

func (t *tx) lane(sql string, endpoint webhook.EndpointKey, due, pos int64) error {
	s, err := t.prepare(sql)
	if err != nil {
		return err
	}
	if err := errors.Join(s.BindInt64(1, int64(endpoint)), s.BindInt64(2, due), s.BindInt64(3, pos)); err != nil {
		return err
	}
	return s.Exec()
}
