package sqlite

import (
	"cmp"
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
	if !matched(p, tenant.rev) {
		return store.AcceptResult{}, store.ErrStale
	}
	return t.insertEvent(p, tenant.num, key)
}

// matched tells whether an event was matched with the present revision of its
// tenant's subscriptions, and has it matched anew where it was not (N2).
func matched(p *store.AcceptParams, rev int64) bool {
	if rev != p.Revision && p.Rematch != nil {
		m := p.Rematch()
		p.Revision, p.Targets, p.Keys = m.Revision, m.Targets, m.Keys
	}
	return rev == p.Revision
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
	e, err := t.newEvent(p, tenant)
	if err != nil {
		return store.AcceptResult{}, err
	}
	if err := t.writeEvent(p, &e); err != nil {
		return store.AcceptResult{}, err
	}
	if key != nil {
		r := t.hot(hotInsertEventKey)
		r.blob(key)
		r.int(e.pos)
		r.blob(p.Fingerprint[:])
		if err := r.exec(); err != nil {
			return store.AcceptResult{}, err
		}
	}
	r := store.AcceptResult{ID: e.id, Deliveries: len(p.Targets), Fresh: make([]store.Work, 0, len(p.Targets))}
	for i := range p.Targets {
		n, err := t.insertDelivery(p, i, &e)
		if err != nil {
			return store.AcceptResult{}, err
		}
		if !n.skipped && !store.IsParked(n.due) {
			r.Fresh = append(r.Fresh, t.freshWork(p, &p.Targets[i], &e, &n))
		}
	}
	return r, nil
}

// newEvent gives an event its position and finds what its rows need.
func (t *tx) newEvent(p *store.AcceptParams, tenant int64) (newEvent, error) {
	e := newEvent{
		tenant: tenant, id: p.ID, trigger: cmp.Or(p.Trigger, contract.TriggerEvent), due: p.DueAt(), ahead: p.DeliverAt.After(p.Now),
		flags: flagIf(p.ByPerson, flagByPerson) | flagIf(p.Unlogged, flagUnlogged),
	}
	var err error
	if e.kind, err = t.word(p.Type); err != nil {
		return e, err
	}
	if p.Run != "" {
		if e.run, e.counts, err = t.runOf(p.Run); err != nil {
			return e, err
		}
	}
	t.eventPos++
	e.pos = t.eventPos
	if e.id == "" {
		e.id = t.db.ids.Encode(webhook.PrefixEvent, p.Now, e.pos)
	}
	return e, nil
}

// runOf finds the run that an event tells of.
func (t *tx) runOf(id string) (num int64, counts []byte, err error) {
	if num, err = t.db.ids.Decode(webhook.PrefixRun, id); err != nil {
		return 0, nil, store.ErrNotFound
	}
	n, err := t.db.runName(t.conn, num)
	return num, n.counts, err
}

func (t *tx) writeEvent(p *store.AcceptParams, e *newEvent) error {
	r := t.hot(hotInsertEvent)
	r.int(e.pos)
	r.int(e.tenant)
	r.int(e.kind)
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
	r.pos(e.run)
	return r.exec()
}

// newRow is a delivery to be written.
type newRow struct {
	pos, event, tenant   int64
	endpoint             webhook.EndpointKey
	kind, promise, flags int64
	trigger              contract.Trigger
	due                  time.Time
	key                  string // of its line; "" for none
	skipped              bool   // it is written as ended
	at                   time.Time
}

// insertRow writes a delivery, and unless it has ended already, into its lane.
func (t *tx) insertRow(n *newRow) error {
	status, why := contract.StatusPending, webhook.WhyNone
	next, finished := n.due, time.Time{}
	if n.skipped {
		status, why = contract.StatusSkipped, webhook.WhySwitchedOff
		next, finished = time.Time{}, n.at
	}
	r := t.hot(hotInsertDelivery)
	r.int(n.pos)
	r.int(n.event)
	r.int(n.tenant)
	r.int(int64(n.endpoint))
	r.int(n.kind)
	r.int(n.promise)
	r.int(triggers.num(n.trigger))
	r.int(statuses.num(status))
	r.int(reasons.num(why))
	r.at(next)
	r.int(n.at.UnixMilli())
	r.at(finished)
	r.int(n.flags)
	r.text(n.key)
	if err := r.exec(); err != nil || n.skipped {
		return err
	}
	return t.wait(n.endpoint, n.due, n.pos)
}

