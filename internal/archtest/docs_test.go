package archtest

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pathLike finds what looks like a path inside the repository.
var pathLike = regexp.MustCompile(`(?:^|[\s"'(=])((?:\./)?[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.*-]+)+/?)`)

// link finds the target of a Markdown link.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// code finds code spans; they are where paths stand.
var code = regexp.MustCompile("`([^`\n]+)`")

// Every path that a document names exists.
func TestDocumentsNameOnlyPathsThatExist(t *testing.T) {
	t.Parallel()
	top := root(t)
	exists := func(p string) bool {
		found, err := filepath.Glob(filepath.Join(top, filepath.FromSlash(p)))
		return err == nil && len(found) > 0
	}
	for _, doc := range files(t, withSuffix(".md")) {
		text := read(t, doc)
		for _, span := range code.FindAllStringSubmatch(text, -1) {
			for _, m := range pathLike.FindAllStringSubmatch(span[1], -1) {
				p := strings.TrimRight(strings.TrimPrefix(m[1], "./"), ".,:/")
				first, _, _ := strings.Cut(p, "/")
				if !slices.Contains(leftovers(), first) && exists(first) && !exists(p) {
					t.Errorf("%s names %s, which does not exist", doc, p)
				}
			}
			if name := span[1]; strings.HasSuffix(name, ".go") && !strings.ContainsAny(name, "/ *") && !exists("*/"+name) &&
				!exists("*/*/"+name) && !exists("*/*/*/"+name) {
				t.Errorf("%s names %s, which does not exist", doc, name)
			}
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			if !exists(path.Join(path.Dir(doc), target)) {
				t.Errorf("%s links to %s, which does not exist", doc, target)
			}
		}
	}
}

