package sqlite

import (
	"errors"
	"slices"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// view shows deliveries as they are now, within one read: what holds for a whole
// lane (its state, marks, gates) is written into none of its rows (N16, N17) and
// is put in here. Only unfinished ones need that.
type view struct {
	d        *DB
	c        *conn
	now      time.Time
	promises promiseReader
	skips    map[webhook.EndpointKey][]webhook.Skip
	probes   map[string]probe
	heads    map[laneGate]webhook.Ref
}

// probe is the delivery that a closed gate lets through, 0 where that one can't go
// any more; closed is false for an open gate.
type probe struct {
	closed bool
	ref    webhook.Ref
}

// laneGate is a gate as it stands before one of its lanes.
type laneGate struct {
	endpoint webhook.EndpointKey
	gate     string
}

func (d *DB) view(c *conn) *view {
	return &view{
		d: d, c: c, now: d.cfg.DueNow(), promises: promiseReader{c: c}, skips: map[webhook.EndpointKey][]webhook.Skip{}, probes: map[string]probe{},
		heads: map[laneGate]webhook.Ref{},
	}
}

// shown is a delivery as it is now.
type shown struct {
	*webhook.Delivery
	endpoint webhook.EndpointKey
	event    int64
	// listed is the status as its contract shows it (P6); Delivery has the
	// engine's.
	listed contract.Status
	// mark is what has ended the delivery although its row does not say so yet; its
	// Reason is WhyNone without one.
	mark webhook.Skip
	// written tells that the row says itself that the delivery has ended.
	written bool
}

// one shows the delivery at a position; ErrNotFound where none is shown.
func (v *view) one(pos int64) (r shown, err error) {
	err = v.c.query(selectDelivery+`d.pos = ?`, []any{pos}, func(s *sqlite3.Stmt) (err error) {
		r, err = v.read(s)
		return err
	})
	if err == nil && r.Delivery == nil {
		err = store.ErrNotFound
	}
	return r, err
}

// read shows a row of selectDelivery.
func (v *view) read(s *sqlite3.Stmt) (shown, error) {
	d := v.d
	pos, flags := s.ColumnInt64(0), s.ColumnInt64(5)
	r := shown{endpoint: webhook.EndpointKey(s.ColumnInt64(9)), event: s.ColumnInt64(7), Delivery: &webhook.Delivery{
		Ref: webhook.Ref(pos), Status: statuses.word(s.ColumnInt64(1)), Reason: reasons.word(s.ColumnInt64(2)),
		FailureKind: kinds.word(s.ColumnInt64(10)), Trigger: triggers.word(s.ColumnInt64(11)), Round: s.ColumnInt(12),
		AttemptCount: s.ColumnInt(13), StatusCode: s.ColumnInt(14), Duration: time.Duration(s.ColumnInt64(15)) * time.Microsecond,
		CreatedAt: colTime(s, 17), FinishedAt: colTime(s, 18), OrderingKey: s.ColumnText(20), Event: s.ColumnText(23),
		ExpiresAt: colTime(s, 26), Endpoint: s.ColumnText(28), Tenant: s.ColumnText(29), Type: s.ColumnText(30),
		Degraded: flags&flagDegraded != 0, Once: flags&flagOnce != 0,
	}}
	r.ID = d.ids.Encode(webhook.PrefixDelivery, r.CreatedAt, pos)
	if r.Event == "" {
		r.Event = d.ids.Encode(webhook.PrefixEvent, colTime(s, 24), r.event)
	}
	if r.OrderingKey == "" {
		r.OrderingKey = s.ColumnText(25)
	}
	if run := s.ColumnInt64(27); run != 0 {
		r.Run = d.ids.Encode(webhook.PrefixRun, colTime(s, 36), run)
	}
	r.Replaces, r.ReplacedBy = v.deliveryID(s, 21, 34), v.deliveryID(s, 22, 35)
	var err error
	if r.Contract, r.ContractRevision, err = v.promises.read(s.ColumnInt64(19)); err != nil {
		return r, err
	}
	c := d.cfg.Contract(r.Contract, r.ContractRevision)
	r.WebhookID = r.Event
	if c != nil && c.WebhookID == contract.PerDelivery {
		r.WebhookID = r.ID
	}
	r.written = r.Status.Final()
	if !r.written {
		if err := v.derive(s, &r, c); err != nil {
			return r, err
		}
	}
	r.listed = r.Status
	if c != nil {
		r.listed = c.Shown(r.Status)
	}
	return r, nil
}

// deliveryID reads the ID of another delivery from the columns of its position
// and its time.
func (v *view) deliveryID(s *sqlite3.Stmt, pos, at int) string {
	if s.ColumnType(pos) == sqlite3.NULL || s.ColumnType(at) == sqlite3.NULL {
		return ""
	}
	return v.d.ids.Encode(webhook.PrefixDelivery, colTime(s, at), s.ColumnInt64(pos))
}

// derive puts in what holds for an unfinished delivery now. c is its promise, nil
// where it is unknown.
func (v *view) derive(s *sqlite3.Stmt, r *shown, c *contract.Contract) error {
	test := r.Trigger == contract.TriggerTest
	if !test {
		mark, found, err := v.skipped(r.endpoint, webhook.Ref(s.ColumnInt64(6)))
		if err != nil {
			return err
		}
		if found {
			r.end(contract.StatusSkipped, mark)
			return nil
		}
	}
	// Marks come first: all of them were made before the endpoint was deleted.
	if s.ColumnType(4) != sqlite3.NULL {
		r.end(contract.StatusCanceled, webhook.Skip{Reason: webhook.WhyEndpointDeleted, At: colTime(s, 4)})
		return nil
	}
	if r.Reason == webhook.WhyPaused || r.Reason == webhook.WhyDisabled {
		r.Reason = webhook.WhyNone // as it was when the row was written; below is what holds now
	}
	due := colTime(s, 16)
	switch {
	case store.IsParked(due):
	case store.IsSeat(due):
		r.NextAttemptAt = v.now
	default:
		r.NextAttemptAt = due
	}
	if s.ColumnType(31) != sqlite3.NULL {
		r.Status = contract.StatusSending
		return nil
	}
	if !test {
		switch endpointStates.word(s.ColumnInt64(3)) {
		case webhook.EndpointPaused:
			r.Reason = webhook.WhyPaused
			return nil
		case webhook.EndpointDisabled:
			r.Reason = webhook.WhyDisabled
			return nil
		case webhook.EndpointActive:
		}
	}
	switch {
	case store.IsParked(due):
		r.Reason = webhook.WhyOrdered
		return nil
	case due.After(v.now):
		if r.Reason == webhook.WhyNone {
			r.Reason = webhook.WhyScheduled
		}
		return nil
	}
	gated, err := v.gated(s, r, c)
	if gated {
		r.Reason, r.FailureKind = webhook.WhyGated, contract.KindEndpointUnavailable
	}
	return err
}

// end shows a delivery as ended by a mark, as the row will say once it is written.
func (r *shown) end(status contract.Status, mark webhook.Skip) {
	r.Status, r.Reason, r.FinishedAt, r.mark = status, mark.Reason, mark.At, mark
}

// skipped finds the mark of an endpoint that covers a seat.
func (v *view) skipped(key webhook.EndpointKey, seat webhook.Ref) (webhook.Skip, bool, error) {
	marks, known := v.skips[key]
	if !known {
		var err error
		if marks, err = readSkips(v.c, key); err != nil {
			return webhook.Skip{}, false, err
		}
		v.skips[key] = marks
	}
	mark, found := (&webhook.Endpoint{Skips: marks}).Skipped(seat)
	return mark, found, nil
}

// gated tells whether a closed gate holds back a delivery that is due (S5): all of
// its scope but the probe, and what a person asked for where that passes. Where the
// stored probe can't go any more, the dispatcher elects the oldest of the lanes'
// heads. That is not worked out here: of each lane of the scope the head is shown
// as free to go, which is exact for a scope of one endpoint.
func (v *view) gated(s *sqlite3.Stmt, r *shown, c *contract.Contract) (bool, error) {
	if !gates(c) || passesGate(c, r.Trigger, s.ColumnInt64(5)) {
		return false, nil
	}
	column := 33
	if c.Gate.Scope == string(webhook.GateURL) {
		column = 32
	}
	key := string(s.ColumnRawBlob(column))
	p, err := v.probe(key)
	if err != nil || !p.closed {
		return false, err
	}
	if p.ref == 0 {
		if p.ref, err = v.head(laneGate{endpoint: r.endpoint, gate: key}, c.Gate.Scope); err != nil {
			return false, err
		}
	}
	return p.ref != r.Ref, nil
}

// gates tells whether a contract has a gate.
func gates(c *contract.Contract) bool { return c != nil && (c.Gate.Any || len(c.Gate.On) > 0) }

// passesGate tells whether a closed gate does not concern a delivery.
func passesGate(c *contract.Contract, trigger contract.Trigger, flags int64) bool {
	return trigger == contract.TriggerTest || flags&flagByPerson != 0 && c.PassesGate(trigger)
}

// probe reads a gate.
func (v *view) probe(key string) (p probe, err error) {
	p, known := v.probes[key]
	if known {
		return p, nil
	}
	_, err = v.c.one(selectGate+` WHERE g.key = ?`, []any{[]byte(key)}, func(s *sqlite3.Stmt) {
		p.closed = true
		if endpointStates.word(s.ColumnInt64(4)) == webhook.EndpointActive {
			p.ref = webhook.Ref(s.ColumnInt64(2))
		}
	})
	if err == nil {
		v.probes[key] = p
	}
	return p, err
}

// headLook is how many of a lane's first deliveries are looked at for the one that
// a gate would let through.
const headLook = 100

// head finds the first delivery of a lane that is due and stands before a gate of
// that scope; 0 for none.
func (v *view) head(lane laneGate, scope string) (ref webhook.Ref, err error) {
	if ref, known := v.heads[lane]; known {
		return ref, nil
	}
	err = v.c.query(`SELECT d.pos, d.trigger, d.flags, d.promise, coalesce(d.seat, d.pos) FROM waiting w CROSS JOIN delivery d ON d.pos = w.pos
		WHERE w.endpoint = ? AND w.due <= ? ORDER BY w.due, w.pos LIMIT ?`, []any{int64(lane.endpoint), v.now, headLook}, func(s *sqlite3.Stmt) error {
		name, revision, err := v.promises.read(s.ColumnInt64(3))
		if err != nil {
			return err
		}
		flags := s.ColumnInt64(2)
		c := v.d.cfg.Contract(name, revision)
		if !gates(c) || c.Gate.Scope != scope || flags&flagJoins != 0 || passesGate(c, triggers.word(s.ColumnInt64(1)), flags) {
			return nil
		}
		if _, skipped, err := v.skipped(lane.endpoint, webhook.Ref(s.ColumnInt64(4))); err != nil || skipped {
			return err
		}
		ref = webhook.Ref(s.ColumnInt64(0))
		return errFull
	})
	if errors.Is(err, errFull) {
		err = nil
	}
	if err == nil {
		v.heads[lane] = ref
	}
	return ref, err
}

// takenBy applies the part of a filter that is judged by the delivery as shown.
func (r *shown) takenBy(f *store.DeliveryFilter) bool {
	return chosen(f.Statuses, r.listed) && chosen(f.FailureKinds, r.FailureKind) && chosen(f.Triggers, r.Trigger) &&
		chosen(f.Reasons, r.Reason) && (f.OrderingKey == "" || r.OrderingKey == f.OrderingKey)
}

// chosen tells whether v is among the alternatives; none choose all.
func chosen[T comparable](alternatives []T, v T) bool {
	return len(alternatives) == 0 || slices.Contains(alternatives, v)
}
