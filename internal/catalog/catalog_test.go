package catalog

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/webhook"
)

// The lists that keys are made from are the closed sets: a new member anywhere
// fails here until it has texts.
func TestCatalog_ListsEveryMemberOfTheClosedSets(t *testing.T) {
	t.Parallel()
	const contracts, nouns, here = "../../contract", "../webhook", "."
	for _, set := range []struct {
		dir, typ string
		listed   []string
	}{
		{contracts, "Status", sorted(contract.Statuses())},
		{contracts, "FailureKind", sorted(contract.FailureKinds())},
		{contracts, "Trigger", sorted(contract.Triggers())},
		{nouns, "Reason", sorted(webhook.Reasons())},
		{nouns, "EndpointState", sorted(states())},
		{nouns, "StateReason", sorted(stateReasons())},
		{here, "Action", sorted(Actions())},
		{here, "Answer", sorted(Answers())},
		{here, "Word", sorted(Words())},
		{here, "fact", sorted(facts())},
		{here, "param", sorted(params())},
		{here, "unit", sorted(units())},
	} {
		declared := constants(t, set.dir, set.typ)
		if len(declared) == 0 {
			t.Errorf("no constants of %s found: the test looks in the wrong place", set.typ)
		}
		if diff := cmp.Diff(declared, set.listed); diff != "" {
			t.Errorf("%s (-declared +listed):\n%s", set.typ, diff)
		}
	}
}

func TestCatalog_NoLanguageLacksAText(t *testing.T) {
	t.Parallel()
	c := loaded(t)
	english := c.languages[English]
	for _, tag := range Languages() {
		l := c.languages[tag]
		if missing := l.missing(); len(missing) > 0 {
			t.Errorf("%s lacks %v", tag, missing)
		}
		// What one language says more exactly where a fact holds, all do.
		for _, f := range facts() {
			want, got := mapKeys(english.when[f]), mapKeys(l.when[f])
			if len(want) == 0 {
				t.Errorf("the fact %s changes no text", f)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("when %s (-en +%s):\n%s", f, tag, diff)
			}
		}
	}
}

func mapKeys(l layer) []string {
	return slices.Sorted(maps.Keys(l))
}

// Every text of every language reads as a text under every built-in contract, and
// under none.
func TestCatalog_EveryTextIsFilledIn(t *testing.T) {
	t.Parallel()
	c := loaded(t)
	under := builtins(t)
	under["none"] = nil
	for _, tag := range Languages() {
		texts := c.For(tag)
		for name, agreed := range under {
			for _, key := range asked() {
				checkText(t, name, tag, key, say(t, texts, agreed, key))
			}
		}
		// What a contract has of its own uses parameters without a fact that
		// would promise them.
		l := c.languages[tag]
		for name, own := range l.contracts {
			for key, text := range own {
				checkText(t, name, tag, key, l.fill(text, under[name]))
			}
		}
	}
}

func checkText(t *testing.T, name, tag, key, text string) {
	t.Helper()
	switch {
	case text == "":
		t.Errorf("%s, %s: %s is empty", name, tag, key)
	case strings.ContainsAny(text, "{}*<>\n\t") || strings.Contains(text, "  "):
		t.Errorf("%s, %s: %s has a brace, markup or spaces left over: %q", name, tag, key, text)
	case strings.Contains(text, " 0 ") || strings.HasPrefix(text, "0"):
		t.Errorf("%s, %s: %s is filled with nothing: %q", name, tag, key, text)
	case last(key) == "label" && len([]rune(text)) > 45:
		t.Errorf("%s, %s: %s is long for a label: %q", name, tag, key, text)
	case sentence(key) && !strings.HasSuffix(strings.TrimSuffix(text, `"`), ".") && !strings.HasSuffix(text, "。"):
		t.Errorf("%s, %s: %s is no sentence: %q", name, tag, key, text)
	}
}

func last(key string) string { return key[strings.LastIndex(key, ".")+1:] }

func sentence(key string) bool {
	return strings.HasPrefix(key, "banner.") || slices.Contains([]string{"meaning", "what", "remedy", "text", "effect"}, last(key))
}

// Texts for all are for all: a platform's name stands with that platform's
// contract only, and nowhere in Go.
func TestCatalog_NamesAPlatformOnlyInItsOwnTexts(t *testing.T) {
	t.Parallel()
	names := []string{"steve"}
	for _, name := range contract.BuiltinNames() {
		if name != contract.Standard {
			names = append(names, name)
		}
	}
	namesOne := func(text string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.Contains(strings.ToLower(text), n) })
	}
	sources, err := fs.Glob(osDir(), "*.go")
	if err != nil || len(sources) == 0 {
		t.Fatal("no sources found", err)
	}
	for _, path := range sources {
		text, err := fs.ReadFile(osDir(), path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(path, "_test.go") && namesOne(string(text)) {
			t.Errorf("%s names a platform", path)
		}
	}
	// A new contract of a user meets neutral words only.
	c := loaded(t)
	for _, tag := range Languages() {
		for _, name := range contract.BuiltinNames() {
			own := altered(t, name, func(c *contract.Contract) { c.Operator = "Acme" })
			for _, key := range asked() {
				if text := say(t, c.For(tag), own, key); namesOne(text) {
					t.Errorf("%s, %s under a user's contract names a platform: %q", tag, key, text)
				}
			}
		}
		for name, own := range c.languages[tag].contracts {
			if !slices.Contains(contract.BuiltinNames(), name) {
				t.Errorf("%s has texts for %s, which is no contract", tag, name)
			}
			for key, text := range own {
				for _, s := range text {
					others := strings.ReplaceAll(strings.ToLower(s.literal), name, "")
					if namesOne(others) {
						t.Errorf("%s: %s of %s names another platform", tag, key, name)
					}
				}
			}
		}
	}
}

