package publish

import (
	"slices"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Why says what matching makes of an event at an endpoint.
type Why string

// What matching can make of an event.
const (
	WhyMatched       Why = "matched"
	WhyNotSubscribed Why = "type_not_subscribed"
	WhyFilteredOut   Why = "filtered_out"
	// WhyFilterBudget: it matches, since its filter needed more work than is allowed.
	WhyFilterBudget Why = "filter_budget"
	// WhyNoValue: it does not, since its filter has no value for the event.
	WhyNoValue Why = "filter_no_value"
	// WhyOff: it matches, and the endpoint is off.
	WhyOff Why = "off"
)

// Explained is one endpoint's part in where an event goes.
type Explained struct {
	Endpoint *webhook.Endpoint
	Why      Why
}

// Explain says of each endpoint of a tenant, by Key, what it would make of an
// event now: subscriptions may have changed since the event was accepted. The
// event has its data; without it (erased) filters that read it have no value.
func (r *Registry) Explain(tenant string, e *webhook.Event) []Explained {
	s := r.snapshot(tenant)
	a := r.ask(e)
	explained := make([]Explained, len(s.subscriptions))
	for i, one := range s.subscriptions {
		explained[i] = Explained{Endpoint: one.endpoint, Why: a.why(one)}
	}
	return explained
}

func (a *asked) why(s *subscription) Why {
	if !s.takes(a.event.Type) {
		return WhyNotSubscribed
	}
	answer := a.fulfils(s)
	switch {
	case !answer.fulfils && answer.err != nil:
		return WhyNoValue
	case !answer.fulfils:
		return WhyFilteredOut
	case !s.endpoint.On():
		return WhyOff
	case answer.err != nil:
		return WhyFilterBudget
	default:
		return WhyMatched
	}
}

// WouldTake tells whether an endpoint, as it is given, would take an event now,
// under which promise, and which key's line its delivery would stand in ("" for
// none). It looks in memory only. Replays of events that an endpoint has missed
// ask it; they are sent, so the target is never skipped.
func (r *Registry) WouldTake(e *webhook.Event, endpoint *webhook.Endpoint) (target store.Target, key string, ok bool) {
	if e.Erased {
		return store.Target{}, "", false
	}
	var known *subscription
	s := r.snapshot(endpoint.Tenant)
	if i, found := s.find(endpoint.Key); found {
		known = s.subscriptions[i]
	}
	one, a := r.subscribe(endpoint, known), r.ask(e)
	if !one.takes(e.Type) || !a.fulfils(one).fulfils {
		return store.Target{}, "", false
	}
	target = one.target
	target.Skip = false
	return target, one.key(e, &a.paths), true
}

// CheckFilter tells whether an expression can be an endpoint's filter. The error
// is a *Problem (invalid_field, pointer /filter).
func (r *Registry) CheckFilter(expr string) error {
	_, err := r.filter(expr)
	return err
}

func (r *Registry) filter(expr string) (func(opened any) (bool, error), error) {
	if r.filters == nil {
		return nil, webhook.InvalidField("/filter", "This server has no filters.", "an endpoint without a filter")
	}
	return r.filters.Filter(expr)
}

// Tried is what a filter makes of one event.
type Tried struct {
	Event   *webhook.Event
	Matched bool
	// Why is WhyMatched, WhyFilteredOut, WhyNoValue or WhyFilterBudget.
	Why Why
}

// TryFilter is the dry run of a filter: what it makes of events, which have their
// data. The error is that of CheckFilter.
func (r *Registry) TryFilter(expr string, events []*webhook.Event) ([]Tried, error) {
	fulfils, err := r.filter(expr)
	if err != nil {
		return nil, err
	}
	s := &subscription{
		endpoint: &webhook.Endpoint{State: webhook.EndpointActive},
		filter:   &filter{text: expr, compiled: func() func(any) (bool, error) { return fulfils }},
	}
	tried := make([]Tried, len(events))
	for i, e := range events {
		s.endpoint.Events = []string{e.Type}
		why := r.ask(e).why(s)
		tried[i] = Tried{Event: e, Matched: slices.Contains([]Why{WhyMatched, WhyFilterBudget}, why), Why: why}
	}
	return tried, nil
}
