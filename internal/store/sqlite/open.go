package sqlite

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/clock"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// FileName is the database's name in the data folder.
const FileName = "posthorn.db"

// Sealer encrypts what must not lie in the file in clear (package seal).
type Sealer interface {
	Seal(plain, associated []byte) ([]byte, error)
	Open(sealed, associated []byte) ([]byte, error)
	// Fingerprint identifies the present key; Matches tells whether one of the
	// keys at hand made a fingerprint.
	Fingerprint() []byte
	Matches(fingerprint []byte) bool
	// NeedsReseal tells whether sealed was made with an old key.
	NeedsReseal(sealed []byte) bool
}

// Config says how to open a database.
type Config struct {
	// Dir is the data folder; it is made if absent, mode 0700. One process at a
	// time.
	Dir    string
	Sealer Sealer
	// OnChange hears of every commit that changes what others hold in memory, in
	// the order of commits, from the writer: it must not block nor call the
	// store (N2). It may be nil.
	OnChange func(store.Change)
	// OnFatal hears of an I/O error that closed the database (N1). May be nil.
	OnFatal func(error)
	// Now stamps what opening writes.
	Now time.Time
	// DueNow is the clock that due times run by (N20): reads tell by it what is
	// not due yet. Nil begins one.
	DueNow func() time.Time
	// Contract finds a contract's revision in memory, nil where it is unknown: reads
	// show by it what a delivery was promised. Required.
	Contract func(name, revision string) *contract.Contract
	// QueueRows and QueueBytes bound what waits for the writer (N5); zero takes
	// the defaults.
	QueueRows  int
	QueueBytes int
	// NoMigrate refuses a database that needs a migration with ErrPending.
	NoMigrate bool
	Log       *slog.Logger
	// VFS names a registered SQLite file system; "" for the operating system's.
	VFS string
	// Readers is the number of reading connections, 4 by default.
	Readers int
	// checkpointPages is set by tests that want the log written back early.
	checkpointPages int64
}

// Errors of Open that the command line explains.
var (
	// ErrInUse: another process has the data folder open.
	ErrInUse = errors.New("the data folder is in use by another process")
	// ErrWrongKey: the secrets in the database were sealed with another key.
	ErrWrongKey = errors.New("the secrets key does not fit this database")
)

// DB is the store in one SQLite file.
type DB struct {
	cfg    Config
	lock   *os.File
	ids    *webhook.IDCodec
	idKey  []byte
	writer *writer
	// readers serve what callers ask, laneReaders what deliveries wait for, so that
	// long pages of the log hold none of them up.
	readers, laneReaders readerPool
	checks               *checkpointer
	// marks counts rows of the table running, so that reads can skip it.
	marks atomic.Int64
	// linesCut is set while there may be lines for mendLines.
	linesCut atomic.Bool
	janitor  *janitor

	closing sync.Once
	closed  chan struct{}
	// shut closes closed: by Close, or after an I/O error.
	shut func()
}

var _ store.Store = (*DB)(nil)

// Open opens the data folder's database, makes it if absent, and migrates it.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.DueNow == nil {
		cfg.DueNow = clock.Start().Now
	}
	if cfg.Readers == 0 {
		cfg.Readers = 4
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the data folder: %w", err)
	}
	lock, err := lockFolder(cfg.Dir)
	if err != nil {
		return nil, err
	}
	d := &DB{cfg: cfg, lock: lock, closed: make(chan struct{})}
	d.linesCut.Store(true)
	d.shut = sync.OnceFunc(func() { close(d.closed) })
	if err := d.open(); err != nil {
		_ = d.release()
		return nil, err
	}
	return d, nil
}

func (d *DB) open() error {
	path := filepath.Join(d.cfg.Dir, FileName)
	w, err := openWriterConn(path, d.cfg.VFS)
	if err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	d.writer = newWriter(w, d)
	all, err := listMigrations(migrationFiles)
	if err != nil {
		return err
	}
	if err := migrate(w, all, !d.cfg.NoMigrate, d.cfg.Now); err != nil {
		return err
	}
	if err := d.prepareMeta(w); err != nil {
		return err
	}
	if err := d.writer.loadState(); err != nil {
		return fmt.Errorf("reading the database's state: %w", err)
	}
	if err := d.readers.open(path, d.cfg.VFS, d.cfg.Readers); err != nil {
		return err
	}
	if err := d.laneReaders.open(path, d.cfg.VFS, laneReaders); err != nil {
		return err
	}
	check, err := openConn(path, d.cfg.VFS)
	if err != nil {
		return fmt.Errorf("opening the checkpoint connection: %w", err)
	}
	d.checks = newCheckpointer(check, cmp.Or(d.cfg.checkpointPages, checkpointPages), d.cfg.Log)
	d.checks.watch(w)
	d.janitor = newJanitor(d)
	d.writer.start()
	d.checks.start()
	d.janitor.start()
	return nil
}

// busyWait is how long a connection waits for another one's lock. While the store
// is open only its own connections meet.
const busyWait = 10 * time.Second

