package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

const (
	// replayMost bounds what one slice of a replay queues (N25), whatever is asked.
	replayMost = 50
	// replayBudget is how many rows are looked at for one slice, or to count one.
	replayBudget = 5000
	// missingBytes bounds the payloads that are read to match missing events in one
	// slice.
	missingBytes = 8 << 20
)

// StepReplay implements store.Replays. What it takes is looked for on a reading
// connection; the commit looks at each once more. A replay that was counted
// (p.Replay.Count, while it is stored as counting) runs from this step on.
func (d *DB) StepReplay(ctx context.Context, p store.StepParams) (store.StepResult, error) {
	var seen storedReplay
	var found choice
	err := d.read(ctx, func(c *conn) (err error) {
		if seen, err = d.findReplay(c, p.Replay.Tenant, p.Replay.ID); err != nil || !seen.Open() {
			return err
		}
		e, err := d.endpoint(c, selectEndpoint+` AND n.num = ?`, int64(seen.endpoint))
		if errors.Is(err, store.ErrNotFound) || err == nil && !e.On() {
			return nil // the commit says what that means
		}
		if err != nil {
			return err
		}
		found, err = d.choose(c, &p, &seen, e, replayBudget, min(max(p.Most, 1), replayMost))
		return err
	})
	if err != nil || !seen.Open() {
		return store.StepResult{Replay: seen.Replay}, err
	}
	var result store.StepResult
	err = d.writer.doWeighted(ctx, op{rows: 1 + 4*len(found.take), forced: true}, func(t *tx) (err error) {
		result, err = t.stepReplay(&p, &seen, &found)
		return err
	})
	return result, err
}

// stepReplay is a slice's commit. seen is the replay as found was chosen for it: if
// it has moved on since, nothing is done.
func (t *tx) stepReplay(p *store.StepParams, seen *storedReplay, found *choice) (store.StepResult, error) {
	r, err := t.presentReplay(p.Replay.Tenant, p.Replay.ID)
	if err != nil {
		return store.StepResult{}, err
	}
	if !r.Open() || r.at != seen.at {
		return store.StepResult{Replay: r.Replay}, nil
	}
	if r.State == webhook.ReplayCounting {
		r.Count = p.Replay.Count
	}
	e, err := t.endpointByKey(r.endpoint)
	switch {
	case errors.Is(err, store.ErrNotFound):
		r.State, r.FinishedAt = webhook.ReplayCanceled, p.Now
		return store.StepResult{Replay: r.Replay}, t.storeReplay(&r)
	case err != nil:
		return store.StepResult{}, err
	case !e.On():
		r.State = webhook.ReplayPaused
		return store.StepResult{Replay: r.Replay}, t.storeReplay(&r)
	}
	r.State = webhook.ReplayRunning
	if found.done {
		// Whether the end can be told of is asked before anything is changed.
		if _, err := t.prepareEnd(p, &r); err != nil {
			return store.StepResult{}, err
		}
	}
	before := r.Done
	if err := t.queueChosen(p, &r, e, found); err != nil {
		return store.StepResult{}, err
	}
	r.at = found.at
	if found.done {
		r.State, r.FinishedAt = webhook.ReplayDone, p.Now
	}
	if err := t.storeReplay(&r); err != nil {
		return store.StepResult{}, err
	}
	return store.StepResult{Replay: r.Replay, Queued: r.Done - before}, t.tellEnd(p, &r)
}

// prepareEnd prepares the event that a replay has finished, and refuses with
// ErrStale where it was matched with an old revision.
func (t *tx) prepareEnd(p *store.StepParams, r *storedReplay) ([]store.AcceptParams, error) {
	if p.Emit == nil {
		return nil, nil
	}
	ended := r.Replay
	ended.State, ended.FinishedAt = webhook.ReplayDone, p.Now
	emit := []store.AcceptParams{p.Emit(ended)}
	return emit, t.fresh(emit)
}

// tellEnd raises the event of a replay that has finished, with its last numbers.
func (t *tx) tellEnd(p *store.StepParams, r *storedReplay) error {
	if r.State != webhook.ReplayDone {
		return nil
	}
	emit, err := t.prepareEnd(p, r)
	if err != nil {
		// Not as a refusal: something was changed by now.
		return fmt.Errorf("telling of a replay's end: %s", err.Error())
	}
	return t.emit(emit)
}

// queueChosen queues what was chosen, as it is now.
func (t *tx) queueChosen(p *store.StepParams, r *storedReplay, e *webhook.Endpoint, found *choice) error {
	var work []store.Work
	v := t.db.view(t.conn)
	for _, pos := range found.take {
		var w store.Work
		var ok bool
		var err error
		if r.Selection.Events == webhook.EventsMissing {
			w, ok, err = t.sendMissing(p, r, e, pos)
		} else {
			w, ok, err = t.replayOne(p, v, r, e, pos)
		}
		if err != nil {
			return err
		}
		if !ok {
			r.Failed++
			continue
		}
		r.Done++
		work = append(work, w)
	}
	t.handOverAll(work)
	return nil
}

