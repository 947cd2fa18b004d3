package sqlite

import (
	"context"
	"fmt"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// broken are queries that find rows which no crash may leave behind.
func broken() map[string]string {
	return map[string]string{
		"an event without all its deliveries": `SELECT e.pos FROM event e
			WHERE e.deliveries <> (SELECT count(*) FROM delivery d WHERE d.pos >= e.first_delivery AND d.pos < e.first_delivery + e.deliveries AND d.event = e.pos)`,
		"a delivery without its event": `SELECT pos FROM delivery WHERE event NOT IN (SELECT pos FROM event)`,
		"an event without its ID":      `SELECT count(*) FROM event WHERE id IS NOT NULL GROUP BY true HAVING count(*) <> (SELECT count(*) FROM event_key)`,
		"an ID without its event":      `SELECT event FROM event_key WHERE event NOT IN (SELECT pos FROM event)`,
		"one that waits outside its lane": `SELECT d.pos FROM delivery d WHERE d.next_at IS NOT NULL AND NOT EXISTS
			(SELECT 1 FROM waiting w WHERE w.endpoint = d.endpoint AND w.due = d.next_at AND w.pos = d.pos)`,
		"a lane with one that is done": `SELECT w.pos FROM waiting w LEFT JOIN delivery d ON d.pos = w.pos
			WHERE d.pos IS NULL OR d.next_at IS NULL OR d.next_at <> w.due OR d.endpoint <> w.endpoint`,
		"a log that is shorter or longer": `SELECT d.pos FROM delivery d LEFT JOIN (SELECT delivery, count(*) AS n FROM attempt GROUP BY delivery) a
			ON a.delivery = d.pos WHERE d.rows <> coalesce(a.n, 0)`,
		"a log whose end is missing":      `SELECT pos FROM delivery WHERE last_attempt IS NOT NULL AND last_attempt NOT IN (SELECT pos FROM attempt)`,
		"an attempt without its delivery": `SELECT pos FROM attempt WHERE delivery NOT IN (SELECT pos FROM delivery)`,
		"a line whose head has no turn": `SELECT l.key FROM line l LEFT JOIN delivery d ON d.pos = l.head
			WHERE l.head > 0 AND (d.pos IS NULL OR d.next_at IS NULL OR d.next_at >= 1 << 50 OR d.seat IS NOT NULL)`,
		"one that waits in no line": `SELECT d.pos FROM delivery d WHERE d.next_at >= 1 << 50
			AND (d.flags & 32 = 0 OR NOT EXISTS (SELECT 1 FROM line l WHERE l.endpoint = d.endpoint AND l.key = d.line_key AND l.head <> d.pos))`,
		"a mark of one that is done": `SELECT delivery FROM running WHERE delivery NOT IN (SELECT pos FROM waiting)`,
	}
}

// checkWhole checks that the database is sound and holds nothing half.
func checkWhole(tb testing.TB, d *DB) {
	tb.Helper()
	err := d.read(context.Background(), func(c *conn) error {
		verdict := ""
		if _, err := c.one(`PRAGMA integrity_check(1)`, nil, func(s *sqlite3.Stmt) { verdict = s.ColumnText(0) }); err != nil {
			return err
		}
		if verdict != "ok" {
			return fmt.Errorf("integrity: %s", verdict)
		}
		for what, query := range broken() {
			found, err := c.one(query+` LIMIT 1`, nil, func(*sqlite3.Stmt) {})
			if err != nil {
				return fmt.Errorf("looking for %s: %w", what, err)
			}
			if found {
				return fmt.Errorf("there is %s", what)
			}
		}
		return nil
	})
	if err != nil {
		tb.Errorf("the database is not whole: %v", err)
	}
}

// ledger is what callers were told is durable.
type ledger struct {
	events   map[string]int // by ID: the number of deliveries
	outcomes map[string]int // by delivery ID: the status that ended it
}

func newLedger() *ledger { return &ledger{events: map[string]int{}, outcomes: map[string]int{}} }

// check finds all that was acknowledged.
func (l *ledger) check(tb testing.TB, d *DB) {
	tb.Helper()
	ctx := context.Background()
	for id, deliveries := range l.events {
		e, err := d.GetEvent(ctx, webhook.DefaultTenant, id)
		if err != nil {
			tb.Errorf("event %s was acknowledged: %v", id, err)
			continue
		}
		if e.Deliveries != deliveries || string(e.Data) != payload(id) {
			tb.Errorf("event %s was acknowledged otherwise", id)
		}
	}
	for id, code := range l.outcomes {
		v, err := d.GetDelivery(ctx, webhook.DefaultTenant, id)
		if err != nil || v.Status != contract.StatusDelivered || v.StatusCode != code {
			tb.Errorf("the outcome of %s was acknowledged: %v, %+v", id, err, v)
		}
	}
}

// payload is what an event of an ID bears.
func payload(id string) string {
	return fmt.Sprintf(`{"id":%q,"fill":"%0*d"}`, id, 200+len(id)*40, 7)
}

// newTestEvent is an event for some endpoints.
func newTestEvent(id string, revision int64, targets ...*webhook.Endpoint) store.AcceptParams {
	p := store.AcceptParams{
		Tenant: webhook.DefaultTenant, Revision: revision, ID: id, Type: "link.created", Data: []byte(payload(id)), Now: testStart(),
	}
	for _, e := range targets {
		p.Targets = append(p.Targets, store.Target{Endpoint: e.Key, Contract: e.Contract, ContractRevision: "r1"})
	}
	return p
}

// newTestEndpoint creates an endpoint of the default tenant.
func newTestEndpoint(tb testing.TB, d *DB, id string) *webhook.Endpoint {
	tb.Helper()
	e, err := d.CreateEndpoint(context.Background(), &webhook.Endpoint{
		ID: id, Tenant: webhook.DefaultTenant, URL: "https://hooks.example.com/", Events: []string{"*"}, Contract: "standard",
		State: webhook.EndpointActive, CreatedAt: testStart(), StateSince: testStart(), MaxInFlight: 8,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// testRevision reads the default tenant's revision.
func testRevision(tb testing.TB, d *DB) int64 {
	tb.Helper()
	_, revisions, err := d.LoadSubscriptions(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	return revisions[webhook.DefaultTenant]
}

// testSuccess is the outcome of a try that was answered with code.
func testSuccess(w *store.Work, code int) store.RecordParams {
	return store.RecordParams{
		Ref: w.Ref, Tenant: w.Tenant, Endpoint: w.Endpoint, Round: w.Round, Attempts: w.Attempts,
		Attempt: &webhook.Attempt{Round: w.Round, Try: w.Attempts + 1, Counted: true, At: testStart(), StatusCode: code, Response: []byte("answer")},
		Status:  contract.StatusDelivered, Counts: true, Now: testStart(),
	}
}

// recordOne records and waits.
func recordOne(d *DB, p store.RecordParams) (store.RecordResult, error) {
	type answer struct {
		r   store.RecordResult
		err error
	}
	answered := make(chan answer, 1)
	d.Record(p, func(r store.RecordResult, err error) { answered <- answer{r, err} })
	a := <-answered
	return a.r, a.err
}
