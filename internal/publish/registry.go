package publish

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Registry is the subscriptions of all tenants in memory (N2). Reading takes no
// lock: each tenant is one immutable snapshot that changes replace. Paused and
// disabled endpoints match like active ones: their contract says whether what
// comes meanwhile is held for them or skipped, and the target bears it (P5).
type Registry struct {
	contracts Contracts
	filters   Filters
	log       *slog.Logger
	writing   sync.Mutex
	tenants   sync.Map // tenant → *snapshot
	endpoints sync.Map // webhook.EndpointKey → *webhook.Endpoint
	nothing   *snapshot
}

// snapshot is one tenant's subscriptions at one revision.
type snapshot struct {
	revision      int64
	subscriptions []*subscription // by Key
	matcher       *matcher
}

// Contracts finds the present revision of a contract, in memory; nil where there
// is none of that name. It knows of a change before Apply is told of it.
type Contracts interface {
	Current(name string) (c *contract.Contract, revision string)
}

// Option is something that a registry may have.
type Option func(*Registry)

// WithFilters lets endpoints have filters. Without it, filters take all events.
// log is told of a filter that can't be used any more.
func WithFilters(filters Filters, log *slog.Logger) Option {
	return func(r *Registry) { r.filters, r.log = filters, log }
}

// NewRegistry makes an empty registry.
func NewRegistry(contracts Contracts, options ...Option) *Registry {
	r := &Registry{contracts: contracts, nothing: newSnapshot(0, nil)}
	for _, with := range options {
		with(r)
	}
	return r
}

// Load replaces everything by what the store read at one moment
// (store.Endpoints.LoadSubscriptions); Apply continues from there.
func (r *Registry) Load(endpoints []*webhook.Endpoint, revisions map[string]int64) {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.tenants.Clear()
	r.endpoints.Clear()
	byTenant := make(map[string][]*subscription)
	for _, e := range endpoints {
		byTenant[e.Tenant] = append(byTenant[e.Tenant], r.subscribe(e, nil))
		r.endpoints.Store(e.Key, e)
	}
	for tenant, revision := range revisions {
		r.tenants.Store(tenant, newSnapshot(revision, byTenant[tenant]))
	}
}

func newSnapshot(revision int64, subscriptions []*subscription) *snapshot {
	slices.SortFunc(subscriptions, func(a, b *subscription) int { return cmp.Compare(a.endpoint.Key, b.endpoint.Key) })
	return &snapshot{revision: revision, subscriptions: subscriptions, matcher: newMatcher(subscriptions)}
}

// Apply takes over a committed change. It must be called in the order of
// commits and before the change's caller is answered (N2); the endpoint must not
// be changed afterwards.
func (r *Registry) Apply(c store.Change) {
	r.writing.Lock()
	defer r.writing.Unlock()
	if c.Contract != nil {
		r.renew(c.Contract.Name)
	}
	for tenant, revision := range c.Revisions {
		next := *r.snapshot(tenant)
		next.revision = max(next.revision, revision)
		r.tenants.Store(tenant, &next)
	}
	if c.Tenant == "" {
		return
	}
	old := r.snapshot(c.Tenant)
	if c.TenantDeleted {
		for _, s := range old.subscriptions {
			r.endpoints.Delete(s.endpoint.Key)
		}
		r.tenants.Delete(c.Tenant)
		return
	}
	next := &snapshot{revision: max(old.revision, c.Revision), subscriptions: old.subscriptions, matcher: old.matcher}
	if c.Endpoint != nil {
		next.put(c.Endpoint, r)
		r.endpoints.Store(c.Endpoint.Key, c.Endpoint)
	}
	if c.EndpointDeleted != 0 {
		next.remove(c.EndpointDeleted)
		r.endpoints.Delete(c.EndpointDeleted)
	}
	r.tenants.Store(c.Tenant, next)
}

// renew works out anew whatever follows a contract that has changed. The revisions
// are left to the change.
func (r *Registry) renew(name string) {
	r.tenants.Range(func(tenant, value any) bool {
		old := value.(*snapshot)
		subscriptions := slices.Clone(old.subscriptions)
		concerned := false
		for i, s := range subscriptions {
			if s.endpoint.Contract == name {
				subscriptions[i], concerned = r.subscribe(s.endpoint, s), true
			}
		}
		if concerned {
			r.tenants.Store(tenant, newSnapshot(old.revision, subscriptions))
		}
		return true
	})
}

// Match finds the endpoints of a tenant that an event goes to, each once however
// many of its patterns match (B69), by Key: those that subscribe to its type and
// whose filter it fulfils; with the keys of the lines that its deliveries stand in
// (E9, N15), and the revision of the subscriptions that said so. A tenant nobody
// has spoken of has revision 0. The targets may be shared: they must not be
// changed. p must stay what it is while it may be matched again.
func (r *Registry) Match(p *store.AcceptParams) {
	s := r.snapshot(p.Tenant)
	c := s.matcher.match(p.Type)
	p.Revision, p.Targets, p.Keys = s.revision, c.targets, nil
	if c.plain() {
		p.Rematch = func() store.Matched { return r.match(r.ask(eventOf(p))) }
		return
	}
	a := r.ask(eventOf(p))
	p.Targets, p.Keys = a.choose(c)
	p.Rematch = func() store.Matched { return r.match(a) }
}

// match matches an event with what is there now.
func (r *Registry) match(a *asked) store.Matched {
	s := r.snapshot(a.event.Tenant)
	m := store.Matched{Revision: s.revision}
	m.Targets, m.Keys = a.choose(s.matcher.match(a.event.Type))
	return m
}

// Endpoint returns a live endpoint. It is shared and must not be changed.
func (r *Registry) Endpoint(key webhook.EndpointKey) (*webhook.Endpoint, bool) {
	e, ok := r.endpoints.Load(key)
	if !ok {
		return nil, false
	}
	return e.(*webhook.Endpoint), true
}

// snapshot is never nil.
func (r *Registry) snapshot(tenant string) *snapshot {
	if s, ok := r.tenants.Load(tenant); ok {
		return s.(*snapshot)
	}
	return r.nothing
}

// find gives an endpoint's place by key.
func (s *snapshot) find(key webhook.EndpointKey) (int, bool) {
	return slices.BinarySearchFunc(s.subscriptions, key, func(one *subscription, k webhook.EndpointKey) int {
		return cmp.Compare(one.endpoint.Key, k)
	})
}

// put inserts or replaces an endpoint in a copy of the list. What matching has
// worked out stays when the change does not concern it (a secret, say).
func (s *snapshot) put(e *webhook.Endpoint, r *Registry) {
	i, found := s.find(e.Key)
	if !found {
		s.subscriptions = slices.Insert(slices.Clone(s.subscriptions), i, r.subscribe(e, nil))
		s.matcher = newMatcher(s.subscriptions)
		return
	}
	before := s.subscriptions[i]
	after := r.subscribe(e, before)
	s.subscriptions = slices.Clone(s.subscriptions)
	s.subscriptions[i] = after
	if !before.matchesLike(after) {
		s.matcher = newMatcher(s.subscriptions)
	}
}

func (s *snapshot) remove(key webhook.EndpointKey) {
	i, found := s.find(key)
	if !found {
		return
	}
	s.subscriptions = slices.Delete(slices.Clone(s.subscriptions), i, i+1)
	s.matcher = newMatcher(s.subscriptions)
}
