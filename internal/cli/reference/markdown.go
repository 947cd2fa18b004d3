package main

import "strings"

// lineWidth is how long lines of text may be; tables and code are as they are.
const lineWidth = 120

// wrap breaks a paragraph into lines.
func wrap(text string) string {
	if strings.HasPrefix(text, "|") || strings.HasPrefix(text, "```") {
		return text
	}
	var b strings.Builder
	length := 0
	for word := range strings.FieldsSeq(text) {
		switch n := len([]rune(word)); {
		case length == 0:
			length = n
		case length+1+n > lineWidth:
			b.WriteByte('\n')
			length = n
		default:
			b.WriteByte(' ')
			length += 1 + n
		}
		b.WriteString(word)
	}
	return b.String()
}

// table writes rows, the first of which is the head.
func table(rows [][]string) string {
	lines := make([]string, 0, len(rows)+1)
	for i, row := range rows {
		lines = append(lines, "| "+strings.ReplaceAll(strings.Join(row, " \x00 "), "|", `\|`)+" |")
		if i == 0 {
			lines = append(lines, strings.Repeat("|---", len(row))+"|")
		}
	}
	return strings.ReplaceAll(strings.Join(lines, "\n"), "\x00", "|")
}

// enumerate joins words: "a, b and c".
func enumerate(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	end := len(words) - 1
	return strings.Join(words[:end], ", ") + " " + last + " " + words[end]
}

func quoted(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = "`" + w + "`"
	}
	return out
}

// join joins those sentences that there are.
func join(sentences ...string) string {
	var said []string
	for _, s := range sentences {
		if s != "" {
			said = append(said, s)
		}
	}
	return strings.Join(said, " ")
}

// given is the text if the condition holds.
func given(condition bool, text string) string {
	if condition {
		return text
	}
	return ""
}
