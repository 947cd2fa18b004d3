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
	// maxKept bounds the targets (40 bytes each) in the long answers that one
	// matcher keeps; further ones are worked out each time. Answers of up to
	// short targets are always kept: there is at most one for each pattern.
	maxKept = 1 << 16
	short   = 16
)

// matcher answers which endpoints of a list take a type. Which answers exist
// does not depend on the types that callers invent: all types that no pattern
// writes out have the answer of the longest family that they begin with, else
// that of "*". So what is kept is bounded by the patterns, and by maxKept.
//
// The first event after a change of patterns passes over the tenant's endpoints
// once: some 3 ms for 10,000 of them. Otherwise an answer costs one look-up.
type matcher struct {
	endpoints []*webhook.Endpoint
	target    targetFunc
	index     func() *index // built by the first event after a change
	kept      atomic.Int64  // targets in long answers asked for so far
}

// index has an answer for each type that is written out or operational, for each
// family by its prefix ("link."), and for the rest.
type index struct {
	types    map[string]*answer
	families map[string]*answer
	rest     *answer
}

// answer is the endpoints for a class of types, worked out when first asked for.
type answer struct {
	// An event of this type, or of a type that stands for the class, decides.
	example string
	targets atomic.Pointer[[]store.Target]
}

func newMatcher(endpoints []*webhook.Endpoint, target targetFunc) *matcher {
	m := &matcher{endpoints: endpoints, target: target}
	m.index = sync.OnceValue(m.build)
	return m
}

// build sorts the patterns. An example of a family is its prefix with a word
// that no pattern can hold, so that only families and "*" match it.
func (m *matcher) build() *index {
	const noWord = "\x00"
	x := &index{types: make(map[string]*answer), families: make(map[string]*answer), rest: &answer{example: noWord}}
	for _, t := range webhook.OperationalTypes() {
		x.types[t] = &answer{example: t}
	}
	for _, e := range m.endpoints {
		for _, p := range e.Events {
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

// match returns the targets for a type, by endpoint key.
func (m *matcher) match(eventType string) []store.Target {
	if len(m.endpoints) == 0 {
		return nil
	}
	a := m.index().find(eventType)
	if kept := a.targets.Load(); kept != nil {
		return *kept
	}
	targets := m.collect(a.example)
	if len(targets) <= short || m.kept.Add(int64(len(targets))) <= maxKept {
		a.targets.Store(&targets)
	}
	return targets
}

// collect asks every endpoint.
func (m *matcher) collect(eventType string) []store.Target {
	var targets []store.Target
	for _, e := range m.endpoints {
		if webhook.MatchAny(e.Events, eventType) {
			targets = append(targets, m.target(e))
		}
	}
	return slices.Clip(targets)
}
