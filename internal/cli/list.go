package cli

import (
	"iter"

	"github.com/posthorn/posthorn/client"
)

// listing is the flags of every command that lists something.
type listing struct {
	Limit     int  `name:"limit" placeholder:"N" default:"50" help:"How many to print at most; 0 prints all."`
	Ascending bool `name:"oldest-first" help:"Begin with the oldest; the newest come first otherwise."`
}

// pageSize is how many items are asked for at a time when all are wanted.
const pageSize = 250

func (l *listing) page() client.PageOptions {
	size := pageSize
	if l.Limit > 0 && l.Limit < pageSize {
		size = l.Limit
	}
	return client.PageOptions{Limit: size, Ascending: l.Ascending}
}

// printList prints the items as JSON lines, or as a table with the given
// columns.
func printList[T any](p *Process, asJSON bool, limit int, items iter.Seq2[T, error], columns []string, row func(T) []string) error {
	return printRows(p, asJSON, limit, items, columns, func(item T) [][]string { return [][]string{row(item)} })
}

// printRows is printList for items that may take several rows.
func printRows[T any](p *Process, asJSON bool, limit int, items iter.Seq2[T, error], columns []string, rows func(T) [][]string) error {
	if limit < 0 {
		return usagef("--limit: %d is no number of rows: 1 or more, or 0 for all", limit)
	}
	var t *table
	n := 0
	for item, err := range items {
		if err != nil {
			if t != nil {
				t.flush()
			}
			return err
		}
		if asJSON {
			if err := p.printJSON(item); err != nil {
				return err
			}
		} else {
			if t == nil {
				t = newTable(p, columns...)
			}
			for _, row := range rows(item) {
				t.row(row...)
			}
		}
		if n++; n == limit {
			break
		}
	}
	if t != nil {
		t.flush()
	}
	if n == 0 && !asJSON {
		p.warnf("nothing found")
	}
	return nil
}
