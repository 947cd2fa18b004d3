package sqlite

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// backlog lets n deliveries wait for an endpoint, each with two attempts, as if
// they had been accepted one a millisecond from a time on.
func backlog(t *testing.T, d *DB, e *webhook.Endpoint, n int, from time.Time, finished bool) {
	t.Helper()
	status, finishedAt := contract.StatusPending, "NULL"
	if finished {
		status, finishedAt = contract.StatusFailed, "?2 + n"
	}
	err := d.writer.do(t.Context(), func(t *tx) error {
		kind, err := t.word("link.created")
		if err != nil {
			return err
		}
		promise, err := t.promise(e.Contract, "r1")
		if err != nil {
			return err
		}
		first := t.deliveryPos
		rows := `WITH RECURSIVE k (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k WHERE n < ?1) INSERT INTO `
		for _, sql := range []string{
			fmt.Sprintf(`event (pos, tenant, type, accepted_at, first_delivery, deliveries, erased, size, data)
				SELECT %d + n, 1, %d, ?2 + n, %d + n, 1, 0, 2, x'7b7d' FROM k`, t.eventPos, kind, first),
			fmt.Sprintf(`delivery (pos, event, tenant, endpoint, type, promise, trigger, status, reason, kind, round, attempts, rows, interrupted,
				status_code, duration, next_at, created_at, finished_at, last_attempt)
				SELECT %d + n, %d + n, 1, %d, %d, %d, 0, %d, 0, 0, 1, 2, 2, 0, 500, 0, CASE WHEN %s IS NULL THEN ?2 + n END, ?2 + n, %[7]s, %d + 2 * n FROM k`,
				first, t.eventPos, e.Key, kind, promise, statuses.num(status), finishedAt, t.attemptPos),
			fmt.Sprintf(`attempt (pos, delivery, prev, round, number, try, flags, at, duration, status_code, kind)
				SELECT %d + 2 * n - 1, %d + n, NULL, 1, 1, 1, 1, ?2 + n, 0, 500, 1 FROM k`, t.attemptPos, first),
			fmt.Sprintf(`attempt (pos, delivery, prev, round, number, try, flags, at, duration, status_code, kind)
				SELECT %d + 2 * n, %d + n, %[1]d + 2 * n - 1, 1, 2, 2, 1, ?2 + n, 0, 500, 1 FROM k`, t.attemptPos, first),
		} {
			if err := t.exec(rows+sql, n, from); err != nil {
				return err
			}
		}
		if !finished {
			if err := t.exec(`INSERT INTO waiting (endpoint, due, pos) SELECT endpoint, next_at, pos FROM delivery WHERE pos > ?`, first); err != nil {
				return err
			}
		}
		t.eventPos += int64(n)
		t.deliveryPos += int64(n)
		t.attemptPos += 2 * int64(n)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// holdReaders keeps the janitor from looking until release is called.
func holdReaders(t *testing.T, d *DB) (release func()) {
	t.Helper()
	var held []*conn
	for range d.cfg.Readers {
		held = append(held, <-d.readers.free)
	}
	release = sync.OnceFunc(func() {
		for _, c := range held {
			d.readers.free <- c
		}
	})
	t.Cleanup(release)
	return release
}

// vmSteps is how many steps a connection's statements have taken since the last call.
func vmSteps(c *conn) (n int) {
	for _, s := range c.stmts {
		n += s.Status(sqlite3.STMTSTATUS_VM_STEP, true)
	}
	for _, s := range c.hots {
		if s != nil {
			n += s.Status(sqlite3.STMTSTATUS_VM_STEP, true)
		}
	}
	return n
}

// writerSteps is vmSteps of the writer's connection.
func writerSteps(t *testing.T, d *DB) (n int) {
	t.Helper()
	if err := d.writer.do(t.Context(), func(t *tx) error { n = vmSteps(t.conn); return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// What a change of an endpoint's state costs does not depend on what waits for it.
func TestEngine_N17_NoChangeOfStateGrowsWithTheBacklog(t *testing.T) {
	t.Parallel()
	costs := func(n int) (all []int) {
		d := open(t, Config{Dir: t.TempDir()})
		e := newTestEndpoint(t, d, "a")
		backlog(t, d, e, n, testStart(), false)
		holdReaders(t, d)
		set := func(state webhook.EndpointState, u store.EndpointUpdate) func() error {
			return func() error {
				_, err := d.UpdateEndpoint(t.Context(), e.Tenant, e.ID, testStart(), func(e *webhook.Endpoint) (store.EndpointUpdate, error) {
					e.State = state
					return u, nil
				})
				return err
			}
		}
		for _, change := range []func() error{
			set(webhook.EndpointPaused, store.EndpointUpdate{}),
			set(webhook.EndpointActive, store.EndpointUpdate{CatchUp: true, Redeliver: true}),
			set(webhook.EndpointDisabled, store.EndpointUpdate{Skip: webhook.WhySwitchedOff}),
			set(webhook.EndpointActive, store.EndpointUpdate{Skip: webhook.WhyResumedNow, SkipMissed: true, CatchUp: true}),
			func() error { return d.DeleteEndpoint(t.Context(), e.Tenant, e.ID, true, testStart()) },
		} {
			writerSteps(t, d)
			if err := change(); err != nil {
				t.Fatal(err)
			}
			all = append(all, writerSteps(t, d))
		}
		return all
	}
	few, many := costs(2), costs(200_000/hurried)
	for i := range few {
		if many[i] > few[i]+50 || few[i] < 50 {
			t.Errorf("change %d takes %d steps with few that wait, %d with many", i, few[i], many[i])
		}
	}
}

// A run of retention that finds nothing costs nothing, however much there is; one
// that finds much never passes over it in one piece.
func TestFault_B51_RetentionLooksAtNoMoreThanItMust(t *testing.T) {
	t.Parallel()
	d := open(t, Config{Dir: t.TempDir(), Readers: 1})
	e := newTestEndpoint(t, d, "a")
	backlog(t, d, e, 50_000/hurried, testStart(), true)
	looked := func() int {
		c := <-d.readers.free
		defer func() { d.readers.free <- c }()
		return vmSteps(c)
	}
	looked()
	next, n, done, err := d.Retain(t.Context(), 0, testStart().Add(29*24*time.Hour))
	for !done && err == nil {
		next, n, done, err = d.Retain(t.Context(), next, testStart().Add(29*24*time.Hour))
	}
	if took := looked(); err != nil || n != 0 || took > 500 {
		t.Fatalf("a run that finds nothing takes %d steps, removes %d (%v)", took, n, err)
	}
	most, removed, calls, after := 0, 0, 0, webhook.Ref(0)
	for done = false; !done; calls++ {
		if after, n, done, err = d.Retain(t.Context(), after, testStart().Add(31*24*time.Hour)); err != nil {
			t.Fatal(err)
		}
		removed += n
		most = max(most, looked())
		if calls == 20 {
			break // the rest is alike
		}
	}
	if most > 100_000 || removed < 20*90 {
		t.Errorf("a slice takes %d steps; %d slices removed %d", most, calls, removed)
	}
}

// waitFor waits for what the janitor does.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: it never came", what)
		}
	}
}

// Rows that are due for an endpoint whose own row is gone end once, and so do those
// that no delivery belongs to; the others' go out.
func TestFault_B61_RowsOfAMissingEndpointEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := Open(t.Context(), complete(Config{Dir: dir}))
	if err != nil {
		t.Fatal(err)
	}
	e, good := newTestEndpoint(t, d, "a"), newTestEndpoint(t, d, "b")
	backlog(t, d, e, 1000, testStart(), false)
	backlog(t, d, good, 10, testStart().Add(time.Hour), false)
	err = d.writer.do(t.Context(), func(t *tx) error {
		return errors.Join(t.exec(`DELETE FROM endpoint WHERE num = ?`, int64(e.Key)),
			t.exec(`INSERT INTO waiting (endpoint, due, pos) VALUES (?, 5, 99999), (?, 5, 3)`, int64(e.Key), int64(e.Key)))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, Config{Dir: dir})
	waitFor(t, "the orphans end", func() bool { return countWaitingRows(t, d) == 10 })
	ended := 0
	err = d.read(t.Context(), func(c *conn) error {
		_, err := c.one(`SELECT count(*) FROM delivery WHERE endpoint = ? AND status = ? AND reason = ? AND finished_at > 0 AND next_at IS NULL`,
			[]any{int64(e.Key), statuses.num(contract.StatusCanceled), reasons.num(webhook.WhyEndpointDeleted)}, func(s *sqlite3.Stmt) { ended = s.ColumnInt(0) })
		return err
	})
	if err != nil || ended != 1000 {
		t.Errorf("%d ended (%v)", ended, err)
	}
	lanes, err := d.ListLanes(t.Context())
	if err != nil || len(lanes) != 1 || lanes[0].Endpoint != good.Key {
		t.Errorf("lanes are %+v (%v)", lanes, err)
	}
}

// Catching up passes over a long log in slices, and a slice that was looked for
// before its endpoint began anew changes nothing.
func TestEngine_N17_CatchingUpGoesOnFromItsCursor(t *testing.T) {
	t.Parallel()
	d := open(t, Config{Dir: t.TempDir()})
	start := idle(t, d)
	t.Cleanup(start) // closing waits for it
	e := newTestEndpoint(t, d, "a")
	backlog(t, d, e, janitorLook+500, testStart(), true)
	backlog(t, d, e, 10, testStart().Add(time.Hour), false)
	_, err := d.UpdateEndpoint(t.Context(), e.Tenant, e.ID, testStart(), func(*webhook.Endpoint) (store.EndpointUpdate, error) {
		return store.EndpointUpdate{CatchUp: true, Redeliver: true}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	cursor := func() (at int64) {
		err := d.read(t.Context(), func(c *conn) error {
			_, err := c.one(`SELECT coalesce(catch_up_at, -1) FROM endpoint WHERE num = ?`, []any{int64(e.Key)}, func(s *sqlite3.Stmt) { at = s.ColumnInt64(0) })
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	j := newJanitor(d)
	if _, err := j.catchUpOne(catchingUp{endpoint: e.Key, at: 7, upto: 2510, dead: 2510, contract: e.Contract}); err != nil || cursor() != 0 {
		t.Fatalf("an old slice moved the cursor to %d (%v)", cursor(), err)
	}
	if more, err := j.catchUp(); err != nil || !more || cursor() != janitorLook {
		t.Fatalf("after one slice the cursor is %d (more %v, %v)", cursor(), more, err)
	}
	if more, err := j.catchUp(); err != nil || more || cursor() != -1 {
		t.Fatalf("after the last slice the cursor is %d (more %v, %v)", cursor(), more, err)
	}
	w, err := d.ReadWindow(t.Context(), store.WindowParams{Endpoint: e.Key, Now: testStart(), Limit: 20})
	if err != nil || len(w.Work) != 10 || w.CatchingUp {
		t.Errorf("the lane is %+v (%v)", w, err)
	}
}

// Nothing of a purged log is left in the file but the events, which are their
// tenant's; retention takes them.
func TestFault_B101_APurgedLogIsRemovedInSlices(t *testing.T) {
	t.Parallel()
	d := open(t, Config{Dir: t.TempDir()})
	e, other := newTestEndpoint(t, d, "a"), newTestEndpoint(t, d, "b")
	backlog(t, d, e, 2000, testStart(), true)
	backlog(t, d, e, 500, testStart(), false)
	backlog(t, d, other, 50, testStart(), true)
	before := d.writer.commits.Load()
	if err := d.DeleteEndpoint(t.Context(), e.Tenant, e.ID, true, testStart()); err != nil {
		t.Fatal(err)
	}
	count := func(table string) (n int) {
		err := d.read(t.Context(), func(c *conn) error {
			_, err := c.one(`SELECT count(*) FROM `+table, nil, func(s *sqlite3.Stmt) { n = s.ColumnInt(0) })
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	waitFor(t, "its log is gone", func() bool { return count("delivery") == 50 })
	for table, want := range map[string]int{"attempt": 100, "waiting": 0, "endpoint_secret": len(other.Secrets), "line": 0, "further": 0, "skip": 0} {
		if n := count(table); n != want {
			t.Errorf("%d rows of %s are left, want %d", n, table, want)
		}
	}
	if n := d.writer.commits.Load() - before; n < 2500/janitorSlice {
		t.Errorf("it took only %d commits", n)
	}
}

// The janitor's statements find what they look for; none passes over a table that
// grows without end.
func TestEngine_N25_TheJanitorScansNothingBig(t *testing.T) {
	t.Parallel()
	d := open(t, Config{Dir: t.TempDir()})
	e := newTestEndpoint(t, d, "a")
	backlog(t, d, e, 300, testStart(), false)
	for _, u := range []struct {
		state webhook.EndpointState
		store.EndpointUpdate
	}{
		{webhook.EndpointPaused, store.EndpointUpdate{}},
		{webhook.EndpointActive, store.EndpointUpdate{CatchUp: true, Redeliver: true}},
		{webhook.EndpointPaused, store.EndpointUpdate{Skip: webhook.WhySwitchedOff}},
	} {
		_, err := d.UpdateEndpoint(t.Context(), e.Tenant, e.ID, testStart(), func(e *webhook.Endpoint) (store.EndpointUpdate, error) {
			e.State = u.state
			return u.EndpointUpdate, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the job is done", func() bool {
			e, err := d.GetEndpoint(t.Context(), e.Tenant, e.ID)
			return err == nil && !e.CatchingUp && len(e.Skips) == 0
		})
	}
	if err := d.SkipHeld(t.Context(), testStart().AddDate(1, 0, 0)); err != nil {
		t.Fatal(err)
	}
	if err := d.DeleteEndpoint(t.Context(), e.Tenant, e.ID, true, testStart()); err != nil {
		t.Fatal(err)
	}
	for after, done := webhook.Ref(0), false; !done; {
		var err error
		if after, _, done, err = d.Retain(t.Context(), after, testStart().AddDate(1, 0, 0)); err != nil {
			t.Fatal(err)
		}
	}
	seen := 0
	for range d.cfg.Readers {
		c := <-d.readers.free
		for sql := range c.stmts {
			seen++
			checkPlan(t, c, sql)
		}
		d.readers.free <- c
	}
	for _, sql := range writerStatements(t, d) {
		seen++
		c := <-d.readers.free
		checkPlan(t, c, sql)
		d.readers.free <- c
	}
	if seen < 20 {
		t.Errorf("only %d statements were looked at", seen)
	}
}

// writerStatements are the texts that the writer has prepared.
func writerStatements(t *testing.T, d *DB) (all []string) {
	t.Helper()
	err := d.writer.do(t.Context(), func(t *tx) error {
		for sql := range t.conn.stmts {
			all = append(all, sql)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
