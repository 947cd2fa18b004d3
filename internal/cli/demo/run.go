package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/posthorn/posthorn/client"
	"github.com/posthorn/posthorn/internal/cli/receiver"
	"github.com/posthorn/posthorn/signature"
)

const (
	// pace is the time between two events.
	pace = 250 * time.Millisecond
	// settle is how long before the end publishing stops, so that retries of the
	// last events can be seen to arrive.
	settle = 6 * time.Second
	// Patience is what Config.Patience should be for people.
	Patience = 20 * time.Second
)

// Config is what a demo needs; all fields but For are needed.
type Config struct {
	// API calls the server, which must reach the receiver and divide waits by
	// TimeLapse.
	API *client.Client
	// Receiver is the URL of the demo's receiver, without a path.
	Receiver string
	// For is how long the demo takes, unless the context ends before; 0 goes on
	// until then. Publishing stops earlier.
	For time.Duration
	// Patience is how long after publishing the demo waits at most for what is
	// owed.
	Patience time.Duration
	// Now is the wall clock.
	Now func() time.Time
	// View shows what happens.
	View View
	// Random chooses what events say.
	Random *rand.Rand
}

// View is told what happens. Its methods are called one at a time.
type View interface {
	// Request is told of each request that the receiver got.
	Request(Request)
	// Table is told how the stations stand, twice a second.
	Table([]Row)
}

// Request is one request at the receiver.
type Request struct {
	At      time.Time
	Station string
	Type    string
	Event   string
	// Try counts the requests for this delivery.
	Try    int
	Answer string
	// Refused is why the signature is bad, nil for a good one.
	Refused error
}

// Row is how a station stands.
type Row struct {
	Station, About     string
	Requests, Failures int
	Delivered, Waiting int
	Last               string
}

// Demo is a running demo. New makes one.
type Demo struct {
	cfg      Config
	stations []station
	ledger   *ledger
	done     chan struct{} // closed when hanging requests shall end
	close    sync.Once

	view  sync.Mutex
	muted bool // nothing is shown any more

	mu        sync.Mutex
	verifiers map[string]*receiver.Verifier
	endpoints map[string]string // by station
}

// New makes a demo. Serve its Handler at Config.Receiver before Run.
func New(cfg Config) *Demo {
	return &Demo{
		cfg: cfg, stations: stations(), ledger: newLedger(), done: make(chan struct{}),
		verifiers: map[string]*receiver.Verifier{}, endpoints: map[string]string{},
	}
}

// Handler is the receiver.
func (d *Demo) Handler() http.Handler {
	return &receiver.Receiver{Now: d.cfg.Now, Verifier: d.verifier, Decide: d.decide, Done: d.done}
}

// Release ends requests that hang, for a server that waits for them at its end.
func (d *Demo) Release() { d.close.Do(func() { close(d.done) }) }

func stationOf(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, "/") }

// verifier checks against the secret that the server gave for the endpoint. A
// path that is no endpoint gets a check that nothing passes.
func (d *Demo) verifier(r *http.Request) *receiver.Verifier {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v := d.verifiers[stationOf(r)]; v != nil {
		return v
	}
	return &receiver.Verifier{}
}

// decide answers a request as its station does, and shows it.
func (d *Demo) decide(r *http.Request, got *receiver.Request) receiver.Reply {
	name := stationOf(r)
	for _, s := range d.stations {
		if s.name != name {
			continue
		}
		id := got.Header.Get("Webhook-Id")
		answer, try := d.ledger.arrive(s, id, got.Refused)
		d.show(Request{
			At: got.At, Station: name, Type: typeOf(got.Body), Event: id, Try: try, Answer: brief(answer), Refused: got.Refused,
		})
		reply := receiver.Reply{Answer: answer}
		if answer.Status == http.StatusFound {
			reply.Header = http.Header{"Location": {"/healthy"}}
		}
		return reply
	}
	return receiver.Reply{Answer: status(http.StatusNotFound)}
}

func (d *Demo) show(r Request) {
	d.view.Lock()
	defer d.view.Unlock()
	if !d.muted {
		d.cfg.View.Request(r)
	}
}

func (d *Demo) mute() {
	d.view.Lock()
	defer d.view.Unlock()
	d.muted = true
}

// Run creates the endpoints, publishes until the time is over or ctx ends,
// waits for what is owed and sums up.
func (d *Demo) Run(ctx context.Context) (Summary, error) {
	if err := d.createEndpoints(ctx); err != nil {
		return Summary{}, err
	}
	// What the server still owes is waited for and summed up after ctx has ended.
	after := context.WithoutCancel(ctx)
	watching, stopWatching := context.WithCancel(after)
	var watch sync.WaitGroup
	watch.Go(func() { d.watch(watching) })
	defer func() {
		stopWatching() // shows the last table
		watch.Wait()
		d.mute()
	}()

	publishing, whole, stop := d.times(ctx)
	defer stop()
	if err := d.publish(publishing); err != nil {
		return Summary{}, err
	}
	d.await(after)
	<-whole.Done() // there are retries to see until the end
	return d.sumUp(after)
}

// times returns contexts that end when publishing ends, and the demo.
func (d *Demo) times(ctx context.Context) (publishing, whole context.Context, stop func()) {
	if d.cfg.For <= 0 {
		return ctx, ctx, func() {}
	}
	whole, stopWhole := context.WithTimeout(ctx, d.cfg.For)
	publishing, stopPublishing := context.WithTimeout(whole, publishFor(d.cfg.For))
	return publishing, whole, func() {
		stopPublishing()
		stopWhole()
	}
}

// publishFor leaves time for the retries of the last events.
func publishFor(total time.Duration) time.Duration {
	return max(total-settle, total/2)
}

func (d *Demo) createEndpoints(ctx context.Context) error {
	scheme, ok := signature.Lookup("standardwebhooks", "")
	if !ok {
		return errors.New("the signature scheme standardwebhooks is missing")
	}
	for _, s := range d.stations {
		e, err := d.cfg.API.CreateEndpoint(ctx, client.NewEndpoint{
			URL: d.cfg.Receiver + "/" + s.name, Events: s.events, Description: s.name + " answers " + s.about,
		})
		if err != nil {
			return fmt.Errorf("create the endpoint %s: %w", s.name, err)
		}
		secret, err := scheme.ParseKey(e.Secret)
		if err != nil {
			return fmt.Errorf("read the secret of the endpoint %s: %w", s.name, err)
		}
		d.mu.Lock()
		d.verifiers[s.name] = &receiver.Verifier{Scheme: scheme, Keys: []signature.Key{secret}, Tolerance: scheme.Tolerance}
		d.endpoints[s.name] = e.ID
		d.mu.Unlock()
	}
	return nil
}

// publish sends an event at each tick until ctx ends.
func (d *Demo) publish(ctx context.Context) error {
	g := &generator{random: d.cfg.Random}
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for ctx.Err() == nil {
		// The event under way when the time is over still counts.
		if err := d.publishOne(context.WithoutCancel(ctx), g); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return nil
}

func (d *Demo) publishOne(ctx context.Context, g *generator) error {
	now := d.cfg.Now()
	eventType, data, err := g.next(now)
	if err != nil {
		return err
	}
	got, err := d.cfg.API.SendEvent(ctx, client.NewEvent{Type: eventType, Data: data, CreatedAt: now})
	if err != nil {
		return fmt.Errorf("publish a %s: %w", eventType, err)
	}
	d.ledger.accept(got.ID, eventType, d.stations)
	return nil
}

// await returns when all that is owed has arrived, or the patience is at its end.
func (d *Demo) await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for d.ledger.missing() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
