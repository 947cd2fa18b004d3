package publish

import (
	"bytes"
	"fmt"
	"time"
)

// Line is what came of one line of NDJSON: an event, or why it is none.
type Line struct {
	// Number counts the lines of the body from 1, blank ones too.
	Number int
	Event  Event
	// Err is a *Problem as ParseEvent gives, nil for an event. Offsets in it are
	// those within the line.
	Err error
}

// ParseLines reads newline-delimited JSON, an event a line. Lines end with LF or
// CRLF, the last one needs neither. Blank lines are skipped: they have a number
// and no result, so an empty body gives none. The error is a *Problem (too_large) for the body as a whole:
// over MaxLinesBytes, or over MaxLines lines that are not blank.
func ParseLines(body []byte, limits Limits, now time.Time) ([]Line, error) {
	if len(body) > MaxLinesBytes {
		return nil, LinesTooLarge()
	}
	var lines []Line
	number := 0
	for rest := body; len(rest) > 0; {
		line, behind, _ := bytes.Cut(rest, []byte{'\n'})
		rest = behind
		number++
		if len(bytes.Trim(line, " \t\r")) == 0 {
			continue
		}
		if len(lines) == MaxLines {
			return nil, tooLarge("", LimitLines, "The body has too many lines. Nothing of it was accepted.", fmt.Sprintf("at most %d lines", MaxLines))
		}
		e, err := ParseEvent(line, limits, now)
		lines = append(lines, Line{Number: number, Event: e, Err: err})
	}
	return lines, nil
}
