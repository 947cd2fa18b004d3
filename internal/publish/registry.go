package publish

import (
	"cmp"
	"slices"
	"sync"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Registry is the subscriptions of all tenants in memory (N2). Reading takes no
// lock: each tenant is one immutable snapshot that changes replace. Paused and
// disabled endpoints match like active ones, since under every contract so far
// what an endpoint misses while it is off is held for it.
type Registry struct {
	contracts Contracts
	writing   sync.Mutex
	tenants   sync.Map // tenant → *snapshot
	endpoints sync.Map // webhook.EndpointKey → *webhook.Endpoint
	nothing   *snapshot
}

// snapshot is one tenant's subscriptions at one revision.
type snapshot struct {
	revision  int64
	endpoints []*webhook.Endpoint // by Key
	matcher   *matcher
}

// Contracts finds the present revision of a contract, in memory; nil where there
// is none of that name.
type Contracts interface {
	Current(name string) (c *contract.Contract, revision string)
}

// NewRegistry makes an empty registry.
func NewRegistry(contracts Contracts) *Registry {
	r := &Registry{contracts: contracts}
	r.nothing = r.newSnapshot(0, nil)
	return r
}

// Load replaces everything by what the store read at one moment
// (store.Endpoints.LoadSubscriptions); Apply continues from there.
func (r *Registry) Load(endpoints []*webhook.Endpoint, revisions map[string]int64) {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.tenants.Clear()
	r.endpoints.Clear()
	byTenant := make(map[string][]*webhook.Endpoint)
	for _, e := range endpoints {
		byTenant[e.Tenant] = append(byTenant[e.Tenant], e)
		r.endpoints.Store(e.Key, e)
	}
	for tenant, revision := range revisions {
		r.tenants.Store(tenant, r.newSnapshot(revision, byTenant[tenant]))
	}
}

func (r *Registry) newSnapshot(revision int64, endpoints []*webhook.Endpoint) *snapshot {
	slices.SortFunc(endpoints, func(a, b *webhook.Endpoint) int { return cmp.Compare(a.Key, b.Key) })
	return &snapshot{revision: revision, endpoints: endpoints, matcher: newMatcher(endpoints, r.target)}
}

// Apply takes over a committed change. It must be called in the order of
// commits and before the change's caller is answered (N2); the endpoint must not
// be changed afterwards.
func (r *Registry) Apply(c store.Change) {
	if c.Tenant == "" {
		return
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	old := r.snapshot(c.Tenant)
	if c.TenantDeleted {
		for _, e := range old.endpoints {
			r.endpoints.Delete(e.Key)
		}
		r.tenants.Delete(c.Tenant)
		return
	}
	next := &snapshot{revision: max(old.revision, c.Revision), endpoints: old.endpoints, matcher: old.matcher}
	if c.Endpoint != nil {
		next.put(c.Endpoint, r.target)
		r.endpoints.Store(c.Endpoint.Key, c.Endpoint)
	}
	if c.EndpointDeleted != 0 {
		next.remove(c.EndpointDeleted, r.target)
		r.endpoints.Delete(c.EndpointDeleted)
	}
	r.tenants.Store(c.Tenant, next)
}

// Match finds the endpoints of a tenant that an event goes to, each once however
// many of its patterns match (B69), by Key, and the revision of the subscriptions
// that said so. A tenant nobody has spoken of has revision 0. The targets are
// shared: they must not be changed.
func (r *Registry) Match(p *store.AcceptParams) {
	tenant, eventType := p.Tenant, p.Type
	match := func() store.Matched {
		s := r.snapshot(tenant)
		return store.Matched{Revision: s.revision, Targets: s.matcher.match(eventType)}
	}
	m := match()
	p.Revision, p.Targets, p.Keys, p.Rematch = m.Revision, m.Targets, m.Keys, match
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
	return slices.BinarySearchFunc(s.endpoints, key, func(e *webhook.Endpoint, k webhook.EndpointKey) int { return cmp.Compare(e.Key, k) })
}

// put inserts or replaces an endpoint in a copy of the list. What matching has
// worked out stays when the change does not concern it (a pause, say).
func (s *snapshot) put(e *webhook.Endpoint, target targetFunc) {
	i, found := s.find(e.Key)
	if !found {
		s.endpoints = slices.Insert(slices.Clone(s.endpoints), i, e)
		s.matcher = newMatcher(s.endpoints, target)
		return
	}
	before := s.endpoints[i]
	s.endpoints = slices.Clone(s.endpoints)
	s.endpoints[i] = e
	if target(before) != target(e) || !slices.Equal(before.Events, e.Events) {
		s.matcher = newMatcher(s.endpoints, target)
	}
}

func (s *snapshot) remove(key webhook.EndpointKey, target targetFunc) {
	i, found := s.find(key)
	if !found {
		return
	}
	s.endpoints = slices.Delete(slices.Clone(s.endpoints), i, i+1)
	s.matcher = newMatcher(s.endpoints, target)
}

// targetFunc makes the target of an endpoint as it is now.
type targetFunc func(*webhook.Endpoint) store.Target

func (r *Registry) target(e *webhook.Endpoint) store.Target {
	_, revision := r.contracts.Current(e.Contract)
	return store.Target{Endpoint: e.Key, Contract: e.Contract, ContractRevision: revision}
}
