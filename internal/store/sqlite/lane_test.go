package sqlite

import (
	"slices"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// openIdle opens a store whose janitor does nothing, so that what it would write
// stays as it was left.
func openIdle(t *testing.T, cfg Config) *DB {
	t.Helper()
	d := open(t, cfg)
	d.janitor.stop()
	d.janitor = newJanitor(d)
	close(d.janitor.done) // it can be stopped all the same
	return d
}

// queueOne takes one event in and returns the position of its delivery.
func queueOne(t *testing.T, d *DB, p store.AcceptParams) webhook.Ref {
	t.Helper()
	p.Revision = testRevision(t, d)
	results, err := d.Accept(t.Context(), []store.AcceptParams{p})
	if err == nil {
		err = results[0].Err
	}
	if err != nil {
		t.Fatal(err)
	}
	return webhook.Ref(d.writer.state.deliveryPos)
}

func window(t *testing.T, d *DB, e *webhook.Endpoint, now time.Time, limit int) store.Window {
	t.Helper()
	w, err := d.ReadWindow(t.Context(), store.WindowParams{Endpoint: e.Key, Now: now, Limit: limit, Bytes: 1 << 20, MaxData: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func positions(w store.Window) []webhook.Ref {
	var all []webhook.Ref
	for _, work := range w.Work {
		all = append(all, work.Ref)
	}
	return all
}

// rowStatus is a delivery's status as its row says it, whatever marks say.
func rowStatus(t *testing.T, d *DB, ref webhook.Ref) (status contract.Status) {
	t.Helper()
	err := d.read(t.Context(), func(c *conn) error {
		_, err := c.one(`SELECT status FROM delivery WHERE pos = ?`, []any{int64(ref)}, func(s *sqlite3.Stmt) { status = statuses.word(s.ColumnInt64(0)) })
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// The last seat is the boundary that package store draws.
func TestEngine_N17_SeatsEndWhereTheStoreSays(t *testing.T) {
	t.Parallel()
	if !store.IsSeat(time.UnixMilli(lastSeat)) || store.IsSeat(time.UnixMilli(lastSeat+1)) {
		t.Error("lastSeat is another one than package store's")
	}
}

// While an endpoint catches up only what has its place in the order comes, and the
// window never looks complete.
func TestEngine_N17_WindowWhileCatchingUp(t *testing.T) {
	t.Parallel()
	d := openIdle(t, Config{Dir: t.TempDir()})
	e := newTestEndpoint(t, d, "a")
	fresh := queueOne(t, d, newTestEvent("", 0, e))
	seated := queueOne(t, d, newTestEvent("", 0, e))
	test := newTestEvent("", 0, e)
	test.Trigger, test.ByPerson = contract.TriggerTest, true
	asked := queueOne(t, d, test)
	line := newTestEvent("", 0, e)
	line.Keys = []string{"k"}
	head, next := queueOne(t, d, line), queueOne(t, d, line)
	err := d.writer.do(t.Context(), func(x *tx) error {
		for _, pos := range []webhook.Ref{seated, head} {
			if err := x.requeue(e.Key, int64(pos), testStart().UnixMilli(), store.CatchUpDue(pos)); err != nil {
				return err
			}
		}
		return x.exec(`UPDATE endpoint SET catch_up_at = 1, catch_up_to = 100 WHERE num = ?`, int64(e.Key))
	})
	if err != nil {
		t.Fatal(err)
	}
	w := window(t, d, e, testStart(), 10)
	if got := positions(w); !slices.Equal(got, []webhook.Ref{asked, seated, head}) || w.Complete || !w.CatchingUp || !w.NextDue.IsZero() {
		t.Errorf("window is %v, %+v", got, w)
	}
	// What gets its turn meanwhile has its place too (N15).
	if _, err := recordOne(d, testSuccess(&w.Work[2], 200)); err != nil {
		t.Fatal(err)
	}
	if got := positions(window(t, d, e, testStart(), 10)); !slices.Equal(got, []webhook.Ref{asked, seated, next}) {
		t.Errorf("after the head ended: %v", got)
	}
	sql(t, d, `UPDATE endpoint SET catch_up_at = NULL`)
	w = window(t, d, e, testStart(), 10)
	if got := positions(w); !slices.Equal(got, []webhook.Ref{asked, seated, next, fresh}) || !w.Complete || w.CatchingUp {
		t.Errorf("caught up: %v, %+v", got, w)
	}
}

// What a mark skips comes in no window, however much of it lies before the rest,
// and while it does not all fit into one look the window is not complete.
func TestEngine_N17_MarkedOnesComeInNoWindow(t *testing.T) {
	t.Parallel()
	d := openIdle(t, Config{Dir: t.TempDir(), DueNow: testStart})
	e := newTestEndpoint(t, d, "a")
	bulk := func(n int) {
		t.Helper()
		rev := testRevision(t, d)
		events := make([]store.AcceptParams, n)
		for i := range events {
			events[i] = newTestEvent("", rev, e)
		}
		if _, err := d.Accept(t.Context(), events); err != nil {
			t.Fatal(err)
		}
	}
	bulk(20)
	test := newTestEvent("", 0, e)
	test.Trigger = contract.TriggerTest
	passes := queueOne(t, d, test)
	_, err := d.UpdateEndpoint(t.Context(), e.Tenant, e.ID, testStart(), func(*webhook.Endpoint) (store.EndpointUpdate, error) {
		return store.EndpointUpdate{Skip: webhook.WhySwitchedOff}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	first := queueOne(t, d, newTestEvent("", 0, e))
	w := window(t, d, e, testStart(), 10)
	if got := positions(w); !slices.Equal(got, []webhook.Ref{passes, first}) || !w.Complete || w.Work[1].Data == nil {
		t.Errorf("window is %v, complete %v", got, w.Complete)
	}
	if w = window(t, d, e, testStart(), 1); !slices.Equal(positions(w), []webhook.Ref{passes}) || w.Complete {
		t.Errorf("a narrow window is %v, complete %v", positions(w), w.Complete)
	}

	bulk(markedBudget)
	_, err = d.UpdateEndpoint(t.Context(), e.Tenant, e.ID, testStart(), func(*webhook.Endpoint) (store.EndpointUpdate, error) {
		return store.EndpointUpdate{Skip: webhook.WhySwitchedOff}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	first = queueOne(t, d, newTestEvent("", 0, e))
	second := queueOne(t, d, newTestEvent("", 0, e))
	later := newTestEvent("", 0, e)
	later.DeliverAt = testStart().Add(time.Hour)
	queueOne(t, d, later)
	if w = window(t, d, e, testStart(), 10); w.Complete || !slices.Equal(positions(w), []webhook.Ref{passes, first, second}) {
		t.Errorf("with more than one look takes: %v, complete %v", positions(w), w.Complete)
	}
	if w = window(t, d, e, testStart(), 2); w.Complete || !slices.Equal(positions(w), []webhook.Ref{passes, first}) {
		t.Errorf("a narrow window: %v, complete %v", positions(w), w.Complete)
	}
}

// What is queued after a long backlog was skipped does not wait until the janitor
// has written the backlog's rows: neither for the window, nor for catching up.
func TestEngine_N17_FreshOnesDoNotWaitBehindWhatIsSkipped(t *testing.T) {
	t.Parallel()
	const covered = 200_000 / hurried
	now := testStart().Add(time.Hour)
	d := openIdle(t, Config{Dir: t.TempDir(), DueNow: func() time.Time { return now }})
	e := newTestEndpoint(t, d, "a")
	backlog(t, d, e, covered, testStart(), false)
	set := func(state webhook.EndpointState, u store.EndpointUpdate) {
		t.Helper()
		_, err := d.UpdateEndpoint(t.Context(), e.Tenant, e.ID, now, func(e *webhook.Endpoint) (store.EndpointUpdate, error) {
			e.State = state
			return u, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	set(webhook.EndpointPaused, store.EndpointUpdate{Skip: webhook.WhySwitchedOff})
	event := newTestEvent("", 0, e)
	event.Now, event.Ready = now, now.Add(-time.Second) // told before the mark's commit
	fresh := queueOne(t, d, event)
	set(webhook.EndpointActive, store.EndpointUpdate{CatchUp: true})
	if w := window(t, d, e, now, 10); w.Complete || !w.CatchingUp || len(w.Work) != 0 {
		t.Errorf("while it catches up: %v", positions(w))
	}
	begun := time.Now()
	for range 2 { // one slice passes over what is covered, and one may end it
		if _, err := d.janitor.catchUp(); err != nil {
			t.Fatal(err)
		}
	}
	if w := window(t, d, e, now, 10); w.CatchingUp || !slices.Equal(positions(w), []webhook.Ref{fresh}) {
		t.Errorf("after it has caught up: %v, catching up %v", positions(w), w.CatchingUp)
	}
	later := queueOne(t, d, event)
	w := window(t, d, e, now, 10)
	took := time.Since(begun)
	if w.Complete || !slices.Equal(positions(w), []webhook.Ref{fresh, later}) {
		t.Errorf("window is %v, complete %v", positions(w), w.Complete)
	}
	t.Logf("catching up and two windows behind %d skipped ones took %v", covered, took)
	if took > 5*time.Second { // some ten milliseconds where nothing else runs
		t.Errorf("it took %v", took)
	}
}

// A try that was under way when a mark was made and then fails waits for no
// other; a success counts; a test is never hit.
func TestEngine_N17_OutcomesUnderAMark(t *testing.T) {
	t.Parallel()
	d := openIdle(t, Config{Dir: t.TempDir()})
	e := newTestEndpoint(t, d, "a")
	test := newTestEvent("", 0, e)
	test.Trigger = contract.TriggerTest
	for range 2 {
		queueOne(t, d, newTestEvent("", 0, e))
	}
	queueOne(t, d, test)
	work := window(t, d, e, testStart(), 10).Work
	_, err := d.UpdateEndpoint(t.Context(), e.Tenant, e.ID, testStart(), func(*webhook.Endpoint) (store.EndpointUpdate, error) {
		return store.EndpointUpdate{Skip: webhook.WhyResumedNow}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []contract.Status{contract.StatusSkipped, contract.StatusDelivered, contract.StatusPending}
	for i := range work {
		p := testSuccess(&work[i], 200)
		if i != 1 {
			p.Status, p.FailureKind, p.Reason, p.NextAt = contract.StatusPending, contract.KindHTTPStatus, webhook.WhyRetry, testStart()
		}
		if r, err := recordOne(d, p); err != nil || !r.Applied {
			t.Errorf("%d: %+v, %v", i, r, err)
		}
		v, err := d.GetDelivery(t.Context(), e.Tenant, work[i].DeliveryID)
		if err != nil || v.Status != want[i] {
			t.Errorf("%d: %v, %+v", i, err, v)
		}
		if row := rowStatus(t, d, work[i].Ref); row != want[i] {
			t.Errorf("%d: its row says %s", i, row)
		}
		if i == 0 && (v.Reason != webhook.WhyResumedNow || v.FailureKind != contract.KindHTTPStatus || v.AttemptCount != 1 || v.FinishedAt.IsZero()) {
			t.Errorf("skipped: %+v", v)
		}
	}
	checkWhole(t, d)
}

// The turn that a cut chain owes is given after a restart as well.
func TestEngine_N15_CutChainsGoOnAfterARestart(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir()}
	d := openIdle(t, cfg)
	e := newTestEndpoint(t, d, "a")
	line := newTestEvent("", 0, e)
	line.Keys = []string{"k"}
	head := queueOne(t, d, line)
	events := make([]store.AcceptParams, lineSteps+10)
	for i := range events {
		events[i] = line
		events[i].Revision = testRevision(t, d)
	}
	if _, err := d.Accept(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	last := queueOne(t, d, line)
	w, _, err := d.LoadWork(t.Context(), head)
	if err != nil {
		t.Fatal(err)
	}
	err = d.writer.do(t.Context(), func(x *tx) error {
		for ref := head + 1; ref < last; ref++ {
			if _, err := x.end(ref, contract.StatusCanceled, webhook.WhyCanceled, testStart()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := recordOne(d, testSuccess(&w, 200)); err != nil {
		t.Fatal(err)
	}
	if got := window(t, d, e, testStart(), 10); len(got.Work) != 0 {
		t.Fatalf("the chain was not cut: %v", positions(got))
	}
	joins := queueOne(t, d, line) // one that comes meanwhile has nobody's turn
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	after := make(chan store.Work, 10)
	next := func() store.Work {
		select {
		case w := <-after:
			return w
		case <-time.After(20 * time.Second):
			t.Fatal("nothing was handed over")
			return store.Work{}
		}
	}
	cfg.OnChange = func(c store.Change) {
		for _, w := range c.Accepted {
			after <- w
		}
	}
	d = open(t, cfg)
	if w = next(); w.Ref != last {
		t.Fatalf("handed over %d, want %d", w.Ref, last)
	}
	if _, err := recordOne(d, testSuccess(&w, 200)); err != nil {
		t.Fatal(err)
	}
	if w = next(); w.Ref != joins {
		t.Errorf("handed over %d, want %d", w.Ref, joins)
	}
	checkWhole(t, d)
}

// Another round of one that ended inside a line takes no turn there (N13, N15).
func TestEngine_N15_ResendsTakeNoTurn(t *testing.T) {
	t.Parallel()
	d := openIdle(t, Config{Dir: t.TempDir()})
	e := newTestEndpoint(t, d, "a")
	line := newTestEvent("", 0, e)
	line.Keys = []string{"k"}
	head, again, last := queueOne(t, d, line), queueOne(t, d, line), queueOne(t, d, line)
	var renewed store.Work
	err := d.writer.do(t.Context(), func(x *tx) (err error) {
		if _, err = x.end(again, contract.StatusCanceled, webhook.WhyCanceled, testStart()); err != nil {
			return err
		}
		renewed, err = x.renew(again, contract.Terms{Trigger: contract.TriggerResend, Once: true}, true, testStart())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if renewed.Round != 2 || renewed.Seat != last+1 || !renewed.Due.Equal(store.PersonDue(last+1)) || !renewed.Once || !renewed.ByPerson ||
		renewed.Trigger != contract.TriggerResend || renewed.Attempts != 0 {
		t.Errorf("renewed: %+v", renewed)
	}
	w := window(t, d, e, testStart(), 10)
	if got := positions(w); !slices.Equal(got, []webhook.Ref{again, head}) {
		t.Fatalf("due: %v", got)
	}
	if _, err := recordOne(d, testSuccess(&w.Work[1], 200)); err != nil {
		t.Fatal(err)
	}
	if got := positions(window(t, d, e, testStart().Add(time.Hour), 10)); !slices.Equal(got, []webhook.Ref{again}) {
		// The head's turn goes to the last one, due by the clock that the store tells.
		if got = positions(window(t, d, e, d.cfg.DueNow(), 10)); !slices.Equal(got, []webhook.Ref{again, last}) {
			t.Errorf("due: %v", got)
		}
	}
	checkWhole(t, d)
}

// A redelivery joins the line of its key at the tail, and the old row says so.
func TestEngine_N15_RedeliveriesJoinAtTheTail(t *testing.T) {
	t.Parallel()
	d := openIdle(t, Config{Dir: t.TempDir()})
	e := newTestEndpoint(t, d, "a")
	line := newTestEvent("", 0, e)
	line.Keys = []string{"k"}
	old, head := queueOne(t, d, line), queueOne(t, d, line)
	var made store.Work
	err := d.writer.do(t.Context(), func(x *tx) (err error) {
		if _, err = x.end(old, contract.StatusDead, webhook.WhyExhausted, testStart()); err != nil {
			return err
		}
		made, err = x.insertFurther(further{
			event: 1, endpoint: e.Key, contract: "standard", revision: "r2", terms: contract.Terms{Trigger: contract.TriggerRedelivery},
			due: testStart(), key: "k", replaces: old, markOld: true, now: testStart(),
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if made.Ref != head+1 || !store.IsParked(made.Due) || made.Key != "k" || made.ContractRevision != "r2" || made.Round != 1 ||
		made.Trigger != contract.TriggerRedelivery || made.Seat != made.Ref {
		t.Errorf("made: %+v", made)
	}
	v, err := d.GetDelivery(t.Context(), e.Tenant, d.ids.Encode(webhook.PrefixDelivery, testStart(), int64(old)))
	if err != nil || v.Status != contract.StatusRedelivered || v.ReplacedBy != made.DeliveryID {
		t.Errorf("the old one: %v, %+v", err, v)
	}
	w := window(t, d, e, d.cfg.DueNow(), 10)
	if got := positions(w); !slices.Equal(got, []webhook.Ref{head}) {
		t.Fatalf("due: %v", got)
	}
	if _, err := recordOne(d, testSuccess(&w.Work[0], 200)); err != nil {
		t.Fatal(err)
	}
	if got := positions(window(t, d, e, d.cfg.DueNow(), 10)); !slices.Equal(got, []webhook.Ref{made.Ref}) {
		t.Errorf("due: %v", got)
	}
	checkWhole(t, d)
}
