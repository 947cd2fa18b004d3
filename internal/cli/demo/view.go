package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/posthorn/posthorn/internal/cli/receiver"
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

// brief is an answer in a word.
func brief(a receiver.Answer) string {
	if a.Kind == receiver.KindStatus {
		return strconv.Itoa(a.Status)
	}
	return string(a.Kind)
}

// line shows a request in one line of 66 columns, if its signature is good, and
// the event's ID behind them.
func line(r Request) (head, event string) {
	sign := "signature valid"
	if r.Refused != nil {
		sign = "signature BAD: " + r.Refused.Error()
	}
	return fmt.Sprintf("%s  %-7s  %-12s  try %-2d → %-7s  %s",
		r.At.UTC().Format("15:04:05"), r.Station, r.Type, r.Try, r.Answer, sign), r.Event
}

// Lines is a view for logs: a line for each request.
type Lines struct{ W io.Writer }

// Request implements View.
func (v Lines) Request(r Request) {
	head, event := line(r)
	_, _ = fmt.Fprintf(v.W, "%s  %s\n", head, event)
}

// Table implements View: the summary tells it at the end.
func (Lines) Table([]Row) {}

// keep is how many requests the live view remembers: the lines of a tall screen.
const keep = 200

// Live is a view for a terminal: a table that is drawn over itself, and below it
// as many of the latest requests as there is room for.
type Live struct {
	W io.Writer
	// Size of the terminal in columns and lines. A line that wraps, or one above
	// the screen, would be drawn over wrongly.
	Size func() (width, height int)
	// Note stands below the table.
	Note []string

	last  []Request
	drawn int // lines on the screen
}

// Request implements View.
func (v *Live) Request(r Request) {
	v.last = append(v.last, r)
	if len(v.last) > keep {
		v.last = slices.Delete(v.last, 0, len(v.last)-keep)
	}
}

// Table implements View.
func (v *Live) Table(rows []Row) {
	width, height := v.Size()
	lines := slices.Concat(tableLines(rows), []string{""}, v.Note, []string{""})
	room := max(height-len(lines)-1, 1) // the cursor stands on a line of its own
	for _, r := range v.last[max(len(v.last)-room, 0):] {
		lines = append(lines, v.fit(r, width))
	}
	var b strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", v.drawn) // up to where the table began
	}
	for _, l := range lines {
		b.WriteString("\r\x1b[K" + cut(l, width) + "\n") // over what stood there
	}
	b.WriteString("\x1b[J") // a screen that shrank leaves lines below
	v.drawn = len(lines)
	_, _ = io.WriteString(v.W, b.String())
}

// fit shows a request with its event's ID if both fit.
func (*Live) fit(r Request, width int) string {
	head, event := line(r)
	if whole := head + "  " + event; utf8.RuneCountInString(whole) <= width {
		return whole
	}
	return head
}

func cut(text string, width int) string {
	if runes := []rune(text); len(runes) > width {
		return string(runes[:max(width, 0)])
	}
	return text
}

// tableLines is 80 columns wide at most.
func tableLines(rows []Row) []string {
	const layout = "%-8s  %-20s  %8s  %6s  %9s  %7s  %s"
	out := []string{fmt.Sprintf(layout, "ENDPOINT", "ANSWERS", "REQUESTS", "FAILED", "DELIVERED", "WAITING", "LAST")}
	for _, r := range rows {
		out = append(out, fmt.Sprintf(layout, r.Station, r.About, fmt.Sprint(r.Requests), fmt.Sprint(r.Failures),
			fmt.Sprint(r.Delivered), fmt.Sprint(r.Waiting), r.Last))
	}
	return out
}
