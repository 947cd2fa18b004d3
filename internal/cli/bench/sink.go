package bench

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthorn/posthorn/signature"
)

const (
	endpointPath = "/e/"
	plainPath    = "/plain"
	// Of every so many events the request is kept and its signature verified
	// afterwards, for at most so many.
	sampleEvery = 50
	maxSamples  = 2000
)

// sink receives deliveries and remembers when each came.
type sink struct {
	cfg     Config
	started time.Time // set before the first event is published
	buffers sync.Pool

	// sent is when each event's request began, arrived when each delivery came:
	// nanoseconds since started plus 1; 0 is not yet. Deliveries are numbered
	// endpoint × Events + event.
	sent    []atomic.Int64
	arrived []atomic.Int64
	ids     []string // the webhook's ID of each delivery, written by whoever sets arrived

	delivered  atomic.Int64
	duplicates atomic.Int64
	strangers  atomic.Int64 // requests that are no delivery of ours

	mu      sync.Mutex
	samples []sample
}

// sample is a request whose signature is verified afterwards.
type sample struct {
	endpoint int
	at       time.Time
	request  signature.Request
}

func newSink(cfg Config) *sink {
	n := cfg.Events * cfg.Fanout
	s := &sink{cfg: cfg, sent: make([]atomic.Int64, cfg.Events), arrived: make([]atomic.Int64, n), ids: make([]string, n)}
	s.buffers.New = func() any { return new([]byte) }
	return s
}

// ServeHTTP implements http.Handler.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := s.cfg.Now()
	buffer := s.buffers.Get().(*[]byte)
	defer s.buffers.Put(buffer)
	body, err := readInto(*buffer, r.Body)
	*buffer = body
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if r.URL.Path != plainPath {
		s.take(r, body, now)
	}
	w.WriteHeader(http.StatusOK)
}

// readInto reads all of r into a buffer that is reused.
func readInto(buffer []byte, r io.Reader) ([]byte, error) {
	buffer = buffer[:0]
	for {
		buffer = slices.Grow(buffer, 2<<10)
		n, err := r.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		if err == io.EOF {
			return buffer, nil
		}
		if err != nil {
			return buffer, err
		}
	}
}

func (s *sink) take(r *http.Request, body []byte, now time.Time) {
	endpoint, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, endpointPath))
	n, ok := findNumber(body)
	if err != nil || !ok || endpoint < 0 || endpoint >= s.cfg.Fanout || n >= s.cfg.Events {
		s.strangers.Add(1)
		return
	}
	at := endpoint*s.cfg.Events + n
	if !s.arrived[at].CompareAndSwap(0, int64(now.Sub(s.started))+1) {
		s.duplicates.Add(1)
		return
	}
	s.ids[at] = r.Header.Get("Webhook-Id")
	if n%sampleEvery == 0 {
		s.keep(sample{endpoint: endpoint, at: now, request: signature.Request{Header: r.Header.Clone(), Body: slices.Clone(body)}})
	}
	s.delivered.Add(1) // last: who reads it may read the rest
}

func (s *sink) keep(one sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.samples) < maxSamples {
		s.samples = append(s.samples, one)
	}
}

// fill sums up.
func (s *sink) fill(r *Result, keys []signature.Key) {
	r.Delivered = int(s.delivered.Load())
	r.Lost = max(0, r.Accepted*s.cfg.Fanout-r.Delivered)
	r.Duplicates = int(s.duplicates.Load())
	r.UniqueIDs = s.uniqueIDs()
	latencies := s.latencies(r)
	r.Latency = spread(latencies)
	s.verify(r, keys)
}

// uniqueIDs counts the deliveries by endpoint and webhook ID; it is their
// number if no ID stands for two events.
func (s *sink) uniqueIDs() int {
	n := 0
	for endpoint := range s.cfg.Fanout {
		seen := map[string]bool{}
		for _, id := range s.ids[endpoint*s.cfg.Events : (endpoint+1)*s.cfg.Events] {
			if id != "" {
				seen[id] = true
			}
		}
		n += len(seen)
	}
	return n
}

// latencies returns each delivery's, and tells the time until the last one.
func (s *sink) latencies(r *Result) []time.Duration {
	out := make([]time.Duration, 0, r.Delivered)
	var last int64
	for i := range s.arrived {
		at := s.arrived[i].Load()
		if at == 0 {
			continue
		}
		last = max(last, at)
		out = append(out, time.Duration(at-s.sent[i%s.cfg.Events].Load()))
	}
	r.Seconds = time.Duration(last).Seconds()
	r.DeliveredPerSecond = perSecond(len(out), time.Duration(last))
	return out
}

// spread reads the percentiles by nearest rank.
func spread(values []time.Duration) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	slices.Sort(values)
	rank := func(percent int) float64 {
		i := (len(values)*percent + 99) / 100
		return float64(values[max(i, 1)-1].Microseconds()) / 1000
	}
	return Spread{P50: rank(50), P90: rank(90), P99: rank(99), Max: rank(100)}
}

func (s *sink) verify(r *Result, keys []signature.Key) {
	scheme, err := scheme()
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.samples {
		if scheme.Verify(one.request, keys[one.endpoint:one.endpoint+1], one.at, scheme.Tolerance) != nil {
			r.BadSignatures++
		} else {
			r.Verified++
		}
	}
}
