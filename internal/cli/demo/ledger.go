package demo

import (
	"sync"

	"github.com/posthorn/posthorn/internal/cli/receiver"
)

// key is one event at one station: what should be one delivery.
type key struct {
	station string
	event   string // the webhook's ID, which is the event's
}

// seen is what the receiver saw of a delivery.
type seen struct {
	requests  int
	delivered int // answers with a 2xx; more than one is a duplicate
}

// tally is what the receiver saw of a station.
type tally struct {
	requests  int
	delivered int // deliveries, each once
	failures  int // requests that were not answered with a 2xx
	last      string
}

// ledger compares what was accepted with what arrived. It is safe for
// concurrent use.
type ledger struct {
	mu       sync.Mutex
	accepted int
	// owed are the deliveries that should arrive while one watches.
	owed       map[key]bool
	seen       map[key]*seen
	stations   map[string]*tally
	verified   int
	refused    int // signatures that are not valid
	duplicates int
}

func newLedger() *ledger {
	return &ledger{owed: map[key]bool{}, seen: map[key]*seen{}, stations: map[string]*tally{}}
}

// accept notes that the server promised to deliver an event.
func (l *ledger) accept(id, eventType string, all []station) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepted++
	for _, s := range all {
		if s.arrives && takes(s, eventType) {
			l.owed[key{s.name, id}] = true
		}
	}
}

func takes(s station, eventType string) bool {
	for _, pattern := range s.events {
		if pattern == "*" || pattern == eventType {
			return true
		}
	}
	return false
}

// arrive notes a request and says how the station answers it. A request whose
// signature is bad is nobody's delivery.
func (l *ledger) arrive(s station, id string, refused error) (answer receiver.Answer, try int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.stations[s.name]
	if t == nil {
		t = &tally{}
		l.stations[s.name] = t
	}
	t.requests++
	if refused != nil {
		l.refused++
		t.failures++
		t.last = "bad sig."
		return status(401), 0
	}
	l.verified++
	k := key{s.name, id}
	d := l.seen[k]
	if d == nil {
		d = &seen{}
		l.seen[k] = d
	}
	d.requests++
	if d.delivered > 0 {
		l.duplicates++
	}
	answer = s.answer(d.requests)
	if answer.Kind != receiver.KindStatus || answer.Status > 299 {
		t.failures++
	} else {
		if d.delivered == 0 {
			t.delivered++
		}
		d.delivered++
	}
	t.last = brief(answer)
	return answer, d.requests
}

// missing counts the deliveries that are owed and have not arrived.
func (l *ledger) missing() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for k := range l.owed {
		if d := l.seen[k]; d == nil || d.delivered == 0 {
			n++
		}
	}
	return n
}

// tally returns a copy of what is known of a station.
func (l *ledger) tally(name string) tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.stations[name]; t != nil {
		return *t
	}
	return tally{}
}

// fill copies the receiver's counts into the summary.
func (l *ledger) fill(s *Summary) {
	s.Missing = l.missing()
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Accepted, s.Verified, s.Refused, s.Duplicates = l.accepted, l.verified, l.refused, l.duplicates
}
