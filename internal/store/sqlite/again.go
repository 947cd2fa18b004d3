package sqlite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// SendAgain implements store.Deliveries. There is a result for each ID that was
// given; one given twice is sent once.
func (d *DB) SendAgain(ctx context.Context, p store.SendAgainParams) ([]store.SentAgain, error) {
	var results []store.SentAgain
	by := webhook.ActorOf(ctx)
	err := d.writer.doWeighted(ctx, op{rows: 1 + 4*len(p.IDs), forced: true}, func(t *tx) error {
		ids := p.IDs
		if p.Event != "" {
			id, err := d.newestFinished(t.conn, &p)
			if errors.Is(err, store.ErrNotFound) {
				return refuse(err)
			}
			if err != nil {
				return err
			}
			ids = []string{id}
		}
		results = make([]store.SentAgain, len(ids))
		plans, refused, err := t.plan(&p, ids, results)
		if err != nil || refused {
			return err
		}
		if err := t.sendPlans(plans, ids, results, p.Now, p.Ready); err != nil {
			return err
		}
		return t.auditSent(by, plans, p.Now)
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// plan is a delivery that is sent again, and how.
type plan struct {
	shown
	again store.Again
}

// plan asks how each delivery is sent again, each once. refused tells that one
// can't be; results say which and why.
func (t *tx) plan(p *store.SendAgainParams, ids []string, results []store.SentAgain) (plans map[string]plan, refused bool, err error) {
	plans = map[string]plan{}
	v := t.db.view(t.conn)
	endpoints := map[webhook.EndpointKey]*webhook.Endpoint{}
	for i, id := range ids {
		if _, known := plans[id]; known {
			continue
		}
		pos, err := t.db.findDelivery(t.conn, p.Tenant, id)
		if errors.Is(err, store.ErrNotFound) {
			results[i].Err, refused = err, true
			continue
		}
		if err != nil {
			return nil, false, err
		}
		one, err := v.one(pos)
		if err != nil {
			return nil, false, err
		}
		e, err := t.liveEndpoint(endpoints, one.endpoint)
		if err != nil {
			return nil, false, err
		}
		again, err := p.Decide(one.Delivery, e)
		if err == nil {
			err = maySend(&one, e)
		}
		if err != nil {
			results[i].Err, refused = err, true
			continue
		}
		plans[id] = plan{one, again}
	}
	return plans, refused, nil
}

// liveEndpoint reads an endpoint once; nil for a deleted one.
func (t *tx) liveEndpoint(known map[webhook.EndpointKey]*webhook.Endpoint, key webhook.EndpointKey) (*webhook.Endpoint, error) {
	if e, ok := known[key]; ok {
		return e, nil
	}
	e, err := t.endpointByKey(key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	known[key] = e
	return e, nil
}

// errUnfinished tells of a decision that would break a rule of the store's.
var errUnfinished = errors.New("the delivery has not ended")

// maySend guards what no decision may do: send what has not ended, or to an
// endpoint that is gone.
func maySend(one *shown, e *webhook.Endpoint) error {
	switch {
	case e == nil:
		return store.ErrNotFound
	case !one.Status.Final():
		return fmt.Errorf("sending delivery %s again: %w", one.ID, errUnfinished)
	default:
		return nil
	}
}

// sendPlans carries plans out, in the order of ids, and tells lanes of them.
func (t *tx) sendPlans(plans map[string]plan, ids []string, results []store.SentAgain, now, ready time.Time) error {
	sent := map[string]string{}
	var work []store.Work
	for i, id := range ids {
		if _, done := sent[id]; !done {
			p := plans[id]
			w, err := t.sendAgain(&p, now, ready)
			if err != nil {
				return err
			}
			sent[id] = w.DeliveryID
			work = append(work, w)
		}
		results[i].ID = sent[id]
	}
	t.handOverAll(work)
	return nil
}

// auditSent notes who sent which deliveries again.
func (t *tx) auditSent(by webhook.Actor, plans map[string]plan, now time.Time) error {
	for _, id := range slices.Sorted(maps.Keys(plans)) {
		p := plans[id]
		after, err := told(map[string]any{"trigger": p.again.Terms.Trigger, "new": p.again.New})
		if err != nil {
			return err
		}
		e := webhook.AuditEntry{At: now, Tenant: p.Tenant, Action: "delivery.sent_again", Kind: "delivery", Target: id, After: after}
		if err := t.audit(by, e); err != nil {
			return err
		}
	}
	return nil
}

// sendAgain begins another round of a delivery, or makes a new one of its event.
func (t *tx) sendAgain(p *plan, now, ready time.Time) (store.Work, error) {
	if !p.written {
		if err := t.writeEnd(&p.shown); err != nil {
			return store.Work{}, err
		}
	}
	if !p.again.New {
		return t.renew(p.Ref, p.again.Terms, p.again.ByPerson, ready)
	}
	return t.insertFurther(further{
		event: p.event, endpoint: p.endpoint, contract: p.again.Contract, revision: p.again.ContractRevision,
		terms: p.again.Terms, byPerson: p.again.ByPerson, due: ready, key: p.again.Key,
		replaces: p.Ref, markOld: p.again.MarkOld, now: now,
	})
}

// writeEnd writes what a mark says of a delivery into its row, ahead of the
// janitor: what begins behind it must not be taken for what the mark ended.
func (t *tx) writeEnd(one *shown) error {
	_, err := t.end(one.Ref, one.Status, one.mark.Reason, one.mark.At)
	return err
}

// handOverAll tells lanes of what was sent again. What stands in line behind others
// is told of when its turn comes.
func (t *tx) handOverAll(work []store.Work) {
	byTenant := map[string][]store.Work{}
	var tenants []string
	for _, w := range work {
		if store.IsParked(w.Due) {
			continue
		}
		if byTenant[w.Tenant] == nil {
			tenants = append(tenants, w.Tenant)
		}
		byTenant[w.Tenant] = append(byTenant[w.Tenant], w)
	}
	for _, tenant := range tenants {
		t.change(store.Change{Tenant: tenant, Accepted: byTenant[tenant]})
	}
}

// newestFinished returns the ID of the newest delivery of an event at an endpoint
// that has ended (E11), tests excepted.
func (d *DB) newestFinished(c *conn, p *store.SendAgainParams) (string, error) {
	pos, err := d.findEvent(c, p.Tenant, p.Event)
	if err != nil {
		return "", err
	}
	e, err := d.endpointByID(c, p.Tenant, p.Endpoint)
	if err != nil {
		return "", err
	}
	part, args, err := ofEvent(c, pos)
	if err != nil {
		return "", err
	}
	v, id := d.view(c), ""
	found := errors.New("found")
	err = c.query(selectDelivery+part+`d.endpoint = ? ORDER BY d.pos DESC`, append(args, int64(e.Key)), func(s *sqlite3.Stmt) error {
		one, err := v.read(s)
		if err != nil || !one.Status.Final() || one.Trigger == contract.TriggerTest {
			return err
		}
		id = one.ID
		return found
	})
	if err == nil && id == "" {
		err = store.ErrNotFound
	}
	if errors.Is(err, found) {
		err = nil
	}
	return id, err
}
