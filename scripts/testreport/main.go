// Command testreport reads the output of go test -json and prints what a person
// needs of it: each package's closing line, the output of what failed, and the
// counts. Its exit code is 1 when a test failed, when a package did not build,
// when nothing ran, or when a test was skipped: in CI a skipped test proves
// nothing. Start reading at report.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	ok, err := report(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
	if !ok {
		os.Exit(1)
	}
}

// event is one line of go test -json.
type event struct {
	Action     string
	Package    string
	ImportPath string // of build output
	Test       string
	Output     string
}

type name struct{ pkg, test string }

type tally struct {
	out     io.Writer
	outputs map[name]*strings.Builder
	passed  int
	failed  int
	skipped []name
	broken  int // packages that failed, by a test, a crash or the build
}

// report copies what matters of in to out and tells whether all is well.
func report(in io.Reader, out io.Writer) (bool, error) {
	t := &tally{out: out, outputs: map[name]*strings.Builder{}}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			// The go command's own words, such as a module that can't be found.
			t.printf("%s\n", lines.Text())
			continue
		}
		t.take(e)
	}
	if err := lines.Err(); err != nil {
		return false, fmt.Errorf("reading: %w", err)
	}
	return t.close(), nil
}

func (t *tally) printf(format string, args ...any) { _, _ = fmt.Fprintf(t.out, format, args...) }

func (t *tally) take(e event) {
	n := name{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		t.printf("%s", e.Output)
	case "output":
		t.output(n, e.Output)
	case "pass":
		if e.Test != "" {
			t.passed++
			delete(t.outputs, n)
		}
	case "skip":
		if e.Test != "" {
			t.skipped = append(t.skipped, n)
		}
	case "fail":
		t.fail(n)
	}
}

// output keeps a test's output until its end is known. Of a package, the closing
// line is printed at once.
func (t *tally) output(n name, text string) {
	if n.test == "" && (strings.HasPrefix(text, "ok  \t") || strings.HasPrefix(text, "FAIL\t")) {
		t.printf("%s", text)
		return
	}
	if strings.HasPrefix(text, "=== ") {
		return // RUN, PAUSE, CONT, NAME: who ran when
	}
	b := t.outputs[n]
	if b == nil {
		b = &strings.Builder{}
		t.outputs[n] = b
	}
	b.WriteString(text)
}

// fail prints what the test, or the package outside its tests, had to say.
func (t *tally) fail(n name) {
	if b := t.outputs[n]; b != nil {
		t.printf("\n%s\n", b.String())
		delete(t.outputs, n)
	}
	if n.test != "" {
		t.failed++
		return
	}
	t.broken++
	// A crash takes down tests that never ended: their words tell where.
	for other, b := range t.outputs {
		if other.pkg == n.pkg {
			t.printf("\nunfinished: %s %s\n%s\n", other.pkg, other.test, b.String())
			delete(t.outputs, other)
		}
	}
}

func (t *tally) close() bool {
	for _, n := range t.skipped {
		t.printf("SKIPPED, which counts as failed: %s %s\n", n.pkg, n.test)
		if b := t.outputs[n]; b != nil {
			t.printf("%s", b.String())
		}
	}
	if t.broken > 0 {
		t.printf("%d packages failed\n", t.broken)
	}
	if t.passed+t.failed+len(t.skipped) == 0 {
		t.printf("no test ran\n")
		return false
	}
	t.printf("%d passed, %d failed, %d skipped\n", t.passed, t.failed, len(t.skipped))
	return t.failed == 0 && t.broken == 0 && len(t.skipped) == 0
}
