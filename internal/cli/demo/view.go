package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// typeOf reads the type out of an envelope.
func typeOf(body []byte) string {
	var envelope struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(body, &envelope) != nil {
		return "?"
	}
	return envelope.Type
}

// line shows a request in one line.
func line(r Request) string {
	sign := "signature valid"
	if r.Refused != nil {
		sign = "signature BAD: " + r.Refused.Error()
	}
	return fmt.Sprintf("%s  %-8s %-13s try %-2d → %-22s %s  %s",
		r.At.UTC().Format("15:04:05.000"), r.Station, r.Type, r.Try, r.Answer, sign, r.Event)
}

// Lines is a view for logs: a line for each request.
type Lines struct{ W io.Writer }

// Request implements View.
func (v Lines) Request(r Request) { _, _ = fmt.Fprintln(v.W, line(r)) }

// Table implements View: the summary tells it at the end.
func (Lines) Table([]Row) {}

// tail is how many requests the live view shows below its table.
const tail = 8

// Live is a view for a terminal: a table that is drawn over itself.
type Live struct {
	W io.Writer
	// Width of the terminal in columns: a line that wraps would be drawn over
	// wrongly. 0 does not cut.
	Width int

	last  []string // of the latest requests
	drawn int      // lines on the screen
}

// Request implements View.
func (v *Live) Request(r Request) {
	v.last = append(v.last, line(r))
	if len(v.last) > tail {
		v.last = slices.Delete(v.last, 0, len(v.last)-tail)
	}
}

// Table implements View.
func (v *Live) Table(rows []Row) {
	lines := slices.Concat(tableLines(rows), []string{""}, v.last)
	var b strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", v.drawn) // up to where the table began
	}
	for _, l := range lines {
		b.WriteString("\r\x1b[K" + v.cut(l) + "\n") // over what stood there
	}
	v.drawn = len(lines)
	_, _ = io.WriteString(v.W, b.String())
}

func (v *Live) cut(text string) string {
	if runes := []rune(text); v.Width > 0 && len(runes) > v.Width {
		return string(runes[:v.Width])
	}
	return text
}

func tableLines(rows []Row) []string {
	const layout = "%-8s  %-35s  %9s  %7s  %9s  %7s  %s"
	out := []string{fmt.Sprintf(layout, "ENDPOINT", "ANSWERS", "REQUESTS", "FAILED", "DELIVERED", "WAITING", "LAST")}
	for _, r := range rows {
		out = append(out, fmt.Sprintf(layout, r.Station, r.About, fmt.Sprint(r.Requests), fmt.Sprint(r.Failures),
			fmt.Sprint(r.Delivered), fmt.Sprint(r.Waiting), r.Last))
	}
	return out
}
