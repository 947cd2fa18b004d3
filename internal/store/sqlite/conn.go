package sqlite

import (
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// conn is one connection with its prepared statements. Not safe for concurrent
// use.
type conn struct {
	db    *sqlite3.Conn
	stmts map[string]*sqlite3.Stmt
	hots  [hotCount]*sqlite3.Stmt
}

func openConn(path, vfs string) (*conn, error) {
	if vfs == "" {
		vfs = registerOSFiles()
	}
	name := "file:" + escapePath(path) + "?vfs=" + vfs
	db, err := sqlite3.OpenFlags(name, sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE|sqlite3.OPEN_URI|sqlite3.OPEN_EXRESCODE)
	if err != nil {
		return nil, err
	}
	if err := db.BusyTimeout(busyWait); err != nil {
		_ = db.Close()
		return nil, err
	}
	return &conn{db: db, stmts: map[string]*sqlite3.Stmt{}}, nil
}

func (c *conn) close() error {
	for _, s := range c.stmts {
		_ = s.Close() // the connection's own Close reports what matters
	}
	for _, s := range c.hots {
		_ = s.Close()
	}
	return c.db.Close()
}

// prepare returns the statement of a text, prepared once.
func (c *conn) prepare(sql string) (*sqlite3.Stmt, error) {
	if s, ok := c.stmts[sql]; ok {
		return s, nil
	}
	s, _, err := c.db.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return nil, fmt.Errorf("preparing a statement: %w", err)
	}
	c.stmts[sql] = s
	return s, nil
}

// exec runs a statement that returns no rows.
func (c *conn) exec(sql string, args ...any) error {
	s, err := c.bound(sql, args)
	if err != nil {
		return err
	}
	return s.Exec()
}

// query calls row for each row. row must not keep what Column…Raw returned.
func (c *conn) query(sql string, args []any, row func(*sqlite3.Stmt) error) error {
	s, err := c.bound(sql, args)
	if err != nil {
		return err
	}
	defer func() { _ = s.Reset() }() // Reset repeats the error that Err reports
	for s.Step() {
		if err := row(s); err != nil {
			return err
		}
	}
	return s.Err()
}

// one calls row for the only row; found is false without one.
func (c *conn) one(sql string, args []any, row func(*sqlite3.Stmt)) (found bool, err error) {
	err = c.query(sql, args, func(s *sqlite3.Stmt) error {
		found = true
		row(s)
		return nil
	})
	return found, err
}

func (c *conn) bound(sql string, args []any) (*sqlite3.Stmt, error) {
	s, err := c.prepare(sql)
	if err != nil {
		return nil, err
	}
	for i, a := range args {
		if err := bind(s, i+1, a); err != nil {
			return nil, fmt.Errorf("binding parameter %d: %w", i+1, err)
		}
	}
	return s, nil
}

// null stands for NULL where a parameter may be absent.
type null struct{}

func bind(s *sqlite3.Stmt, i int, a any) error {
	switch v := a.(type) {
	case null:
		return s.BindNull(i)
	case int64:
		return s.BindInt64(i, v)
	case int:
		return s.BindInt(i, v)
	case bool:
		return s.BindBool(i, v)
	case string:
		return s.BindText(i, v)
	case []byte:
		if v == nil {
			return s.BindNull(i)
		}
		return s.BindBlob(i, v)
	case time.Time:
		if v.IsZero() {
			return s.BindNull(i)
		}
		return s.BindInt64(i, v.UnixMilli())
	default:
		return fmt.Errorf("no binding for a %T", a)
	}
}

// colTime reads Unix milliseconds, NULL as the zero time.
func colTime(s *sqlite3.Stmt, col int) time.Time {
	if s.ColumnType(col) == sqlite3.NULL {
		return time.Time{}
	}
	return time.UnixMilli(s.ColumnInt64(col)).UTC()
}

func colBool(s *sqlite3.Stmt, col int) bool { return s.ColumnInt64(col) != 0 }
