package api

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/posthorn/posthorn/internal/catalog"
)

// maxTag bounds a language's tag: RFC 5646, 4.4.1, lets nobody need more than 35
// bytes.
const maxTag = 64

// langParam asks for the language of texts for people.
func langParam() param {
	return param{
		name: "lang", in: "query", schema: &schema{Type: types{typeString}, MaxLength: maxTag}, example: catalog.Japanese,
		description: "The language of banners, by its tag, such as ja or ja-JP, in any case. There are " + strings.Join(catalog.Languages(), ", ") + "; any other is English. Absent: what Accept-Language asks for, else English.",
	}
}

// textsFor are the texts in the language that a request asks for.
func (a *API) textsFor(c *call) catalog.Texts {
	if a.cfg.Catalog == nil {
		return a.cfg.Texts
	}
	if tag := c.query.Get("lang"); tag != "" {
		return a.cfg.Catalog.For(tag)
	}
	for _, tag := range accepted(c.r.Header.Get("Accept-Language")) {
		texts := a.cfg.Catalog.For(tag)
		if strings.EqualFold(texts.Lang(), primary(tag)) {
			return texts
		}
	}
	return a.cfg.Texts
}

// accepted lists the languages of a header Accept-Language, the most wanted first
// (RFC 9110, 12.5.4).
func accepted(header string) []string {
	type wish struct {
		tag    string
		weight float64
	}
	var wishes []wish
	for part := range strings.SplitSeq(header, ",") {
		tag, weight, given := strings.Cut(strings.TrimSpace(part), ";")
		w := wish{tag: strings.TrimSpace(tag), weight: 1}
		if given {
			text, _ := strings.CutPrefix(strings.TrimSpace(weight), "q=")
			q, err := strconv.ParseFloat(text, 64)
			if err != nil || !(q > 0) {
				continue
			}
			w.weight = q
		}
		wishes = append(wishes, w)
	}
	slices.SortStableFunc(wishes, func(a, b wish) int { return cmp.Compare(b.weight, a.weight) })
	tags := make([]string, len(wishes))
	for i, w := range wishes {
		tags[i] = w.tag
	}
	return tags
}

// primary is the language of a tag such as ko-KR.
func primary(tag string) string {
	language, _, _ := strings.Cut(tag, "-")
	return language
}
