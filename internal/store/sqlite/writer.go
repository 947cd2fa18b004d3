package sqlite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Bounds of the writer (N5, N25).
const (
	defaultQueueRows  = 16 << 10
	defaultQueueBytes = 64 << 20
	// batchRows is how many rows one commit takes at most, so that each piece of
	// work stays short.
	batchRows = 512
)

// op is one piece of work for the writer.
type op struct {
	// run makes the changes. A refusal (an error wrapped by refuse) must come
	// before the first change; any other error undoes the whole batch, which is
	// then repeated one op at a time.
	run func(*tx) error
	// done is called once after the commit, from the writer; it must not block.
	done func(error)
	// rows weighs the op; bytes counts its payload. Both bound the queue.
	rows, bytes int
	// forced ops are not refused for overload: outcomes of what was sent.
	forced bool
}

// refusal marks an error of an op that changed nothing.
type refusal struct{ err error }

func (r refusal) Error() string { return r.err.Error() }
func (r refusal) Unwrap() error { return r.err }

// refuse makes err the op's own result, without harm to its batch.
func refuse(err error) error { return refusal{err} }

// writer owns the only connection that writes.
type writer struct {
	db   *DB
	conn *conn

	mu       sync.Mutex
	wake     sync.Cond
	queue    []op
	rows     int
	bytes    int
	stopping bool
	dead     error // set once: every later op gets it

	finished chan struct{}

	commits, ops atomic.Int64 // for Stats

	// state is what the writer knows of the database without reading it. Only
	// its goroutine touches it.
	state state
}

// state is the writer's memory; a transaction works on it and a rollback puts it
// back.
type state struct {
	eventPos, deliveryPos, attemptPos int64
	tenants                           map[string]tenantState
	words                             map[string]int64
	promises                          map[[2]string]int64
	health                            map[webhook.EndpointKey]webhook.Health
}

type tenantState struct {
	num, rev int64
}

// tx is one transaction under way.
type tx struct {
	*conn
	*state
	db *DB
	// changes are told after the commit.
	changes []store.Change
	// sick holds the endpoints whose health changed.
	sick map[webhook.EndpointKey]bool
	// last ends the batch behind the present op: what it changed must be known to
	// all before another op is judged (N2).
	last bool
	// marks is by how much the number of rows in running changed.
	marks int64
}

func newWriter(c *conn, d *DB) *writer {
	w := &writer{db: d, conn: c, finished: make(chan struct{})}
	w.wake.L = &w.mu
	w.forget()
	return w
}

// forget drops what was cached of the database.
func (w *writer) forget() {
	w.state.tenants = map[string]tenantState{}
	w.state.words = map[string]int64{}
	w.state.promises = map[[2]string]int64{}
	w.state.health = map[webhook.EndpointKey]webhook.Health{}
}

// loadState reads where positions go on. A position is never given twice.
func (w *writer) loadState() error {
	for table, pos := range map[string]*int64{
		"event": &w.state.eventPos, "delivery": &w.state.deliveryPos, "attempt": &w.state.attemptPos,
	} {
		_, err := w.conn.one(`SELECT coalesce(max(pos), 0) FROM `+table, nil, func(s *sqlite3.Stmt) {
			*pos = s.ColumnInt64(0)
		})
		if err != nil {
			return err
		}
	}
	_, err := w.conn.one(`SELECT count(*) FROM running`, nil, func(s *sqlite3.Stmt) {
		w.db.marks.Store(s.ColumnInt64(0))
	})
	return err
}

func (w *writer) start() { go w.loop() }

// stop commits what is queued and ends the writer.
func (w *writer) stop() {
	w.mu.Lock()
	w.stopping = true
	w.mu.Unlock()
	w.wake.Signal()
	<-w.finished
}

