package sqlite

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

const (
	// janitorSlice is how many rows one piece of its work writes, janitorLook how
	// many it looks at for them (N25).
	janitorSlice = 100
	janitorLook  = 2000
	// janitorPause parts its pieces, so that it takes no more than about half of the
	// writer's time.
	janitorPause = 5 * time.Millisecond
	// janitorRest is its wait after something went wrong, janitorSoon for what is
	// only not ready yet.
	janitorRest = 30 * time.Second
	janitorSoon = 500 * time.Millisecond
)

// janitor writes into rows, in slices, what a mark on their endpoint already says.
// Nobody waits for it: what it writes was true before. What it looks for it finds
// on a reading connection, so that the writer never passes over rows that stay.
type janitor struct {
	db   *DB
	wake chan struct{}
	quit chan struct{}
	done chan struct{}
	jobs []job
	// walks are how far marks were written; after a restart they begin anew.
	walks map[webhook.EndpointKey]*skipWalk
}

// job is one thing that the janitor does. step takes a slice of it for each
// endpoint concerned and tells whether any is left.
type job struct {
	name string
	step func() (more bool, err error)
}

// errLater tells that a job can't go on yet.
var errLater = errors.New("not yet")

func newJanitor(d *DB) *janitor {
	j := &janitor{
		db: d, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
		walks: map[webhook.EndpointKey]*skipWalk{},
	}
	// Marks come first: what was skipped before its endpoint was deleted is skipped,
	// and a log goes only when nothing of it waits.
	j.jobs = []job{
		{"skipping what a mark covers", j.writeSkips},
		{"tidying up after deleted endpoints", j.endDeleted},
		{"mending lines", func() (bool, error) { n, err := d.mendLines(context.Background()); return n > 0, err }},
		{"catching up", j.catchUp},
		{"removing deleted endpoints' logs", j.purge},
		{"removing deleted runs' events", d.clearRuns},
	}
	return j
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
		if rest := j.tidy(); rest > 0 {
			again = time.After(rest)
		}
	}
}

// tidy does all there is to do, the jobs by turns. It returns after how long what
// did not finish is to be tried again, 0 for no such thing.
func (j *janitor) tidy() (rest time.Duration) {
	jobs := j.jobs // but those that failed
	for turn, fresh := jobs, true; len(turn) > 0; {
		var left []job
		for _, one := range turn {
			more, err := one.step()
			switch {
			case errors.Is(err, store.ErrClosed):
				return 0
			case err != nil:
				rest = max(rest, j.report(one, err))
				jobs = slices.DeleteFunc(slices.Clone(jobs), func(other job) bool { return other.name == one.name })
			case more:
				left = append(left, one)
			}
		}
		// Those without work are asked again when there is news, and when another one
		// is done, which they may have waited for.
		if fresh = j.nudged() || !fresh && len(left) < len(turn); fresh {
			turn = jobs
		} else {
			turn = left
		}
		if len(turn) > 0 && !j.pause() {
			return 0
		}
	}
	return rest
}

func (j *janitor) nudged() bool {
	select {
	case <-j.wake:
		return true
	default:
		return false
	}
}

// report tells of a job that did not finish and returns how long it is to rest.
func (j *janitor) report(job job, err error) time.Duration {
	if errors.Is(err, errLater) {
		return janitorSoon
	}
	j.db.cfg.Log.Warn("a job of the database did not finish; it goes on later",
		slog.String("job", job.name), slog.Duration("after", janitorRest), slog.Any("error", err))
	return janitorRest
}

// pause lets others write; false when the store is being closed.
func (j *janitor) pause() bool {
	timer := time.NewTimer(janitorPause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-j.quit:
		return false
	}
}

// each takes a slice for each of the endpoints, with a pause between.
func each[T any](j *janitor, all []T, slice func(T) (more bool, err error)) (more bool, err error) {
	var errs []error
	for i, one := range all {
		if i > 0 && !j.pause() {
			return false, store.ErrClosed
		}
		left, err := slice(one)
		errs = append(errs, err)
		more = more || left
	}
	return more, errors.Join(errs...)
}

func (j *janitor) read(f func(*conn) error) error { return j.db.read(context.Background(), f) }

func (j *janitor) write(f func(*tx) error) error { return j.db.writer.do(context.Background(), f) }

// lost is a lane whose endpoint is no more; at is zero when even its row is gone.
type lost struct {
	endpoint webhook.EndpointKey
	at       time.Time
}

// endDeleted ends what waits for endpoints that were deleted, or whose row does
// not exist (B59, B61).
func (j *janitor) endDeleted() (more bool, err error) {
	var lanes []lost
	err = j.read(func(c *conn) error {
		// From one lane to the next, never over all that waits.
		return c.query(`WITH RECURSIVE lane (num) AS (
				SELECT (SELECT min(endpoint) FROM waiting)
				UNION ALL SELECT (SELECT min(endpoint) FROM waiting WHERE endpoint > lane.num) FROM lane WHERE lane.num IS NOT NULL)
			SELECT lane.num, n.deleted_at FROM lane LEFT JOIN endpoint n ON n.num = lane.num
			WHERE lane.num IS NOT NULL AND (n.num IS NULL OR n.deleted_at IS NOT NULL)
				AND NOT EXISTS (SELECT 1 FROM skip WHERE endpoint = lane.num)`, nil, func(s *sqlite3.Stmt) error {
			lanes = append(lanes, lost{webhook.EndpointKey(s.ColumnInt64(0)), colTime(s, 1)})
			return nil
		})
	})
	if err != nil {
		return false, err
	}
	return each(j, lanes, j.endLost)
}

