package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// writer owns the only connection that writes.
type writer struct {
	db    *DB
	conn  *conn
	queue *queue

	finished chan struct{}
	files    linked

	commits, ops atomic.Int64 // for Stats

	calls sync.Pool // of *call

	// dead is set once, after an I/O error; cramped while commits find no room.
	// Only the writer's goroutine touches them.
	dead    error
	cramped bool
	// tx and results are used anew by each transaction.
	tx      tx
	results []error
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
	lanes                             map[webhook.EndpointKey]laneState
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
	// lineCut and tidy ask the janitor to look after the commit: for lines that were
	// cut, for marks.
	lineCut, tidy bool
}

func newWriter(c *conn, d *DB) *writer {
	w := &writer{db: d, conn: c, queue: newQueue(d.cfg.QueueRows, d.cfg.QueueBytes), finished: make(chan struct{})}
	w.calls.New = newCall
	w.tx = tx{conn: c, state: &w.state, db: d, sick: map[webhook.EndpointKey]bool{}}
	w.forget()
	return w
}

// forget drops what was cached of the database.
func (w *writer) forget() {
	w.state.tenants = map[string]tenantState{}
	w.state.words = map[string]int64{}
	w.state.promises = map[[2]string]int64{}
	w.state.health = map[webhook.EndpointKey]webhook.Health{}
	w.state.lanes = map[webhook.EndpointKey]laneState{}
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
	if err := w.loadPins(); err != nil {
		return err
	}
	_, err := w.conn.one(`SELECT count(*) FROM running`, nil, func(s *sqlite3.Stmt) {
		w.db.marks.Store(s.ColumnInt64(0))
	})
	return err
}

func (w *writer) start() {
	w.files = linkFiles(w.db.cfg.Dir)
	go w.loop()
}

// stop commits what is queued and ends the writer.
func (w *writer) stop() {
	w.queue.close(store.ErrClosed)
	<-w.finished
}

// do queues f and waits for its commit.
func (w *writer) do(ctx context.Context, f func(*tx) error) error {
	return w.doWeighted(ctx, op{rows: 1, forced: true}, f)
}

// doWeighted queues f with the weight of o and waits for its commit. If ctx ends
// while it still waits, it is taken back and nothing happened; what the writer
// has begun is waited for, because its caller's variables are in use.
func (w *writer) doWeighted(ctx context.Context, o op, f func(*tx) error) error {
	c := w.calls.Get().(*call)
	defer w.calls.Put(c)
	c.f, o.work = f, c
	if err := w.queue.put(o); err != nil {
		return err
	}
	select {
	case err := <-c.result:
		return err
	case <-ctx.Done():
		if w.queue.withdraw(c) {
			return fmt.Errorf("waiting for the commit: %w", ctx.Err())
		}
		return <-c.result
	}
}

func (w *writer) loop() {
	defer close(w.finished)
	var batch []op
	for {
		if batch = w.queue.take(batch); len(batch) == 0 {
			return
		}
		for left := batch; len(left) > 0; {
			left = left[w.commit(left):]
		}
		clear(batch) // payloads are not kept until the next batch is as long
	}
}

// commit runs ops of the batch in one transaction, tells their callers, and
// returns how many it took.
func (w *writer) commit(batch []op) int {
	if w.dead != nil {
		return finish(batch, w.dead)
	}
	results, changes, err := w.transact(batch)
	if err == nil && w.files.lost() {
		err = fmt.Errorf("%w: the database's files were deleted or replaced while the server ran", store.ErrUnknown)
	}
	switch {
	case err == nil:
		w.cramped = false
		w.commits.Add(1)
		w.ops.Add(int64(len(results)))
		for _, c := range changes {
			if w.db.cfg.OnChange != nil {
				w.db.cfg.OnChange(c)
			}
		}
		for i, r := range results {
			batch[i].finish(r)
		}
		w.db.checks.committed(w.conn)
		return len(results)
	case errors.Is(err, store.ErrUnknown):
		w.die(err)
		return finish(batch, err)
	case len(batch) == 1 && batch[0].lighten(err):
		return w.commit(batch)
	case len(batch) == 1:
		return finish(batch, err)
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
	if err := w.conn.run(hotBegin); err != nil {
		return nil, nil, w.failed("beginning a commit", err)
	}
	before := w.state
	t := &w.tx
	t.reset()
	results = w.results[:0]
	for i := range batch {
		err := batch[i].run(t)
		var refused refusal
		if err != nil && !errors.As(err, &refused) {
			return nil, nil, w.rollback(before, "writing", err)
		}
		if err != nil {
			err = refused.err
		}
		results = append(results, err)
		if t.last {
			break
		}
	}
	w.results = results
	if err := t.writeHealth(); err != nil {
		return nil, nil, w.rollback(before, "writing", err)
	}
	if err := w.conn.run(hotCommit); err != nil {
		return nil, nil, w.rollback(before, "committing", err)
	}
	w.db.marks.Add(t.marks)
	if t.lineCut {
		w.db.linesCut.Store(true)
	}
	if t.lineCut || t.tidy {
		w.db.janitor.nudge()
	}
	return results, t.changes, nil
}

// reset makes a transaction ready to begin.
func (t *tx) reset() {
	clear(t.sick)
	t.changes, t.last, t.marks = nil, false, 0
	t.lineCut, t.tidy = false, false
}

// rollback undoes the transaction, in the file and in memory.
func (w *writer) rollback(before state, doing string, cause error) error {
	w.state = before
	w.forget()
	if !w.conn.db.GetAutocommit() {
		if err := w.conn.db.Exec(`ROLLBACK`); err != nil {
			return fmt.Errorf("%w: rolling back: %w", store.ErrUnknown, err)
		}
	}
	return w.failed(doing, cause)
}

// failed names the operation. An I/O error leaves no trust in the file: a commit
// that met one may stand or not (N1).
func (w *writer) failed(doing string, err error) error {
	switch {
	case errors.Is(err, store.ErrUnknown):
		return err
	case diskFull(err):
		w.cramped = true
		return fmt.Errorf("%w: the disk is full", store.ErrOverloaded)
	case errors.Is(err, sqlite3.IOERR), errors.Is(err, sqlite3.CORRUPT), errors.Is(err, sqlite3.NOTADB):
		return fmt.Errorf("%w: %s: %w", store.ErrUnknown, doing, err)
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}

// diskFull tells whether a write found no room, see fileSystem. Such a commit did
// not happen: its last frame is what makes it one.
func diskFull(err error) bool { return errors.Is(err, sqlite3.FULL) }

// die refuses all further work: the process has to open the database anew.
func (w *writer) die(cause error) {
	w.dead = fmt.Errorf("%w after an input/output error", store.ErrClosed)
	w.queue.close(w.dead)
	w.db.shut()
	w.db.cfg.Log.Error("the database was closed after an input/output error", slog.Any("error", cause))
	if w.db.cfg.OnFatal != nil {
		w.db.cfg.OnFatal(cause)
	}
}

// maxCached bounds each of the writer's caches.
const maxCached = 100_000

// change tells others of c after the commit and ends the batch. What was cached of
// an endpoint that it tells of is read anew.
func (t *tx) change(c store.Change) {
	if c.Endpoint != nil {
		delete(t.lanes, c.Endpoint.Key)
	}
	delete(t.lanes, c.EndpointDeleted)
	t.changes = append(t.changes, c)
	t.last = true
}
