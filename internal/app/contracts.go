package app

import (
	"maps"
	"slices"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/config"
)

// contracts are the promises that endpoints can be made under, by name.
type contracts map[string]*contract.Contract

func builtinContracts() contracts {
	all := contracts{}
	for _, name := range config.Contracts() {
		if c, ok := contract.Builtin(name); ok {
			all[name] = c
		}
	}
	return all
}

// Lookup finds a contract by name.
func (c contracts) Lookup(name string) (*contract.Contract, bool) {
	found, ok := c[name]
	return found, ok
}

// Names lists the contracts, sorted.
func (c contracts) Names() []string { return slices.Sorted(maps.Keys(c)) }

// find returns a contract for a delivery. A built-in one has one revision: what
// an earlier release promised goes on under the present one.
func (c contracts) find(name, _ string) *contract.Contract { return c[name] }
