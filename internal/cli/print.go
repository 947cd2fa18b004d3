package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// clean makes a text fit for a terminal: what others sent (answers, headers,
// names) may hold control characters that would move the cursor or worse.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// cleanLines is clean for texts of several lines.
func cleanLines(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i := range lines {
		lines[i] = clean(strings.ReplaceAll(lines[i], "\t", "    "))
	}
	return strings.Join(lines, "\n")
}

// printJSON writes v as one line of JSON.
func (p *Process) printJSON(v any) error { return encodeJSON(p.Stdout, v) }

func encodeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// table lines up columns. Cells are cleaned.
type table struct{ w *tabwriter.Writer }

func newTable(p *Process, columns ...string) *table {
	t := &table{w: tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)}
	t.row(columns...)
	return t
}

func (t *table) row(cells ...string) {
	for i, cell := range cells {
		if cells[i] = clean(cell); cell == "" {
			cells[i] = "-"
		}
	}
	_, _ = fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

func (t *table) flush() { _ = t.w.Flush() }

// details prints names and values of one thing, a line each; values that are
// empty are left out.
type details struct{ w *tabwriter.Writer }

func newDetails(p *Process) *details {
	return &details{w: tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)}
}

func (d *details) add(name, value string) {
	if value != "" {
		_, _ = fmt.Fprintf(d.w, "%s:\t%s\n", name, clean(value))
	}
}

func (d *details) addAll(name string, values map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		d.add(name, key+": "+values[key])
	}
}

func (d *details) flush() { _ = d.w.Flush() }

// showTime is a time for people: UTC, seconds; "" for none.
func showTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

// showNumber is "" for zero.
func showNumber[N ~int | ~int64](n N) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
