package publish

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

const (
	// maxKept bounds the targets (some 80 bytes each) in the long answers that one
	// matcher keeps; further ones are worked out each time. Answers of up to
	// short targets are always kept: there is at most one for each pattern.
	maxKept = 1 << 16
	short   = 16
)

// matcher answers which subscriptions of a list take a type. Which answers exist
// does not depend on the types that callers invent: all types that no pattern
// writes out have the answer of the longest family that they begin with, else
// that of "*". So what is kept is bounded by the patterns, and by maxKept.
//
// The first event after a change of patterns passes over the tenant's endpoints
// once: some 3 ms for 10,000 of them. Otherwise an answer costs one look-up.
// Filters and ordering keys are for each event to ask, see asked.
type matcher struct {
	subscriptions []*subscription
	none          candidates
	index         func() *index // built by the first event after a change
	kept          atomic.Int64  // targets in long answers asked for so far
}

// index has an answer for each type that is written out or operational, for each
// family by its prefix ("link."), and for the rest.
type index struct {
	types    map[string]*answer
	families map[string]*answer
	rest     *answer
	// plain: no subscription has a filter or stands in line.
	plain bool
}

// answer is the candidates for a class of types, worked out when first asked for.
type answer struct {
	// An event of this type, or of a type that stands for the class, decides.
	example    string
	candidates atomic.Pointer[candidates]
}

// candidates are the subscriptions to a type, by endpoint key. They are shared and
// do not change.
type candidates struct {
	targets []store.Target
	// filtered and ordered: some have a filter, or stand in line. Only then are
	// there subscriptions, one for each target.
	filtered, ordered bool
	subscriptions     []*subscription
}

// plain tells whether all that the candidates need to know of an event is its type.
func (c *candidates) plain() bool { return !c.filtered && !c.ordered }

func newMatcher(subscriptions []*subscription) *matcher {
	m := &matcher{subscriptions: subscriptions}
	m.index = sync.OnceValue(m.build)
	return m
}

// build sorts the patterns. An example of a family is its prefix with a word
// that no pattern can hold, so that only families and "*" match it.
func (m *matcher) build() *index {
	const noWord = "\x00"
	x := &index{types: make(map[string]*answer), families: make(map[string]*answer), rest: &answer{example: noWord}, plain: true}
	for _, t := range webhook.OperationalTypes() {
		x.types[t] = &answer{example: t}
	}
	for _, s := range m.subscriptions {
		x.plain = x.plain && s.filter == nil && !s.ordered
		for _, p := range s.endpoint.Events {
			prefix, isFamily := strings.CutSuffix(p, "*")
			switch {
			case p == "*":
			case isFamily && x.families[prefix] == nil:
				x.families[prefix] = &answer{example: prefix + noWord}
			case !isFamily && x.types[p] == nil:
				x.types[p] = &answer{example: p}
			}
		}
	}
	return x
}

func (x *index) find(eventType string) *answer {
	if a := x.types[eventType]; a != nil {
		return a
	}
	if len(x.families) > 0 {
		for end := len(eventType); end > 0; {
			dot := strings.LastIndexByte(eventType[:end], '.')
			if dot < 0 {
				break
			}
			if a := x.families[eventType[:dot+1]]; a != nil {
				return a
			}
			end = dot
		}
	}
	return x.rest
}

// match returns the candidates for a type.
func (m *matcher) match(eventType string) *candidates {
	if len(m.subscriptions) == 0 {
		return &m.none
	}
	x := m.index()
	a := x.find(eventType)
	if kept := a.candidates.Load(); kept != nil {
		return kept
	}
	c := m.collect(a.example, x.plain)
	if n := len(c.targets); n <= short || m.kept.Add(int64(n)) <= maxKept {
		a.candidates.Store(c)
	}
	return c
}

// collect asks every subscription.
func (m *matcher) collect(eventType string, plain bool) *candidates {
	c := &candidates{}
	var taken []*subscription
	for _, s := range m.subscriptions {
		if !s.takes(eventType) {
			continue
		}
		c.targets = append(c.targets, s.target)
		if plain {
			continue
		}
		taken = append(taken, s)
		c.filtered = c.filtered || s.filter != nil
		c.ordered = c.ordered || s.ordered
	}
	c.targets = slices.Clip(c.targets)
	if !c.plain() {
		c.subscriptions = slices.Clip(taken)
	}
	return c
}