func openWriterConn(path, vfs string) (*conn, error) {
	c, err := openConn(path, vfs)
	if err != nil {
		return nil, err
	}
	err = c.db.Exec(`
		PRAGMA journal_mode = WAL;
		PRAGMA synchronous = FULL;
		PRAGMA wal_autocheckpoint = 0;
		PRAGMA cache_size = -65536;
		PRAGMA foreign_keys = OFF;
		PRAGMA temp_store = MEMORY;`)
	if err != nil {
		_ = c.close()
		return nil, err
	}
	return c, nil
}

func openReaderConn(path, vfs string) (*conn, error) {
	c, err := openConn(path, vfs)
	if err != nil {
		return nil, err
	}
	err = c.db.Exec(`
		PRAGMA wal_autocheckpoint = 0;
		PRAGMA cache_size = -8192;
		PRAGMA temp_store = MEMORY;
		PRAGMA query_only = ON;`)
	if err != nil {
		_ = c.close()
		return nil, err
	}
	return c, nil
}

// Names of rows in the table meta.
const (
	metaIDKey       = "id_key"
	metaFingerprint = "secrets_fingerprint"
	metaProbe       = "probe"
)

// prepareMeta reads or makes the installation's ID key, checks the secrets key,
// and sees that the default tenant exists.
func (d *DB) prepareMeta(c *conn) (err error) {
	tx, err := c.db.BeginImmediate()
	if err != nil {
		return err
	}
	defer tx.End(&err)
	key, err := readMeta(c, metaIDKey)
	if err != nil {
		return err
	}
	if key == nil {
		key = make([]byte, webhook.IDKeySize)
		if _, err := rand.Read(key); err != nil {
			return fmt.Errorf("making the ID key: %w", err)
		}
		if err := writeMeta(c, metaIDKey, key); err != nil {
			return err
		}
		err := c.exec(`INSERT INTO tenant (id, name, default_contract, owner_url, owner_email, created_at, rev)
			VALUES (?, '', ?, '', '', ?, 1)`, webhook.DefaultTenant, contract.Standard, d.cfg.Now)
		if err != nil {
			return fmt.Errorf("making the default tenant: %w", err)
		}
	}
	d.idKey = key
	if d.ids, err = webhook.NewIDCodec(key); err != nil {
		return err
	}
	return d.checkSealer(c)
}

func (d *DB) checkSealer(c *conn) error {
	have, err := readMeta(c, metaFingerprint)
	if err != nil {
		return err
	}
	if have != nil && !d.cfg.Sealer.Matches(have) {
		return ErrWrongKey
	}
	if err := resealAll(c, d.cfg.Sealer); err != nil {
		return err
	}
	return writeMeta(c, metaFingerprint, d.cfg.Sealer.Fingerprint())
}

func readMeta(c *conn, name string) (value []byte, err error) {
	_, err = c.one(`SELECT value FROM meta WHERE name = ?`, []any{name}, func(s *sqlite3.Stmt) {
		value = s.ColumnBlob(0, nil)
	})
	return value, err
}

func writeMeta(c *conn, name string, value []byte) error {
	return c.exec(`INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, value)
}

// read runs f on a reading connection, in one snapshot.
func (d *DB) read(ctx context.Context, f func(*conn) error) error {
	return d.readFrom(ctx, &d.readers, f)
}

// readLane is read for the dispatcher.
func (d *DB) readLane(ctx context.Context, f func(*conn) error) error {
	return d.readFrom(ctx, &d.laneReaders, f)
}

func (d *DB) readFrom(ctx context.Context, pool *readerPool, f func(*conn) error) error {
	select {
	case <-d.closed:
		return store.ErrClosed
	default:
	}
	select {
	case c := <-pool.free:
		defer func() { pool.free <- c }()
		if err := c.run(hotBeginRead); err != nil {
			return fmt.Errorf("beginning a read: %w", err)
		}
		defer func() { _ = c.run(hotCommit) }() // a read has nothing to lose
		return f(c)
	case <-d.closed:
		return store.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ping commits nothing through the writer's queue, unless the last commit found no
// room: then it writes a little, to see whether there is some now.
func (d *DB) Ping(ctx context.Context) error {
	return d.writer.do(ctx, func(t *tx) error {
		if !d.writer.cramped {
			return nil
		}
		// Something new, for what does not change is not written.
		return writeMeta(t.conn, metaProbe, binary.AppendVarint(nil, d.writer.commits.Load()))
	})
}

// Close implements store.Store.
func (d *DB) Close() error {
	var err error
	d.closing.Do(func() {
		d.janitor.stop()
		d.writer.stop()
		d.checks.stop()
		d.shut()
		err = d.release()
	})
	return err
}

func (d *DB) release() error {
	var errs []error
	errs = append(errs, d.readers.close(), d.laneReaders.close())
	if d.checks != nil {
		errs = append(errs, d.checks.conn.close())
	}
	if d.writer != nil {
		errs = append(errs, d.writer.conn.close())
	}
	errs = append(errs, unlockFolder(d.lock))
	return errors.Join(errs...)
}

// escapePath makes a path fit for SQLite's URI form.
func escapePath(p string) string {
	return strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(filepath.ToSlash(p))
}
