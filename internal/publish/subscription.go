package publish

import (
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Filters evaluates the filters of endpoints; the wiring joins it.
type Filters interface {
	// Filter compiles an expression; the error is a *Problem. fulfils tells whether
	// an event that Open opened fulfils it. With an error it says what the event
	// counts as all the same.
	Filter(expr string) (fulfils func(opened any) (bool, error), err error)
	// Open begins the filters of one event, which share a budget. data gives what
	// Decode made of its data; it is called when the first filter reads it.
	Open(e *webhook.Event, data func() any) (opened any)
	Decode(data []byte) any
}

// subscription is an endpoint with what matching needs to know of it, worked out
// when it or its contract changes.
type subscription struct {
	endpoint *webhook.Endpoint
	target   store.Target
	// filter is nil for an endpoint without one.
	filter *filter
	// ordered: deliveries of one key stand in line. Where the publisher gave no key
	// it is what the first of paths finds in the data.
	ordered bool
	paths   []string
}

// filter is an expression that is compiled when the first event meets it. It is
// nil inside for one that does not compile: all events fulfil it then, since what
// is sent too much can be told and what is not sent can't.
type filter struct {
	text     string
	compiled func() func(opened any) (bool, error)
}

// subscribe works a subscription out. What the old one has compiled stays.
func (r *Registry) subscribe(e *webhook.Endpoint, old *subscription) *subscription {
	promise, revision := r.contracts.Current(e.Contract)
	s := &subscription{endpoint: e, target: store.Target{
		Endpoint: e.Key, Contract: e.Contract, ContractRevision: revision,
		Skip:          promise != nil && !e.On() && promise.SkipsNew(),
		DegradedUntil: e.Health.DegradedUntil,
	}}
	if promise != nil && promise.Orders() {
		s.ordered, s.paths = true, promise.Order.Key
	}
	if e.Ordering != nil {
		s.ordered = true
		if len(e.Ordering.From) > 0 {
			s.paths = e.Ordering.From
		}
	}
	switch {
	case e.Filter == "" || r.filters == nil:
	case old != nil && old.filter != nil && old.filter.text == e.Filter:
		s.filter = old.filter
	default:
		s.filter = &filter{text: e.Filter, compiled: sync.OnceValue(func() func(any) (bool, error) { return r.compile(e) })}
	}
	return s
}

// compile compiles an endpoint's filter. It was checked when it was stored, so a
// failure says that what filters may be has changed since.
func (r *Registry) compile(e *webhook.Endpoint) func(any) (bool, error) {
	fulfils, err := r.filters.Filter(e.Filter)
	if err != nil {
		r.log.Error("an endpoint's filter can't be used any more: all events pass it",
			slog.String("tenant", e.Tenant), slog.String("endpoint", e.ID), slog.Any("error", err))
		return nil
	}
	return fulfils
}

// takes tells whether the subscription is to events of a type.
func (s *subscription) takes(eventType string) bool {
	return webhook.MatchAny(s.endpoint.Events, eventType)
}

// matchesLike tells whether matching does not tell two subscriptions apart.
func (s *subscription) matchesLike(other *subscription) bool {
	return s.target == other.target && slices.Equal(s.endpoint.Events, other.endpoint.Events) && s.filter == other.filter &&
		s.ordered == other.ordered && slices.Equal(s.paths, other.paths)
}

// key is the ordering key of an event for the subscription, "" for none. The
// engine's own events have none (N19).
func (s *subscription) key(e *webhook.Event, paths *foundPaths) string {
	if !s.ordered || webhook.Operational(e.Type) {
		return ""
	}
	if e.OrderingKey != "" {
		return e.OrderingKey
	}
	for _, path := range s.paths {
		if key := paths.find(e.Data, path); key != "" {
			return key
		}
	}
	return ""
}

// foundPaths remembers what paths led to in the data of one event: endpoints of
// one contract share theirs.
type foundPaths struct {
	paths, keys []string
}

func (f *foundPaths) find(data []byte, path string) string {
	if i := slices.Index(f.paths, path); i >= 0 {
		return f.keys[i]
	}
	key := keyAt(data, strings.TrimPrefix(path, "data."))
	f.paths, f.keys = append(f.paths, path), append(f.keys, key)
	return key
}