// submit queues an op; its done is called unless submit returns an error.
func (w *writer) submit(o op) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.dead != nil:
		return w.dead
	case w.stopping:
		return store.ErrClosed
	case !o.forced && (w.rows > w.maxRows() || w.bytes > w.maxBytes()):
		return store.ErrOverloaded
	}
	w.queue = append(w.queue, o)
	w.rows += o.rows
	w.bytes += o.bytes
	w.wake.Signal()
	return nil
}

func (w *writer) maxRows() int {
	if w.db.cfg.QueueRows > 0 {
		return w.db.cfg.QueueRows
	}
	return defaultQueueRows
}

func (w *writer) maxBytes() int {
	if w.db.cfg.QueueBytes > 0 {
		return w.db.cfg.QueueBytes
	}
	return defaultQueueBytes
}

// do queues f and waits for its commit. If ctx ends first the commit may still
// happen: ErrUnknown.
func (w *writer) do(ctx context.Context, f func(*tx) error) error {
	return w.doWeighted(ctx, op{run: f, rows: 1, forced: true})
}

func (w *writer) doWeighted(ctx context.Context, o op) error {
	result := make(chan error, 1)
	o.done = func(err error) { result <- err }
	if err := w.submit(o); err != nil {
		return err
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", store.ErrUnknown, ctx.Err())
	}
}

func (w *writer) loop() {
	defer close(w.finished)
	for {
		batch := w.take()
		if batch == nil {
			return
		}
		for len(batch) > 0 {
			batch = batch[w.commit(batch):]
		}
	}
}

// take waits for work and takes a batch; nil when the writer has to end.
func (w *writer) take() []op {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) == 0 && !w.stopping {
		w.wake.Wait()
	}
	if len(w.queue) == 0 {
		return nil
	}
	n, rows := 0, 0
	for n < len(w.queue) && (n == 0 || rows+w.queue[n].rows <= batchRows) {
		rows += w.queue[n].rows
		n++
	}
	batch := w.queue[:n:n]
	w.queue = w.queue[n:]
	w.rows -= rows
	for i := range batch {
		w.bytes -= batch[i].bytes
	}
	return batch
}

// commit runs ops of the batch in one transaction, tells their callers, and
// returns how many it took.
func (w *writer) commit(batch []op) int {
	if w.dead != nil {
		for _, o := range batch {
			o.done(w.dead)
		}
		return len(batch)
	}
	results, changes, err := w.transact(batch)
	switch {
	case err == nil:
		w.commits.Add(1)
		w.ops.Add(int64(len(results)))
		for _, c := range changes {
			if w.db.cfg.OnChange != nil {
				w.db.cfg.OnChange(c)
			}
		}
		for i, r := range results {
			batch[i].done(r)
		}
		w.db.checks.committed(w.conn)
		return len(results)
	case errors.Is(err, store.ErrUnknown):
		w.die(err)
		for _, o := range batch {
			o.done(err)
		}
		return len(batch)
	case len(batch) == 1:
		batch[0].done(err)
		return 1
	default:
		// One op of the batch spoils it: alone, each gets its own result (N12).
		for i := range batch {
			w.commit(batch[i : i+1])
		}
		return len(batch)
	}
}

// transact runs ops until one asks to be the last. On an error nothing stands,
// unless it is ErrUnknown.
func (w *writer) transact(batch []op) (results []error, changes []store.Change, err error) {
	if err := w.conn.db.Exec(`BEGIN IMMEDIATE`); err != nil {
		return nil, nil, w.failed("beginning a commit", err)
	}
	before := w.state
	t := &tx{conn: w.conn, state: &w.state, db: w.db}
	for i := range batch {
		err := batch[i].run(t)
		var refused refusal
		if err != nil && !errors.As(err, &refused) {
			return nil, nil, w.rollback(before, err)
		}
		if err != nil {
			err = refused.err
		}
		results = append(results, err)
		if t.last {
			break
		}
	}
	if err := t.writeHealth(); err != nil {
		return nil, nil, w.rollback(before, err)
	}
	if err := w.conn.db.Exec(`COMMIT`); err != nil {
		return nil, nil, w.commitFailed(before, err)
	}
	w.db.marks.Add(t.marks)
	return results, t.changes, nil
}

