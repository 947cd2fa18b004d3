package sqlite

import (
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"
)

// disk is a file system that lets SQLite work on real files and keeps beside them
// what a power loss would leave: writes reach the medium when their file is
// synced, names when their folder is. It can also refuse writes and syncs.
//
// What it can't see: the OS layer of the SQLite library syncs the folder together
// with the first sync of a log or journal that it opened; disk takes that for
// granted, and that the data folder's own name is durable. The index of the log
// (-shm) is made anew at each start and never lost content matters.
type disk struct {
	vfs.VFS
	name string

	mu sync.Mutex
	// live are the files as programs see them, durable the names on the medium.
	live, durable map[string]*inode
	// before is asked before each write, sync, truncation and removal; an error
	// is the operation's. It is called with mu held.
	before func(io) error
}

// io is one operation on a file.
type io struct {
	kind ioKind
	file string // base name
	size int
}

type ioKind string

const (
	ioWrite    ioKind = "write"
	ioSync     ioKind = "sync"
	ioTruncate ioKind = "truncate"
	ioDelete   ioKind = "delete"
)

// inode is a file's content on the medium and what is not there yet.
type inode struct {
	medium  []byte
	pending []pending
}

// pending is a write, or a truncation where data is nil.
type pending struct {
	at   int64
	data []byte
}

// newDisk registers a disk for one test.
func newDisk(tb testing.TB) *disk {
	d := &disk{VFS: vfs.Find(""), name: "disk" + filepath.Base(tb.TempDir()) + tb.Name(), live: map[string]*inode{}, durable: map[string]*inode{}}
	d.name = slug(d.name)
	vfs.Register(d.name, d)
	tb.Cleanup(func() { vfs.Unregister(d.name) })
	return d
}

func slug(s string) string {
	out := []byte(s)
	for i, c := range out {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			out[i] = '-'
		}
	}
	return string(out)
}

// watch sets what is asked before each operation.
func (d *disk) watch(before func(io) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before = before
}

func (d *disk) ask(op io) error {
	if d.before == nil {
		return nil
	}
	return d.before(op)
}

func (d *disk) Open(name string, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	return vfsutil.WrapOpen(d.VFS, name, flags)
}

func (d *disk) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	file, out, err := vfsutil.WrapOpenFilename(d.VFS, name, flags)
	if err != nil || name == nil {
		return file, out, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	base := filepath.Base(name.String())
	if d.live[base] == nil {
		old, err := os.ReadFile(name.String())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, 0, err
		}
		d.live[base] = &inode{medium: old}
	}
	log := flags&vfs.OPEN_CREATE != 0 && flags&(vfs.OPEN_MAIN_JOURNAL|vfs.OPEN_SUPER_JOURNAL|vfs.OPEN_WAL) != 0
	return &diskFile{File: file, disk: d, node: d.live[base], base: base, syncsFolder: log}, out, nil
}

func (d *disk) Delete(name string, syncDir bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	base := filepath.Base(name)
	if err := d.ask(io{kind: ioDelete, file: base}); err != nil {
		return err
	}
	if err := d.VFS.Delete(name, syncDir); err != nil {
		return err
	}
	delete(d.live, base)
	if syncDir {
		d.syncFolder()
	}
	return nil
}

func (d *disk) syncFolder() { d.durable = maps.Clone(d.live) }

type diskFile struct {
	vfs.File
	disk        *disk
	node        *inode
	base        string
	syncsFolder bool
}

func (f *diskFile) Unwrap() vfs.File               { return f.File }
func (f *diskFile) SharedMemory() vfs.SharedMemory { return vfsutil.WrapSharedMemory(f.File) }
func (f *diskFile) LockState() vfs.LockLevel       { return vfsutil.WrapLockState(f.File) }
func (f *diskFile) HasMoved() (bool, error)        { return vfsutil.WrapHasMoved(f.File) }

func (f *diskFile) WriteAt(p []byte, at int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.ask(io{ioWrite, f.base, len(p)}); err != nil {
		return 0, err
	}
	f.node.pending = append(f.node.pending, pending{at: at, data: slices.Clone(p)})
	return f.File.WriteAt(p, at)
}

func (f *diskFile) Truncate(size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.ask(io{kind: ioTruncate, file: f.base}); err != nil {
		return err
	}
	f.node.pending = append(f.node.pending, pending{at: size})
	return f.File.Truncate(size)
}

func (f *diskFile) Sync(vfs.SyncFlag) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.ask(io{kind: ioSync, file: f.base}); err != nil {
		return err
	}
	f.node.medium = apply(f.node.medium, f.node.pending)
	f.node.pending = nil
	if f.syncsFolder {
		f.syncsFolder = false
		f.disk.syncFolder()
	}
	return nil // the machine that loses its power is made of memory
}

func apply(medium []byte, all []pending) []byte {
	for _, p := range all {
		end := p.at + int64(len(p.data))
		switch {
		case p.data == nil && p.at <= int64(len(medium)):
			medium = medium[:p.at]
		case end > int64(len(medium)):
			medium = append(medium, make([]byte, end-int64(len(medium)))...)
		}
		copy(medium[p.at:], p.data)
	}
	return medium
}

// fate says what becomes of the writes that were never synced.
type fate string

const (
	fateNone   fate = "none of it"
	fateAll    fate = "all of it"
	fatePrefix fate = "a prefix"
	fateSome   fate = "some writes"
	fateTorn   fate = "some sectors"
)

func fates() []fate { return []fate{fateNone, fateAll, fatePrefix, fateSome, fateTorn} }

// wreck is a data folder as a power loss left it.
type wreck map[string][]byte

// lose takes the power away: what is synced stays, the rest meets its fate. mu
// must be held.
func (d *disk) lose(how fate, random *rand.Rand) wreck {
	left := wreck{}
	names := maps.Clone(d.durable)
	if how != fateNone {
		// Names that were made or removed since may have reached the medium.
		for _, name := range slices.Sorted(maps.Keys(d.live)) {
			if names[name] != d.live[name] && (how == fateAll || random.IntN(2) == 0) {
				names[name] = d.live[name]
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if d.live[name] == nil && (how == fateAll || random.IntN(2) == 0) {
				delete(names, name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		node := names[name]
		left[name] = apply(slices.Clone(node.medium), survivors(node.pending, how, random))
	}
	return left
}

const sector = 512

func survivors(all []pending, how fate, random *rand.Rand) []pending {
	switch how {
	case fateNone:
		return nil
	case fateAll:
		return all
	case fatePrefix:
		return all[:random.IntN(len(all)+1)]
	case fateSome:
		return slices.DeleteFunc(slices.Clone(all), func(pending) bool { return random.IntN(2) == 0 })
	case fateTorn:
		var left []pending
		for _, p := range all {
			if p.data == nil {
				left = append(left, p)
				continue
			}
			for at, data := p.at, p.data; len(data) > 0; {
				n := min(sector-int(at%sector), len(data))
				if random.IntN(4) != 0 {
					left = append(left, pending{at: at, data: data[:n]})
				}
				at, data = at+int64(n), data[n:]
			}
		}
		return left
	}
	return nil
}

// folder writes a wreck out.
func (w wreck) folder(tb testing.TB, dir string) string {
	tb.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		tb.Fatal(err)
	}
	for name, content := range w {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}