// replayOne sends a delivery again; ok is false when it is not to be had any more.
func (t *tx) replayOne(p *store.StepParams, v *view, r *storedReplay, e *webhook.Endpoint, pos int64) (w store.Work, ok bool, err error) {
	one, err := v.one(pos)
	if errors.Is(err, store.ErrNotFound) {
		return w, false, nil
	}
	if err != nil || !replayable(&one, &r.Selection) {
		return w, false, err
	}
	again, ok := p.Decide(one.Delivery, e)
	if !ok {
		return w, false, nil
	}
	w, err = t.sendAgain(&plan{one, again}, p.Now, p.Ready)
	if errors.Is(err, store.ErrNotFound) {
		return w, false, nil
	}
	return w, err == nil, err
}

// replayable tells whether a replay may take a delivery at all, and whether its
// selection does. Never: tests, what has not ended, what was replaced: the delivery
// that took its place stands for it (B91).
func replayable(one *shown, s *webhook.Selection) bool {
	if one.Trigger == contract.TriggerTest || !one.Status.Final() || one.ReplacedBy != "" {
		return false
	}
	switch {
	case len(s.Statuses) > 0:
		if !slices.Contains(s.Statuses, one.Status) {
			return false
		}
	case len(s.Runs) == 0 && one.Status != contract.StatusDead:
		return false
	}
	return chosen(s.Types, one.Type) && walk{span: store.Span{Since: s.Since, Until: s.Until}}.within(one.CreatedAt)
}

// sendMissing makes a delivery of an event that the endpoint never got.
func (t *tx) sendMissing(p *store.StepParams, r *storedReplay, e *webhook.Endpoint, pos int64) (w store.Work, ok bool, err error) {
	had, err := hasDelivery(t.conn, pos, r.endpoint)
	if err != nil || had {
		return w, false, err
	}
	event, err := t.db.wholeEvent(t.conn, pos)
	if err != nil || event == nil || event.Erased {
		return w, false, err
	}
	target, key, ok := p.Matches(event, e)
	if !ok {
		return w, false, nil
	}
	due := p.Ready
	if ahead := event.DeliverAt.Sub(p.Now); !event.DeliverAt.IsZero() && ahead > 0 {
		due = p.Ready.Add(ahead)
	}
	w, err = t.insertFurther(further{
		event: pos, endpoint: e.Key, contract: target.Contract, revision: target.ContractRevision, due: due, key: key, now: p.Now,
		terms: contract.Terms{Trigger: contract.TriggerReplay, Degraded: target.DegradedUntil.After(p.Now)},
	})
	return w, err == nil, err
}

// choice is what a slice of a replay takes.
type choice struct {
	// take are positions of deliveries, or of events for EventsMissing.
	take []int64
	// at is the position that was looked at last; done tells that it was the end.
	at   int64
	done bool
}

// errEnough ends a look through rows that has found enough.
var errEnough = errors.New("enough was found")

// choose looks from r.at on for what a replay takes, through most rows, until it
// has limit of them.
func (d *DB) choose(c *conn, p *store.StepParams, r *storedReplay, e *webhook.Endpoint, most, limit int) (choice, error) {
	found := choice{at: r.at}
	if found.at >= r.upto {
		found.done = true
		return found, nil
	}
	events, err := d.eventsOfRuns(c, r)
	if err != nil {
		return found, err
	}
	if r.Selection.Events == webhook.EventsMissing {
		err = d.chooseMissing(c, p, r, e, events, &found, most, limit)
	} else {
		err = d.chooseAttempted(c, p, r, e, events, &found, most, limit)
	}
	if errors.Is(err, errEnough) {
		return found, nil
	}
	if err == nil {
		found.at, found.done = r.upto, true
	}
	return found, err
}