// rollback undoes the transaction, in the file and in memory.
func (w *writer) rollback(before state, cause error) error {
	w.state = before
	w.forget()
	if !w.conn.db.GetAutocommit() {
		if err := w.conn.db.Exec(`ROLLBACK`); err != nil {
			return fmt.Errorf("%w: rolling back: %w", store.ErrUnknown, err)
		}
	}
	return w.failed("writing", cause)
}

// commitFailed tells a commit that surely did not happen from one that may have:
// after an I/O error nothing is known (N1).
func (w *writer) commitFailed(before state, cause error) error {
	if errors.Is(cause, sqlite3.IOERR) || errors.Is(cause, sqlite3.CORRUPT) {
		return fmt.Errorf("%w: committing: %w", store.ErrUnknown, cause)
	}
	return w.rollback(before, cause)
}

// failed names the operation. An I/O error leaves no trust in the file.
func (w *writer) failed(doing string, err error) error {
	if errors.Is(err, store.ErrUnknown) {
		return err
	}
	if errors.Is(err, sqlite3.IOERR) || errors.Is(err, sqlite3.CORRUPT) || errors.Is(err, sqlite3.NOTADB) {
		return fmt.Errorf("%w: %s: %w", store.ErrUnknown, doing, err)
	}
	if errors.Is(err, sqlite3.FULL) {
		return fmt.Errorf("%w: the disk is full", store.ErrOverloaded)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// die refuses all further work: the process has to open the database anew.
func (w *writer) die(cause error) {
	w.mu.Lock()
	w.dead = fmt.Errorf("%w after an input/output error", store.ErrClosed)
	w.mu.Unlock()
	w.db.cfg.Log.Error("the database was closed after an input/output error", "error", cause)
	if w.db.cfg.OnFatal != nil {
		w.db.cfg.OnFatal(cause)
	}
}

// writeHealth writes the health of the endpoints that the batch changed, once
// each.
func (t *tx) writeHealth() error {
	for key := range maps.Keys(t.sick) {
		h := t.health[key]
		err := t.exec(`UPDATE endpoint SET failures_in_row = ?, first_failure_at = ?, last_success_at = ?, last_attempt_at = ? WHERE num = ?`,
			h.FailuresInRow, h.FirstFailureAt, h.LastSuccessAt, h.LastAttemptAt, int64(key))
		if err != nil {
			return err
		}
	}
	return nil
}

// changeHealth gives the health of an endpoint to change.
func (t *tx) changeHealth(key webhook.EndpointKey, change func(*webhook.Health)) error {
	h, ok := t.health[key]
	if !ok {
		found, err := t.one(`SELECT failures_in_row, first_failure_at, last_success_at, last_attempt_at FROM endpoint WHERE num = ?`,
			[]any{int64(key)}, func(s *sqlite3.Stmt) {
				h = webhook.Health{FailuresInRow: s.ColumnInt(0), FirstFailureAt: colTime(s, 1), LastSuccessAt: colTime(s, 2), LastAttemptAt: colTime(s, 3)}
			})
		if err != nil || !found {
			return err
		}
	}
	change(&h)
	if len(t.health) > maxCached {
		if err := t.writeHealth(); err != nil {
			return err
		}
		clear(t.health)
		clear(t.sick)
	}
	t.health[key] = h
	if t.sick == nil {
		t.sick = map[webhook.EndpointKey]bool{}
	}
	t.sick[key] = true
	return nil
}

// maxCached bounds each of the writer's caches.
const maxCached = 100_000

// change tells others of c after the commit and ends the batch.
func (t *tx) change(c store.Change) {
	t.changes = append(t.changes, c)
	t.last = true
}

// latest is the later of two times, so that what a batch saw out of order does
// not go back.
func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
