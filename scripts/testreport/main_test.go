package main

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	t.Parallel()
	const start = `{"Action":"start","Package":"p"}` + "\n"
	cases := map[string]struct {
		in   string
		ok   bool
		says []string
		not  string
	}{
		"all passed": {
			in: start + `{"Action":"output","Package":"p","Test":"TestA","Output":"noise\n"}` + "\n" +
				`{"Action":"pass","Package":"p","Test":"TestA"}` + "\n" +
				`{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}` + "\n" + `{"Action":"pass","Package":"p"}` + "\n",
			ok: true, says: []string{"ok  \tp\t0.1s\n", "1 passed, 0 failed, 0 skipped\n"}, not: "noise",
		},
		"a failure shows its output": {
			in: start + `{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}` + "\n" +
				`{"Action":"output","Package":"p","Test":"TestA","Output":"want 1\n"}` + "\n" +
				`{"Action":"fail","Package":"p","Test":"TestA"}` + "\n" + `{"Action":"fail","Package":"p"}` + "\n",
			says: []string{"want 1\n", "0 passed, 1 failed, 0 skipped\n"}, not: "RUN",
		},
		"a skip is no success": {
			in: start + `{"Action":"pass","Package":"p","Test":"TestA"}` + "\n" +
				`{"Action":"output","Package":"p","Test":"TestB","Output":"no database\n"}` + "\n" +
				`{"Action":"skip","Package":"p","Test":"TestB"}` + "\n" + `{"Action":"pass","Package":"p"}` + "\n",
			says: []string{"SKIPPED, which counts as failed: p TestB\nno database\n", "1 passed, 0 failed, 1 skipped\n"},
		},
		"a package without tests is fine beside one with": {
			in: start + `{"Action":"pass","Package":"p","Test":"TestA"}` + "\n" + `{"Action":"skip","Package":"q"}` + "\n",
			ok: true, says: []string{"1 passed"},
		},
		"a package that does not build": {
			in: `{"ImportPath":"p","Action":"build-output","Output":"p.go:1: undefined: x\n"}` + "\n" +
				`{"Action":"fail","Package":"p"}` + "\n" + `{"Action":"pass","Package":"q","Test":"TestA"}` + "\n",
			says: []string{"undefined: x", "1 packages failed"},
		},
		"a crash tells what ran": {
			in: start + `{"Action":"output","Package":"p","Test":"TestA","Output":"panic: nil\n"}` + "\n" +
				`{"Action":"fail","Package":"p"}` + "\n" + `{"Action":"pass","Package":"q","Test":"TestB"}` + "\n",
			says: []string{"unfinished: p TestA\npanic: nil"},
		},
		"nothing ran": {in: start, says: []string{"no test ran"}},
	}
	for label, c := range cases {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			ok, err := report(strings.NewReader(c.in), &out)
			if err != nil {
				t.Fatal(err)
			}
			if ok != c.ok {
				t.Errorf("ok = %v, want %v; output:\n%s", ok, c.ok, out.String())
			}
			for _, s := range c.says {
				if !strings.Contains(out.String(), s) {
					t.Errorf("output lacks %q:\n%s", s, out.String())
				}
			}
			if c.not != "" && strings.Contains(out.String(), c.not) {
				t.Errorf("output has %q, which nobody needs:\n%s", c.not, out.String())
			}
		})
	}
}
