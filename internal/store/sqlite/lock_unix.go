//go:build unix

package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lockFolder takes the data folder's lock, which lasts until the file is closed:
// on one machine this lock is the lease of N7. The folder itself is locked, for
// people delete lock files that seem to be in their way; a file in it is where
// the file system locks no folders.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the data folder: %w", err)
	}
	switch err := lockFile(f); {
	case err == nil:
		return f, nil
	case errors.Is(err, ErrInUse):
		return nil, err
	}
	f, err = os.OpenFile(filepath.Join(dir, "posthorn.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the data folder's lock: %w", err)
	}
	if err := lockFile(f); err != nil {
		return nil, err
	}
	return f, nil
}

// lockFile closes the file if it can't be locked.
func lockFile(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrInUse
	}
	return fmt.Errorf("locking the data folder: %w", err)
}

// unlockFolder gives the lock back before it closes the file: a process that is
// being started by this one has a copy of it for a moment, and would hold the lock
// for as long.
func unlockFolder(f *os.File) error {
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}
