package sqlite

import (
	"log/slog"
	"sync/atomic"

	"github.com/ncruces/go-sqlite3"
)

// checkpointPages is the size of the write-ahead log at which it is written back
// (N25: fewer, larger checkpoints cost less, from a second connection).
const checkpointPages = 8_000

// checkpointer writes the write-ahead log back into the database, beside the
// writer. Under steady load the writer is always a few pages ahead of it, so the
// log would never be empty and never begin anew: the short rest is the writer's,
// between two commits.
type checkpointer struct {
	conn  *conn
	log   *slog.Logger
	nudge chan struct{}
	quit  chan struct{}
	done  chan struct{}
	// pages is the log's size after the last commit, a metric.
	pages atomic.Int64
	// rest asks the writer to copy what is left.
	rest atomic.Bool
}

func newCheckpointer(c *conn, log *slog.Logger) *checkpointer {
	return &checkpointer{conn: c, log: log, nudge: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
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
	if k.pages.Load() < checkpointPages {
		return
	}
	if k.rest.CompareAndSwap(true, false) {
		k.copy(writer)
		return
	}
	select {
	case k.nudge <- struct{}{}:
	default:
	}
}

func (k *checkpointer) loop() {
	defer close(k.done)
	for {
		select {
		case <-k.quit:
			return
		case <-k.nudge:
			if k.pages.Load() >= checkpointPages {
				k.copy(k.conn)
				k.rest.Store(true)
			}
		}
	}
}

// copy writes back what no reader needs any more. Once all of it is copied, the
// next commit begins the log anew.
func (k *checkpointer) copy(c *conn) {
	if _, _, err := c.db.WALCheckpoint("main", sqlite3.CHECKPOINT_PASSIVE); err != nil {
		k.log.Warn("a checkpoint of the database's log did not finish; it is tried again", "error", err)
	}
}
