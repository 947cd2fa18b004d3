package sqlite

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/posthorn/posthorn/internal/store"
)

// What waits for a deleted endpoint ends even if the disk was full when it was to
// be written: no restart and no other deletion is needed.
func TestFault_B61_TidyingGoesOnAfterAFullDisk(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	vfs.Register("cramped-janitor", fileSystem{cramped{vfs.Find(""), &full}})
	t.Cleanup(func() { vfs.Unregister("cramped-janitor") })
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, Config{Dir: dir, VFS: "cramped-janitor", OnChange: func(c store.Change) {
			if c.EndpointDeleted != 0 {
				full.Store(true)
			}
		}})
		e := newTestEndpoint(t, d, "a")
		if _, err := d.Accept(t.Context(), []store.AcceptParams{newTestEvent("x", testRevision(t, d), e)}); err != nil {
			t.Fatal(err)
		}
		if err := d.DeleteEndpoint(t.Context(), e.Tenant, e.ID, false, testStart()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := countWaitingRows(t, d); n != 1 {
			t.Fatalf("%d rows wait while the disk is full", n)
		}
		full.Store(false)
		time.Sleep(janitorRest)
		synctest.Wait()
		if n := countWaitingRows(t, d); n != 0 {
			t.Errorf("%d rows still wait", n)
		}
	})
}

func countWaitingRows(t *testing.T, d *DB) (n int) {
	t.Helper()
	err := d.read(t.Context(), func(c *conn) error {
		_, err := c.one(`SELECT count(*) FROM waiting`, nil, func(s *sqlite3.Stmt) { n = s.ColumnInt(0) })
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
