package catalog

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/posthorn/posthorn/contract"
)

func osDir() fs.FS { return os.DirFS(".") }

type letter struct{ contract, lang, key, line, text string }

func letters(t *testing.T) []letter {
	t.Helper()
	file, err := fs.ReadFile(osDir(), "testdata/letter.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var all []letter
	for line := range strings.Lines(string(file)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(cells) != 5 {
			t.Fatalf("%q has %d cells", line, len(cells))
		}
		all = append(all, letter{cells[0], cells[1], cells[2], cells[3], cells[4]})
	}
	return all
}

// The platforms' customers know these words from their pages: S6, S7, S9, P6 and
// E8 are kept to the letter.
func TestContract_WordsAreThoseOfThePlatforms(t *testing.T) {
	t.Parallel()
	c, agreed := loaded(t), builtins(t)
	quoted := 0
	for _, l := range letters(t) {
		if got := say(t, c.For(l.lang), agreed[l.contract], l.key); got != l.text {
			t.Errorf("%s, %s, %s (line %s):\n got %q\nwant %q", l.contract, l.lang, l.key, l.line, got, l.text)
		}
		if l.line != "ours" {
			quoted++
		}
	}
	if quoted < 90 {
		t.Errorf("only %d texts are quoted; the file is cut", quoted)
	}
}

// Sentences of a platform that would be untrue of others are said under its
// contract alone. The rest is true of all, and all share it.
func TestContract_WordsOfAPlatformStayItsOwn(t *testing.T) {
	t.Parallel()
	c, agreed := loaded(t), builtins(t)
	particular := map[string]bool{}
	for key := range strings.FieldsSeq(`
		status.pending.meaning status.failed.meaning status.dead.meaning status.skipped.meaning
		kind.gone.what kind.gone.remedy kind.network.what kind.redirect.remedy kind.endpoint_unavailable.what
		kind.event_missing.what kind.paused.label kind.paused.what banner.no_success banner.staff
		answer.gone.effect answer.unsafe_url.effect`) {
		particular[key] = true
	}
	compared := map[string]bool{}
	for _, l := range letters(t) {
		if l.line == "ours" || !particular[l.key] {
			continue
		}
		compared[l.key] = true
		for _, other := range contract.BuiltinNames() {
			if got := say(t, c.For(l.lang), agreed[other], l.key); other != l.contract && got == l.text {
				t.Errorf("%s, line %s is said under %s too: %s", l.contract, l.line, other, l.text)
			}
		}
		if got := say(t, c.For(l.lang), nil, l.key); got == l.text {
			t.Errorf("%s, line %s is said under no contract too: %s", l.contract, l.line, l.text)
		}
	}
	if len(compared) != len(particular) {
		t.Errorf("compared %d of %d keys", len(compared), len(particular))
	}
}
