package sqlite

import (
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/internal/store"
)

// tenant returns a tenant's number and revision; ErrNotFound without one.
func (t *tx) tenant(id string) (tenantState, error) {
	if s, ok := t.tenants[id]; ok {
		return s, nil
	}
	var s tenantState
	found, err := t.one(`SELECT num, rev FROM tenant WHERE id = ?`, []any{id}, func(row *sqlite3.Stmt) {
		s = tenantState{num: row.ColumnInt64(0), rev: row.ColumnInt64(1)}
	})
	if err != nil {
		return s, err
	}
	if !found {
		return s, store.ErrNotFound
	}
	if len(t.tenants) > maxCached {
		clear(t.tenants)
	}
	t.tenants[id] = s
	return s, nil
}

// raise raises a tenant's revision and returns the new one (N2).
func (t *tx) raise(id string) (int64, error) {
	s, err := t.tenant(id)
	if err != nil {
		return 0, err
	}
	s.rev++
	if err := t.exec(`UPDATE tenant SET rev = ? WHERE num = ?`, s.rev, s.num); err != nil {
		return 0, err
	}
	t.tenants[id] = s
	return s.rev, nil
}

// word returns the number of a word, giving it one if it is new.
func (t *tx) word(text string) (int64, error) {
	if n, ok := t.words[text]; ok {
		return n, nil
	}
	var n int64
	found, err := t.one(`SELECT num FROM word WHERE text = ?`, []any{text}, func(s *sqlite3.Stmt) { n = s.ColumnInt64(0) })
	if err != nil {
		return 0, err
	}
	if !found {
		if err := t.exec(`INSERT INTO word (text) VALUES (?)`, text); err != nil {
			return 0, fmt.Errorf("adding a word: %w", err)
		}
		n = t.conn.db.LastInsertRowID()
	}
	if len(t.words) > maxCached {
		clear(t.words)
	}
	t.words[text] = n
	return n, nil
}

// promise returns the number of a contract's revision, giving it one if new.
func (t *tx) promise(contract, revision string) (int64, error) {
	key := [2]string{contract, revision}
	if n, ok := t.promises[key]; ok {
		return n, nil
	}
	var n int64
	found, err := t.one(`SELECT num FROM promise WHERE contract = ? AND revision = ?`, []any{contract, revision},
		func(s *sqlite3.Stmt) { n = s.ColumnInt64(0) })
	if err != nil {
		return 0, err
	}
	if !found {
		if err := t.exec(`INSERT INTO promise (contract, revision) VALUES (?, ?)`, contract, revision); err != nil {
			return 0, fmt.Errorf("adding a contract's revision: %w", err)
		}
		n = t.conn.db.LastInsertRowID()
	}
	t.promises[key] = n
	return n, nil
}
