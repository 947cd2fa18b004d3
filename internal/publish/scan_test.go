package publish

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// scan tells whether text is exactly one JSON value with white space around.
func scan(text []byte) *syntaxFault {
	if err := checkText(text); err != nil {
		return err
	}
	s := scanner{text: text}
	if err := s.value(); err != nil {
		return err
	}
	if s.space() != 0 || s.at < len(text) {
		return s.fault("text follows")
	}
	return nil
}

func depthOf(text []byte) int {
	deepest, depth, inString := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '[' || c == '{':
			depth++
			deepest = max(deepest, depth)
		case c == ']' || c == '}':
			depth--
		}
	}
	return deepest
}

// The scanner takes what both encoding/json and jsontext take, apart from the
// rules named here: valid UTF-8 only, and a bound on depth.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, `null`, `true`, `-0.1e+5`, `01`, `1.`, `"\u0000"`, `"\ud800"`, `"\ud800\udc00"`, `{"a":1,"a":2}`,
		"\"a\x00\"", "\"a\x1f\"", "\"\xff\"", `[1,]`, `{"a"}`, `{"a":1,}`, ` [ 1 , { "b" : [ ] } ] `, `"12345678\"90"`, "\xEF\xBB\xBF1",
		`nul`, `nulls`, `[}`, `{]`, `"\x"`, `"\u12g4"`, `1 2`, "", " ", `"abcdefgh` + "\x7f" + `"`, `"` + "é日本\u2028" + `"`,
		strings.Repeat("[", 70) + strings.Repeat("]", 70), strings.Repeat(`{"a":[`, 40) + strings.Repeat("]}", 40),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		fault := scan(text)
		want := json.Valid(text) && utf8.Valid(text) && depthOf(text) <= MaxDepth
		if got := fault == nil; got != want {
			t.Fatalf("scan of %q: %v, encoding/json says %v", text, fault, want)
		}
		err := jsontextScan(text)
		if got := fault == nil; got != (err == nil && depthOf(text) <= MaxDepth) && utf8.Valid(text) {
			t.Fatalf("scan of %q: %v, jsontext says %v", text, fault, err)
		}
		if fault != nil && (fault.offset < 0 || fault.offset > len(text)) {
			t.Fatalf("offset %d outside of the text", fault.offset)
		}
	})
}

// jsontextScan is how the library would be used in place of the scanner.
func jsontextScan(text []byte) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := dec.ReadValue(); err != nil {
		return err
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("text follows")
	}
	return nil
}

func kibibyte() []byte {
	var b bytes.Buffer
	b.WriteString(`{"id":"evt-1","type":"link.clicked","data":{"link_id":"lnk_123","clicks":[`)
	for b.Len() < 960 {
		b.WriteString(`{"at":"2026-01-31T12:00:00.000Z","country":"DE","n":12.5,"ok":true},`)
	}
	b.WriteString(`null],"note":"a \"quoted\" word"}}`)
	return b.Bytes()
}

func BenchmarkScan(b *testing.B) {
	text := kibibyte()
	b.Run("own", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := scan(text); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("jsontext", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := jsontextScan(text); err != nil {
				b.Fatal(err)
			}
		}
	})
}
