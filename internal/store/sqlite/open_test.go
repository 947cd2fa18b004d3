package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// refused opens what must not open, and checks that nothing of it is left open.
func refused(t *testing.T, cfg Config) error {
	t.Helper()
	d, err := Open(t.Context(), complete(cfg))
	if err == nil {
		_ = d.Close()
		t.Fatal("it opened")
	}
	if lock, lockErr := lockFolder(cfg.Dir); lockErr == nil {
		_ = lock.Close()
	} else if !errors.Is(err, ErrInUse) && !errors.Is(lockErr, os.ErrNotExist) && !strings.Contains(lockErr.Error(), "not a directory") {
		t.Errorf("the folder stays locked: %v", lockErr)
	}
	return err
}

// edit changes a closed database by hand.
func edit(t *testing.T, dir, sql string) {
	t.Helper()
	c, err := openWriterConn(filepath.Join(dir, FileName), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.db.Exec(sql); err != nil {
		t.Fatal(err)
	}
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
}

// filled is a closed database with something in it.
func filled(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	d := open(t, Config{Dir: dir})
	newTestEndpoint(t, d, "a")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestEngine_N7_FolderInUseIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, Config{Dir: dir})
	if err := refused(t, Config{Dir: dir}); !errors.Is(err, ErrInUse) {
		t.Fatalf("error is %v", err)
	}
	if err := d.Ping(t.Context()); err != nil {
		t.Fatalf("the first one suffers: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, Config{Dir: dir}) // free at once
}

func TestStore_Open_MakesThePrivateFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "one", "two")
	open(t, Config{Dir: dir})
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("%v, %v", info, err)
	}
}

// What is no database, or can't be one, is said so at the start, and stays as it
// was.
func TestStore_Open_RefusesWhatIsNoDatabase(t *testing.T) {
	t.Parallel()
	garbage := []byte(strings.Repeat("this is no database. ", 1000))
	for name, prepare := range map[string]func(dir string) error{
		"garbage":        func(dir string) error { return os.WriteFile(filepath.Join(dir, FileName), garbage, 0o600) },
		"a directory":    func(dir string) error { return os.Mkdir(filepath.Join(dir, FileName), 0o700) },
		"a cut database": cutDatabase,
	} {
		t.Run(slug(name), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if name == "a cut database" {
				dir = filled(t)
			}
			if err := prepare(dir); err != nil {
				t.Fatal(err)
			}
			err := refused(t, Config{Dir: dir})
			if !strings.Contains(err.Error(), "opening the database") && !strings.Contains(err.Error(), "database disk image is malformed") {
				t.Errorf("error is %v", err)
			}
			if name == "garbage" {
				if now, err := os.ReadFile(filepath.Join(dir, FileName)); err != nil || string(now) != string(garbage) {
					t.Error("the file was changed")
				}
			}
		})
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := refused(t, Config{Dir: file}); !strings.Contains(err.Error(), "making the data folder") {
		t.Errorf("a file as data folder: %v", err)
	}
}

func cutDatabase(dir string) error {
	path := filepath.Join(dir, FileName)
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.Truncate(path, info.Size()/2/4096*4096+100)
}

func TestStore_Migrate_RefusesAChangedFile(t *testing.T) {
	t.Parallel()
	dir := filled(t)
	edit(t, dir, `UPDATE migration SET checksum = replace(checksum, substr(checksum, 1, 1), 'z') WHERE number = 1`)
	if err := refused(t, Config{Dir: dir}); !strings.Contains(err.Error(), "migration 1 (initial) differs") {
		t.Fatalf("error is %v", err)
	}
}

func TestStore_Migrate_RefusesANewerDatabase(t *testing.T) {
	t.Parallel()
	dir := filled(t)
	edit(t, dir, `INSERT INTO migration (number, name, checksum, applied_at) VALUES (999, 'from_tomorrow', 'x', 1)`)
	if err := refused(t, Config{Dir: dir}); !strings.Contains(err.Error(), "newer release") {
		t.Fatalf("error is %v", err)
	}
}