func TestCatalog_ForFindsTheLanguage(t *testing.T) {
	t.Parallel()
	c := loaded(t)
	for tag, want := range map[string]string{
		"ja": Japanese, "ja-JP": Japanese, "JA-jp": Japanese, "ja-Jpan-JP": Japanese, "ja_JP.UTF-8": Japanese,
		"ko": Korean, "ko-KR": Korean, "ko-Kore-KP": Korean, "ko_KR": Korean, "ko@x": Korean,
		"en": English, "en-US": English, "en-GB": English,
		"": English, "de": English, "zh-Hans": English, "C": English, "POSIX": English, "jav": English, "jam-JM": English,
		"kok": English, "x-ja": English, "-ja": English, "*": English,
	} {
		if got := c.For(tag).Lang(); got != want {
			t.Errorf("For(%q) speaks %s, want %s", tag, got, want)
		}
	}
}

// A language that lacks a text gets the English one, with its values in English.
func TestCatalog_FallsBackToEnglish(t *testing.T) {
	t.Parallel()
	c := loaded(t)
	korean := c.languages[Korean]
	delete(korean.base, "kind.timeout.what")
	delete(korean.when[contractIsKnown], "kind.timeout.what")
	if _, what, _ := c.For(Korean).Kind(builtin(t, contract.Standard), contract.KindTimeout); what != "No answer within 15 seconds." {
		t.Errorf("got %q", what)
	}
	if _, what, _ := c.For(Korean).Kind(nil, contract.KindTimeout); what != "No answer came in time." {
		t.Errorf("under no contract: %q", what)
	}
}

// Members of closed sets that have no text: none, and what a later version adds.
func TestCatalog_SaysNothingOfNothing(t *testing.T) {
	t.Parallel()
	texts := loaded(t).For(Japanese)
	c := builtin(t, contract.Standard)
	label, what, remedy := texts.Kind(c, contract.KindNone)
	reason, meaning := texts.Reason(c, webhook.WhyNone)
	for _, text := range []string{
		label, what, remedy, reason, meaning, texts.StateReason(c, webhook.ReasonActive),
		texts.Banner(c, webhook.ReasonActive), texts.Banner(c, webhook.ReasonPerson), texts.Banner(c, webhook.ReasonSwitchedOff),
	} {
		if text != "" {
			t.Errorf("got %q, want nothing", text)
		}
	}
	if label, meaning := texts.Status(c, "later"); label != "later" || meaning != "" {
		t.Errorf("an unknown status is %q, %q", label, meaning)
	}
	if got := texts.Action(c, "later"); got != "later" {
		t.Errorf("an unknown action is %q", got)
	}
	if got := texts.Word(c, "later"); got != "later" {
		t.Errorf("an unknown word is %q", got)
	}
}

func TestLoad_RefusesABrokenSet(t *testing.T) {
	t.Parallel()
	whole := fstest.MapFS{}
	for _, tag := range Languages() {
		text, err := files.ReadFile(tag + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		whole[tag+".yaml"] = &fstest.MapFile{Data: text}
	}
	if _, err := load(whole); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		file, text, want string
	}{
		"a file is missing":    {"ko.yaml", "", "read texts"},
		"english lacks a text": {"en.yaml", "units: {}", "english lacks status.pending.label"},
		"a key is not known":   {"ja.yaml", "texts:\n  status:\n    pendng: {label: x}", "parse ja.yaml: line 3: key status.pendng.label is not known"},
	} {
		broken := fstest.MapFS{}
		maps.Copy(broken, whole)
		broken[tt.file] = &fstest.MapFile{Data: []byte(tt.text)}
		if tt.text == "" {
			delete(broken, tt.file)
		}
		if _, err := load(broken); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// For takes any text and gives a language that has every text; what stands after
// the primary subtag changes nothing.
func FuzzFor(f *testing.F) {
	c, err := Load()
	if err != nil {
		f.Fatal(err)
	}
	for _, tag := range []string{"ja", "ko-KR", "en", "", "ja_JP.UTF-8", "\xff", "ja,ko;q=0.5", "{timeout}", "-", "JA"} {
		f.Add(tag, "KR")
	}
	f.Fuzz(func(t *testing.T, tag, region string) {
		texts := c.For(tag)
		lang := texts.Lang()
		if !slices.Contains(Languages(), lang) {
			t.Fatalf("For(%q) speaks %q", tag, lang)
		}
		if got := c.For(tag + "-" + region).Lang(); got != lang {
			t.Errorf("For(%q) speaks %s, with a region %s", tag, lang, got)
		}
		if got := c.For(lang).Lang(); got != lang {
			t.Errorf("For(%q) speaks %s", lang, got)
		}
		if label, meaning := texts.Status(nil, contract.StatusDead); label == "" || meaning == "" {
			t.Errorf("For(%q) has no text", tag)
		}
	})
}
