package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/catalog"
)

// contractPages makes the page of each built-in contract, by its name. What the
// engine applies today is read from contracts.md in the folder.
func contractPages(folder string) (map[string]string, error) {
	rules, err := os.ReadFile(filepath.Join(folder, "contracts.md"))
	if err != nil {
		return nil, err
	}
	texts, err := catalog.Load()
	if err != nil {
		return nil, err
	}
	pages := map[string]string{}
	for _, name := range contract.BuiltinNames() {
		c, ok := contract.Builtin(name)
		if !ok {
			return nil, fmt.Errorf("contract %s does not parse", name)
		}
		made, err := makeExample(c)
		if err != nil {
			return nil, err
		}
		p := page{c: c, english: texts.For(catalog.English), example: made, states: statesOf(string(rules), name)}
		pages[name] = p.text()
	}
	return pages, nil
}

// states says what the engine applies of a contract today.
type states struct {
	// rules are the IDs of the contract's rules by their state.
	rules map[string][]string
	// missing is the paragraph that says what is still missing.
	missing string
}

// statesOf reads the part of contracts.md whose heading is the contract's name.
func statesOf(rules, name string) states {
	s := states{rules: map[string][]string{}}
	for section := range strings.SplitSeq(rules, "\n## ") {
		heading, body, _ := strings.Cut(section, "\n")
		if !strings.EqualFold(strings.Trim(heading, "`"), name) {
			continue
		}
		for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z]\d+) \| ([a-z ]+) \|`).FindAllStringSubmatch(body, -1) {
			s.rules[row[2]] = append(s.rules[row[2]], row[1])
		}
		for paragraph := range strings.SplitSeq(body, "\n\n") {
			if strings.HasPrefix(paragraph, "Still missing") {
				s.missing = strings.Join(strings.Fields(paragraph), " ")
			}
		}
	}
	return s
}

// text says it in sentences.
func (s states) text() string {
	var said []string
	for _, of := range []struct{ state, words string }{
		{"kept", "Kept by the engine: %s."}, {"partly", "Kept in part: %s."}, {"planned", "Not kept yet: %s."},
	} {
		if ids := s.rules[of.state]; len(ids) > 0 {
			said = append(said, fmt.Sprintf(of.words, enumerate(ids, "and")))
		}
	}
	if len(s.rules) > 0 {
		said = append(said, "[Contracts](../contracts.md) has these rules one by one.")
	}
	if s.missing != "" {
		said = append(said, s.missing)
	}
	return strings.Join(said, " ")
}
