package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// isLog tells whether an operation is the write-ahead log's.
func isLog(op io) bool { return strings.HasSuffix(op.file, "-wal") }

// breakAt makes the log's n-th operation of a kind fail from now on, and all after
// it.
func (d *disk) breakAt(n int, kind ioKind, err error) {
	d.watch(func(op io) error {
		if !isLog(op) || op.kind != kind {
			return nil
		}
		if n--; n > 0 {
			return nil
		}
		return err
	})
}

// After an I/O error nothing is known of the commit it came in, and nothing is
// trusted: the callers concerned get ErrUnknown, all later ones ErrClosed, and who
// opened the store hears of it once. What was acknowledged before is there when it
// is opened again, also if the power went with it.
func TestEngine_N1_IOErrorClosesTheStore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind ioKind
		err  error
		n    []int
	}{
		{ioWrite, sqlite3.IOERR_WRITE, []int{1, 2, 7, 40}},
		{ioSync, sqlite3.IOERR_FSYNC, []int{1, 2, 9}},
	} {
		for _, n := range c.n {
			t.Run(fmt.Sprintf("%s%d", c.kind, n), func(t *testing.T) {
				t.Parallel()
				breakAndReopen(t, n, c.kind, c.err)
			})
		}
	}
}

func breakAndReopen(t *testing.T, n int, kind ioKind, cause error) {
	disk, dir := newDisk(t), t.TempDir()
	var fatal atomic.Int32
	d, err := Open(t.Context(), complete(Config{
		Dir: dir, VFS: disk.name, Readers: 2, checkpointPages: 30,
		OnFatal: func(err error) {
			if !errors.Is(err, store.ErrUnknown) {
				t.Errorf("told %v", err)
			}
			fatal.Add(1)
		},
	}))
	if err != nil {
		t.Fatal(err)
	}
	e := newTestEndpoint(t, d, "a")
	rev := testRevision(t, d)
	known, mu := newLedger(), sync.Mutex{}
	for i := range 3 {
		live(t, d, &mu, known, newTestEvent(fmt.Sprintf("before%d", i), rev, e))
	}
	disk.breakAt(n, kind, cause)
	failures := publishUntilClosed(t, d, known, rev, e)
	if failures[store.ErrUnknown] == 0 {
		t.Errorf("nobody was told that the outcome is unknown: %v", failures)
	}
	refusesAll(t, d, rev, e)
	if fatal.Load() != 1 {
		t.Errorf("told %d times", fatal.Load())
	}
	disk.mu.Lock()
	lost := disk.lose(fateSome, rand.New(rand.NewPCG(uint64(n), 1)))
	disk.mu.Unlock()
	_ = d.Close() // its checkpoint may fail as well
	if fatal.Load() != 1 {
		t.Errorf("told %d times", fatal.Load())
	}
	for _, dir := range []string{dir, lost.folder(t, t.TempDir())} {
		after := open(t, Config{Dir: dir})
		known.check(t, after)
		checkWhole(t, after)
	}
}

// publishUntilClosed publishes and records from many callers until each is
// refused, and counts the errors met.
func publishUntilClosed(t *testing.T, d *DB, known *ledger, rev int64, e *webhook.Endpoint) map[error]int {
	failures, mu := map[error]int{}, sync.Mutex{}
	note := func(err error) bool {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case errors.Is(err, store.ErrUnknown):
			failures[store.ErrUnknown]++
		case errors.Is(err, store.ErrClosed):
			failures[store.ErrClosed]++
		case err != nil:
			t.Errorf("error is %v", err)
		}
		return err == nil
	}
	var wg sync.WaitGroup
	for caller := range 4 {
		wg.Go(func() {
			for n := range 1000 {
				id := fmt.Sprintf("c%dn%d", caller, n)
				results, err := d.Accept(context.Background(), []store.AcceptParams{newTestEvent(id, rev, e)})
				if !note(err) {
					return
				}
				mu.Lock()
				known.events[id] = 1
				mu.Unlock()
				w := results[0].Fresh[0]
				if _, err := recordOne(d, testSuccess(&w, 201)); !note(err) {
					return
				}
				mu.Lock()
				known.outcomes[w.DeliveryID] = 201
				mu.Unlock()
			}
			t.Error("the store goes on with a broken disk")
		})
	}
	wg.Wait()
	return failures
}

