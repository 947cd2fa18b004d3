package catalog

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/webhook"
)

func loaded(t testing.TB) *Catalog {
	t.Helper()
	c, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func builtin(t testing.TB, name string) *contract.Contract {
	t.Helper()
	c, ok := contract.Builtin(name)
	if !ok {
		t.Fatalf("no contract %s", name)
	}
	return c
}

// builtins are all built-in contracts, for tests that ask of them often.
func builtins(t testing.TB) map[string]*contract.Contract {
	t.Helper()
	all := map[string]*contract.Contract{}
	for _, name := range contract.BuiltinNames() {
		all[name] = builtin(t, name)
	}
	return all
}

// altered is a contract of a user: a built-in one under another name, changed.
func altered(t testing.TB, name string, change func(c *contract.Contract)) *contract.Contract {
	t.Helper()
	c := builtin(t, name)
	c.Name = "a-users-own"
	change(c)
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

// say asks for the text of a key in the way that callers do.
func say(t testing.TB, texts Texts, c *contract.Contract, key string) string {
	t.Helper()
	section, rest, _ := strings.Cut(key, ".")
	name, part, _ := strings.Cut(rest, ".")
	pick := func(parts ...string) string {
		names := []string{"label", map[string]string{"kind": "what", "answer": "effect", "mark": "text"}[section], "remedy"}
		if names[1] == "" {
			names[1] = "meaning"
		}
		i := slices.Index(names, part)
		if i < 0 || i >= len(parts) {
			t.Fatalf("%s: there is no %q", key, part)
		}
		return parts[i]
	}
	switch section {
	case "status":
		label, meaning := texts.Status(c, contract.Status(name))
		return pick(label, meaning)
	case "kind":
		label, what, remedy := texts.Kind(c, contract.FailureKind(name))
		return pick(label, what, remedy)
	case "reason":
		label, meaning := texts.Reason(c, webhook.Reason(name))
		return pick(label, meaning)
	case "state":
		label, meaning := texts.State(c, webhook.EndpointState(name))
		return pick(label, meaning)
	case "state_reason":
		return pick(texts.StateReason(c, webhook.StateReason(name)))
	case "banner":
		return texts.Banner(c, webhook.StateReason(name))
	case "mark":
		label, text := texts.Degraded(c)
		return pick(label, text)
	case "trigger":
		return pick(texts.Trigger(c, contract.Trigger(name)))
	case "action":
		return texts.Action(c, Action(name))
	case "answer":
		label, effect := texts.Answer(c, Answer(name))
		return pick(label, effect)
	case "word":
		return texts.Word(c, Word(name))
	}
	t.Fatalf("no section %s", section)
	return ""
}

// asked lists the keys that callers can ask for: the effects of stopping answers
// stand in for others.
func asked() []string {
	return slices.DeleteFunc(keys(), func(key string) bool {
		return slices.Contains([]string{keyStopped, keyStoppedDisabled, keyPartlyStopped}, key)
	})
}

// constants lists the values of all constants of a type in a package's folder, but
// for the empty one.
func constants(t *testing.T, dir, typ string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no Go files in %s: %v", dir, err)
	}
	var all []string
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, s := range group.Specs {
				all = append(all, valuesOf(s.(*ast.ValueSpec), typ)...)
			}
		}
	}
	slices.Sort(all)
	return all
}

func valuesOf(s *ast.ValueSpec, typ string) []string {
	named, ok := s.Type.(*ast.Ident)
	if !ok || named.Name != typ {
		return nil
	}
	var all []string
	for _, v := range s.Values {
		if lit, ok := v.(*ast.BasicLit); ok {
			if value, err := strconv.Unquote(lit.Value); err == nil && value != "" {
				all = append(all, value)
			}
		}
	}
	return all
}

func sorted[T ~string](members []T) []string {
	all := make([]string, len(members))
	for i, m := range members {
		all[i] = string(m)
	}
	slices.Sort(all)
	return all
}
