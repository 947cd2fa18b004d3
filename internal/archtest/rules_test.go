package archtest

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the documents that are made from the code")

const rulesPage = "docs/rules.md"

const rulesHead = `# Where each rule is decided, and what proves it

Made from the code's comments and the tests' names (` + "`go test ./internal/archtest -run RulesPage -update`" + `). What the
rules say stands in [contracts.md](contracts.md) (S, E, P, R), [engine.md](engine.md) (N) and [faults.md](faults.md) (B).

| rule | decided in | proved by |
|---|---|---|
`

var (
	comment   = regexp.MustCompile(`(?m)//.*$`)
	ruleWord  = regexp.MustCompile(`\b([NBSEPR]\d{1,3})\b`)
	wholeTest = regexp.MustCompile(`^(?:[Tt]est|[Ff]uzz)`)
)

// The page of rules says what the code and the tests say.
func TestRulesPageIsUpToDate(t *testing.T) {
	t.Parallel()
	page := rulesHead + rulesRows(t)
	if *update {
		if err := os.WriteFile(filepath.Join(root(t), filepath.FromSlash(rulesPage)), []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if page != read(t, rulesPage) {
		t.Errorf("%s is out of date: go test ./internal/archtest -run RulesPage -update", rulesPage)
	}
}

// rulesRows is a row for each rule that a test carries.
func rulesRows(t *testing.T) string {
	t.Helper()
	rules := rulesOf(t)
	places, tests := map[string]map[string]bool{}, map[string]map[string]bool{}
	note := func(in map[string]map[string]bool, id, text string) {
		if in[id] == nil {
			in[id] = map[string]bool{}
		}
		in[id][text] = true
	}
	for _, file := range files(t, withSuffix(".go")) {
		text := read(t, file)
		switch {
		case strings.HasPrefix(file, "internal/archtest/"):
		case strings.HasSuffix(file, "_test.go"), strings.HasPrefix(file, "internal/store/storetest/"):
			for _, name := range testName.FindAllStringSubmatch(text, -1) {
				for _, m := range ruleID.FindAllStringSubmatch(strings.ReplaceAll(name[1], "_", "__"), -1) {
					if wholeTest.MatchString(name[1]) {
						note(tests, m[1], fmt.Sprintf("`%s` (%s)", name[1], path.Dir(file)))
					}
				}
			}
		default:
			for _, line := range comment.FindAllString(text, -1) {
				for _, m := range ruleWord.FindAllStringSubmatch(line, -1) {
					if rules[m[1]] != "" {
						note(places, m[1], file)
					}
				}
			}
		}
	}
	var out strings.Builder
	for _, id := range slices.SortedFunc(maps.Keys(tests), byRule) {
		fmt.Fprintf(&out, "| %s | %s | %s |\n", id, join(places[id]), join(tests[id]))
	}
	return out.String()
}

func join(set map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(set)), ", ") }

// byRule orders IDs as the rule books do: by letter, then number.
func byRule(a, b string) int {
	number := func(id string) int {
		n, _ := strconv.Atoi(id[1:]) // ruleID has digits there
		return n
	}
	letters := "SEPRNB"
	return cmp.Or(cmp.Compare(strings.IndexByte(letters, a[0]), strings.IndexByte(letters, b[0])), cmp.Compare(number(a), number(b)))
}

// The engine knows no platform's name: what differs between promises is a field of
// a contract.
func TestTheEngineKnowsNoPlatformsName(t *testing.T) {
	t.Parallel()
	names := regexp.MustCompile(`(?i)signals|elido|petify`)
	for _, file := range files(t, withSuffix(".go")) {
		// The texts of banners are data beside the contracts.
		if !strings.HasPrefix(file, "internal/") || strings.HasPrefix(file, "internal/catalog/") || strings.HasSuffix(file, "_test.go") {
			continue
		}
		if at := names.FindStringIndex(read(t, file)); at != nil {
			text := read(t, file)
			t.Errorf("%s:%d names a platform", file, strings.Count(text[:at[0]], "\n")+1)
		}
	}
}
