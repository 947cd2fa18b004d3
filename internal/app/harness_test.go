package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthorn/posthorn/client"
	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/config"
	"github.com/posthorn/posthorn/internal/store/sqlite"
	"github.com/posthorn/posthorn/internal/webhook"
)

const operatorKey = "an-admin-key-of-at-least-thirty-two-characters"

// patience is how long a test waits for what should come at once.
const patience = 30 * time.Second

// eventually polls until ok says so.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("did not come: %s", what)
		case <-tick.C:
		}
	}
}

// text collects what is written to it.
type text struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *text) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *text) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// caller uses a server's API.
type caller struct {
	t testing.TB
	*client.Client
}

func newCaller(t testing.TB, address string) caller {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return caller{t, &client.Client{BaseURL: "http://" + address, Key: operatorKey, HTTP: &http.Client{Transport: transport, Timeout: patience}}}
}

// endpoint creates one for all events.
func (c caller) endpoint(url string, change ...func(*client.NewEndpoint)) client.Endpoint {
	c.t.Helper()
	in := client.NewEndpoint{URL: url, Events: []string{"*"}}
	for _, f := range change {
		f(&in)
	}
	made, err := c.CreateEndpoint(c.t.Context(), in)
	if err != nil {
		c.t.Fatal(err)
	}
	return made
}

func events(patterns ...string) func(*client.NewEndpoint) {
	return func(e *client.NewEndpoint) { e.Events = patterns }
}

// send publishes an event of the type thing.happened and returns its ID.
func (c caller) send(data string) string {
	c.t.Helper()
	accepted, err := c.SendEvent(c.t.Context(), client.NewEvent{Type: "thing.happened", Data: []byte(data)})
	if err != nil {
		c.t.Fatal(err)
	}
	return accepted.ID
}

// flood publishes n events with their number as data, in requests of a hundred,
// and returns their IDs.
func (c caller) flood(n int) []string {
	c.t.Helper()
	var ids []string
	for len(ids) < n {
		var batch []client.NewEvent
		for i := range min(100, n-len(ids)) {
			batch = append(batch, client.NewEvent{Type: "thing.happened", Data: strconv.AppendInt(nil, int64(len(ids)+i), 10)})
		}
		results, err := c.SendEvents(c.t.Context(), batch)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, r := range results {
			if r.Err() != nil {
				c.t.Fatal(r.Err())
			}
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// list reads all deliveries that a filter leaves.
func (c caller) list(f client.DeliveryFilter) []client.Delivery {
	c.t.Helper()
	var out []client.Delivery
	for d, err := range c.AllDeliveries(c.t.Context(), f, client.PageOptions{Limit: 250}) {
		if err != nil {
			c.t.Fatal(err)
		}
		out = append(out, d)
	}
	return out
}

// count counts the deliveries of an endpoint in any of the statuses.
func (c caller) count(endpoint string, statuses ...client.DeliveryStatus) int {
	c.t.Helper()
	return len(c.list(client.DeliveryFilter{Endpoint: endpoint, Statuses: statuses}))
}

// drained waits until nothing waits for an endpoint any more.
func (c caller) drained(endpoint string) {
	c.t.Helper()
	eventually(c.t, "nothing that waits for "+endpoint, func() bool {
		e, err := c.GetEndpoint(c.t.Context(), endpoint)
		return err == nil && e.Waiting != nil && *e.Waiting == 0
	})
}

// only is the only delivery of an event, with its attempts.
func (c caller) only(event string) client.Delivery {
	c.t.Helper()
	all := c.list(client.DeliveryFilter{Event: event})
	if len(all) != 1 {
		c.t.Fatalf("event %s has %d deliveries, want one", event, len(all))
	}
	d, err := c.GetDelivery(c.t.Context(), all[0].ID)
	if err != nil {
		c.t.Fatal(err)
	}
	return d
}

// until waits for a status of the event's only delivery.
func (c caller) until(event string, want client.DeliveryStatus) (d client.Delivery) {
	c.t.Helper()
	eventually(c.t, "status "+string(want)+" of "+event, func() bool {
		d = c.only(event)
		return d.Status == want
	})
	return d
}

// tried waits until the event's only delivery has so many attempts in its log.
func (c caller) tried(event string, attempts int) (d client.Delivery) {
	c.t.Helper()
	eventually(c.t, strconv.Itoa(attempts)+" attempts of "+event, func() bool { return len(c.only(event).Attempts) >= attempts })
	return c.only(event) // read again: an answer may join a delivery to attempts that are newer
}

// raw makes a request with a body as it stands, and returns the answer whole.
func (c caller) raw(method, path, mediaType string, in []byte, fields ...string) (int, http.Header, []byte) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.BaseURL+path, bytes.NewReader(in))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.Key)
	if mediaType != "" {
		req.Header.Set("Content-Type", mediaType)
	}
	for i := 0; i < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, out
}

