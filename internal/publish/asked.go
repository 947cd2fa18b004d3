package publish

import (
	"slices"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// asked is one event while endpoints' filters and lines are asked about it. What
// they find out is kept, so that matching it again, which the store does inside
// its transaction, asks only what is new. It is for one goroutine at a time.
type asked struct {
	filters Filters
	event   *webhook.Event
	paths   foundPaths
	// opened is nil before the first filter, answers by expression.
	opened  any
	answers map[string]answered
}

type answered struct {
	fulfils bool
	err     error
}

func (r *Registry) ask(e *webhook.Event) *asked { return &asked{filters: r.filters, event: e} }

// eventOf is an event as filters see it before it is accepted.
func eventOf(p *store.AcceptParams) *webhook.Event {
	e := &webhook.Event{
		ID: p.ID, Tenant: p.Tenant, Type: p.Type, Data: p.Data, ContentType: p.ContentType, CreatedAt: p.CreatedAt, AcceptedAt: p.Now,
		OrderingKey: p.OrderingKey, DeliverAt: p.DeliverAt, ExpiresAt: p.ExpiresAt, Run: p.Run,
	}
	if e.CreatedAt.IsZero() {
		e.CreatedAt = p.Now
	}
	return e
}

// fulfils asks an endpoint's filter.
func (a *asked) fulfils(s *subscription) answered {
	if s.filter == nil {
		return answered{fulfils: true}
	}
	if known, ok := a.answers[s.filter.text]; ok {
		return known
	}
	compiled := s.filter.compiled()
	if compiled == nil {
		return answered{fulfils: true}
	}
	if a.answers == nil {
		a.answers = make(map[string]answered)
		a.opened = a.filters.Open(a.event, a.decoder())
	}
	var answer answered
	answer.fulfils, answer.err = compiled(a.opened)
	a.answers[s.filter.text] = answer
	return answer
}

// decoder decodes the event's data once, when it is asked for.
func (a *asked) decoder() func() any {
	var decoded any
	return func() any {
		if decoded == nil {
			decoded = a.filters.Decode(a.event.Data)
		}
		return decoded
	}
}

// choose narrows the candidates for the event's type to those whose filter it
// fulfils, and finds the keys of the lines that its deliveries stand in.
func (a *asked) choose(c *candidates) (targets []store.Target, keys []string) {
	subscriptions := c.subscriptions
	targets = c.targets
	if c.filtered {
		targets, subscriptions = make([]store.Target, 0, len(c.targets)), make([]*subscription, 0, len(c.targets))
		for i, s := range c.subscriptions {
			if a.fulfils(s).fulfils {
				targets, subscriptions = append(targets, c.targets[i]), append(subscriptions, s)
			}
		}
	}
	if !c.ordered {
		return targets, nil
	}
	keys = make([]string, len(targets))
	for i, s := range subscriptions {
		keys[i] = s.key(a.event, &a.paths)
	}
	if !slices.ContainsFunc(keys, func(key string) bool { return key != "" }) {
		return targets, nil
	}
	return targets, keys
}
