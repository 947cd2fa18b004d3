package sqlite

import (
	"slices"

	"github.com/posthorn/posthorn/internal/store"
)

// pageSQL adds a page's bounds to a selection; one row more than the limit is
// asked for, to see whether the list goes on. column must be unique and rising.
func pageSQL(sql, column string, p store.Page, args []any) (string, []any) {
	up := p.Ascending != p.Backward
	if p.After != 0 {
		if up {
			sql += " AND " + column + " > ?"
		} else {
			sql += " AND " + column + " < ?"
		}
		args = append(args, p.After)
	}
	sql += " ORDER BY " + column
	if !up {
		sql += " DESC"
	}
	return sql + " LIMIT ?", append(args, p.Limit+1)
}

// paged makes a page of the rows that pageSQL selected.
func paged[T any](rows []T, position func(T) int64, p store.Page) store.Listed[T] {
	more := len(rows) > p.Limit
	if more {
		rows = rows[:p.Limit]
	}
	last := int64(0)
	if len(rows) > 0 {
		last = position(rows[len(rows)-1])
	}
	return listed(rows, position, p, last, more)
}

// listed turns rows, in the order of reading, into a page. last is the position
// that reading ended at, more tells that it can go on from there.
func listed[T any](rows []T, position func(T) int64, p store.Page, last int64, more bool) store.Listed[T] {
	page := store.Listed[T]{Items: rows}
	// After is exclusive, and its row stands on the page that we came from: an
	// empty page leads back to it by the position beside.
	onto := p.After
	switch {
	case p.After == 0:
	case p.Ascending == p.Backward:
		onto--
	default:
		onto++
	}
	if p.Backward {
		slices.Reverse(page.Items)
		if more {
			page.Prev = last
		}
		page.Next = onto
		if len(page.Items) > 0 {
			page.Next = position(page.Items[len(page.Items)-1])
		}
		return page
	}
	if more {
		page.Next = last
	}
	if p.After != 0 {
		page.Prev = onto
		if len(page.Items) > 0 {
			page.Prev = position(page.Items[0])
		}
	}
	return page
}
