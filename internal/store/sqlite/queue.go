package sqlite

import (
	"cmp"
	"slices"
	"sync"

	"github.com/posthorn/posthorn/internal/store"
)

// Bounds of the writer (N5, N25).
const (
	defaultQueueRows  = 16 << 10
	defaultQueueBytes = 64 << 20
	// batchRows is how many rows one commit takes at most, so that each piece of
	// work stays short.
	batchRows = 512
)

// work is what the writer does for a caller.
type work interface {
	// run makes the changes. A refusal (an error wrapped by refuse) must come
	// before the first change; any other error undoes the whole batch, which is
	// then repeated one op at a time.
	run(*tx) error
	// lighten is asked when run failed alone: true means that it took away what
	// could not be written and is to be run again (N12).
	lighten(error) bool
	// finish is called once, after the commit, from the writer; it must not block.
	finish(error)
}

// op is one piece of work in the queue.
type op struct {
	work
	// rows weighs the op; bytes counts its payload. Both bound the queue.
	rows, bytes int
	// forced ops are not refused for overload: outcomes of what was sent.
	forced bool
}

// finish tells all callers of a batch the same and returns how many they are.
func finish(batch []op, err error) int {
	for i := range batch {
		batch[i].finish(err)
	}
	return len(batch)
}

// call is work whose caller waits for it.
type call struct {
	f      func(*tx) error
	result chan error
}

func newCall() any { return &call{result: make(chan error, 1)} }

func (c *call) run(t *tx) error  { return c.f(t) }
func (*call) lighten(error) bool { return false }
func (c *call) finish(err error) { c.result <- err }

// refusal marks an error of an op that changed nothing.
type refusal struct{ err error }

func (r refusal) Error() string { return r.err.Error() }
func (r refusal) Unwrap() error { return r.err }

// refuse makes err the op's own result, without harm to its batch.
func refuse(err error) error { return refusal{err} }

// queue is what waits for the writer, in order and bounded.
type queue struct {
	mostRows, mostBytes int

	mu    sync.Mutex
	wake  sync.Cond
	ops   []op
	head  int // ops before it are taken
	rows  int
	bytes int
	// closed is what later ops get.
	closed error
}

func newQueue(rows, bytes int) *queue {
	q := &queue{mostRows: cmp.Or(rows, defaultQueueRows), mostBytes: cmp.Or(bytes, defaultQueueBytes)}
	q.wake.L = &q.mu
	return q
}

// put queues an op; it hears of its commit unless put returns an error.
func (q *queue) put(o op) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed != nil:
		return q.closed
	case !o.forced && (q.rows > q.mostRows || q.bytes > q.mostBytes):
		return store.ErrOverloaded
	}
	if len(q.ops) == cap(q.ops) && q.head > len(q.ops)/2 {
		n := copy(q.ops, q.ops[q.head:])
		clear(q.ops[n:])
		q.ops, q.head = q.ops[:n], 0
	}
	q.ops = append(q.ops, o)
	q.rows += o.rows
	q.bytes += o.bytes
	q.wake.Signal()
	return nil
}

// take waits for work and moves a batch into room; an empty one ends the writer.
func (q *queue) take(room []op) []op {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.head == len(q.ops) && q.closed == nil {
		q.wake.Wait()
	}
	batch, rows := room[:0], 0
	for q.head < len(q.ops) && (len(batch) == 0 || rows+q.ops[q.head].rows <= batchRows) {
		rows += q.ops[q.head].rows
		q.bytes -= q.ops[q.head].bytes
		batch = append(batch, q.ops[q.head])
		q.ops[q.head] = op{}
		q.head++
	}
	q.rows -= rows
	if q.head == len(q.ops) {
		q.ops, q.head = q.ops[:0], 0
	}
	return batch
}

// withdraw takes work back; false when the writer has it.
func (q *queue) withdraw(w work) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := q.head; i < len(q.ops); i++ {
		if q.ops[i].work == w {
			q.rows -= q.ops[i].rows
			q.bytes -= q.ops[i].bytes
			q.ops = slices.Delete(q.ops, i, i+1)
			return true
		}
	}
	return false
}

// close refuses later ops with err; what is queued is still taken.
func (q *queue) close(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed == nil {
		q.closed = err
	}
	q.wake.Signal()
}