// joinNew gives a delivery that is about to be written its place in line.
func (t *tx) joinNew(n *newRow) error {
	head, err := t.join(n.endpoint, n.key, n.pos)
	n.flags |= flagLine
	if !head {
		n.due = store.ParkedDue()
	}
	return err
}

// insertDelivery writes the delivery for p's target i.
func (t *tx) insertDelivery(p *store.AcceptParams, i int, e *newEvent) (newRow, error) {
	target := &p.Targets[i]
	promise, err := t.promise(target.Contract, target.ContractRevision)
	if err != nil {
		return newRow{}, err
	}
	t.deliveryPos++
	n := newRow{
		pos: t.deliveryPos, event: e.pos, tenant: e.tenant, endpoint: target.Endpoint, kind: e.kind, promise: promise,
		trigger: e.trigger, flags: e.flags, due: e.due, skipped: target.Skip, at: p.Now,
	}
	if target.DegradedUntil.After(p.Now) {
		n.flags |= flagDegraded
	}
	if p.ByPerson && !e.ahead {
		n.due = store.PersonDue(webhook.Ref(n.pos))
	}
	// What a person asked for passes the line of its key.
	if p.Keys != nil && !target.Skip && !p.ByPerson && e.trigger != contract.TriggerTest {
		n.key = p.Keys[i]
	}
	switch {
	case n.key == "":
	case e.ahead:
		n.flags |= flagJoins
	default:
		if err := t.joinNew(&n); err != nil {
			return n, err
		}
	}
	return n, t.insertRow(&n)
}

// newEvent is what an event's deliveries have in common.
type newEvent struct {
	pos, tenant, kind int64
	id                string
	trigger           contract.Trigger
	flags             int64
	due               time.Time
	ahead             bool // its deliver_at lies ahead
	run               int64
	counts            []byte // of the run
}

// freshWork is the work of a delivery just written.
func (t *tx) freshWork(p *store.AcceptParams, target *store.Target, e *newEvent, n *newRow) store.Work {
	created := p.CreatedAt
	if created.IsZero() {
		created = p.Now
	}
	return store.Work{
		Ref: webhook.Ref(n.pos), Endpoint: n.endpoint, Tenant: p.Tenant,
		DeliveryID: t.db.ids.Encode(webhook.PrefixDelivery, p.Now, n.pos), EventID: e.id,
		Type: p.Type, CreatedAt: created, Data: p.Data, DataSize: len(p.Data),
		Contract: target.Contract, ContractRevision: target.ContractRevision,
		Trigger: n.trigger, Round: 1, Due: time.UnixMilli(n.due.UnixMilli()).UTC(), ExpiresAt: p.ExpiresAt,
		Seat: webhook.Ref(n.pos), Degraded: n.flags&flagDegraded != 0, ByPerson: n.flags&flagByPerson != 0,
		Key: n.key, Joins: n.flags&flagJoins != 0, Run: p.Run, RunCounts: e.counts,
	}
}

// wait puts a delivery into its lane.
func (t *tx) wait(endpoint webhook.EndpointKey, due time.Time, pos int64) error {
	return t.place(hotInsertWaiting, endpoint, due.UnixMilli(), pos)
}

// leave takes a delivery out of its lane.
func (t *tx) leave(endpoint webhook.EndpointKey, due, pos int64) error {
	return t.place(hotDeleteWaiting, endpoint, due, pos)
}

func (t *tx) place(h hot, endpoint webhook.EndpointKey, due, pos int64) error {
	r := t.hot(h)
	r.int(int64(endpoint))
	r.int(due)
	r.int(pos)
	return r.exec()
}