// The tree in docs/architecture.md lists every package, and nothing else.
func TestArchitectureListsEveryPackage(t *testing.T) {
	t.Parallel()
	const doc = "docs/architecture.md"
	_, rest, ok := strings.Cut(read(t, doc), "```text\n")
	tree, _, closed := strings.Cut(rest, "\n```")
	if !ok || !closed {
		t.Fatalf("%s has no block of text with the tree", doc)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(tree) {
		name, text, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
		if !strings.HasSuffix(name, "/") {
			continue
		}
		if strings.TrimSpace(text) == "" {
			t.Errorf("%s does not say what %s is for", doc, name)
		}
		listed[strings.TrimSuffix(name, "/")] = true
	}
	for _, p := range packages(t) {
		if !listed[p.name()] {
			t.Errorf("%s does not list %s", doc, p.name())
		}
		delete(listed, p.name())
	}
	for name := range listed {
		t.Errorf("%s lists %s, which is no package", doc, name)
	}
}

// ruleBooks are the documents that list rules by ID, by the IDs' first letter.
func ruleBooks() map[string]string {
	return map[string]string{
		"N": "docs/engine.md", "B": "docs/faults.md",
		"S": "docs/contracts.md", "E": "docs/contracts.md", "P": "docs/contracts.md", "R": "docs/contracts.md",
	}
}

// proved are the states of a rule that need a test of its name; open the others.
func proved() []string { return []string{"kept", "one node", "partly", "tried"} }
func open() []string   { return []string{"planned", "later"} }

var (
	ruleRow = regexp.MustCompile(`(?m)^\| ([NBSEPR]\d{1,3}) \| ([a-z ]+) \| `)
	// A test's name, or a subtest's, that carries IDs: TestEngine_N12_…, what a
	// suite calls testFault_B04_…, or t.Run("N21 time-lapse").
	testName = regexp.MustCompile(`(?:\bfunc |")((?:[Tt]est|[Ff]uzz|[Bb]enchmark)?[A-Z][A-Za-z0-9]*_[NBSEPR]\d{1,3}[A-Za-z0-9_]*|[NBSEPR]\d{1,3} [a-z])`)
	ruleID   = regexp.MustCompile(`(?:_|^)([NBSEPR]\d{1,3})(?:[ _]|$)`)
)

// rulesOf reads a rule book: the state of each ID.
func rulesOf(t *testing.T) map[string]string {
	t.Helper()
	rules := map[string]string{}
	for letter, doc := range ruleBooks() {
		for _, m := range ruleRow.FindAllStringSubmatch(read(t, doc), -1) {
			if strings.HasPrefix(m[1], letter) {
				rules[m[1]] = m[2]
			}
		}
	}
	if len(rules) < 100 {
		t.Fatalf("only %d rules found: the documents' tables look different", len(rules))
	}
	return rules
}

// testedRules lists the IDs that names of tests carry, each with one such name.
func testedRules(t *testing.T) map[string]string {
	t.Helper()
	tested := map[string]string{}
	for _, file := range files(t, withSuffix(".go")) {
		if strings.HasPrefix(file, "internal/archtest/") ||
			(!strings.HasSuffix(file, "_test.go") && !strings.HasPrefix(file, "internal/store/storetest/")) {
			continue
		}
		for _, name := range testName.FindAllStringSubmatch(read(t, file), -1) {
			// The separator of one ID is the beginning of the next.
			for _, m := range ruleID.FindAllStringSubmatch(strings.ReplaceAll(name[1], "_", "__"), -1) {
				tested[m[1]] = file + " " + name[1]
			}
		}
	}
	return tested
}

func TestTestsCarryOnlyIDsThatAreDocumented(t *testing.T) {
	t.Parallel()
	rules := rulesOf(t)
	for id, name := range testedRules(t) {
		if rules[id] == "" {
			t.Errorf("%s carries %s, which no document lists", name, id)
		}
	}
}

func TestRulesThatAreKeptHaveATest(t *testing.T) {
	t.Parallel()
	tested := testedRules(t)
	for id, state := range rulesOf(t) {
		switch {
		case slices.Contains(proved(), state):
			if tested[id] == "" {
				t.Errorf("%s is called %s, but no test carries its ID", id, state)
			}
		case slices.Contains(open(), state):
			if tested[id] != "" {
				t.Errorf("%s is called %s, but %s proves it: say so", id, state, tested[id])
			}
		default:
			t.Errorf("%s has the state %q, want one of %v or %v", id, state, proved(), open())
		}
	}
}

// ties hold the repository to one machine or one network: folders of a person or
// a build host, hosts of package registries where a mirror must do.
func ties() []*regexp.Regexp {
	return []*regexp.Regexp{
		regexp.MustCompile(`(^|[^A-Za-z0-9_.-])/(home|Users|root|work|workspace|builds|tmp/[a-z]{1,8})/`),
		regexp.MustCompile(`registry\.npmjs\.org|pypi\.org|proxy\.golang\.org|deb\.debian\.org`),
	}
}

func TestNothingTiesTheRepositoryToOneMachine(t *testing.T) {
	t.Parallel()
	// This file names what it looks for; built tests and profiles name the machine.
	written := func(p string) bool {
		return p != "internal/archtest/docs_test.go" && !slices.Contains([]string{".test", ".prof", ".out"}, path.Ext(p))
	}
	for _, file := range files(t, written) {
		text := read(t, file)
		for _, tie := range ties() {
			if at := tie.FindStringIndex(text); at != nil {
				t.Errorf("%s:%d names %s", file, strings.Count(text[:at[0]], "\n")+1, text[at[0]:at[1]])
			}
		}
	}
}

// A fragment of the changelog is one item of a known kind.
func TestChangelogFragmentsHaveTheirForm(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`\A(added|changed|fixed|removed|security): [^\n]+\.\n\z`)
	entries, err := os.ReadDir(filepath.Join(root(t), "changelog", "unreleased"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		file := "changelog/unreleased/" + e.Name()
		if !form.MatchString(read(t, file)) {
			t.Errorf("%s is not one line of the form %s", file, form)
		}
	}
}