// options are a server's; zero values take what suits a test.
type options struct {
	dir     string
	listen  string
	metrics bool
	lapse   int
	grace   time.Duration
	allow   []string
	// timeout replaces the contract's; change changes the rest of it.
	timeout time.Duration
	change  func(*contract.Contract)
	seams   seams
}

// server is a whole one in this process.
type server struct {
	caller
	app *App
	opt options
	// log is everything that it logged, at every level.
	log     *text
	stopped bool
}

// start starts a server; the test's end stops it.
func start(t testing.TB, opt options) *server {
	t.Helper()
	var s *server
	whenFree(t, func() error {
		s = prepared(t, opt)
		opt.dir = s.opt.dir
		return s.app.Start(t.Context())
	})
	t.Cleanup(func() { s.end(200 * time.Millisecond) })
	s.caller = newCaller(t, s.app.Addr())
	return s
}

// whenFree calls open until the data folder is not in use. A process that another
// test starts has this one's files for a moment, locks included, from its fork
// until it becomes another program.
func whenFree(t testing.TB, open func() error) {
	t.Helper()
	var err error
	eventually(t, "a free data folder", func() bool {
		err = open()
		return !errors.Is(err, sqlite.ErrInUse)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// prepared makes a server and does not start it.
func prepared(t testing.TB, opt options) *server {
	t.Helper()
	if opt.dir == "" {
		opt.dir = t.TempDir()
	}
	if opt.listen == "" {
		opt.listen = "127.0.0.1:0"
	}
	if opt.allow == nil {
		opt.allow = []string{"127.0.0.0/8"}
	}
	cfg := config.Server{
		Data: opt.dir, Listen: opt.listen, AllowNetworks: opt.allow, TimeLapse: max(opt.lapse, 1), ShutdownGrace: max(opt.grace, 5*time.Second),
		Secrets: config.Secrets{AdminKey: webhook.NewSecretText(operatorKey)},
	}
	if opt.metrics {
		cfg.MetricsListen = "127.0.0.1:0"
	}
	s := &server{opt: opt, log: &text{}}
	handler := slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})
	var err error
	s.app, err = New(cfg, Options{Log: slog.New(handler), Stdout: s.log, Lookup: os.LookupEnv, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	s.app.seams = opt.seams
	promised, _ := s.app.contracts.Lookup(contract.Standard)
	other := *promised.Contract
	if opt.timeout > 0 {
		other.Timeout = contract.Duration(opt.timeout)
	}
	if opt.lapse > 1 {
		// Five days without a success are seconds then, and a slow machine takes them.
		other.Disable = contract.Disable{}
	}
	if opt.change != nil {
		opt.change(&other)
	}
	s.app.contracts.replace(&other)
	t.Cleanup(func() {
		if t.Failed() {
			lines := strings.Split(s.log.String(), "\n")
			t.Logf("the server's log ends with:\n%s", strings.Join(lines[max(0, len(lines)-30):], "\n"))
		}
	})
	return s
}

// replace puts another promise in a built-in one's place.
func (c *contracts) replace(other *contract.Contract) {
	old := c.now.Load()
	next := promises{current: maps.Clone(old.current), revisions: maps.Clone(old.revisions), follows: old.follows}
	had := next.current[other.Name]
	next.revisions[promiseKey{other.Name, had.Revision}] = other
	had.Contract = other
	next.current[other.Name] = had
	c.now.Store(&next)
}

// end stops the server within a time, once. Attempts that still run are cut.
func (s *server) end(within time.Duration) {
	if s.stopped {
		return
	}
	s.stopped = true
	s.HTTP.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), within)
	defer cancel()
	_ = s.app.Stop(ctx) // it may say what it cut
}

// stop stops the server as SIGTERM does.
func (s *server) stop() {
	s.t.Helper()
	s.stopped = true
	s.HTTP.CloseIdleConnections()
	if err := s.app.Stop(context.WithoutCancel(s.t.Context())); err != nil {
		s.t.Errorf("stop: %v", err)
	}
}

// restart starts another server on the same folder, changed.
func (s *server) restart(change ...func(*options)) *server {
	s.t.Helper()
	s.stop()
	opt := s.opt
	for _, f := range change {
		f(&opt)
	}
	return start(s.t, opt)
}

// quiet waits until nothing is on the wire.
func (s *server) quiet() {
	s.t.Helper()
	eventually(s.t, "an empty wire", func() bool { return s.app.dispatcher.Stats().InFlight == 0 })
}

// checkAll checks that each request is signed by the secret.
func checkAll(t testing.TB, secret string, all []*request) {
	t.Helper()
	for _, q := range all {
		if err := q.forged(secret); err != nil {
			t.Errorf("%s: %v", q.line(), err)
		}
	}
}

// sorted is a sorted copy.
func sorted(in []string) []string { return slices.Sorted(slices.Values(in)) }

// ids lists the messages' IDs.
func ids(all []*request) []string {
	out := make([]string, len(all))
	for i, q := range all {
		out[i] = q.id()
	}
	return out
}
