package archtest

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// row says which packages of this module a package may import.
type row struct {
	pkg string
	// may holds packages; a name in angle brackets is a group of them.
	may string
	// tests holds what its tests may import besides, and themselves.
	tests string
}

// groups name sets of packages that many rows share.
func groups() map[string]string {
	return map[string]string{
		"<nouns>": "contract internal/webhook",
		"<seam>":  "<nouns> internal/clock internal/store",
		"<verbs>": "internal/publish internal/send internal/dispatch",
		"<edges>": "internal/auth internal/api",
		// What a test may use to have a real store under it.
		"<real>": "internal/store/sqlite internal/store/storetest internal/seal",
	}
}

// rows are the allowed imports. They point down this list only. A verb never
// imports another; only app imports a driver; only cmd imports cli.
// docs/architecture.md has the picture.
func rows() []row {
	return []row{
		// Public, promised by semver, standing alone.
		{"contract", "", ""},
		{"signature", "", ""},
		{"client", "", ""},
		// Nouns and the sense of time.
		{"internal/webhook", "contract", ""},
		{"internal/clock", "", ""},
		{"internal/catalog", "<nouns>", ""},
		{"internal/seal", "internal/webhook", ""},
		{"internal/pagetoken", "internal/webhook", ""},
		{"internal/simulate", "contract", ""},
		// Storage.
		{"internal/store", "<nouns>", ""},
		{"internal/store/storetest", "<seam>", ""},
		{"internal/store/sqlite", "<seam> internal/seal", "internal/store/storetest"},
		// What verbs and edges decide alike.
		{"internal/again", "<seam>", ""},
		// Verbs.
		{"internal/transform", "<nouns>", ""},
		{"internal/publish", "<seam>", "<real> internal/transform"},
		{"internal/send", "<nouns> internal/clock signature", ""},
		{"internal/dispatch", "<seam>", "<real>"},
		{"internal/maintain", "<seam> internal/catalog", "<real>"},
		{"internal/telemetry", "<nouns> internal/clock", ""},
		// Edges.
		{"internal/auth", "<seam>", "<real>"},
		{"internal/api", "<seam> signature internal/catalog internal/simulate internal/again internal/auth internal/publish", "<real> internal/pagetoken client"},
		// Wiring.
		{"internal/config", "<nouns>", ""},
		{"internal/app", "<seam> <verbs> <edges> internal/catalog internal/pagetoken internal/again internal/transform internal/maintain internal/telemetry signature internal/seal internal/config internal/store/sqlite", "client internal/store/storetest"},
		{"internal/cli/receiver", "signature internal/simulate", ""},
		{"internal/cli/demo", "signature client internal/clock internal/cli/receiver", ""},
		{"internal/cli/bench", "signature client internal/clock internal/cli/receiver", ""},
		{"internal/cli", "contract signature client internal/webhook internal/simulate internal/catalog internal/clock internal/config internal/cli/receiver internal/cli/demo internal/cli/bench", ""},
		{"internal/cli/reference", "<nouns> signature internal/catalog internal/send internal/clock internal/config internal/cli", ""},
		{"cmd/posthorn", "internal/clock internal/config internal/app internal/cli", ""},
		// Around the code.
		{"internal/archtest", "", ""},
		{"interop/sign", "signature", ""},
		{"scripts/testreport", "", ""},
	}
}

// wall says which packages alone may import a third-party module.
type wall struct {
	module string
	only   string
	why    string
}

func walls() []wall {
	return []wall{
		{"github.com/ncruces/go-sqlite3", "internal/store/sqlite", "SQL stays in the driver"},
		{"github.com/prometheus", "internal/telemetry", "what is counted is a bounded set in one place"},
		{"cel.dev/cel-go", "internal/transform", "how a filter is written down is one package's business"},
		{"github.com/wneessen/go-mail", "internal/maintain", "mail goes out in one place"},
		{"github.com/alecthomas/kong", "internal/cli internal/config", "the command line stays at its edge"},
		{"go.yaml.in/yaml", "contract internal/catalog internal/config internal/cli", "YAML is the form of contracts, texts and settings"},
	}
}

// standalone lists packages that import the standard library only.
func standalone() []string { return []string{"signature", "client"} }

// listed is what go list says of a package.
type listed struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func (l listed) name() string { return strings.TrimPrefix(l.ImportPath, module+"/") }

func packages(t *testing.T) []listed {
	t.Helper()
	// Besides the answer, this walk makes the go command notice new files.
	files(t, withSuffix(".go"))
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-tags=readme,crash",
		"-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var l listed
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
}

// expand turns a row's text into the packages that it names.
func expand(t *testing.T, text string) map[string]bool {
	t.Helper()
	set := map[string]bool{}
	for word := range strings.FieldsSeq(text) {
		if !strings.HasPrefix(word, "<") {
			set[word] = true
			continue
		}
		group, ok := groups()[word]
		if !ok {
			t.Fatalf("no group %s", word)
		}
		for name := range expand(t, group) {
			set[name] = true
		}
	}
	return set
}

func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	place := map[string]int{}
	for i, r := range rows() {
		place[r.pkg] = i
		for name := range expand(t, r.may) {
			if at, ok := place[name]; !ok || at == i {
				t.Errorf("row %s allows %s, which does not stand above it", r.pkg, name)
			}
		}
	}
}

func TestImportsAreAllowed(t *testing.T) {
	t.Parallel()
	all := rows()
	for _, p := range packages(t) {
		i := slices.IndexFunc(all, func(r row) bool { return r.pkg == p.name() })
		if i < 0 {
			t.Errorf("package %s has no row: say what it may import", p.name())
			continue
		}
		may := expand(t, all[i].may)
		for _, name := range ours(p.Imports) {
			if !may[name] {
				t.Errorf("%s imports %s, which its row does not allow", p.name(), name)
			}
		}
		tests := expand(t, all[i].may+" "+all[i].tests+" "+p.name())
		for _, name := range ours(append(p.TestImports, p.XTestImports...)) {
			if !tests[name] {
				t.Errorf("tests of %s import %s, which its row does not allow", p.name(), name)
			}
		}
	}
}

func TestThirdPartyModulesStayBehindTheirWalls(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		for _, w := range walls() {
			if expand(t, w.only)[p.name()] {
				continue
			}
			for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
				if strings.HasPrefix(imported, w.module) {
					t.Errorf("%s imports %s: %s", p.name(), imported, w.why)
				}
			}
		}
		if !slices.Contains(standalone(), p.name()) {
			continue
		}
		for _, imported := range p.Imports {
			if first, _, _ := strings.Cut(imported, "/"); strings.Contains(first, ".") {
				t.Errorf("%s imports %s: it stands on the standard library alone", p.name(), imported)
			}
		}
	}
}

// ours keeps the imports of this module, without its path.
func ours(imports []string) []string {
	var out []string
	for _, path := range imports {
		if name, ok := strings.CutPrefix(path, module+"/"); ok {
			out = append(out, name)
		}
	}
	return out
}
