package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// sql runs statements on the writer's connection.
func sql(t *testing.T, d *DB, text string) {
	t.Helper()
	if err := d.writer.do(t.Context(), func(x *tx) error { return x.conn.db.Exec(text) }); err != nil {
		t.Fatal(err)
	}
}

// poisoned is a store with a few deliveries, their outcomes, and a row's text that
// the database refuses.
func poisoned(t *testing.T, n int) (d *DB, work []store.Work) {
	t.Helper()
	d = open(t, Config{Dir: t.TempDir()})
	e := newTestEndpoint(t, d, "a")
	rev := testRevision(t, d)
	for i := range n {
		results, err := d.Accept(t.Context(), []store.AcceptParams{newTestEvent(fmt.Sprintf("e%d", i), rev, e)})
		if err != nil {
			t.Fatal(err)
		}
		work = append(work, results[0].Fresh...)
	}
	sql(t, d, `CREATE TRIGGER poison_body BEFORE INSERT ON attempt WHEN instr(new.response, 'poison') BEGIN SELECT raise(ABORT, 'poison'); END;
		CREATE TRIGGER poison_row BEFORE INSERT ON attempt WHEN new.address = 'poison' BEGIN SELECT raise(ABORT, 'poison'); END;
		CREATE TRIGGER poison_event BEFORE INSERT ON event WHEN new.id = 'poison' BEGIN SELECT raise(ABORT, 'poison'); END;`)
	return d, work
}

type answer struct {
	r   store.RecordResult
	err error
}

// recordTogether records outcomes in one batch.
func recordTogether(t *testing.T, d *DB, all []store.RecordParams) []answer {
	t.Helper()
	release := stall(t, d)
	answered := make([]chan answer, len(all))
	for i, p := range all {
		answered[i] = make(chan answer, 1)
		d.Record(p, func(r store.RecordResult, err error) { answered[i] <- answer{r, err} })
	}
	release()
	answers := make([]answer, len(all))
	for i := range all {
		answers[i] = <-answered[i]
	}
	return answers
}

// One row that can't be written does not hurt the others of its batch: with an
// answer's body that the database refuses it is written without; where even that
// fails, it alone gets the error and changed nothing (B04).
func TestEngine_N12_PoisonedBatchIsSplit(t *testing.T) {
	t.Parallel()
	d, work := poisoned(t, 9)
	var all []store.RecordParams
	for i := range work {
		p := testSuccess(&work[i], 200)
		switch i {
		case 3:
			p.Attempt.Response = []byte("this is poison")
		case 6:
			p.Attempt.Address = "poison"
		}
		all = append(all, p)
	}
	for i, a := range recordTogether(t, d, all) {
		v, err := d.GetDelivery(t.Context(), webhook.DefaultTenant, work[i].DeliveryID)
		if err != nil {
			t.Fatal(err)
		}
		log, err := d.ListAttempts(t.Context(), webhook.DefaultTenant, work[i].DeliveryID)
		if err != nil {
			t.Fatal(err)
		}
		if i == 6 {
			if a.err == nil || a.r.Applied || v.Status != contract.StatusPending || len(log) != 0 {
				t.Errorf("the row that can't be written: %+v, %+v, %d attempts", a, v, len(log))
			}
			continue
		}
		if a.err != nil || !a.r.Applied || v.Status != contract.StatusDelivered || len(log) != 1 {
			t.Errorf("row %d: %+v, %+v", i, a, v)
		} else if bare := log[0].Response == nil; bare != (i == 3) || log[0].Truncated != (i == 3) {
			t.Errorf("row %d: answer %q, truncated %v", i, log[0].Response, log[0].Truncated)
		}
	}
	// What kept the row out is gone: the same outcome is written after all.
	sql(t, d, `DROP TRIGGER poison_row`)
	if r, err := recordOne(d, all[6]); err != nil || !r.Applied {
		t.Errorf("written again: %+v, %v", r, err)
	}
	sql(t, d, `DROP TRIGGER poison_body; DROP TRIGGER poison_event`)
	checkWhole(t, d)
}

// A body over the database's own limit is left out as well.
func TestFault_B05_BodyOverTheDatabasesLimit(t *testing.T) {
	t.Parallel()
	d, work := poisoned(t, 2)
	err := d.writer.do(t.Context(), func(x *tx) error { x.conn.db.Limit(sqlite3.LIMIT_LENGTH, 60_000); return nil })
	if err != nil {
		t.Fatal(err)
	}
	large := testSuccess(&work[0], 200)
	large.Attempt.Response = randomBytes(70_000)
	for i, a := range recordTogether(t, d, []store.RecordParams{large, testSuccess(&work[1], 200)}) {
		log, err := d.ListAttempts(t.Context(), webhook.DefaultTenant, work[i].DeliveryID)
		if a.err != nil || !a.r.Applied || err != nil || len(log) != 1 || log[0].Truncated != (i == 0) {
			t.Errorf("row %d: %+v, %v, %+v", i, a, err, log)
		}
	}
	if large.Attempt.Response == nil || large.Attempt.Truncated {
		t.Error("the caller's attempt was changed")
	}
}

