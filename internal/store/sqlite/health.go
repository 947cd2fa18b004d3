package sqlite

import (
	"cmp"
	"errors"
	"slices"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// judge lets an outcome count for its endpoint, once, by its contract's rules, and
// applies what they say. Health is written once per batch, by writeHealth.
func (t *tx) judge(p *store.RecordParams) error {
	var turn contract.Turn
	renewed := false
	if p.Counts {
		h, found, err := t.presentHealth(p.Endpoint)
		if err != nil || !found {
			return err
		}
		l, err := t.laneState(p.Endpoint)
		if err != nil {
			return err
		}
		rules := p.Contract
		if rules == nil {
			rules = &contract.Contract{} // it promises nothing: tries are counted
		}
		turn = rules.Judge(contract.Standing{
			On: l.on, FailuresInRow: h.FailuresInRow, FirstFailureAt: h.FirstFailureAt, LastSuccessAt: h.LastSuccessAt,
			LastAttemptAt: h.LastAttemptAt, DegradedUntil: h.DegradedUntil,
		}, p.Delivered(), p.Now, p.Lapse)
		renewed = !turn.After.DegradedUntil.Equal(h.DegradedUntil)
		if err := t.setHealth(p.Endpoint, turn.After); err != nil {
			return err
		}
	}
	if turn.Became == "" && !turn.Recovered && !renewed && p.Disable == webhook.ReasonActive {
		return nil
	}
	return t.turn(p, turn, renewed)
}

// turn changes the endpoint as an outcome has it. Of several reasons the first of
// 410, no success, failures in a row holds (the banners' order), and there is one
// event, one entry in the trail and one notice.
func (t *tx) turn(p *store.RecordParams, turn contract.Turn, renewed bool) error {
	e, err := t.endpointByKey(p.Endpoint)
	if errors.Is(err, store.ErrNotFound) {
		return nil // it was deleted meanwhile
	}
	if err != nil {
		return err
	}
	became, why := turn.Became, webhook.ReasonFailuresInRow
	if became == contract.BecameDisabled {
		why = webhook.ReasonNoSuccess
	}
	if p.Disable != webhook.ReasonActive && e.State != webhook.EndpointDisabled {
		became, why = contract.BecameDisabled, p.Disable
	}
	eventType := ""
	switch became {
	case contract.BecameDisabled:
		e.State, e.StateReason, e.StateSince = webhook.EndpointDisabled, why, p.Now
		eventType = webhook.TypeEndpointDisabled
	case contract.BecamePaused:
		e.State, e.StateReason, e.StateSince = webhook.EndpointPaused, why, p.Now
		eventType = webhook.TypeEndpointPaused
	case contract.BecameDegraded:
		eventType = webhook.TypeEndpointDegraded
	default:
		if turn.Recovered {
			eventType, why = webhook.TypeEndpointRecovered, webhook.ReasonActive
		} else if renewed {
			return t.storeEndpoint(e, p.Now) // those who match events need the mark's new end
		} else {
			return nil
		}
	}
	u := store.EndpointUpdate{Action: eventType, Why: string(why)}
	if rules := t.offRules(p, e); rules != nil {
		if slices.Contains(rules.TellOwner, became) {
			u.TellOwner = became
		}
		if !e.On() && rules.SkipsWaiting() {
			u.Skip, t.tidy = webhook.WhySwitchedOff, true
		}
	}
	if u.Emit, err = t.raised(p, eventType, e); err != nil {
		return err
	}
	return t.transition(e, u, webhook.Actor{Kind: webhook.ActorEngine}, p.Now)
}

// offRules are the contract that says what going off means for an endpoint: its
// present one, as where a person switches it off. A try is judged by the promise of
// its delivery; that one's rules hold here only where the present is unknown.
func (t *tx) offRules(p *store.RecordParams, e *webhook.Endpoint) *contract.Contract {
	return cmp.Or(t.db.cfg.Contract(e.Contract, ""), p.Contract)
}

// raised prepares the operational event about what an endpoint has become (N19).
// An event that can't be matched undoes the commit: by then it is too late to
// refuse it.
func (t *tx) raised(p *store.RecordParams, eventType string, e *webhook.Endpoint) ([]store.AcceptParams, error) {
	if p.Raise == nil {
		return nil, nil
	}
	after := *e
	after.Version++
	after.UpdatedAt = p.Now
	event, ok := p.Raise(eventType, &after)
	if !ok {
		return nil, nil
	}
	tenant, err := t.tenant(event.Tenant)
	if err != nil {
		return nil, err
	}
	if !matched(&event, tenant.rev) {
		return nil, store.ErrStale
	}
	return []store.AcceptParams{event}, nil
}

// presentHealth is an endpoint's health as the batch has left it so far.
func (t *tx) presentHealth(key webhook.EndpointKey) (h webhook.Health, found bool, err error) {
	if h, found = t.health[key]; found {
		return h, true, nil
	}
	found, err = t.readHealth(key, &h)
	return h, found, err
}

// setHealth keeps an endpoint's health for writeHealth.
func (t *tx) setHealth(key webhook.EndpointKey, s contract.Standing) error {
	if len(t.health) > maxCached {
		if err := t.writeHealth(); err != nil {
			return err
		}
		clear(t.health)
		clear(t.sick)
	}
	t.health[key] = webhook.Health{
		FailuresInRow: s.FailuresInRow, FirstFailureAt: s.FirstFailureAt, LastSuccessAt: s.LastSuccessAt, LastAttemptAt: s.LastAttemptAt,
		DegradedUntil: s.DegradedUntil,
	}
	t.sick[key] = true
	return nil
}

// laneState is what the writer keeps in memory of an endpoint beside its health.
type laneState struct {
	on, catchingUp, deleted bool
	skips                   []webhook.Skip
}

// laneState returns the state of an endpoint, as the last told change left it.
func (t *tx) laneState(key webhook.EndpointKey) (laneState, error) {
	if l, ok := t.lanes[key]; ok {
		return l, nil
	}
	var l laneState
	_, err := t.one(`SELECT state, catch_up_at IS NOT NULL, deleted_at IS NOT NULL FROM endpoint WHERE num = ?`, []any{int64(key)},
		func(s *sqlite3.Stmt) {
			l.catchingUp, l.deleted = colBool(s, 1), colBool(s, 2)
			l.on = endpointStates.word(s.ColumnInt64(0)) == webhook.EndpointActive && !l.deleted
		})
	if err != nil {
		return l, err
	}
	if l.skips, err = readSkips(t.conn, key); err != nil {
		return l, err
	}
	if len(t.lanes) > maxCached {
		clear(t.lanes)
	}
	t.lanes[key] = l
	return l, nil
}

func (t *tx) readHealth(key webhook.EndpointKey, h *webhook.Health) (found bool, err error) {
	return t.one(`SELECT failures_in_row, first_failure_at, last_success_at, last_attempt_at, degraded_until FROM endpoint WHERE num = ?`,
		[]any{int64(key)}, func(s *sqlite3.Stmt) {
			*h = webhook.Health{
				FailuresInRow: s.ColumnInt(0), FirstFailureAt: colTime(s, 1), LastSuccessAt: colTime(s, 2), LastAttemptAt: colTime(s, 3),
				DegradedUntil: colTime(s, 4),
			}
		})
}

// writeHealth writes the health of the endpoints that the batch changed, once
// each.
func (t *tx) writeHealth() error {
	for key := range t.sick {
		h := t.health[key]
		r := t.hot(hotUpdateHealth)
		r.int(int64(h.FailuresInRow))
		r.at(h.FirstFailureAt)
		r.at(h.LastSuccessAt)
		r.at(h.LastAttemptAt)
		r.int(int64(key))
		if err := r.exec(); err != nil {
			return err
		}
	}
	return nil
}
