package publish

import (
	"fmt"
	"strings"
	"testing"

	"github.com/posthorn/posthorn/internal/webhook"
)

func TestParseLines_OneResultALine(t *testing.T) {
	t.Parallel()
	const good = `{"type":"a","data":{"n":%d}}`
	body := fmt.Sprintf(good, 1) + "\r\n" + // CRLF
		"\n \t\r\n" + // two blank lines
		`{"type":"a"}` + "\n" +
		"\xff\n" +
		fmt.Sprintf(good, 6) // no end of line
	lines, err := ParseLines([]byte(body), Limits{}, noon)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range lines {
		what := string(l.Event.Data)
		if p, ok := webhook.AsProblem(l.Err); ok {
			what = string(p.Code)
		}
		got = append(got, fmt.Sprint(l.Number, " ", what))
	}
	want := `1 {"n":1},4 invalid_field,5 invalid_body,6 {"n":6}`
	if strings.Join(got, ",") != want {
		t.Fatalf("got %v, want %s", got, want)
	}
}

func TestParseLines_Limits(t *testing.T) {
	t.Parallel()
	line := `{"type":"a","data":1}` + "\n"
	if lines, err := ParseLines([]byte("\n\n"+strings.Repeat(line, MaxLines)+"\n\n"), Limits{}, noon); err != nil || len(lines) != MaxLines {
		t.Fatalf("%d lines: %d, %v", MaxLines, len(lines), err)
	}
	_, err := ParseLines([]byte(strings.Repeat(line, MaxLines+1)), Limits{}, noon)
	if p, ok := webhook.AsProblem(err); !ok || p.Code != webhook.CodeTooLarge || p.Fields[0].Code != LimitLines {
		t.Fatalf("too many lines: %v", err)
	}
	_, err = ParseLines([]byte(strings.Repeat(" ", MaxLinesBytes+1)), Limits{}, noon)
	if p, ok := webhook.AsProblem(err); !ok || p.Code != webhook.CodeTooLarge || p.Fields[0].Code != LimitLinesBytes {
		t.Fatalf("too many bytes: %v", err)
	}
	if lines, err := ParseLines([]byte("\n\n"), Limits{}, noon); err != nil || len(lines) != 0 {
		t.Fatalf("blank lines only: %v, %v", lines, err)
	}
}
