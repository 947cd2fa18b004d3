package sqlite

import (
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
}

// probe is the delivery that a closed gate lets through; closed is false for an
// open gate.
type probe struct {
	closed bool
	ref    webhook.Ref
}

func (d *DB) view(c *conn) *view {
	return &view{
		d: d, c: c, now: d.cfg.DueNow(), promises: promiseReader{c: c}, skips: map[webhook.EndpointKey][]webhook.Skip{}, probes: map[string]probe{},
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
	if s.ColumnType(4) != sqlite3.NULL {
		r.end(contract.StatusCanceled, webhook.Skip{Reason: webhook.WhyEndpointDeleted, At: colTime(s, 4)})
		return nil
	}
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
// its scope but the probe, and what a person asked for where that passes.
func (v *view) gated(s *sqlite3.Stmt, r *shown, c *contract.Contract) (bool, error) {
	if c == nil || !c.Gate.Any && len(c.Gate.On) == 0 {
		return false, nil
	}
	if r.Trigger == contract.TriggerTest || s.ColumnInt64(5)&flagByPerson != 0 && slices.Contains(c.Gate.PassedBy, r.Trigger) {
		return false, nil
	}
	column := 33
	if c.Gate.Scope == string(webhook.GateURL) {
		column = 32
	}
	key := string(s.ColumnRawBlob(column))
	p, known := v.probes[key]
	if !known {
		_, err := v.c.one(`SELECT probe FROM gate WHERE key = ?`, []any{[]byte(key)}, func(s *sqlite3.Stmt) {
			p = probe{closed: true, ref: webhook.Ref(s.ColumnInt64(0))}
		})
		if err != nil {
			return false, err
		}
		v.probes[key] = p
	}
	return p.closed && p.ref != r.Ref, nil
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
