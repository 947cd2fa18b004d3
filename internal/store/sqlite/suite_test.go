package sqlite

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/store/storetest"
	"github.com/posthorn/posthorn/internal/webhook"
)

func TestSuite(t *testing.T) { storetest.Run(t, newFolder) }

func BenchmarkSuite(b *testing.B) { storetest.Benchmark(b, newFolder) }

// folder is a data folder for storetest.
type folder string

func newFolder(tb testing.TB) storetest.Database { return folder(tb.TempDir()) }

func (f folder) Open(tb testing.TB, o storetest.Options) store.Store {
	tb.Helper()
	return open(tb, Config{
		Dir: string(f), Sealer: newTestSealer("key one"), Now: o.Now, DueNow: o.DueNow, OnChange: o.OnChange, Contract: o.Contract, QueueRows: o.QueueRows, QueueBytes: o.QueueBytes,
	})
}

func (folder) Stall(tb testing.TB, s store.Store) func() {
	return stall(tb, s.(*DB))
}

// stall keeps the writer inside one operation until release is called.
func stall(tb testing.TB, d *DB) (release func()) {
	tb.Helper()
	entered, leave, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(left)
		_, err := d.UpdateTenant(context.Background(), webhook.DefaultTenant, func(*webhook.Tenant) error {
			close(entered)
			<-leave
			return nil
		})
		if err != nil {
			tb.Errorf("the operation that held the writer: %v", err)
		}
	}()
	<-entered
	release = sync.OnceFunc(func() { close(leave); <-left })
	tb.Cleanup(release)
	return release
}

// open opens a store and closes it when the test ends.
func open(tb testing.TB, cfg Config) *DB {
	tb.Helper()
	d, err := Open(tb.Context(), complete(cfg))
	if err != nil {
		tb.Fatalf("opening %s: %v", cfg.Dir, err)
	}
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Errorf("closing: %v", err)
		}
	})
	return d
}

func complete(cfg Config) Config {
	if cfg.Sealer == nil {
		cfg.Sealer = newTestSealer("key one")
	}
	if cfg.Contract == nil {
		cfg.Contract = storetest.Builtin
	}
	if cfg.Now.IsZero() {
		cfg.Now = testStart()
	}
	return cfg
}

func testStart() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// testSealer seals with AES-GCM: the first key seals, all of them open. A sealed
// value begins with its key's fingerprint.
type testSealer struct{ keys []testKey }

type testKey struct {
	id   [8]byte
	aead cipher.AEAD
}

func newTestSealer(keys ...string) testSealer {
	var s testSealer
	for _, text := range keys {
		sum := sha256.Sum256([]byte(text))
		block, err := aes.NewCipher(sum[:])
		if err != nil {
			panic(err)
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			panic(err)
		}
		id := sha256.Sum256(sum[:])
		s.keys = append(s.keys, testKey{id: [8]byte(id[:8]), aead: aead})
	}
	return s
}

func (s testSealer) Seal(plain, associated []byte) ([]byte, error) {
	k := s.keys[0]
	return k.aead.Seal(k.id[:], nil, plain, associated), nil
}

var errTestSealer = errors.New("no key opens it")

func (s testSealer) Open(sealed, associated []byte) ([]byte, error) {
	for _, k := range s.keys {
		if len(sealed) >= 8 && k.id == [8]byte(sealed[:8]) {
			return k.aead.Open(nil, nil, sealed[8:], associated)
		}
	}
	return nil, errTestSealer
}

func (s testSealer) Fingerprint() []byte { return s.keys[0].id[:] }

func (s testSealer) Matches(fingerprint []byte) bool {
	for _, k := range s.keys {
		if string(k.id[:]) == string(fingerprint) {
			return true
		}
	}
	return false
}

func (s testSealer) NeedsReseal(sealed []byte) bool {
	return len(sealed) < 8 || s.keys[0].id != [8]byte(sealed[:8])
}

// randomBytes fills what tests store.
func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}