// refusesAll checks that a store that met an I/O error does nothing any more.
func refusesAll(t *testing.T, d *DB, rev int64, e *webhook.Endpoint) {
	t.Helper()
	ctx := context.Background()
	_, accept := d.Accept(ctx, []store.AcceptParams{newTestEvent("late", rev, e)})
	_, record := recordOne(d, testSuccess(&store.Work{Ref: 1, Endpoint: e.Key, Round: 1}, 200))
	_, read := d.GetEvent(ctx, webhook.DefaultTenant, "before0")
	_, window := d.ReadWindow(ctx, store.WindowParams{Endpoint: e.Key, Now: testStart(), Limit: 1})
	for what, err := range map[string]error{
		"accept": accept, "record": record, "read": read, "window": window, "ping": d.Ping(ctx),
		"delete": d.DeleteEndpoint(ctx, e.Tenant, e.ID, false, testStart()),
	} {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s: error is %v", what, err)
		}
	}
}

// Wherever in a commit the disk fills up, the commit is refused whole, for
// outcomes too, and it goes on as soon as there is room.
func TestEngine_N5_FullDiskAnywhereInACommit(t *testing.T) {
	t.Parallel()
	disk := newDisk(t)
	d := open(t, Config{Dir: t.TempDir(), VFS: disk.name, Readers: 1, OnFatal: func(err error) { t.Errorf("closed: %v", err) }})
	e := newTestEndpoint(t, d, "a")
	rev := testRevision(t, d)
	for n := 1; n <= 12; n++ {
		p := newTestEvent(fmt.Sprintf("e%d", n), rev, e)
		p.Data = randomBytes(6000) // several pages
		disk.breakAt(n, ioWrite, sqlite3.FULL)
		_, err := d.Accept(t.Context(), []store.AcceptParams{p})
		disk.watch(nil)
		if err != nil && !errors.Is(err, store.ErrOverloaded) {
			t.Fatalf("write %d: error is %v", n, err)
		}
		if _, got := d.GetEvent(t.Context(), p.Tenant, p.ID); errors.Is(got, store.ErrNotFound) != (err != nil) {
			t.Fatalf("write %d: accepted with %v, read with %v", n, err, got)
		}
		results, err := d.Accept(t.Context(), []store.AcceptParams{p})
		if err != nil || results[0].Err != nil {
			t.Fatalf("write %d: with room again: %v, %+v", n, err, results)
		}
	}
	checkWhole(t, d)

	w, err := d.ReadWindow(t.Context(), store.WindowParams{Endpoint: e.Key, Now: testStart(), Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	disk.breakAt(1, ioWrite, sqlite3.FULL)
	if _, err := recordOne(d, testSuccess(&w.Work[0], 200)); !errors.Is(err, store.ErrOverloaded) {
		t.Fatalf("an outcome on a full disk: %v", err)
	}
	disk.watch(nil)
	if r, err := recordOne(d, testSuccess(&w.Work[0], 200)); err != nil || !r.Applied {
		t.Fatalf("the outcome with room again: %v, %+v", err, r)
	}
	checkWhole(t, d)
}

// A checkpoint that finds no room waits for better days; commits go on in the log.
func TestEngine_N25_CheckpointOnAFullDisk(t *testing.T) {
	t.Parallel()
	disk, dir := newDisk(t), t.TempDir()
	d := open(t, Config{Dir: dir, VFS: disk.name, Readers: 1, checkpointPages: 30, OnFatal: func(err error) { t.Errorf("closed: %v", err) }})
	e := newTestEndpoint(t, d, "a")
	rev := testRevision(t, d)
	known, mu := newLedger(), sync.Mutex{}
	var refused atomic.Int32
	disk.watch(func(op io) error {
		if op.file == FileName && op.kind == ioWrite {
			refused.Add(1)
			return sqlite3.FULL
		}
		return nil
	})
	for i := range 60 {
		live(t, d, &mu, known, newTestEvent(fmt.Sprintf("full%d", i), rev, e))
	}
	grown := d.Stats().WALPages
	disk.watch(nil)
	if refused.Load() == 0 || grown < 60 {
		t.Fatalf("no checkpoint was tried: %d, %d pages", refused.Load(), grown)
	}
	for i := 0; d.Stats().WALPages >= grown; i++ {
		if i == 1000 {
			t.Fatal("with room again, the log is never written back")
		}
		live(t, d, &mu, known, newTestEvent(fmt.Sprintf("room%d", i), rev, e))
	}
	known.check(t, d)
	checkWhole(t, d)
}
