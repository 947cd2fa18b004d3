package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// linked are the files that the database consists of, as they were found under
// their names when it was opened. If one is deleted or replaced under a running
// server, SQLite goes on writing to a file without a name, and what is
// acknowledged then is gone with the process.
type linked []linkedFile

type linkedFile struct {
	path string
	info os.FileInfo
}

// linkFiles looks the database's files up. One that is not found is not watched.
func linkFiles(dir string) linked {
	var l linked
	for _, name := range []string{FileName, FileName + "-wal"} {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil {
			l = append(l, linkedFile{path, info})
		}
	}
	return l
}

// lost tells whether a name leads elsewhere now. What can't be told is no loss.
func (l linked) lost() bool {
	for _, f := range l {
		now, err := os.Stat(f.path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(f.info, now) {
			return true
		}
	}
	return false
}
