package api

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// spy stands before the store and keeps what was asked of it.
type spy struct {
	Store
	mu      sync.Mutex
	updates []store.EndpointUpdate
	purges  []bool
	adopts  []bool
	// changing is set while the store runs a change.
	changing atomic.Bool
}

// watched puts a spy before the fixture's store.
func watched() (*spy, func(*Config)) {
	s := &spy{}
	return s, func(c *Config) { s.Store, c.Store = c.Store, s }
}

func (s *spy) UpdateEndpoint(ctx context.Context, tenant, id string, now time.Time, change func(*webhook.Endpoint) (store.EndpointUpdate, error)) (*webhook.Endpoint, error) {
	return s.Store.UpdateEndpoint(ctx, tenant, id, now, func(e *webhook.Endpoint) (store.EndpointUpdate, error) {
		s.changing.Store(true)
		defer s.changing.Store(false)
		u, err := change(e)
		if err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.updates = append(s.updates, u)
		}
		return u, err
	})
}

func (s *spy) DeleteEndpoint(ctx context.Context, tenant, id string, purge bool, now time.Time) error {
	s.purges = append(s.purges, purge)
	return s.Store.DeleteEndpoint(ctx, tenant, id, purge, now)
}

func (s *spy) PutContract(ctx context.Context, r store.ContractRevision, adopt bool) (bool, error) {
	s.adopts = append(s.adopts, adopt)
	return s.Store.PutContract(ctx, r, adopt)
}

// last is what the store was asked for at last, without the operational event.
func (s *spy) last() store.EndpointUpdate {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.updates[len(s.updates)-1]
	u.Emit = nil
	return u
}
