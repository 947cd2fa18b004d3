package catalog

import (
	"slices"

	"github.com/posthorn/posthorn/contract"
)

// language is one file of texts.
type language struct {
	tag   string
	units map[unit]forms
	// base has every key; its texts hold under any contract.
	base layer
	// when has texts for contracts of which a fact holds, in place of the base.
	when map[fact]layer
	// contracts has a contract's own texts, by its name, in place of all others.
	contracts map[string]layer
}

// layer holds texts by key.
type layer map[string]template

// template is a text in pieces.
type template []segment

// segment is either literal or, if param is set, what the contract says.
type segment struct {
	literal string
	param   param
}

// find looks a text up: the contract's own, else that of the first fact that
// holds, else the one for all.
func (l *language) find(c *contract.Contract, key string) (template, bool) {
	if c != nil {
		if t, ok := l.contracts[c.Name][key]; ok {
			return t, true
		}
		for _, f := range facts() {
			if t, ok := l.when[f][key]; ok && f.holds(c) {
				return t, true
			}
		}
	}
	t, ok := l.base[key]
	return t, ok
}

// overrides tells whether the contract has a text of its own for a key.
func (l *language) overrides(c *contract.Contract, key string) bool {
	_, ok := l.contracts[c.Name][key]
	return ok
}

// missing lists what the language lacks.
func (l *language) missing() []string {
	lack := slices.DeleteFunc(keys(), func(key string) bool { _, ok := l.base[key]; return ok })
	for _, u := range units() {
		if l.units[u].other == "" {
			lack = append(lack, "units."+string(u))
		}
	}
	return lack
}
