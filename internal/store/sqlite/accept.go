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

// Accept implements store.Acceptor.
func (d *DB) Accept(ctx context.Context, events []store.AcceptParams) ([]store.AcceptResult, error) {
	var weight op
	for i := range events {
		weight.rows += 1 + len(events[i].Targets)
		weight.bytes += len(events[i].Data)
	}
	results := make([]store.AcceptResult, len(events))
	err := d.writer.doWeighted(ctx, weight, func(t *tx) error {
		for i := range events {
			r, err := t.accept(&events[i])
			if err != nil && !own(err) {
				return err
			}
			r.Err = err
			results[i] = r
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// own tells whether err is an event's own result rather than the commit's.
func own(err error) bool {
	var conflict *store.ConflictError
	return errors.Is(err, store.ErrStale) || errors.Is(err, store.ErrExpired) || errors.Is(err, store.ErrNotFound) || errors.As(err, &conflict)
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
	if !p.ExpiresAt.IsZero() && !p.ExpiresAt.After(p.Now) {
		return store.AcceptResult{}, store.ErrExpired
	}
	if tenant.rev != p.Revision && p.Rematch != nil {
		m := p.Rematch()
		p.Revision, p.Targets, p.Keys = m.Revision, m.Targets, m.Keys
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
		r := t.hot(hotInsertEventKey)
		r.blob(key)
		r.int(pos)
		r.blob(p.Fingerprint[:])
		if err := r.exec(); err != nil {
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
	r := t.hot(hotInsertEvent)
	r.int(pos)
	r.int(tenant)
	r.int(kind)
	r.text(p.ID)
	r.int(p.Now.UnixMilli())
	r.at(p.CreatedAt)
	r.at(p.DeliverAt)
	r.at(p.ExpiresAt)
	r.text(p.OrderingKey)
	r.int(t.deliveryPos + 1)
	r.int(int64(len(p.Targets)))
	r.int(int64(len(p.Data)))
	r.blob(p.Data)
	return r.exec()
}

func (t *tx) insertDelivery(p *store.AcceptParams, target store.Target, event, tenant, kind int64, eventID string, w *store.Work) error {
	promise, err := t.promise(target.Contract, target.ContractRevision)
	if err != nil {
		return err
	}
	t.deliveryPos++
	pos := t.deliveryPos
	due := p.DueAt()
	r := t.hot(hotInsertDelivery)
	r.int(pos)
	r.int(event)
	r.int(tenant)
	r.int(int64(target.Endpoint))
	r.int(kind)
	r.int(promise)
	r.int(triggers.num(contract.TriggerEvent))
	r.int(due.UnixMilli())
	r.int(p.Now.UnixMilli())
	if err := r.exec(); err != nil {
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
	return t.lane(hotInsertWaiting, endpoint, due.UnixMilli(), pos)
}

// leave takes a delivery out of its lane.
func (t *tx) leave(endpoint webhook.EndpointKey, due, pos int64) error {
	return t.lane(hotDeleteWaiting, endpoint, due, pos)
}

func (t *tx) lane(h hot, endpoint webhook.EndpointKey, due, pos int64) error {
	r := t.hot(h)
	r.int(int64(endpoint))
	r.int(due)
	r.int(pos)
	return r.exec()
}