func TestStore_Migrate_NoMigrateRefusesWhatIsPending(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := refused(t, Config{Dir: dir, NoMigrate: true}); !errors.Is(err, ErrPending) {
		t.Fatalf("an empty folder: %v", err)
	}
	d := open(t, Config{Dir: dir})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, Config{Dir: dir, NoMigrate: true}) // nothing is pending
}

// steps are two migrations, the second of which is broken half-way.
func steps() fstest.MapFS {
	return fstest.MapFS{
		"migrations/0001_one.sql": {Data: []byte(`CREATE TABLE one (a)`)},
		"migrations/0002_two.sql": {Data: []byte(`CREATE TABLE two (a); INSERT INTO two VALUES (1); SELECT * FROM nowhere;`)},
	}
}

// A step that fails, or a process that dies in it, leaves nothing of the step and
// all of those before.
func TestStore_Migrate_HalfAStepLeavesNothing(t *testing.T) {
	t.Parallel()
	all, err := listMigrations(steps())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.db")
	c, err := openWriterConn(path, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.close() })
	if err := migrate(c, all, true, testStart()); err == nil || !strings.Contains(err.Error(), "applying migration 2 (two)") {
		t.Fatalf("error is %v", err)
	}
	count := func(sql string) (n int) {
		if _, err := c.one(sql, nil, func(s *sqlite3.Stmt) { n = s.ColumnInt(0) }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if count(`SELECT count(*) FROM migration`) != 1 || count(`SELECT count(*) FROM sqlite_schema WHERE name = 'two'`) != 0 {
		t.Fatal("half a step is there")
	}
	fixed := steps()
	fixed["migrations/0002_two.sql"].Data = []byte(`CREATE TABLE two (a)`)
	if all, err = listMigrations(fixed); err != nil {
		t.Fatal(err)
	}
	for range 2 { // again is harmless
		if err := migrate(c, all, true, testStart()); err != nil {
			t.Fatal(err)
		}
	}
	if count(`SELECT count(*) FROM migration`) != 2 || count(`SELECT count(*) FROM sqlite_schema WHERE name = 'two'`) != 1 {
		t.Fatal("a step is missing")
	}
}

func TestStore_Migrate_FilesAreInSequence(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"0003_three.sql", "0001_again.sql", "x_none.sql"} {
		files := steps()
		files["migrations/"+name] = &fstest.MapFile{}
		if name == "0003_three.sql" {
			delete(files, "migrations/0002_two.sql")
		}
		if _, err := listMigrations(files); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// The power goes, or the process dies, at any operation of the first start: the
// next start finishes it.
func TestStore_Open_FirstStartCutAnywhere(t *testing.T) {
	t.Parallel()
	count := 0
	for cut := 1; ; cut += 8 {
		disk, dir := newDisk(t), t.TempDir()
		n := 0
		disk.watch(func(io) error {
			if n++; n >= cut {
				return sqlite3.IOERR_WRITE
			}
			return nil
		})
		d, err := Open(t.Context(), complete(Config{Dir: dir, VFS: disk.name, Readers: 1}))
		if err == nil {
			err = d.Ping(t.Context())
			_ = d.Close()
		}
		if err == nil && n < cut {
			break
		}
		count++
		after, err := Open(t.Context(), complete(Config{Dir: dir, Readers: 1}))
		if err != nil {
			t.Fatalf("cut at operation %d: %v", cut, err)
		}
		if _, err := after.GetTenant(t.Context(), webhook.DefaultTenant); err != nil {
			t.Errorf("cut at operation %d: %v", cut, err)
		}
		checkWhole(t, after)
		if err := after.Close(); err != nil {
			t.Errorf("cut at operation %d: %v", cut, err)
		}
	}
	if count < 5 {
		t.Fatalf("only %d cuts", count)
	}
}

// Plans of the reads whose tables grow without end: none may scan.
func TestEngine_N23_BigTablesAreNeverScanned(t *testing.T) {
	t.Parallel()
	d := open(t, Config{Dir: t.TempDir()})
	e := newTestEndpoint(t, d, "a")
	rev := testRevision(t, d)
	for i := range 3 {
		if _, err := d.Accept(t.Context(), []store.AcceptParams{newTestEvent(fmt.Sprint(i), rev, e)}); err != nil {
			t.Fatal(err)
		}
	}
	span := store.Span{Since: testStart(), Until: testStart().AddDate(0, 0, 1)}
	ctx, page := t.Context(), store.Page{Limit: 2}
	for _, read := range []func() error{
		func() error { _, err := d.GetEvent(ctx, webhook.DefaultTenant, "1"); return err },
		func() error { _, err := d.CountDeliveries(ctx, webhook.DefaultTenant, "1"); return err },
		func() error { _, err := d.ListLanes(ctx); return err },
		func() error {
			_, err := d.ReadWindow(ctx, store.WindowParams{Endpoint: e.Key, Now: testStart(), Limit: 2})
			return err
		},
		func() error { _, err := d.LoadData(ctx, 1); return err },
		func() error { _, err := d.ListMarks(ctx); return err },
		func() error { _, _, err := d.CountWaiting(ctx, e.Tenant, e.ID, 5); return err },
		func() error { _, err := d.CountDue(ctx, e.Tenant, e.ID, testStart(), 5); return err },
		func() error {
			_, err := d.ListEvents(ctx, webhook.DefaultTenant, store.EventFilter{Span: span}, page)
			return err
		},
		func() error {
			_, err := d.ListDeliveries(ctx, webhook.DefaultTenant, store.DeliveryFilter{Span: span, Endpoint: "a"}, page)
			return err
		},
		func() error {
			_, err := d.ListDeliveries(ctx, webhook.DefaultTenant, store.DeliveryFilter{Event: "1"}, page)
			return err
		},
	} {
		if err := read(); err != nil {
			t.Fatal(err)
		}
	}
	statements := 0
	for range d.cfg.Readers {
		c := <-d.readers.free
		for sql := range c.stmts {
			statements++
			checkPlan(t, c, sql)
		}
		d.readers.free <- c
	}
	if statements < 8 {
		t.Fatalf("only %d statements were looked at", statements)
	}
}

// checkPlan refuses a plan that reads a big table from end to end. Reading it in
// the order of positions up to a limit is what lists do.
func checkPlan(t *testing.T, c *conn, sql string) {
	t.Helper()
	s, _, err := c.db.Prepare(`EXPLAIN QUERY PLAN ` + sql)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for s.Step() {
		step := s.ColumnText(3)
		for _, table := range []string{"event", "e", "delivery", "d", "attempt", "waiting", "w", "event_key"} {
			if step == "SCAN "+table || strings.HasPrefix(step, "SCAN "+table+" ") {
				t.Errorf("%s: %s", step, sql)
			}
		}
		if strings.Contains(step, "TEMP B-TREE") && !strings.Contains(sql, "FROM endpoint_secret") { // of three rows
			t.Errorf("%s: %s", step, sql)
		}
		if strings.HasPrefix(step, "SEARCH d ") && strings.Contains(sql, "d.endpoint = ?") && !strings.Contains(step, "delivery_by_endpoint (endpoint=? AND rowid") {
			t.Errorf("one endpoint's log is read by %s", step)
		}
	}
}

// The status, and what else an outcome changes, stands in no index (N23, N24).
func TestEngine_N23_OutcomesTouchNoIndex(t *testing.T) {
	t.Parallel()
	d := open(t, Config{Dir: t.TempDir()})
	changed := map[string]bool{}
	for part := range strings.FieldsFuncSeq(strings.Split(hotUpdateRecord.sql(), " WHERE ")[0], func(r rune) bool { return r == ' ' || r == ',' || r == '\t' || r == '\n' }) {
		if name, ok := strings.CutSuffix(part, "=?"); ok {
			changed[name] = true
		}
	}
	if !changed["status"] || len(changed) != 11 {
		t.Fatalf("an outcome changes %v", changed)
	}
	c := <-d.readers.free
	defer func() { d.readers.free <- c }()
	indexed := 0
	err := c.query(`SELECT i.name, x.name FROM pragma_index_list('delivery') i, pragma_index_info(i.name) x`, nil, func(s *sqlite3.Stmt) error {
		indexed++
		if changed[s.ColumnText(1)] {
			t.Errorf("%s stands in the index %s", s.ColumnText(1), s.ColumnText(0))
		}
		return nil
	})
	if err != nil || indexed == 0 {
		t.Fatal(indexed, err)
	}
}
