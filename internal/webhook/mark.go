package webhook

import (
	"crypto/sha256"
	"strings"
	"time"
)

// Skip is a mark that holds for a whole lane (ENGINE N17): deliveries that were
// queued at a seat from First up to, but not including, Before and have not ended
// are skipped. It is true at once; a job writes it into the rows.
type Skip struct {
	First, Before Ref
	Reason        Reason
	At            time.Time
}

// Skipped finds the mark that covers a seat (see store.Work). Tests are never
// skipped; the caller asks that first.
func (e *Endpoint) Skipped(seat Ref) (Skip, bool) {
	for _, s := range e.Skips {
		if seat >= s.First && seat < s.Before {
			return s, true
		}
	}
	return Skip{}, false
}

// GateKey names the scope of a gate (S5, N16): a URL or an endpoint, always
// inside one tenant. It is a hash, because a URL may bear credentials.
type GateKey [16]byte

// GateScope is what a gate closes for.
type GateScope string

// Scopes of a gate, as contracts name them.
const (
	GateURL      GateScope = "url"
	GateEndpoint GateScope = "endpoint"
)

// GateKey is the key of the endpoint's gate in a scope. Endpoints of one tenant
// with the same stored URL share the URL's.
func (e *Endpoint) GateKey(scope GateScope) GateKey {
	text := e.URL
	if scope != GateURL {
		text = e.ID
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{string(scope), e.Tenant, text}, "\x00")))
	return GateKey(sum[:16])
}
