package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// How long things may be, in lines.
const (
	maxFunction = 100
	// Of a hundred functions outside tests, ninety-five are at most so long.
	mostFunctions = 60
	maxFile       = 600
	minDoc        = 2
	maxDoc        = 25
)

// longer holds the exceptions: a file, or "file function", and why.
func longer() map[string]string { return map[string]string{} }

// sleepers holds test files that sleep in real time, and why.
func sleepers() map[string]string {
	return map[string]string{
		"internal/dispatch/fakestore_test.go": "runs inside the bubbles of the tests beside it",
		"internal/dispatch/model_test.go":     "the same",
		"internal/dispatch/fakelife_test.go":  "the same",
		"internal/dispatch/bench_test.go":     "a benchmark's requests take real time",
	}
}

func TestFunctionsAndFilesAreShort(t *testing.T) {
	t.Parallel()
	var lengths []int
	used := map[string]bool{}
	excused := func(key string) bool {
		_, ok := longer()[key]
		used[key] = used[key] || ok
		return ok
	}
	for _, s := range sources(t) {
		if s.lines > maxFile && !excused(s.path) {
			t.Errorf("%s has %d lines, more than %d", s.path, s.lines, maxFile)
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			n := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1
			if n > maxFunction && !excused(s.path+" "+f.Name.Name) {
				t.Errorf("%s: %s has %d lines, more than %d", s.path, f.Name.Name, n, maxFunction)
			}
			if !strings.HasSuffix(s.path, "_test.go") {
				lengths = append(lengths, n)
			}
		}
	}
	slices.Sort(lengths)
	if p95 := lengths[len(lengths)*95/100]; p95 > mostFunctions {
		t.Errorf("the 95th percentile of function lengths is %d, more than %d", p95, mostFunctions)
	}
	for key := range longer() {
		if !used[key] {
			t.Errorf("the exception for %s is not needed any more", key)
		}
	}
}

func TestPackagesSayWhatTheyAre(t *testing.T) {
	t.Parallel()
	docs := map[string][]string{}
	for _, s := range sources(t) {
		dir := path.Dir(s.path)
		if strings.HasSuffix(s.path, "_test.go") || strings.Contains(dir, "testdata") {
			continue
		}
		docs[dir] = append(docs[dir], "")
		if s.file.Doc != nil {
			docs[dir] = append(docs[dir], s.file.Doc.Text())
		}
	}
	for dir, texts := range docs {
		texts = slices.DeleteFunc(texts, func(s string) bool { return s == "" })
		if len(texts) != 1 {
			t.Errorf("%s has %d package docs, want one", dir, len(texts))
			continue
		}
		if n := strings.Count(texts[0], "\n"); n < minDoc || n > maxDoc {
			t.Errorf("%s: its package doc has %d lines, want %d to %d", dir, n, minDoc, maxDoc)
		}
		if !strings.HasPrefix(texts[0], "Package "+path.Base(dir)+" ") && !strings.HasPrefix(texts[0], "Command "+path.Base(dir)+" ") {
			t.Errorf("%s: its package doc does not begin with its name", dir)
		}
	}
}

// Time in tests is virtual: a test that sleeps does it inside a bubble of
// testing/synctest, where it costs nothing and proves something. bubble and
// inVirtualTime make one.
func TestTestsSleepOnlyInVirtualTime(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		virtual := slices.ContainsFunc(s.file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` })
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			made, ok := call.Fun.(*ast.Ident)
			virtual = virtual || ok && (made.Name == "bubble" || made.Name == "inVirtualTime")
			return true
		})
		if _, ok := sleepers()[s.path]; ok || virtual || !strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "Sleep" {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" {
				t.Errorf("%s sleeps outside of virtual time", s.fset.Position(n.Pos()))
			}
			return true
		})
	}
}
