package sqlite

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

const (
	// janitorSlice is how many rows one piece of its work takes (N25).
	janitorSlice = 100
	// janitorRest is its wait after something went wrong.
	janitorRest = 30 * time.Second
)

// janitor writes into rows what a mark on their endpoint already says: the
// waiting deliveries of deleted endpoints end as canceled (B59, B61).
type janitor struct {
	db   *DB
	wake chan struct{}
	quit chan struct{}
	done chan struct{}
}

func newJanitor(d *DB) *janitor {
	return &janitor{db: d, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
}

func (j *janitor) start() {
	j.nudge() // a restart may have cut its work
	go j.loop()
}

func (j *janitor) stop() {
	close(j.quit)
	<-j.done
}

func (j *janitor) nudge() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

func (j *janitor) loop() {
	defer close(j.done)
	var again <-chan time.Time
	for {
		select {
		case <-j.quit:
			return
		case <-j.wake:
		case <-again:
		}
		again = nil
		if !j.tidy() {
			again = time.After(janitorRest)
		}
	}
}

// tidy ends all there is to end. It returns false when something went wrong and
// is to be tried again.
func (j *janitor) tidy() bool {
	for {
		n, err := j.runOnce()
		switch {
		case errors.Is(err, store.ErrClosed):
			return true
		case err != nil:
			j.db.cfg.Log.Warn("tidying up after deleted endpoints did not finish; it goes on later",
				slog.Duration("after", janitorRest), slog.Any("error", err))
			return false
		case n == 0:
			return true
		}
		select {
		case <-j.quit:
			return true
		default:
		}
	}
}

// runOnce ends one slice of deliveries and returns how many. They are looked for
// on a reading connection, since the rows of deleted endpoints stay and the writer
// must not pass over all of them after each deletion; and from the endpoints on
// (CROSS JOIN keeps the order), never over all that waits.
func (j *janitor) runOnce() (n int, err error) {
	type row struct {
		ref webhook.Ref
		at  time.Time
	}
	var rows []row
	err = j.db.read(context.Background(), func(c *conn) error {
		return c.query(`SELECT w.pos, n.deleted_at FROM endpoint n CROSS JOIN waiting w ON w.endpoint = n.num WHERE n.deleted_at IS NOT NULL LIMIT ?`,
			[]any{janitorSlice}, func(s *sqlite3.Stmt) error {
				rows = append(rows, row{webhook.Ref(s.ColumnInt64(0)), colTime(s, 1)})
				return nil
			})
	})
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	err = j.db.writer.do(context.Background(), func(t *tx) error {
		for _, r := range rows {
			if _, err := t.cancel(r.ref, webhook.WhyEndpointDeleted, r.at); err != nil {
				return err
			}
		}
		return nil
	})
	return len(rows), err
}
