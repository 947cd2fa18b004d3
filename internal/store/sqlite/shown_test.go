package sqlite

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// markOnly marks what an endpoint's deliveries have come to, without letting the
// janitor know: the rows stay as they are.
func markOnly(t *testing.T, d *DB, e *webhook.Endpoint, at time.Time) {
	t.Helper()
	err := d.writer.do(t.Context(), func(x *tx) error {
		before, err := x.cut()
		if err != nil {
			return err
		}
		return x.mark(e, webhook.Skip{Before: webhook.Ref(before), Reason: webhook.WhySwitchedOff, At: at})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// acceptFor takes in an event for some endpoints.
func acceptFor(t *testing.T, d *DB, targets ...*webhook.Endpoint) store.AcceptResult {
	t.Helper()
	results, err := d.Accept(t.Context(), []store.AcceptParams{newTestEvent("", testRevision(t, d), targets...)})
	if err != nil || results[0].Err != nil {
		t.Fatal(err, results)
	}
	return results[0]
}

// idle puts a janitor that does nothing into the place of the one that runs, until
// the test starts it.
func idle(t *testing.T, d *DB) (start func()) {
	t.Helper()
	d.janitor.stop()
	fresh := newJanitor(d)
	if err := d.writer.do(t.Context(), func(*tx) error { d.janitor = fresh; return nil }); err != nil {
		t.Fatal(err)
	}
	return sync.OnceFunc(fresh.start)
}

// written reads what a delivery's row itself says.
func written(t *testing.T, d *DB, ref webhook.Ref) (status contract.Status, flags int64) {
	t.Helper()
	err := d.read(t.Context(), func(c *conn) error {
		_, err := c.one(`SELECT status, flags FROM delivery WHERE pos = ?`, []any{int64(ref)}, func(s *sqlite3.Stmt) {
			status, flags = statuses.word(s.ColumnInt64(0)), s.ColumnInt64(1)
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return status, flags
}

// A mark is true before any row says so: for reads, filters, counts and for
// sending again, whose round is not hit by it when the rows are written.
func TestEngine_N17_MarkIsTrueBeforeItIsWritten(t *testing.T) {
	t.Parallel()
	d := open(t, Config{Dir: t.TempDir()})
	start := idle(t, d)
	t.Cleanup(start) // closing waits for it
	e := newTestEndpoint(t, d, "a")
	one, two := acceptFor(t, d, e), acceptFor(t, d, e)
	at := testStart().Add(time.Hour)
	markOnly(t, d, e, at)

	for _, r := range []store.AcceptResult{one, two} {
		if status, _ := written(t, d, r.Fresh[0].Ref); status != contract.StatusPending {
			t.Fatalf("the row says %s already", status)
		}
		v, err := d.GetDelivery(t.Context(), webhook.DefaultTenant, r.Fresh[0].DeliveryID)
		if err != nil || v.Status != contract.StatusSkipped || v.Reason != webhook.WhySwitchedOff || !v.FinishedAt.Equal(at) || !v.NextAttemptAt.IsZero() {
			t.Fatalf("shown: %v, %+v", err, v)
		}
		counts, err := d.CountDeliveries(t.Context(), webhook.DefaultTenant, r.ID)
		if err != nil || counts[contract.StatusSkipped] != 1 || len(counts) != 1 {
			t.Fatalf("counts: %v, %v", err, counts)
		}
		g, err := d.ReadPageGrant(t.Context(), r.Fresh[0].Ref)
		if err != nil || !g.Finished {
			t.Fatalf("page grant: %v, %+v", err, g)
		}
	}
	for status, want := range map[contract.Status]int{contract.StatusSkipped: 2, contract.StatusPending: 0} {
		page, err := d.ListDeliveries(t.Context(), webhook.DefaultTenant, store.DeliveryFilter{Statuses: []contract.Status{status}}, store.Page{Limit: 10})
		if err != nil || len(page.Items) != want {
			t.Fatalf("%s: %v, %d listed", status, err, len(page.Items))
		}
	}

	results, err := d.SendAgain(t.Context(), store.SendAgainParams{
		Tenant: webhook.DefaultTenant, IDs: []string{one.Fresh[0].DeliveryID}, Now: at, Ready: at,
		Decide: func(v *webhook.Delivery, _ *webhook.Endpoint) (store.Again, error) {
			if v.Status != contract.StatusSkipped {
				t.Errorf("the decision sees %s", v.Status)
			}
			return store.Again{Terms: contract.Terms{Trigger: contract.TriggerResend}, ByPerson: true}, nil
		},
	})
	if err != nil || results[0].Err != nil {
		t.Fatal(err, results)
	}
	start()
	for status := contract.StatusPending; status == contract.StatusPending; {
		status, _ = written(t, d, two.Fresh[0].Ref) // the janitor comes to it
	}
	v, err := d.GetDelivery(t.Context(), webhook.DefaultTenant, one.Fresh[0].DeliveryID)
	if err != nil || v.Status != contract.StatusPending || v.Round != 2 {
		t.Fatalf("the round that was begun behind the mark: %v, %+v", err, v)
	}
	checkWhole(t, d)
}

// The events of a deleted run go also where the process ended before they were
// gone.
func TestContract_S13_DeletedRunsEventsGoAfterARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, Config{Dir: dir})
	r, err := d.CreateRun(t.Context(), webhook.Run{Tenant: webhook.DefaultTenant, CreatedAt: testStart()})
	if err != nil {
		t.Fatal(err)
	}
	var events []webhook.RunEvent
	for i := range 3*runSlice + 7 {
		events = append(events, webhook.RunEvent{ID: strings.Repeat("x", i+1), Type: "t", CreatedAt: testStart(), Data: []byte("1")})
	}
	if _, err := d.AddRunEvents(t.Context(), r.Tenant, r.ID, events); err != nil {
		t.Fatal(err)
	}
	kept, err := d.CreateRun(t.Context(), webhook.Run{Tenant: webhook.DefaultTenant, CreatedAt: testStart()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.AddRunEvents(t.Context(), kept.Tenant, kept.ID, events[:1]); err != nil {
		t.Fatal(err)
	}
	// As DeleteRun does, but for the nudge.
	err = d.writer.do(t.Context(), func(x *tx) error {
		stored, err := x.presentRun(r.Tenant, r.ID)
		if err != nil {
			return err
		}
		_, err = x.deleteRun(webhook.Actor{Kind: webhook.ActorEngine}, &stored, testStart())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, Config{Dir: dir})
	for left := 1; left > 0; {
		err := d.read(t.Context(), func(c *conn) error {
			_, err := c.one(`SELECT count(*) FROM run_event WHERE run = 1`, nil, func(s *sqlite3.Stmt) { left = s.ColumnInt(0) })
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if events, _, err := d.ReadRunEvents(t.Context(), kept.Tenant, kept.ID, 0, 10); err != nil || len(events) != 1 {
		t.Errorf("another run's events: %v, %d", err, len(events))
	}
}

// Each list reads in the order of positions and by an index where it has one:
// nothing is sorted, and no table but the walked one is read through.
func TestStore_ListsReadInOrder(t *testing.T) {
	t.Parallel()
	d := open(t, Config{Dir: t.TempDir()})
	e := newTestEndpoint(t, d, "a")
	r := acceptFor(t, d, e)
	for name, c := range map[string]struct {
		filter store.DeliveryFilter
		want   string
	}{
		"all":            {store.DeliveryFilter{}, "SEARCH d USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		"an endpoint's":  {store.DeliveryFilter{Endpoint: "a"}, "SEARCH d USING INDEX delivery_by_endpoint (endpoint=? AND rowid>? AND rowid<?)"},
		"an event's":     {store.DeliveryFilter{Event: r.ID}, "SEARCH d USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		"a run of one's": {store.DeliveryFilter{Run: r.ID}, "SEARCH d USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
	} {
		err := d.read(t.Context(), func(c2 *conn) error {
			sql, args, _, err := d.narrow(c2, webhook.DefaultTenant, c.filter)
			if err != nil {
				return err
			}
			var plan []string
			err = c2.query(`EXPLAIN QUERY PLAN `+sql+`d.pos >= ? AND d.pos < ? ORDER BY d.pos DESC LIMIT ?`, append(args, 0, 1<<60, 10), func(s *sqlite3.Stmt) error {
				plan = append(plan, s.ColumnText(3))
				return nil
			})
			if len(plan) == 0 || plan[0] != c.want {
				t.Errorf("%s: begins with %q", name, plan)
			}
			for _, step := range plan {
				if strings.HasPrefix(step, "SCAN") || strings.Contains(step, "TEMP B-TREE") {
					t.Errorf("%s: %s", name, step)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// janitorNow does all there is to do for a store whose janitor does not run.
func janitorNow(t *testing.T, d *DB) {
	t.Helper()
	if rest := d.janitor.tidy(); rest != 0 {
		t.Fatalf("a job did not finish: %v", rest)
	}
}

// Canceling what a mark or a deletion has ended changes nothing of how it ended,
// and writes it as it was shown.
func TestEngine_N17_CancelingKeepsWhatHasEnded(t *testing.T) {
	t.Parallel()
	d := openIdle(t, Config{Dir: t.TempDir()})
	a, b := newTestEndpoint(t, d, "a"), newTestEndpoint(t, d, "b")
	one, two := acceptFor(t, d, a, b), acceptFor(t, d, a, b)
	at := testStart().Add(time.Hour)
	markOnly(t, d, a, at)
	if err := d.DeleteEndpoint(t.Context(), b.Tenant, b.ID, false, at); err != nil {
		t.Fatal(err)
	}
	later := at.Add(time.Hour)
	for _, w := range one.Fresh {
		if canceled, err := d.CancelDelivery(t.Context(), w.Tenant, w.DeliveryID, later); err != nil || canceled {
			t.Errorf("one delivery: %v, %v", canceled, err)
		}
	}
	if n, err := d.CancelEvent(t.Context(), webhook.DefaultTenant, two.ID, later); err != nil || n != 0 {
		t.Errorf("an event: %d, %v", n, err)
	}
	for i, w := range append(one.Fresh, two.Fresh...) {
		status, why := contract.StatusSkipped, webhook.WhySwitchedOff
		if i%2 == 1 {
			status, why = contract.StatusCanceled, webhook.WhyEndpointDeleted
		}
		if got, _ := written(t, d, w.Ref); got != status {
			t.Errorf("the row of %d says %s", i, got)
		}
		v, err := d.GetDelivery(t.Context(), w.Tenant, w.DeliveryID)
		if err != nil || v.Status != status || v.Reason != why || !v.FinishedAt.Equal(at) {
			t.Errorf("%d is shown as %+v, %v", i, v, err)
		}
	}
	checkWhole(t, d)
}

// What a mark skipped before its endpoint was deleted is skipped, now and when it
// is written.
func TestEngine_N17_AMarkHoldsBeforeADeletion(t *testing.T) {
	t.Parallel()
	d := openIdle(t, Config{Dir: t.TempDir()})
	e := newTestEndpoint(t, d, "a")
	before := acceptFor(t, d, e).Fresh[0]
	markOnly(t, d, e, testStart().Add(time.Hour))
	after := acceptFor(t, d, e).Fresh[0]
	if err := d.DeleteEndpoint(t.Context(), e.Tenant, e.ID, false, testStart().Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, want := range []struct {
			work   store.Work
			status contract.Status
			why    webhook.Reason
			at     time.Duration
		}{{before, contract.StatusSkipped, webhook.WhySwitchedOff, time.Hour}, {after, contract.StatusCanceled, webhook.WhyEndpointDeleted, 2 * time.Hour}} {
			v, err := d.GetDelivery(t.Context(), e.Tenant, want.work.DeliveryID)
			if err != nil || v.Status != want.status || v.Reason != want.why || !v.FinishedAt.Equal(testStart().Add(want.at)) {
				t.Errorf("shown: %v, %+v", err, v)
			}
		}
		if _, err := d.janitor.endDeleted(); err != nil { // also if it comes before the marks are written
			t.Fatal(err)
		}
		janitorNow(t, d)
	}
	if status, _ := written(t, d, before.Ref); status != contract.StatusSkipped {
		t.Errorf("the row says %s", status)
	}
}

// While a mark covers a long backlog, what waits beside it is counted without
// looking at all of it.
func TestEngine_N17_CountWaitingLooksAtSoMuch(t *testing.T) {
	t.Parallel()
	d := openIdle(t, Config{Dir: t.TempDir(), DueNow: testStart})
	e := newTestEndpoint(t, d, "a")
	test := newTestEvent("", 0, e)
	test.Trigger, test.ByPerson = contract.TriggerTest, true
	queueOne(t, d, test)
	for range 3 {
		acceptFor(t, d, slices.Repeat([]*webhook.Endpoint{e}, markedBudget)...)
	}
	markOnly(t, d, e, testStart())
	check := func(what string, want int, at time.Time) {
		t.Helper()
		n, oldest, err := d.CountWaiting(t.Context(), e.Tenant, e.ID, 10)
		if err != nil || n != want || !oldest.Equal(at) {
			t.Errorf("%s: %d wait since %v, %v; want %d", what, n, oldest, err, want)
		}
	}
	check("only the test", 1, testStart())
	other := newTestEndpoint(t, d, "b")
	queueOne(t, d, newTestEvent("", 0, other))
	err := d.writer.do(t.Context(), func(x *tx) error { // as where a line was cut: nobody is due until the janitor goes on
		return x.exec(`UPDATE waiting SET due = ? WHERE endpoint = ?`, store.ParkedDue(), int64(other.Key))
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, at, err := d.CountWaiting(t.Context(), other.Tenant, other.ID, 10); err != nil || n != 1 || !at.IsZero() {
		t.Errorf("one in line: %d wait since %v, %v", n, at, err)
	}
	for range 4 {
		acceptFor(t, d, e)
	}
	check("what came since", 5, testStart())
	acceptFor(t, d, slices.Repeat([]*webhook.Endpoint{e}, markedBudget)...)
	check("no further than asked", 10, testStart())

	n := 0
	err = d.read(t.Context(), func(c *conn) error {
		marked, err := d.endpointByID(c, e.Tenant, e.ID)
		if err != nil {
			return err
		}
		w := waitingCount{now: testStart()}
		err = w.unmarked(c, marked)
		n = w.n
		return err
	})
	if err != nil || n != markedBudget+1 {
		t.Errorf("%v: it looked at %d of what came since", err, n-1)
	}
}
