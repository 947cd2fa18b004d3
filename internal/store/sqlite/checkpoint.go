package sqlite

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// checkpointPages is the size of the write-ahead log at which it is written back
// (N25: fewer, larger checkpoints cost less, from a second connection).
const checkpointPages = 8_000

// restartWait is how long the writer waits for readers at most, see checkpointer;
// no read takes longer than 200 ms (N25).
const restartWait = 250 * time.Millisecond

// checkpointer writes the write-ahead log back into the database, beside the
// writer. Under steady load the writer is always a few pages ahead of it, so the
// log would never be empty and never begin anew: the short rest is the writer's,
// between two commits. Readers that overlap each other without a gap keep a log
// from beginning anew even then; once it is twice as long, the writer waits for
// those that read at that moment.
type checkpointer struct {
	conn *conn
	// most is the log's size in pages at which it is written back.
	most  int64
	log   *slog.Logger
	nudge chan struct{}
	quit  chan struct{}
	done  chan struct{}
	// pages is the log's size after the last commit, a metric.
	pages atomic.Int64
	// next is the size at which the writer asks again; only it touches this.
	next int64
	// rest asks the writer to copy what is left.
	rest atomic.Bool
}

func newCheckpointer(c *conn, most int64, log *slog.Logger) *checkpointer {
	return &checkpointer{conn: c, most: most, next: most, log: log, nudge: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
}

func (k *checkpointer) start() { go k.loop() }

func (k *checkpointer) stop() {
	close(k.quit)
	<-k.done
}

// watch follows the log's size on the connection that writes it.
func (k *checkpointer) watch(writer *conn) {
	writer.db.WALHook(func(_ *sqlite3.Conn, _ string, pages int) error {
		k.pages.Store(int64(pages))
		return nil
	})
}

// committed is called by the writer after each commit.
func (k *checkpointer) committed(writer *conn) {
	pages := k.pages.Load()
	if pages < k.most {
		k.next = k.most
		k.rest.Store(false) // of a log that has begun anew since
		return
	}
	if pages < k.next {
		return
	}
	if !k.rest.CompareAndSwap(true, false) {
		select {
		case k.nudge <- struct{}{}:
		default:
		}
		return
	}
	k.next = pages + k.most/8
	if pages < 2*k.most {
		k.copy(writer, sqlite3.CHECKPOINT_PASSIVE)
		return
	}
	_ = writer.db.BusyTimeout(restartWait)
	k.copy(writer, sqlite3.CHECKPOINT_RESTART)
	_ = writer.db.BusyTimeout(busyWait)
}

func (k *checkpointer) loop() {
	defer close(k.done)
	for {
		select {
		case <-k.quit:
			return
		case <-k.nudge:
			if k.pages.Load() >= k.most {
				k.copy(k.conn, sqlite3.CHECKPOINT_PASSIVE)
				k.rest.Store(true)
			}
		}
	}
}

// copy writes back what no reader needs any more. Once all of it is copied and no
// reader is left in it, the next commit begins the log anew.
func (k *checkpointer) copy(c *conn, mode sqlite3.CheckpointMode) {
	if _, _, err := c.db.WALCheckpoint("main", mode); err != nil && !errors.Is(err, sqlite3.BUSY) {
		k.log.Warn("a checkpoint of the database's log did not finish; it is tried again", slog.Any("error", err))
	}
}
