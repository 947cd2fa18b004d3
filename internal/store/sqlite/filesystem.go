package sqlite

import (
	"errors"
	"os"
	"syscall"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"
)

// fileSystem is another one with two differences. What it creates is its owner's
// alone. And a write that finds no room says SQLITE_FULL: the library's own layer
// reports it as any other write error, and the number behind that is gone by the
// time a commit has failed, since SQLite unlocks the file first. Much depends on
// it: a full disk refuses a commit, while any other write error ends all trust in
// the file (N1).
type fileSystem struct{ vfs.VFS }

// registerOSFiles makes the operating system's file system known to SQLite in
// this form and returns its name. Doing so again changes nothing.
func registerOSFiles() string {
	const name = "posthorn-os"
	vfs.Register(name, fileSystem{vfs.Find("")})
	return name
}

// Open implements vfs.VFS.
func (s fileSystem) Open(name string, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, out, err := vfsutil.WrapOpen(s.VFS, name, flags)
	return wrapFile(f, err), out, err
}

// OpenFilename implements vfs.VFSFilename.
func (s fileSystem) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	if name != nil && flags&vfs.OPEN_CREATE != 0 {
		createPrivate(name.String())
	}
	f, out, err := vfsutil.WrapOpenFilename(s.VFS, name, flags)
	return wrapFile(f, err), out, err
}

// createPrivate makes a file that is not there yet, for its owner's eyes: the
// database and its log hold payloads, and the folder may have been made by
// someone who left it open to all. If it can't be made, opening it says why.
func createPrivate(name string) {
	if f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err == nil {
		_ = f.Close()
	}
}

func wrapFile(f vfs.File, err error) vfs.File {
	if err != nil {
		return nil
	}
	return openFile{f}
}

// openFile passes everything on that the store's use of SQLite asks for.
type openFile struct{ vfs.File }

// WriteAt implements io.WriterAt.
func (f openFile) WriteAt(p []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(p, at)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return n, vfs.SystemError(err, sqlite3.FULL)
	}
	return n, err
}

// Unwrap implements vfs.FileUnwrap.
func (f openFile) Unwrap() vfs.File { return f.File }

// LockState implements vfs.FileLockState.
func (f openFile) LockState() vfs.LockLevel { return vfsutil.WrapLockState(f.File) }

// HasMoved implements vfs.FileHasMoved.
func (f openFile) HasMoved() (bool, error) { return vfsutil.WrapHasMoved(f.File) }

// SizeHint implements vfs.FileSizeHint.
func (f openFile) SizeHint(size int64) error { return vfsutil.WrapSizeHint(f.File, size) }

// SharedMemory implements vfs.FileSharedMemory.
func (f openFile) SharedMemory() vfs.SharedMemory { return vfsutil.WrapSharedMemory(f.File) }
