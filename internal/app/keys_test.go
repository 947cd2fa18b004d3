package app

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Whoever comes first makes the key, and all others read that one, whole.
func TestKeys_OneKeyForAll(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "folder", secretsKeyFile)
	var running sync.WaitGroup
	got := make([]string, 16)
	made := make([]bool, len(got))
	for i := range got {
		running.Go(func() {
			var err error
			if got[i], made[i], err = keptKey(path, newSecretsKey); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	makers := 0
	for i := range got {
		if got[i] != got[0] || len(got[i]) != 44 {
			t.Errorf("key %d is another one, of %d bytes", i, len(got[i]))
		}
		if made[i] {
			makers++
		}
	}
	if makers != 1 {
		t.Errorf("%d made the key", makers)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// A first start may be killed at any moment: the next one works.
func TestStart_KilledInTheFirstStart(t *testing.T) {
	t.Parallel()
	for wait := time.Millisecond; wait < 200*time.Millisecond; wait *= 2 {
		dir := t.TempDir()
		p, _ := spawn(t, dir)
		<-time.After(wait)
		p.kill()
		p = p.again()
		p.send(`{}`)
		p.kill()
	}
}
