package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// The log stays within a few times of what a checkpoint begins at while
// publishers commit without a pause and readers overlap each other.
func TestEngine_N25_LogStaysBounded(t *testing.T) {
	t.Parallel()
	const most = 100
	dir := t.TempDir()
	d := open(t, Config{Dir: dir, checkpointPages: most})
	e := newTestEndpoint(t, d, "a")
	p := newTestEvent("", testRevision(t, d), e)
	p.Data = randomBytes(3000)

	ctx, cancel := context.WithCancel(t.Context())
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for ctx.Err() == nil {
				if _, err := d.ListDeliveries(t.Context(), webhook.DefaultTenant, store.DeliveryFilter{}, store.Page{Limit: 30}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var largest atomic.Int64
	for range 4 {
		writers.Go(func() {
			for range 80 {
				if _, err := d.Accept(t.Context(), []store.AcceptParams{p}); err != nil {
					t.Error(err)
					return
				}
				if pages := d.Stats().WALPages; pages > largest.Load() {
					largest.Store(pages)
				}
			}
		})
	}
	writers.Wait()
	cancel()
	readers.Wait()
	info, err := os.Stat(filepath.Join(dir, FileName+"-wal"))
	if err != nil {
		t.Fatal(err)
	}
	if largest.Load() < most || largest.Load() > 8*most || info.Size() > 8*most*4200 {
		t.Fatalf("the log grew to %d pages, its file to %d bytes", largest.Load(), info.Size())
	}
}

// What a deletion leaves to do is done in slices, between which others commit.
func TestEngine_N25_JanitorWorksInSlices(t *testing.T) {
	t.Parallel()
	d := open(t, Config{Dir: t.TempDir()})
	e := newTestEndpoint(t, d, "a")
	rev := testRevision(t, d)
	var events []store.AcceptParams
	for range 5*janitorSlice + 1 {
		events = append(events, newTestEvent("", rev, e))
	}
	if _, err := d.Accept(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	before := d.Stats().Commits
	if err := d.DeleteEndpoint(t.Context(), e.Tenant, e.ID, false, testStart()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		lanes, err := d.ListLanes(t.Context())
		if err != nil || time.Now().After(deadline) {
			t.Fatal("rows of a deleted endpoint still wait", err)
		}
		if len(lanes) == 0 {
			break
		}
	}
	if err := d.Ping(t.Context()); err != nil { // the last slice is counted by then
		t.Fatal(err)
	}
	if commits := d.Stats().Commits - before; commits < 8 {
		t.Fatalf("%d rows ended in %d commits", len(events), commits)
	}
	checkWhole(t, d)
}
