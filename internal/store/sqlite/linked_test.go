package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/posthorn/posthorn/internal/store"
)

// A database whose files were taken away acknowledges nothing: SQLite itself
// would not notice.
func TestEngine_N1_FilesTakenAway(t *testing.T) {
	t.Parallel()
	remove := func(name string) func(string) error {
		return func(dir string) error { return os.Remove(filepath.Join(dir, name)) }
	}
	for name, take := range map[string]func(dir string) error{
		"the database":      remove(FileName),
		"its log":           remove(FileName + "-wal"),
		"the folder":        os.RemoveAll,
		"the folder's name": func(dir string) error { return os.Rename(dir, dir+".old") },
		"replaced by a copy": func(dir string) error {
			path := filepath.Join(dir, FileName)
			old, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return errors.Join(os.WriteFile(path+".new", old, 0o600), os.Rename(path+".new", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			fatal := make(chan error, 1)
			d := open(t, Config{Dir: dir, OnFatal: func(err error) { fatal <- err }})
			acceptOne(t, d, "before")
			if err := take(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Accept(t.Context(), []store.AcceptParams{namedEvent("after")}); !errors.Is(err, store.ErrUnknown) {
				t.Fatalf("accepting gave %v", err)
			}
			if err := <-fatal; err == nil {
				t.Error("the database was closed for no reason")
			}
		})
	}
}

// A lock that is a file would end with its name: people delete what seems stale.
func TestEngine_N7_LockFileDeleted(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir()}
	open(t, cfg)
	if err := os.Remove(filepath.Join(cfg.Dir, "posthorn.lock")); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if err := refused(t, cfg); !errors.Is(err, ErrInUse) {
		t.Errorf("a second one: %v", err)
	}
}