// An event that can't be written is refused alone; those that waited for the same
// commit are accepted, each once.
func TestEngine_N12_PoisonedEventIsRefusedAlone(t *testing.T) {
	t.Parallel()
	d, _ := poisoned(t, 0)
	e := newTestEndpoint(t, d, "b")
	rev := testRevision(t, d)
	release := stall(t, d)
	ids := []string{"x0", "x1", "poison", "x3", "x4"}
	failed := make(chan error, len(ids))
	for _, id := range ids {
		go func() {
			results, err := d.Accept(context.Background(), []store.AcceptParams{newTestEvent(id, rev, e)})
			if err == nil {
				err = results[0].Err
			}
			if (err != nil) != (id == "poison") {
				err = fmt.Errorf("event %s: error is %w", id, err)
			} else {
				err = nil
			}
			failed <- err
		}()
	}
	release()
	for range ids {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	for _, id := range ids {
		_, err := d.GetEvent(t.Context(), webhook.DefaultTenant, id)
		if errors.Is(err, store.ErrNotFound) != (id == "poison") {
			t.Errorf("event %s: %v", id, err)
		}
	}
	sql(t, d, `DROP TRIGGER poison_body; DROP TRIGGER poison_row; DROP TRIGGER poison_event`)
	checkWhole(t, d)
}

func (q *queue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed != nil
}

// What an undone batch had put into the writer's memory is undone too: words,
// health and positions come out as if the batch had never been.
func TestEngine_N12_UndoneBatchLeavesNoTrace(t *testing.T) {
	t.Parallel()
	d, work := poisoned(t, 3)
	rev := testRevision(t, d)
	release := stall(t, d)
	failed := make(chan error, 1)
	failure := testSuccess(&work[0], 500)
	failure.Status, failure.NextAt = contract.StatusPending, testStart()
	bad := testSuccess(&work[1], 200)
	bad.Attempt.Address = "poison"
	recorded := make(chan error, 2)
	d.Record(failure, func(_ store.RecordResult, err error) { recorded <- err })
	accepted := make(chan store.AcceptResult, 1)
	go func() {
		p := newTestEvent("new", rev, &webhook.Endpoint{Key: work[0].Endpoint, Contract: "never seen"})
		p.Targets[0].ContractRevision, p.Type = "r9", "never.seen"
		results, err := d.Accept(context.Background(), []store.AcceptParams{p})
		failed <- err
		accepted <- results[0]
	}()
	d.writer.queue.awaitWaiting(2)
	d.Record(bad, func(_ store.RecordResult, err error) { recorded <- err })
	release()
	if err := <-recorded; err != nil {
		t.Error(err)
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if err := <-recorded; err == nil {
		t.Error("poison was recorded")
	}
	w := (<-accepted).Fresh[0]
	v, err := d.GetDelivery(t.Context(), webhook.DefaultTenant, w.DeliveryID)
	if err != nil || v.Type != "never.seen" || v.Contract != "never seen" || v.ContractRevision != "r9" {
		t.Errorf("%v, %+v", err, v)
	}
	e, err := d.GetEndpoint(t.Context(), webhook.DefaultTenant, "a")
	if err != nil || e.Health.FailuresInRow != 1 {
		t.Errorf("%v, %+v", err, e.Health)
	}
	if w.Ref != work[2].Ref+1 {
		t.Errorf("the delivery after %d is %d", work[2].Ref, w.Ref)
	}
}

// awaitWaiting returns when n operations are queued.
func (q *queue) awaitWaiting(n int) {
	for {
		q.mu.Lock()
		waiting := len(q.ops) - q.head
		q.mu.Unlock()
		if waiting >= n {
			return
		}
		runtime.Gosched()
	}
}

// An outcome that is lightened while the store closes is still written.
func TestEngine_N12_LightenedWhileClosing(t *testing.T) {
	t.Parallel()
	d, work := poisoned(t, 1)
	p := testSuccess(&work[0], 200)
	p.Attempt.Response = []byte(strings.Repeat("poison", 3))
	release := stall(t, d)
	answered := make(chan answer, 1)
	d.Record(p, func(r store.RecordResult, err error) { answered <- answer{r, err} })
	closed := make(chan error, 1)
	go func() { closed <- d.Close() }()
	for range 100_000 { // until Close has begun, unless the janitor still waits for its turn
		if d.writer.queue.isClosed() {
			break
		}
		runtime.Gosched()
	}
	release()
	if a := <-answered; a.err != nil || !a.r.Applied {
		t.Errorf("%+v", a)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
