package catalog

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed en.yaml ja.yaml ko.yaml
var files embed.FS

// The languages, as BCP 47 names them.
const (
	English  = "en"
	Japanese = "ja"
	Korean   = "ko"
)

// Languages lists the languages. The first is the one that stands in for any
// other.
func Languages() []string { return []string{English, Japanese, Korean} }

// Catalog holds all texts. It is read-only and safe for concurrent use.
type Catalog struct {
	languages map[string]*language
}

// Load reads the texts that are built in. An error means that a file is broken:
// it names file and line.
func Load() (*Catalog, error) { return load(files) }

func load(from fs.FS) (*Catalog, error) {
	c := &Catalog{languages: map[string]*language{}}
	for _, tag := range Languages() {
		name := tag + ".yaml"
		text, err := fs.ReadFile(from, name)
		if err != nil {
			return nil, fmt.Errorf("read texts: %w", err)
		}
		l, err := parse(tag, text)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", name, err)
		}
		c.languages[tag] = l
	}
	// Every other language falls back to this one.
	if missing := c.languages[English].missing(); len(missing) > 0 {
		return nil, errors.New("english lacks " + strings.Join(missing, ", "))
	}
	return c, nil
}

// For returns the texts of a language: a BCP 47 tag such as ja or ko-KR, in any
// case, or a locale such as ja_JP.UTF-8. Only the primary subtag counts (RFC
// 4647, look-up). Whatever is unknown is English.
func (c *Catalog) For(tag string) Texts {
	primary := tag
	if end := strings.IndexAny(tag, "-_.@"); end >= 0 {
		primary = tag[:end]
	}
	english := c.languages[English]
	if l, ok := c.languages[strings.ToLower(primary)]; ok {
		return Texts{own: l, english: english}
	}
	return Texts{own: english, english: english}
}
