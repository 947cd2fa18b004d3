//go:build crash

package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthorn/posthorn/client"
	"github.com/posthorn/posthorn/internal/config"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/store/sqlite"
	"github.com/posthorn/posthorn/internal/webhook"
)

// How the crash test is run. CRASH_FOR, a duration such as 10m, repeats it until
// then.
const (
	crashEvents     = 10_000
	crashEnds       = 9 // every third by SIGTERM
	crashEndpoints  = 4
	crashPublishers = 6
	// crashInFlight is what one endpoint may have on the wire.
	crashInFlight = 64
	// crashSlots is what the whole server may have in flight, outcomes that are
	// not written yet included (N10).
	crashSlots = 1024
)

// Ten thousand events through the real binary, which is killed with kill -9 again
// and again under load: nothing that was acknowledged is missing, only what was
// in flight at a kill arrives twice, every signature verifies, and the bytes are
// those posted.
func TestCrash_KilledUnderLoad(t *testing.T) {
	var long time.Duration
	if text := os.Getenv("CRASH_FOR"); text != "" {
		var err error
		if long, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	c := newCrash(t)
	begin := time.Now()
	for c.total.rounds == 0 || time.Since(begin) < long && !t.Failed() {
		c.round()
	}
	fmt.Printf("crash test: %s in %s\n", &c.total, time.Since(begin).Round(time.Millisecond))
}

// tally is what came of it all.
type tally struct {
	rounds, events, kills, stops, requests, refused, inFlight, repeated, lost int
}

func (a *tally) String() string {
	return fmt.Sprintf("%d rounds, %d events acknowledged, %d kills, %d stops, %d requests (%d answered with a failure on purpose), %d lost, %d duplicates with %d in flight at the kills",
		a.rounds, a.events, a.kills, a.stops, a.requests, a.refused, a.lost, a.repeated, a.inFlight)
}

// message is what the receiver knows of one webhook-id.
type message struct {
	n, requests, successes int
	// cut counts requests whose outcome a kill destroyed.
	cut int
}

// crash is a receiver, publishers, and a server that dies.
type crash struct {
	t       *testing.T
	r       *receiver
	p       *process
	api     caller
	ids     []string          // of the endpoints
	secrets map[string]string // by path
	total   tally

	mu    sync.Mutex
	first int            // number of the round's first event
	next  int            // number of the next event to publish
	acked map[string]int // number by webhook-id
	got   map[string]*message
}

func newCrash(t *testing.T) *crash {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String() // the same after every start
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c := &crash{t: t, r: newReceiver(t), api: newCaller(t, address), secrets: map[string]string{}}
	c.r.seen = c.saw
	c.p = launch(t, t.TempDir(), "--listen", address, "--time-lapse", "1000")
	for i := range crashEndpoints {
		path := "/" + strconv.Itoa(i)
		c.r.on(path, c.answer)
		e := c.api.endpoint(c.r.url(path), func(e *client.NewEndpoint) {
			e.Events, e.MaxInFlight = []string{"crash." + strconv.Itoa(i)}, crashInFlight
		})
		c.ids, c.secrets[path] = append(c.ids, e.ID), e.Secret
	}
	return c
}

// payload is the data of an event: small or not, with what serialisers change.
func payload(n int) []byte {
	size := n % 1500
	if n%1000 == 7 {
		size = 100 << 10
	}
	return []byte(fmt.Sprintf(`{ "n":%d,"t":"<é>\u0000\/", "pad" : "%s" }`, n, strings.Repeat("x", size)))
}

// saw checks a request. The receiver calls it under its lock.
func (c *crash) saw(q *request) {
	if err := q.forged(c.secrets[q.path()]); err != nil {
		c.t.Errorf("%s: %v", q.line(), err)
	}
	var n int
	if _, err := fmt.Sscanf(string(q.data()), `{ "n":%d,`, &n); err != nil || !bytes.Equal(q.data(), payload(n)) || q.path() != "/"+strconv.Itoa(n%crashEndpoints) {
		c.t.Errorf("%s: the bytes are not those posted: %.80q, %v", q.line(), q.data(), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.got[q.id()]
	if m == nil {
		m = &message{n: n}
		c.got[q.id()] = m
	}
	m.requests++
	c.total.requests++
}

// answer answers soon, and refuses some of the first tries.
func (c *crash) answer(x *exchange) bool {
	c.mu.Lock()
	m := c.got[x.id()]
	fails := m.requests == 1 && m.n%20 == 3
	if fails {
		c.total.refused++
	}
	c.mu.Unlock()
	if fails {
		return status(503)(x)
	}
	return after(time.Duration(rand.IntN(8))*time.Millisecond, func(x *exchange) bool {
		c.mu.Lock()
		m.successes++
		c.mu.Unlock()
		return status(200)(x)
	})(x)
}

// round publishes a round's events while the server is killed again and again,
// and checks what arrived.
func (c *crash) round() {
	c.t.Helper()
	c.mu.Lock()
	c.first, c.next = c.total.rounds*crashEvents, c.total.rounds*crashEvents
	c.acked, c.got = map[string]int{}, map[string]*message{}
	c.total.rounds++
	c.mu.Unlock()
	var running sync.WaitGroup
	for i := range crashPublishers {
		running.Go(func() { c.publish(i) })
	}
	for k := range crashEnds {
		mark := crashEvents * (k + 1) / (crashEnds + 1)
		eventually(c.t, "progress", func() bool { return c.progress() >= mark })
		if k%3 == 2 {
			c.stop()
		} else {
			c.kill()
		}
	}
	running.Wait()
	c.settle()
}

// progress counts acknowledged events.
func (c *crash) progress() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.acked)
}

// publish takes numbers and publishes them, alone or several at a time, with IDs
// of our own or without. What got no answer is published again: with an ID that
// is a repeat, without one it is another event.
func (c *crash) publish(publisher int) {
	for {
		most := 1
		if publisher%2 == 0 {
			most = 25
		}
		c.mu.Lock()
		from := c.next
		c.next = min(c.next+most, c.first+crashEvents)
		to := c.next
		c.mu.Unlock()
		if from == to {
			return
		}
		var batch []client.NewEvent
		for n := from; n < to; n++ {
			e := client.NewEvent{Type: "crash." + strconv.Itoa(n%crashEndpoints), Data: payload(n)}
			if publisher%3 != 0 {
				e.ID = "crash-" + strconv.Itoa(n)
			}
			batch = append(batch, e)
		}
		if !c.insist(batch, from) {
			return
		}
	}
}

// insist publishes until all of the batch is acknowledged.
func (c *crash) insist(batch []client.NewEvent, from int) bool {
	deadline := time.Now().Add(patience)
	done := make([]bool, len(batch))
	for {
		var open []client.NewEvent
		var numbers []int
		for i := range batch {
			if !done[i] {
				open, numbers = append(open, batch[i]), append(numbers, from+i)
			}
		}
		if len(open) == 0 {
			return true
		}
		results, err := c.post(open)
		c.mu.Lock()
		for i, r := range results {
			if r.Accepted() {
				c.acked[r.ID] = numbers[i]
				done[numbers[i]-from] = true
			} else if r.Status != 503 {
				c.t.Errorf("event %d: %v", numbers[i], r.Err())
			}
		}
		c.mu.Unlock()
		var refused *client.Error
		if errors.As(err, &refused) && refused.Status != 503 {
			c.t.Errorf("publishing: %v", err)
			return false
		}
		if err != nil {
			<-time.After(10 * time.Millisecond) // the server is down
		}
		if time.Now().After(deadline) {
			c.t.Errorf("event %d can't be published: %v", from, err)
			return false
		}
	}
}

func (c *crash) post(open []client.NewEvent) ([]client.LineResult, error) {
	if len(open) > 1 {
		return c.api.SendEvents(c.t.Context(), open)
	}
	accepted, err := c.api.SendEvent(c.t.Context(), open[0])
	if err != nil {
		return nil, err
	}
	return []client.LineResult{{ID: accepted.ID, Status: 202}}, nil
}

// kill kills the server, looks at what it left, and starts it again.
func (c *crash) kill() {
	c.t.Helper()
	c.p.kill()
	eventually(c.t, "silence", func() bool { return c.r.connected() == 0 })
	cut := c.cutNow()
	if cut > crashSlots {
		c.t.Errorf("%d were in flight at the kill, at most %d may be", cut, crashSlots)
	}
	c.total.kills++
	c.total.inFlight += cut
	c.p = c.p.again()
}

// stop stops the server with SIGTERM, under the same load: nothing is left in
// flight, so nothing comes twice (B50).
func (c *crash) stop() {
	c.t.Helper()
	if code, took := c.p.terminate(); code != 0 || took > patience {
		c.t.Errorf("SIGTERM: exit code %d after %s", code, took)
	}
	eventually(c.t, "silence", func() bool { return c.r.connected() == 0 })
	if cut := c.cutNow(); cut != 0 {
		c.t.Errorf("%d were in flight after a stop", cut)
	}
	c.total.stops++
	c.p = c.p.again()
}

// cutNow counts the requests that the receiver got and whose outcome is not in
// the database: what was in flight. It reads a copy, so that the server itself
// finds the files as the kill left them.
func (c *crash) cutNow() (cut int) {
	c.t.Helper()
	copied, err := os.MkdirTemp(c.t.TempDir(), "")
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(copied) }() // a long run kills often
	for _, name := range []string{sqlite.FileName, sqlite.FileName + "-wal", secretsKeyFile} {
		text, err := os.ReadFile(filepath.Join(c.p.dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a stop leaves no log
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(copied, name), text, 0o600)
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
	keys, err := keyring(&config.Server{Data: copied})
	if err != nil {
		c.t.Fatal(err)
	}
	db, err := sqlite.Open(context.Background(), sqlite.Config{Dir: copied, Sealer: keys, Now: time.Now(), Contract: newContracts(slog.New(slog.DiscardHandler)).Promised})
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	filter := store.DeliveryFilter{Statuses: []webhook.Status{webhook.StatusPending, webhook.StatusSending}}
	page := store.Page{Limit: 250}
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		listed, err := db.ListDeliveries(context.Background(), webhook.DefaultTenant, filter, page)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, d := range listed.Items {
			if m := c.got[d.WebhookID]; m != nil && m.requests > d.AttemptCount+m.cut {
				m.cut++
				cut++
			}
		}
		if listed.Next == 0 {
			return cut
		}
		page.After = listed.Next
	}
}

// settle waits until everything acknowledged has arrived and is written down, and
// counts what is lost and what came twice.
func (c *crash) settle() {
	c.t.Helper()
	for _, id := range c.ids {
		c.api.drained(id)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total.events += len(c.acked)
	for id, n := range c.acked {
		if m := c.got[id]; m == nil || m.successes == 0 || m.n != n {
			c.total.lost++
			c.t.Errorf("event %d, acknowledged as %s, is lost: %+v", n, id, m)
		}
	}
	for id, m := range c.got {
		c.total.repeated += max(m.successes-1, 0)
		if twice := m.successes - 1; twice > m.cut {
			c.t.Errorf("%s was received %d times, and cut by %d kills", id, m.successes, m.cut)
		}
	}
	if c.total.repeated > c.total.inFlight {
		c.t.Errorf("%d duplicates, %d were in flight at the kills", c.total.repeated, c.total.inFlight)
	}
}