func (j *janitor) endLost(l lost) (more bool, err error) {
	type row struct{ due, pos int64 }
	var rows []row
	err = j.read(func(c *conn) error {
		return c.query(`SELECT due, pos FROM waiting WHERE endpoint = ? LIMIT ?`, []any{int64(l.endpoint), janitorSlice}, func(s *sqlite3.Stmt) error {
			rows = append(rows, row{s.ColumnInt64(0), s.ColumnInt64(1)})
			return nil
		})
	})
	if err != nil || len(rows) == 0 {
		return false, err
	}
	at := l.at
	if at.IsZero() {
		at = j.db.cfg.DueNow()
	}
	err = j.write(func(t *tx) error {
		for _, r := range rows {
			if _, err := t.end(webhook.Ref(r.pos), contract.StatusCanceled, webhook.WhyEndpointDeleted, at); err != nil {
				return err
			}
			// Also when no delivery belongs to it: else it would be found for ever.
			if err := t.leave(l.endpoint, r.due, r.pos); err != nil {
				return err
			}
		}
		return nil
	})
	return len(rows) == janitorSlice, err
}

// end makes a delivery that waits final without a try; false when it had ended.
func (t *tx) end(ref webhook.Ref, status contract.Status, why webhook.Reason, at time.Time) (bool, error) {
	r, found, err := readPassed(t.conn, int64(ref))
	if err != nil || !found || r.status.Final() {
		return false, err
	}
	if err := t.leave(r.endpoint, r.due, r.pos); err != nil {
		return false, err
	}
	if err := t.unmark(ref); err != nil {
		return false, err
	}
	err = t.exec(`UPDATE delivery SET status=?, reason=?, next_at=NULL, finished_at=? WHERE pos=?`, statuses.num(status), reasons.num(why), at, int64(ref))
	if err != nil {
		return false, err
	}
	return true, t.ended(ref)
}

// passed is a delivery as the janitor sees it in passing.
type passed struct {
	pos      int64
	endpoint webhook.EndpointKey
	status   contract.Status
	trigger  contract.Trigger
	due      int64 // meaningless once final
	seat     webhook.Ref
	place    int64 // the position that it stands for in the order of catching up
	untried  bool  // no try of its first round has come to anything
}

const selectPassed = `SELECT pos, endpoint, status, trigger, next_at, coalesce(seat, pos), coalesce(replaces, pos),
	round = 1 AND rows = 0 FROM delivery WHERE `

func scanPassed(s *sqlite3.Stmt) passed {
	return passed{
		pos: s.ColumnInt64(0), endpoint: webhook.EndpointKey(s.ColumnInt64(1)), status: statuses.word(s.ColumnInt64(2)),
		trigger: triggers.word(s.ColumnInt64(3)), due: s.ColumnInt64(4), seat: webhook.Ref(s.ColumnInt64(5)), place: s.ColumnInt64(6),
		untried: colBool(s, 7),
	}
}

func readPassed(c *conn, pos int64) (r passed, found bool, err error) {
	found, err = c.one(selectPassed+`pos = ?`, []any{pos}, func(s *sqlite3.Stmt) { r = scanPassed(s) })
	return r, found, err
}

// pass looks at an endpoint's deliveries by position, from behind after up to upto,
// and takes those that want does until their weight is janitorSlice. at is how far
// it came, more that it did not come to the end.
func pass(c *conn, endpoint webhook.EndpointKey, after, upto int64, want func(passed) (weight int)) (taken []int64, at int64, more bool, err error) {
	at, weight, seen := after, 0, 0
	err = c.query(selectPassed+`endpoint = ? AND pos > ? AND pos <= ? ORDER BY pos LIMIT ?`, []any{int64(endpoint), after, upto, janitorLook},
		func(s *sqlite3.Stmt) error {
			if weight >= janitorSlice {
				more = true
				return errFull
			}
			r := scanPassed(s)
			if w := want(r); w > 0 {
				weight += w
				taken = append(taken, r.pos)
			}
			at = r.pos
			seen++
			return nil
		})
	if errors.Is(err, errFull) {
		err = nil
	}
	return taken, at, more || seen == janitorLook, err
}

func millis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// errFull ends a query whose further rows are not wanted.
var errFull = errors.New("slice is full")

// firstWaiting is the lowest position that waits for an endpoint; 0 for none.
func firstWaiting(c *conn, endpoint webhook.EndpointKey) (pos int64, err error) {
	_, err = c.one(`SELECT coalesce(min(pos), 0) FROM waiting WHERE endpoint = ?`, []any{int64(endpoint)}, func(s *sqlite3.Stmt) { pos = s.ColumnInt64(0) })
	return pos, err
}
