package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// reader reads one file of texts and collects what is wrong with it.
type reader struct {
	known  map[string]bool
	faults []error
}

// parse reads a language's file. Its sections are units, texts (for all), when
// (by fact) and contracts (by name); the last three nest the keys of keys.go.
// Unknown sections, keys, facts and parameters are refused, and so is a parameter
// where not every contract would fill it.
func parse(tag string, text []byte) (*language, error) {
	var doc yaml.Node
	if err := yaml.Load(text, &doc); err != nil {
		return nil, err
	}
	r := &reader{known: map[string]bool{}}
	for _, key := range keys() {
		r.known[key] = true
	}
	l := &language{tag: tag, base: layer{}, units: map[unit]forms{}, when: map[fact]layer{}, contracts: map[string]layer{}}
	root := &doc
	if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 {
		root = doc.Content[0]
	}
	r.each(root, func(section string, n *yaml.Node) {
		switch section {
		case "units":
			r.units(n, l.units)
		case "texts":
			r.texts(n, "", l.base, func(param) bool { return false })
		case "when":
			r.each(n, func(name string, n *yaml.Node) { r.when(fact(name), n, l.when) })
		case "contracts":
			// Which parameters a contract fills is known; TestCatalog_EveryTextIsFilledIn looks.
			r.each(n, func(name string, n *yaml.Node) {
				l.contracts[name] = layer{}
				r.texts(n, "", l.contracts[name], func(param) bool { return true })
			})
		default:
			r.fault(n, "section %s is not known", section)
		}
	})
	return l, errors.Join(r.faults...)
}

func (r *reader) fault(n *yaml.Node, format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf("line %d: %s", n.Line, fmt.Sprintf(format, args...)))
}

// each goes over the members of a mapping.
func (r *reader) each(n *yaml.Node, member func(name string, n *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.fault(n, "has to be a mapping")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i].Value
		if seen[name] {
			r.fault(n.Content[i], "%s stands here for the second time", name)
		}
		seen[name] = true
		member(name, n.Content[i+1])
	}
}

func (r *reader) when(f fact, n *yaml.Node, into map[fact]layer) {
	if !slices.Contains(facts(), f) {
		r.fault(n, "fact %s is not known", f)
		return
	}
	into[f] = layer{}
	r.texts(n, "", into[f], func(used param) bool { return used.filledUnder(f) })
}

// texts reads texts below a prefix. may says which parameters are always filled.
func (r *reader) texts(n *yaml.Node, prefix string, into layer, may func(param) bool) {
	r.each(n, func(name string, n *yaml.Node) {
		key := prefix + name
		if n.Kind != yaml.ScalarNode {
			r.texts(n, key+".", into, may)
			return
		}
		if !r.known[key] {
			r.fault(n, "key %s is not known", key)
			return
		}
		into[key] = r.template(n, key, may)
	})
}

// template takes a text apart at its parameters.
func (r *reader) template(n *yaml.Node, key string, may func(param) bool) template {
	if n.Tag != "!!str" || strings.TrimSpace(n.Value) != n.Value || n.Value == "" {
		r.fault(n, "%s has to be a text without spaces around it", key)
		return nil
	}
	var t template
	for rest := n.Value; rest != ""; {
		literal, after, open := strings.Cut(rest, "{")
		if literal != "" {
			t = append(t, segment{literal: literal})
		}
		if !open {
			break
		}
		name, tail, closed := strings.Cut(after, "}")
		used := param(name)
		switch {
		case !closed || !slices.Contains(params(), used):
			r.fault(n, "%s has a brace that opens no known parameter", key)
			return nil
		case !may(used):
			r.fault(n, "%s uses {%s}, which not every contract fills", key, used)
			return nil
		}
		t = append(t, segment{param: used})
		rest = tail
	}
	return t
}

func (r *reader) units(n *yaml.Node, into map[unit]forms) {
	r.each(n, func(name string, n *yaml.Node) {
		u := unit(name)
		if !slices.Contains(units(), u) {
			r.fault(n, "unit %s is not known", name)
			return
		}
		r.each(n, func(form string, n *yaml.Node) {
			f := into[u]
			switch {
			case strings.Count(n.Value, number) != 1:
				r.fault(n, "unit %s needs %s once", name, number)
			case form == "one":
				f.one = n.Value
			case form == "other":
				f.other = n.Value
			default:
				r.fault(n, "unit %s has no form %s", name, form)
			}
			into[u] = f
		})
	})
}