// eventsOfRuns finds the events that a selection's runs name: of a run the one
// that told of it; a plain event is a run of one. nil for no narrowing.
func (d *DB) eventsOfRuns(c *conn, r *storedReplay) (events []int64, err error) {
	if len(r.Selection.Runs) == 0 {
		return nil, nil
	}
	events = []int64{}
	for _, id := range r.Selection.Runs {
		pos, err := d.eventOfRun(c, r.Tenant, id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		events = append(events, pos)
	}
	slices.Sort(events)
	return slices.Compact(events), nil
}

// chooseAttempted goes through the endpoint's deliveries by position, or through
// those of the named runs.
func (d *DB) chooseAttempted(c *conn, p *store.StepParams, r *storedReplay, e *webhook.Endpoint, events []int64, found *choice, most, limit int) error {
	v, seen := d.view(c), 0
	look := func(s *sqlite3.Stmt) error {
		if seen == most || len(found.take) == limit {
			return errEnough
		}
		seen++
		found.at = s.ColumnInt64(0)
		one, err := v.read(s)
		if err != nil || !replayable(&one, &r.Selection) {
			return err
		}
		if _, ok := p.Decide(one.Delivery, e); ok {
			found.take = append(found.take, found.at)
		}
		return nil
	}
	const between = `d.endpoint = ? AND d.pos > ? AND d.pos <= ? ORDER BY d.pos LIMIT ?`
	if events == nil {
		return c.query(selectDelivery+between, []any{int64(r.endpoint), r.at, r.upto, most + 1}, look)
	}
	refs, err := deliveriesAt(c, events, r)
	if err != nil {
		return err
	}
	for _, pos := range refs {
		if err := c.query(selectDelivery+`d.pos = ?`, []any{pos}, look); err != nil {
			return err
		}
	}
	return nil
}

// deliveriesAt are the deliveries of some events at a replay's endpoint that it has
// still before it, by position.
func deliveriesAt(c *conn, events []int64, r *storedReplay) (all []int64, err error) {
	for _, event := range events {
		first, end, err := deliveriesOf(c, event)
		if err != nil {
			return nil, err
		}
		err = c.query(`SELECT pos FROM delivery WHERE endpoint = ?1 AND pos >= ?2 AND pos < ?3
			UNION ALL SELECT d.pos FROM further f CROSS JOIN delivery d ON d.pos = f.delivery WHERE f.event = ?4 AND d.endpoint = ?1`,
			[]any{int64(r.endpoint), first, end, event}, func(s *sqlite3.Stmt) error {
				if pos := s.ColumnInt64(0); pos > r.at && pos <= r.upto {
					all = append(all, pos)
				}
				return nil
			})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(all)
	return all, nil
}

// missingSlack is how much younger a missing event must be than a delivery that may
// have been removed: retention may run between a look and its commit, and stamps may
// fall behind the order of positions.
const missingSlack = time.Minute

// chooseMissing goes through the tenant's events by position and leaves out those
// that have a delivery at the endpoint. Never: tests, what is erased or expired,
// what is so old that its delivery may have been removed.
func (d *DB) chooseMissing(c *conn, p *store.StepParams, r *storedReplay, e *webhook.Endpoint, events []int64, found *choice, most, limit int) error {
	tenant := int64(0)
	if _, err := c.one(`SELECT tenant FROM endpoint WHERE num = ?`, []any{int64(e.Key)}, func(s *sqlite3.Stmt) { tenant = s.ColumnInt64(0) }); err != nil {
		return err
	}
	k, err := d.keeping(c)
	if err != nil {
		return err
	}
	known := p.Now.Add(missingSlack - k.shortest)
	span := walk{span: store.Span{Since: r.Selection.Since, Until: r.Selection.Until}}
	seen, bytes := 0, 0
	look := func(pos, owner int64, kind string, accepted, expires time.Time) error {
		if seen == most || len(found.take) == limit || bytes > missingBytes {
			return errEnough
		}
		seen++
		found.at = pos
		if owner != tenant || accepted.Before(known) || !chosen(r.Selection.Types, kind) || !span.within(accepted) || !expires.IsZero() && !expires.After(p.Now) {
			return nil
		}
		if had, err := hasDelivery(c, pos, r.endpoint); had || err != nil {
			return err
		}
		event, err := d.wholeEvent(c, pos)
		if err != nil || event == nil || event.Erased {
			return err
		}
		bytes += len(event.Data)
		if _, _, ok := p.Matches(event, e); ok {
			found.take = append(found.take, pos)
		}
		return nil
	}
	return eventsBetween(c, events, r, most, look)
}

// eventsBetween calls look for the events that a replay has still before it, or
// for those of them that are named.
func eventsBetween(c *conn, named []int64, r *storedReplay, most int, look func(pos, owner int64, kind string, accepted, expires time.Time) error) error {
	const columns = `SELECT e.pos, e.tenant, (SELECT text FROM word WHERE num = e.type), e.accepted_at, e.expires_at FROM event e WHERE `
	row := func(s *sqlite3.Stmt) error {
		return look(s.ColumnInt64(0), s.ColumnInt64(1), s.ColumnText(2), colTime(s, 3), colTime(s, 4))
	}
	if named == nil {
		return c.query(columns+`e.pos > ? AND e.pos <= ? ORDER BY e.pos LIMIT ?`, []any{r.at, r.upto, most + 1}, row)
	}
	for _, pos := range named {
		if pos <= r.at || pos > r.upto {
			continue
		}
		if err := c.query(columns+`e.pos = ?`, []any{pos}, row); err != nil {
			return err
		}
	}
	return nil
}

// hasDelivery tells whether an event has a delivery at an endpoint, or is a test,
// which belongs to one endpoint alone.
func hasDelivery(c *conn, event int64, key webhook.EndpointKey) (bool, error) {
	first, end, err := deliveriesOf(c, event)
	if err != nil {
		return false, err
	}
	return c.one(`SELECT 1 WHERE EXISTS (SELECT 1 FROM delivery WHERE endpoint = ?1 AND pos >= ?2 AND pos < ?3)
		OR EXISTS (SELECT 1 FROM further f CROSS JOIN delivery d ON d.pos = f.delivery WHERE f.event = ?4 AND d.endpoint = ?1)
		OR ?2 < ?3 AND EXISTS (SELECT 1 FROM delivery WHERE pos = ?2 AND trigger = ?5)`,
		[]any{int64(key), first, end, event, triggers.num(contract.TriggerTest)}, func(*sqlite3.Stmt) {})
}
