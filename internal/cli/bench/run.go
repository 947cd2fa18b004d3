package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/posthorn/posthorn/client"
	"github.com/posthorn/posthorn/signature"
)

// eventType of the events that are published.
const eventType = "bench.event"

// Config says what is measured.
type Config struct {
	// Events to publish, and how many publishers do it at a time.
	Events, Publishers int
	// Size of an event's data in bytes.
	Size int
	// Batch is the number of events in one request; over 1 it is NDJSON.
	Batch int
	// Fanout is the number of endpoints that get each event.
	Fanout int
	// Rate is events a second; 0 is as fast as the server takes them.
	Rate int
	// Plain is the number of requests that plain HTTP is measured with.
	Plain int
	// Patience is how long nothing may arrive before the rest counts as lost.
	Patience time.Duration
	// Now is a monotonic clock.
	Now func() time.Time
}

// Bounds of what can be measured; the receiver remembers each delivery.
const (
	maxEvents     = 50_000_000 // within the digits of an event's number
	maxDeliveries = 50_000_000
	minSize       = 64
	maxSize       = 256 << 10
)

// Validate reports what can't be measured.
func (c *Config) Validate() error {
	for _, check := range []struct {
		name       string
		value      int
		least, max int
	}{
		{"--events", c.Events, 1, maxEvents},
		{"--publishers", c.Publishers, 1, 4096},
		{"--size", c.Size, minSize, maxSize},
		{"--batch", c.Batch, 1, 1000},
		{"--fanout", c.Fanout, 1, 10_000},
		{"--rate", c.Rate, 0, 1_000_000},
	} {
		if check.value < check.least || check.value > check.max {
			return fmt.Errorf("%s: must lie between %d and %d", check.name, check.least, check.max)
		}
	}
	if c.Events > maxDeliveries/c.Fanout {
		return fmt.Errorf("--events times --fanout: must not exceed %d", maxDeliveries)
	}
	return nil
}

// Target is the server that is measured.
type Target struct {
	// Addr is host:port of its API, Key an operator's key.
	Addr, Key string
	// PID of its process; 0 if it is this one.
	PID int
}

// Result is what was measured. Latencies are in milliseconds.
type Result struct {
	Events     int `json:"events"`
	Publishers int `json:"publishers"`
	Size       int `json:"size"`
	Batch      int `json:"batch"`
	Fanout     int `json:"fanout"`
	Rate       int `json:"rate,omitempty"`

	Accepted  int     `json:"accepted"`
	Refused   int     `json:"refused"`
	Overloads int     `json:"overloads"` // answers 503, repeated after Retry-After
	Seconds   float64 `json:"seconds"`   // from the first request to the last arrival
	// DeliveredPerSecond counts deliveries, each once.
	DeliveredPerSecond float64  `json:"delivered_per_s"`
	AcceptedPerSecond  float64  `json:"accepted_per_s"`
	Delivered          int      `json:"delivered"`
	Lost               int      `json:"lost"`
	Duplicates         int      `json:"duplicates"`
	UniqueIDs          int      `json:"unique_ids"`
	Latency            Spread   `json:"latency_ms"`
	Verified           int      `json:"signatures_verified"`
	BadSignatures      int      `json:"signatures_bad"`
	CeilingPerSecond   float64  `json:"ceiling_per_s"`
	OfCeiling          float64  `json:"of_ceiling"`
	CPUPerDelivery     *float64 `json:"server_cpu_us_per_delivery"` // null if it can't be told
	PeakMemory         *float64 `json:"server_peak_mib"`            // null if it can't be told
}

// OK tells whether nothing is lost and every checked signature is valid.
func (r Result) OK() bool {
	return r.Accepted > 0 && r.Lost == 0 && r.BadSignatures == 0 && r.UniqueIDs == r.Delivered
}

// Spread is a distribution.
type Spread struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Receiver is the sink that events go to. Make it before the server, which has
// to be told its address.
type Receiver struct {
	cfg    Config
	sink   *sink
	socket net.Listener
	server *http.Server
	ended  chan error
}

// NewReceiver starts a receiver on loopback.
func NewReceiver(ctx context.Context, cfg Config) (*Receiver, error) {
	var lc net.ListenConfig
	socket, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	s := newSink(cfg)
	r := &Receiver{
		cfg: cfg, sink: s, socket: socket, ended: make(chan error, 1),
		server: &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second},
	}
	go func() { r.ended <- r.server.Serve(socket) }()
	return r, nil
}

// Addr is the receiver's host:port.
func (r *Receiver) Addr() string { return r.socket.Addr().String() }

// Close ends the receiver.
func (r *Receiver) Close() error {
	err := r.server.Close()
	if ended := <-r.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// Run measures a server that delivers to the receiver.
func (r *Receiver) Run(ctx context.Context, target Target) (Result, error) {
	cfg := r.cfg
	result := Result{
		Events: cfg.Events, Publishers: cfg.Publishers, Size: cfg.Size, Batch: cfg.Batch, Fanout: cfg.Fanout, Rate: cfg.Rate,
	}
	keys, err := r.createEndpoints(ctx, target)
	if err != nil {
		return result, err
	}
	if result.CeilingPerSecond, err = r.measureCeiling(ctx); err != nil {
		return result, fmt.Errorf("measure plain HTTP: %w", err)
	}
	before := readUsage(target.PID)
	l := newLoad(cfg, target, r.sink)
	if err := l.run(ctx); err != nil {
		return result, fmt.Errorf("publish: %w", err)
	}
	published := cfg.Now()
	l.fill(&result)
	if err := r.await(ctx, result.Accepted*cfg.Fanout); err != nil {
		return result, err
	}
	after := readUsage(target.PID)
	r.sink.fill(&result, keys)
	result.AcceptedPerSecond = perSecond(result.Accepted, published.Sub(l.started))
	if result.CeilingPerSecond > 0 {
		result.OfCeiling = result.DeliveredPerSecond / result.CeilingPerSecond
	}
	after.since(before).fill(&result)
	return result, nil
}

// createEndpoints subscribes the receiver and returns the secrets.
func (r *Receiver) createEndpoints(ctx context.Context, target Target) ([]signature.Key, error) {
	scheme, err := scheme()
	if err != nil {
		return nil, err
	}
	api := &client.Client{BaseURL: "http://" + target.Addr, Key: target.Key}
	keys := make([]signature.Key, r.cfg.Fanout)
	for i := range keys {
		e, err := api.CreateEndpoint(ctx, client.NewEndpoint{
			URL: fmt.Sprintf("http://%s%s%d", r.Addr(), endpointPath, i), Events: []string{eventType},
		})
		if err != nil {
			return nil, fmt.Errorf("create an endpoint: %w", err)
		}
		if keys[i], err = scheme.ParseKey(e.Secret); err != nil {
			return nil, fmt.Errorf("read an endpoint's secret: %w", err)
		}
	}
	return keys, nil
}

func scheme() (signature.Scheme, error) {
	s, ok := signature.Lookup("standardwebhooks", "")
	if !ok {
		return s, errors.New("the signature scheme standardwebhooks is missing")
	}
	return s, nil
}

// await returns when all has arrived, or nothing has for as long as patience.
func (r *Receiver) await(ctx context.Context, owed int) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	last, since := r.sink.delivered.Load(), r.cfg.Now()
	for {
		now := r.sink.delivered.Load()
		if now >= int64(owed) {
			return nil
		}
		if now != last {
			last, since = now, r.cfg.Now()
		} else if r.cfg.Now().Sub(since) > r.cfg.Patience {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func perSecond(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}
