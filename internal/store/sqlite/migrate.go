package sqlite

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// ErrPending tells that the database needs migrations that Config.NoMigrate kept
// from being applied.
var ErrPending = errors.New("the database needs a migration")

// migration is one numbered SQL file.
type migration struct {
	number   int
	name     string
	sql      string
	checksum string
}

func listMigrations(files fs.FS) ([]migration, error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	var all []migration
	for _, file := range names { // Glob sorts
		text, err := fs.ReadFile(files, file)
		if err != nil {
			return nil, err
		}
		base := strings.TrimSuffix(path.Base(file), ".sql")
		digits, name, _ := strings.Cut(base, "_")
		number, err := strconv.Atoi(digits)
		if err != nil || number != len(all)+1 {
			return nil, fmt.Errorf("migration %s is out of sequence", base)
		}
		sum := sha256.Sum256(text)
		all = append(all, migration{number: number, name: name, sql: string(text), checksum: hex.EncodeToString(sum[:])})
	}
	return all, nil
}

const createMigrationTable = `CREATE TABLE IF NOT EXISTS migration (
  number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT`

// migrate brings the database to the newest version, each step in a transaction
// of its own. A database that a newer release wrote, or whose applied files
// differ from ours, is refused.
func migrate(c *conn, all []migration, apply bool, now time.Time) error {
	if err := c.db.Exec(createMigrationTable); err != nil {
		return fmt.Errorf("creating the migration table: %w", err)
	}
	applied := 0
	err := c.query(`SELECT number, name, checksum FROM migration ORDER BY number`, nil, func(s *sqlite3.Stmt) error {
		n := s.ColumnInt(0)
		if n > len(all) {
			return fmt.Errorf("the database was written by a newer release (migration %d is unknown here)", n)
		}
		if all[n-1].checksum != s.ColumnText(2) {
			return fmt.Errorf("migration %d (%s) differs from the one that was applied", n, s.ColumnText(1))
		}
		applied = n
		return nil
	})
	if err != nil {
		return err
	}
	if applied < len(all) && !apply {
		return ErrPending
	}
	for _, m := range all[applied:] {
		if err := applyMigration(c, m, now); err != nil {
			return fmt.Errorf("applying migration %d (%s): %w", m.number, m.name, err)
		}
	}
	return nil
}

func applyMigration(c *conn, m migration, now time.Time) (err error) {
	tx, err := c.db.BeginImmediate()
	if err != nil {
		return err
	}
	defer tx.End(&err)
	if err := c.db.Exec(m.sql); err != nil {
		return err
	}
	return c.exec(`INSERT INTO migration (number, name, checksum, applied_at) VALUES (?, ?, ?, ?)`,
		m.number, m.name, m.checksum, now)
}
