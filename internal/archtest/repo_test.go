package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/posthorn/posthorn"

// leftovers are folders that builds and runs leave behind; they are no part of
// the repository.
func leftovers() []string { return []string{".git", "bin", "posthorn-data", "node_modules", ".venv"} }

// root is the repository's top folder.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above this package")
		}
		dir = up
	}
}

// files lists the repository's files, slash-separated and relative to its root,
// that keep says yes to. Walking opens every folder, so that the go command runs
// these tests again when a file comes or goes.
func files(t *testing.T, keep func(path string) bool) []string {
	t.Helper()
	top := root(t)
	var out []string
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains(leftovers(), d.Name()) {
			return filepath.SkipDir
		}
		rel, err := filepath.Rel(top, path)
		if err != nil {
			return err
		}
		if rel = filepath.ToSlash(rel); d.Type().IsRegular() && keep(rel) {
			out = append(out, rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) == 0 {
		t.Fatal("no files found: the test looks in the wrong place")
	}
	return out
}

// withSuffix keeps paths that end so.
func withSuffix(suffix string) func(string) bool {
	return func(path string) bool { return strings.HasSuffix(path, suffix) }
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// source is a parsed Go file that a person wrote.
type source struct {
	path string
	fset *token.FileSet
	file *ast.File
	// lines of the whole file.
	lines int
}

// sources parses the Go files, generated ones left out.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	for _, path := range files(t, withSuffix(".go")) {
		text := read(t, path)
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if !ast.IsGenerated(file) {
			out = append(out, source{path: path, fset: fset, file: file, lines: strings.Count(text, "\n")})
		}
	}
	return out
}
