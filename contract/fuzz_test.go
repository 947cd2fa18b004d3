package contract

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// Any bytes are either a contract that reads the same in its canonical form, or
// are refused with faults that each stand at a line of the file.
func FuzzParse(f *testing.F) {
	for _, name := range BuiltinNames() {
		text, _ := BuiltinYAML(name)
		f.Add(text)
	}
	for _, text := range []string{
		harbor, "", "null", "[]", "a: [", "a: &x {b: *x}", "- &a [*a, *a]", "<<: {name: x}", "name: \"a\n\n", "\tname: x", "\x00", "\xff\xfe",
		"name: x\n---\nname: y", "name: !!binary abc", "schedule: {waits: [0, ~, .nan, -.inf, 1e400]}", "{\"apiVersion\": 1}", "? [a]\n: b",
		"history: {statuses: {? {a: b} : c}}", "%YAML 1.2\n---\nname: x", "success: [\"-\", \"1-\", \"99999999999999999999\"]", "timeout: 99999999999999999999h",
		"receiver_memory: 36501d\r\nname: x\rdelivers: run", strings.Repeat("[", 2000), strings.Repeat("a: {", 500),
	} {
		f.Add([]byte(text))
	}
	schema := compiled(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse(text)
		if err != nil {
			checkFaults(t, text, err)
			return
		}
		if err := c.Validate(); err != nil {
			t.Fatalf("Parse takes what Validate refuses: %v", err)
		}
		canonical := c.Canonical()
		again, err := Parse(canonical)
		if err != nil || !slices.Equal(again.Canonical(), canonical) || again.Revision() != c.Revision() {
			t.Fatalf("the canonical form reads as another promise (%v)\n%s", err, canonical)
		}
		if err := schema.Validate(document(t, canonical)); err != nil {
			t.Fatalf("%v\n%s", err, canonical)
		}
	})
}

func checkFaults(t *testing.T, text []byte, err error) {
	t.Helper()
	var invalid *InvalidError
	if !errors.As(err, &invalid) || len(invalid.Faults) == 0 {
		t.Fatalf("an error without faults: %v", err)
	}
	lines := len(strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"))
	for _, fault := range invalid.Faults {
		if fault.Line < 1 || fault.Line > lines {
			t.Errorf("%q stands at line %d of %d", fault.Text, fault.Line, lines)
		}
		for _, ours := range []string{"contract.", "cannot construct", "yaml:", "0x", "main."} {
			if strings.Contains(fault.Text, ours) && !strings.Contains(string(text), ours) {
				t.Errorf("a fault in words of the code: %q", fault.Text)
			}
		}
	}
}

// Wherever a word stands that is none of the field's, the fault stands there too.
func TestParse_FaultsStandAtTheirLine(t *testing.T) {
	t.Parallel()
	const misfit = "no such word!"
	doc := document(t, []byte(harbor))
	tried := 0
	for _, path := range paths(doc, nil) {
		text := dump(t, with(doc, path, misfit))
		before, _, _ := strings.Cut(string(text), misfit)
		line := 1 + strings.Count(before, "\n")
		_, err := Parse(text)
		var invalid *InvalidError
		if !errors.As(err, &invalid) {
			continue // this field takes any text
		}
		tried++
		if !slices.ContainsFunc(invalid.Faults, func(f Fault) bool { return f.Line == line }) {
			t.Errorf("%v: line %d, but the faults are\n%v", path, line, err)
		}
	}
	if tried < 100 {
		t.Errorf("only %d fields tried", tried)
	}
}
