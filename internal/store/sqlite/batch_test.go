package sqlite

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// A change ends its batch: whatever waited behind it for the same commit is judged
// after the change was told, so that what follows OnChange can match it again.
func TestEngine_N2_ChangeEndsItsBatch(t *testing.T) {
	t.Parallel()
	var told atomic.Int64
	d := open(t, Config{Dir: t.TempDir(), OnChange: func(c store.Change) { told.Store(c.Revision) }})
	e := newTestEndpoint(t, d, "a")
	p := newTestEvent("x", testRevision(t, d), e)
	p.Rematch = func() store.Matched { return store.Matched{Revision: told.Load()} }

	release := stall(t, d)
	changed, accepted := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := d.UpdateEndpoint(context.Background(), e.Tenant, e.ID, testStart(), func(e *webhook.Endpoint) (store.EndpointUpdate, error) {
			e.Description = "changed"
			return store.EndpointUpdate{}, nil
		})
		changed <- err
	}()
	d.writer.queue.awaitWaiting(1)
	go func() {
		results, err := d.Accept(context.Background(), []store.AcceptParams{p})
		if err == nil {
			err = results[0].Err
		}
		accepted <- err
	}()
	d.writer.queue.awaitWaiting(2)
	before := d.Stats()
	release()
	if err := <-changed; err != nil {
		t.Error(err)
	}
	if err := <-accepted; err != nil {
		t.Errorf("matched again with what was told: %v", err)
	}
	if after := d.Stats(); after.Commits-before.Commits != 3 || after.Ops-before.Ops != 3 {
		t.Errorf("%d operations in %d commits, want each in its own", after.Ops-before.Ops, after.Commits-before.Commits)
	}
}

// What waits together is committed together.
func TestEngine_N1_OneCommitForWhatWaits(t *testing.T) {
	t.Parallel()
	d := open(t, Config{Dir: t.TempDir()})
	e := newTestEndpoint(t, d, "a")
	rev := testRevision(t, d)
	release := stall(t, d)
	const publishers = 20
	answers := make(chan error, publishers)
	for range publishers {
		go func() {
			_, err := d.Accept(context.Background(), []store.AcceptParams{newTestEvent("", rev, e)})
			answers <- err
		}()
	}
	d.writer.queue.awaitWaiting(publishers)
	before := d.Stats()
	release()
	for range publishers {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	// One for the operation that held the writer, one for all the rest.
	if after := d.Stats(); after.Commits-before.Commits != 2 || after.Ops-before.Ops != publishers+1 {
		t.Errorf("%d operations in %d commits", after.Ops-before.Ops, after.Commits-before.Commits)
	}
}
