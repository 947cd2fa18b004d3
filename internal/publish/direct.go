package publish

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Direct says how an event goes to one endpoint and to no other.
type Direct struct {
	Tenant   string
	Endpoint webhook.EndpointKey
	// Trigger of the delivery; "" is an event's.
	Trigger contract.Trigger
	// ByPerson and Unlogged: see store.AcceptParams.
	ByPerson, Unlogged bool
	// Before is called with the delivery after the commit and before its lane has
	// it, so that whoever waits for its end can't miss it. It must not block. May be
	// nil.
	Before func(fresh []store.Work)
}

// PublishTo makes an event durable that goes to one endpoint, whatever it has
// subscribed to and whether it is on or off, and hands its delivery on: test
// events are such (E11, P5). It stands in no line. fresh is the delivery; none for
// a repeat of an event with an ID. The error is as in Result.Err, with not_found
// also where the endpoint is no more.
func (p *Publisher) PublishTo(ctx context.Context, to Direct, e Event) (id string, fresh []store.Work, err error) {
	now, ready := p.cfg.Clock.Wall(), p.cfg.Clock.Now()
	for range maxMatches {
		params, ok := p.direct(to, &e, now, ready)
		if !ok {
			return "", nil, webhook.NewProblem(webhook.CodeNotFound, "There is no such endpoint.")
		}
		accepted, err := p.cfg.Store.Accept(ctx, []store.AcceptParams{params})
		if err != nil {
			if errors.Is(err, store.ErrUnknown) {
				p.cfg.Unknown([]webhook.EndpointKey{to.Endpoint})
			}
			return "", nil, refusal(err)
		}
		if len(accepted) != 1 {
			return "", nil, fmt.Errorf("accepting an event: %d results for one event", len(accepted))
		}
		if errors.Is(accepted[0].Err, store.ErrStale) {
			continue
		}
		if to.Before != nil && len(accepted[0].Fresh) > 0 {
			to.Before(accepted[0].Fresh)
		}
		p.handOver(accepted)
		result := resultOf(&accepted[0])
		return result.ID, accepted[0].Fresh, result.Err
	}
	return "", nil, refusal(store.ErrOverloaded)
}

// direct prepares an event for one endpoint; ok is false where there is none.
func (p *Publisher) direct(to Direct, e *Event, now, ready time.Time) (params store.AcceptParams, ok bool) {
	match := func() store.Matched {
		target, revision, ok := p.cfg.Registry.direct(to.Tenant, to.Endpoint)
		if !ok {
			// No revision is this one: the store calls the event stale, so that no
			// event is stored that goes nowhere.
			return store.Matched{Revision: -1}
		}
		return store.Matched{Revision: revision, Targets: []store.Target{target}}
	}
	m := match()
	params = paramsOf(to.Tenant, e, now, ready)
	params.Revision, params.Targets, params.Rematch = m.Revision, m.Targets, match
	params.Trigger, params.ByPerson, params.Unlogged = to.Trigger, to.ByPerson, to.Unlogged
	return params, m.Revision >= 0
}

// direct is an endpoint as the target of what is meant for it alone, which is
// never skipped.
func (r *Registry) direct(tenant string, key webhook.EndpointKey) (target store.Target, revision int64, ok bool) {
	s := r.snapshot(tenant)
	i, ok := s.find(key)
	if !ok {
		return store.Target{}, 0, false
	}
	target = s.subscriptions[i].target
	target.Skip = false
	return target, s.revision, true
}
