package app

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/api"
	"github.com/posthorn/posthorn/internal/store"
)

// contracts are the promises that endpoints can be made under: the built-in ones
// and those that operators stored. Reading takes no lock.
type contracts struct {
	log     *slog.Logger
	writing sync.Mutex
	now     atomic.Pointer[promises]
}

// promises is everything at one moment; nobody changes it.
type promises struct {
	current   map[string]api.Contract
	revisions map[promiseKey]*contract.Contract
	// follows says which revision deliveries under another one were asked to follow.
	follows map[promiseKey]string
}

type promiseKey struct{ name, revision string }

// newContracts knows the built-in ones.
func newContracts(log *slog.Logger) *contracts {
	p := &promises{current: map[string]api.Contract{}, revisions: map[promiseKey]*contract.Contract{}, follows: map[promiseKey]string{}}
	for _, name := range contract.BuiltinNames() {
		if c, ok := contract.Builtin(name); ok {
			revision := c.Revision()
			p.current[name] = api.Contract{Contract: c, Revision: revision, Builtin: true}
			p.revisions[promiseKey{name, revision}] = c
		}
	}
	all := &contracts{log: log}
	all.now.Store(p)
	return all
}

// load takes in what is stored.
func (c *contracts) load(stored []store.ContractRevision) error {
	for _, r := range stored {
		if err := c.put(r); err != nil {
			return fmt.Errorf("reading the stored contract %s: %w", r.Name, err)
		}
	}
	return nil
}

// apply takes over a committed change, before its caller is answered.
func (c *contracts) apply(change store.Change) {
	if change.Contract == nil {
		return
	}
	if err := c.put(*change.Contract); err != nil {
		c.log.Error("a stored contract can't be read", slog.String("contract", change.Contract.Name), slog.Any("error", err))
	}
}

// put makes a stored revision known. Of a name, the others are not current then.
func (c *contracts) put(r store.ContractRevision) error {
	parsed, err := contract.Parse([]byte(r.Text))
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	old := c.now.Load()
	next := &promises{current: maps.Clone(old.current), revisions: maps.Clone(old.revisions), follows: maps.Clone(old.follows)}
	key := promiseKey{r.Name, r.Revision}
	next.revisions[key] = parsed
	if had, ok := next.current[r.Name]; ok && had.Revision == r.Revision && !r.Current {
		delete(next.current, r.Name)
	}
	if r.Current {
		next.current[r.Name] = api.Contract{Contract: parsed, Revision: r.Revision, Text: r.Text, CreatedAt: r.CreatedAt}
	}
	delete(next.follows, key)
	if r.Follows != "" {
		next.follows[key] = r.Follows
	}
	c.now.Store(next)
	return nil
}

// Lookup finds the present revision of a contract. It implements api.Contracts.
func (c *contracts) Lookup(name string) (api.Contract, bool) {
	found, ok := c.now.Load().current[name]
	return found, ok
}

// Current implements publish.Contracts.
func (c *contracts) Current(name string) (*contract.Contract, string) {
	found := c.now.Load().current[name]
	return found.Contract, found.Revision
}

// Names lists the contracts, sorted. It implements api.Contracts.
func (c *contracts) Names() []string { return slices.Sorted(maps.Keys(c.now.Load().current)) }

// Promised returns what a delivery was promised under; nil where it is not known. A
// built-in contract of an earlier release goes on under its present revision, and
// what was asked to follow another revision does.
func (c *contracts) Promised(name, revision string) *contract.Contract {
	p := c.now.Load()
	key := promiseKey{name, revision}
	if other, ok := p.follows[key]; ok {
		key.revision = other
	}
	if found := p.revisions[key]; found != nil {
		return found
	}
	return p.current[name].Contract
}
