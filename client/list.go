package client

import (
	"context"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// PageOptions chooses a page of a list. The zero value is the first one, newest
// first, of the server's default size.
type PageOptions struct {
	// Limit is the most items of a page, 1 to 250; 0 leaves it to the server.
	Limit int
	// Cursor is the Next or Prev of another page of the same list: same tenant,
	// filters and order.
	Cursor string
	// Ascending lists oldest first.
	Ascending bool
}

// Page is a part of a list. It may be shorter than asked, even empty, while
// Next is set.
type Page[T any] struct {
	Data []T    `json:"data"`
	Next string `json:"next"` // "" at the end
	Prev string `json:"prev"` // "" at the beginning
}

// filter collects query parameters; empty ones are left out.
type filter url.Values

func (f filter) set(name, value string) {
	if value != "" {
		url.Values(f).Set(name, value)
	}
}

func (f filter) values() url.Values { return url.Values(f) }

func (f filter) span(since, until time.Time) {
	f.set("since", stamp(since))
	f.set("until", stamp(until))
}

func join[T ~string](values []T) string {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = string(v)
	}
	return strings.Join(parts, ",")
}

// stamp formats a time as the API does: RFC 3339, UTC, milliseconds; "" for zero.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// listPage reads one page.
func listPage[T any](ctx context.Context, c *Client, f filter, p PageOptions, path ...string) (Page[T], error) {
	req := newCall(http.MethodGet, path...)
	req.query = url.Values{}
	maps.Copy(req.query, url.Values(f))
	q := filter(req.query)
	q.set("cursor", p.Cursor)
	if p.Limit > 0 {
		q.set("limit", strconv.Itoa(p.Limit))
	}
	if p.Ascending {
		q.set("order", "asc")
	}
	return invoke[Page[T]](ctx, c, req)
}

// listAll follows the pages from p on. An error ends the sequence.
func listAll[T any](ctx context.Context, c *Client, f filter, p PageOptions, path ...string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		at := p
		for {
			page, err := listPage[T](ctx, c, f, at, path...)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range page.Data {
				if !yield(item, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			at.Cursor = page.Next
		}
	}
}
