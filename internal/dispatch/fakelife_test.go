package dispatch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// What a store owes endpoints beside their rows: subscriptions, health, gates,
// lines of keys, marks and catching up.

// subscriptions are what events are matched by. They have a lock of their own,
// since matching goes on inside commits too.
type subscriptions struct {
	mu        sync.Mutex
	revision  int64
	endpoints map[webhook.EndpointKey]*webhook.Endpoint
}

func (db *fakeDB) match(eventType string) store.Matched {
	db.subs.mu.Lock()
	defer db.subs.mu.Unlock()
	m := store.Matched{Revision: db.subs.revision}
	for _, key := range slices.Sorted(maps.Keys(db.subs.endpoints)) {
		if webhook.MatchAny(db.subs.endpoints[key].Events, eventType) {
			m.Targets = append(m.Targets, store.Target{Endpoint: key, Contract: contract.Standard, ContractRevision: "1"})
		}
	}
	return m
}

// fresh matches an event anew if its subscriptions are old.
func (db *fakeDB) fresh(p *store.AcceptParams) {
	if p.Rematch != nil {
		m := p.Rematch()
		p.Revision, p.Targets, p.Keys = m.Revision, m.Targets, m.Keys
	}
}

// keep stores an endpoint; the caller holds the lock.
func (db *fakeDB) keep(e *webhook.Endpoint) store.Change {
	db.endpoints[e.Key] = e
	return store.Change{Tenant: e.Tenant, Revision: db.resubscribe(), Endpoint: e}
}

func (db *fakeDB) forget(key webhook.EndpointKey) store.Change {
	delete(db.endpoints, key)
	return store.Change{Revision: db.resubscribe(), EndpointDeleted: key}
}

func (db *fakeDB) resubscribe() int64 {
	db.subs.mu.Lock()
	defer db.subs.mu.Unlock()
	db.subs.endpoints = maps.Clone(db.endpoints)
	db.subs.revision++
	return db.subs.revision
}

// consequences are what an outcome does to its endpoint, and the operational
// events of both.
func (db *fakeDB) consequences(p *store.RecordParams) []store.Change {
	emit := p.Emit
	var changes []store.Change
	if e := db.endpoints[p.Endpoint]; e != nil {
		after, types := db.judged(e, p)
		if len(types) > 0 {
			after.Version++
			changes = append(changes, db.keep(after))
		} else {
			db.endpoints[after.Key] = after // health alone is nobody's news
		}
		for _, t := range types {
			if p.Raise == nil {
				continue
			}
			if raised, ok := p.Raise(t, after); ok {
				emit = append(emit, raised)
			}
		}
	}
	if accepted := db.emit(emit); accepted != nil {
		changes = append(changes, store.Change{Accepted: accepted})
	}
	return changes
}

func (db *fakeDB) emit(events []store.AcceptParams) (accepted []store.Work) {
	for _, e := range events {
		db.fresh(&e)
		db.events[fmt.Sprintf("op_%d", len(db.events)+1)] = e
		for _, t := range e.Targets {
			accepted = append(accepted, db.insert(template{
				endpoint: t.Endpoint, eventType: e.Type, data: e.Data, due: e.DueAt(),
			}))
		}
	}
	return accepted
}

// judged is the endpoint after an outcome, and what became of it.
func (db *fakeDB) judged(e *webhook.Endpoint, p *store.RecordParams) (*webhook.Endpoint, []string) {
	after := *e
	var types []string
	if p.Counts {
		h := e.Health
		turn := p.Contract.Judge(contract.Standing{
			On: e.On(), FailuresInRow: h.FailuresInRow, FirstFailureAt: h.FirstFailureAt,
			LastSuccessAt: h.LastSuccessAt, LastAttemptAt: h.LastAttemptAt, DegradedUntil: h.DegradedUntil,
		}, p.Delivered(), p.Now, p.Lapse)
		a := turn.After
		after.Health = webhook.Health{
			FailuresInRow: a.FailuresInRow, FirstFailureAt: a.FirstFailureAt,
			LastSuccessAt: a.LastSuccessAt, LastAttemptAt: a.LastAttemptAt, DegradedUntil: a.DegradedUntil,
		}
		switch turn.Became {
		case contract.BecameDisabled:
			after.State, after.StateReason = webhook.EndpointDisabled, webhook.ReasonNoSuccess
		case contract.BecamePaused:
			after.State, after.StateReason = webhook.EndpointPaused, webhook.ReasonFailuresInRow
		case contract.BecameDegraded, "":
		}
		if turn.Became != "" {
			types = append(types, "endpoint."+string(turn.Became))
		}
		if turn.Recovered {
			types = append(types, webhook.TypeEndpointRecovered)
		}
	}
	if p.Disable != webhook.ReasonActive && e.State != webhook.EndpointDisabled {
		after.State, after.StateReason = webhook.EndpointDisabled, p.Disable
		types = append(types, webhook.TypeEndpointDisabled)
	}
	return &after, types
}

// Gates.

func (db *fakeDB) move(m store.GateMove) {
	if m.Until.IsZero() {
		delete(db.gates, m.Key)
		return
	}
	db.gates[m.Key] = m
}

// ListGates implements store.Lanes.
func (s *session) ListGates(context.Context) ([]store.Gate, error) {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	var out []store.Gate
	for _, m := range s.db.gates {
		g := store.Gate{Key: m.Key, Until: m.Until}
		if r := s.db.rows[m.Probe]; r != nil && !r.status.Final() {
			g.Probe, g.ProbeEndpoint = m.Probe, r.work.Endpoint
		}
		out = append(out, g)
	}
	return out, nil
}

