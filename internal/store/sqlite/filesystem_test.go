package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/posthorn/posthorn/internal/store"
)

// cramped is a file system whose files can't be written while full is set, as the
// operating system says it.
type cramped struct {
	vfs.VFS
	full *atomic.Bool
}

func (c cramped) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, out, err := vfsutil.WrapOpenFilename(c.VFS, name, flags)
	return crampedFile{openFile{f}, c.full}, out, err
}

type crampedFile struct {
	openFile
	full *atomic.Bool
}

func (f crampedFile) WriteAt(p []byte, at int64) (int, error) {
	if f.full.Load() {
		return 0, &fs.PathError{Op: "write", Path: "posthorn.db-wal", Err: syscall.ENOSPC}
	}
	return f.File.WriteAt(p, at)
}

// A full disk is no broken one: what does not fit is refused and did not happen,
// the store goes on as soon as there is room, and all along it can be read.
func TestEngine_N5_FullDiskRefuses(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	vfs.Register("cramped", fileSystem{cramped{vfs.Find(""), &full}})
	t.Cleanup(func() { vfs.Unregister("cramped") })
	cfg := Config{Dir: t.TempDir(), VFS: "cramped", OnFatal: func(err error) { t.Errorf("the store was closed: %v", err) }}
	d := open(t, cfg)
	acceptOne(t, d, "before")

	full.Store(true)
	for range 3 {
		_, err := d.Accept(t.Context(), []store.AcceptParams{namedEvent("meanwhile")})
		if !errors.Is(err, store.ErrOverloaded) {
			t.Fatalf("on a full disk: %v", err)
		}
	}
	if _, err := d.GetEvent(t.Context(), "default", "before"); err != nil {
		t.Errorf("reading on a full disk: %v", err)
	}
	for range 2 {
		if err := d.Ping(t.Context()); !errors.Is(err, store.ErrOverloaded) {
			t.Errorf("a ping on a full disk: %v", err)
		}
	}
	full.Store(false)
	for range 2 {
		if err := d.Ping(t.Context()); err != nil {
			t.Errorf("a ping when there is room again: %v", err)
		}
	}
	acceptOne(t, d, "after")

	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, Config{Dir: cfg.Dir})
	for id, want := range map[string]error{"before": nil, "meanwhile": store.ErrNotFound, "after": nil} {
		if _, err := d.GetEvent(t.Context(), "default", id); !errors.Is(err, want) {
			t.Errorf("after a restart, event %s: %v, want %v", id, err, want)
		}
	}
}

func acceptOne(t *testing.T, d *DB, id string) {
	t.Helper()
	results, err := d.Accept(t.Context(), []store.AcceptParams{namedEvent(id)})
	if err != nil || results[0].Err != nil {
		t.Fatalf("accepting %s: %v, %+v", id, err, results)
	}
}

// namedEvent is an event of the default tenant for nobody.
func namedEvent(id string) store.AcceptParams {
	return store.AcceptParams{Tenant: "default", Revision: 1, ID: id, Type: "thing.happened", Data: []byte(`{}`), Now: testStart()}
}

// Payloads are not for everyone on the machine, even in a folder that is open.
func TestOpen_FilesArePrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	d := open(t, Config{Dir: dir})
	acceptOne(t, d, "secret")
	for _, name := range []string{FileName, FileName + "-wal"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode&0o077 != 0 {
			t.Errorf("%s has mode %o", name, mode)
		}
	}
}