// LoadWork implements store.Lanes.
func (s *session) LoadWork(_ context.Context, ref webhook.Ref) (store.Work, bool, error) {
	s.db.mu.Lock()
	takes := s.db.loadTakes
	s.db.mu.Unlock()
	if takes > 0 {
		time.Sleep(takes)
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	r := s.db.rows[ref]
	switch {
	case s.closed:
		return store.Work{}, false, store.ErrClosed
	case r == nil || r.status.Final():
		return store.Work{}, false, nil
	case s.db.failLoad != nil:
		if err := s.db.failLoad(ref); err != nil {
			return store.Work{}, false, err
		}
	}
	w := r.work
	w.Data = nil
	return w, true, nil
}

// Lines of keys.

type line struct {
	endpoint webhook.EndpointKey
	key      string
}

// join puts a delivery at the end of its line and tells whether it is the head.
func (db *fakeDB) join(w *store.Work) bool {
	at := line{w.Endpoint, w.Key}
	db.lines[at] = append(db.lines[at], w.Ref)
	return len(db.lines[at]) == 1
}

// promote lets the next one of a line go after its head has ended.
func (db *fakeDB) promote(ended *row) []store.Change {
	at := line{ended.work.Endpoint, ended.work.Key}
	rest := db.lines[at]
	if len(rest) == 0 || ended.work.Key == "" {
		return nil
	}
	wasHead := rest[0] == ended.work.Ref
	rest = slices.DeleteFunc(rest, func(ref webhook.Ref) bool { return db.rows[ref].status.Final() })
	db.lines[at] = rest
	if !wasHead || len(rest) == 0 {
		return nil
	}
	next := db.rows[rest[0]]
	next.work.Due = time.Now().Round(0)
	return []store.Change{{Accepted: []store.Work{next.work}}}
}

// again gives a finished delivery another round, as a person's resend.
func (db *fakeDB) again(ref webhook.Ref, terms contract.Terms) {
	db.do(func() []store.Change {
		r := db.rows[ref]
		w := &r.work
		r.status, r.reason = contract.StatusPending, webhook.WhyNone
		w.Round, w.Attempts, w.Interrupted, w.Seat = w.Round+1, 0, 0, db.last+1
		w.Trigger, w.Once, w.Degraded, w.ByPerson = terms.Trigger, terms.Once, terms.Degraded, true
		w.Due = store.PersonDue(w.Seat)
		return []store.Change{{Accepted: []store.Work{*w}}}
	})
}

// Marks and catching up.

// catchUp is how far a lane's catching up is.
type catchUp struct{ at, to webhook.Ref }

// skipAll switches an endpoint off and marks what waits as skipped.
func (db *fakeDB) skipAll(key webhook.EndpointKey, state webhook.EndpointState) {
	db.changeEndpoint(key, func(e *webhook.Endpoint) {
		e.State = state
		e.Skips = append(slices.Clone(e.Skips), webhook.Skip{Before: db.last + 1, Reason: webhook.WhySwitchedOff, At: time.Now()})
	})
}

// writeSkips writes an endpoint's marks into its rows and removes them.
func (db *fakeDB) writeSkips(key webhook.EndpointKey) {
	db.do(func() []store.Change {
		e := *db.endpoints[key]
		var changes []store.Change
		for _, r := range db.rows {
			if r.work.Endpoint != key || r.status.Final() || r.work.Trigger == contract.TriggerTest {
				continue
			}
			if s, is := e.Skipped(r.work.Seat); is {
				r.end(contract.StatusSkipped, s.Reason)
				changes = append(changes, db.promote(r)...)
			}
		}
		e.Skips = nil
		return append(changes, db.keep(&e))
	})
}

// enable switches an endpoint on so that what was held goes out oldest first.
func (db *fakeDB) enable(key webhook.EndpointKey) {
	db.changeEndpoint(key, func(e *webhook.Endpoint) {
		e.State, e.StateReason, e.CatchingUp, e.StateSince = webhook.EndpointActive, webhook.ReasonActive, true, time.Now()
		e.Health.FailuresInRow, e.Health.FirstFailureAt = 0, time.Time{}
		db.catching[key] = &catchUp{to: db.last}
	})
}

// catchUpStep takes the next n positions of a lane that catches up, and tells
// whether that was all.
func (db *fakeDB) catchUpStep(key webhook.EndpointKey, n int) (done bool) {
	db.do(func() []store.Change {
		c := db.catching[key]
		if c == nil {
			done = true
			return nil
		}
		for end := min(c.at+webhook.Ref(n), c.to); c.at < end; {
			c.at++
			r := db.rows[c.at]
			if r.work.Endpoint == key && !r.status.Final() && !store.IsParked(r.work.Due) && !r.work.Due.After(time.Now()) {
				r.work.Due = store.CatchUpDue(c.at)
			}
		}
		if done = c.at == c.to; !done {
			return nil
		}
		delete(db.catching, key)
		e := *db.endpoints[key]
		e.CatchingUp = false
		return []store.Change{db.keep(&e)}
	})
	return done
}

// ahead is the unfinished delivery at the head of a delivery's line, 0 if there is
// none before it.
func (db *fakeDB) ahead(ref webhook.Ref) webhook.Ref {
	db.mu.Lock()
	defer db.mu.Unlock()
	w := &db.rows[ref].work
	rest := db.lines[line{w.Endpoint, w.Key}]
	if w.Key == "" || db.rows[ref].status.Final() || len(rest) == 0 || rest[0] == ref {
		return 0
	}
	return rest[0]
}
