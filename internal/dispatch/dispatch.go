package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/clock"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Shot is one try, ready to be sent. Work.Data holds the payload. What the
// pointers lead to must neither be changed nor kept after Attempt returned.
type Shot struct {
	Work     *store.Work
	Endpoint *webhook.Endpoint
	Contract *contract.Contract
	// Try is the counted number within the round, what a header bears (N13).
	Try int
}

// Sender makes one attempt over the wire. It bounds its own time by the
// contract, and returns soon after ctx is cancelled, with webhook.FaultShutdown
// if that cut the request.
type Sender interface {
	Attempt(ctx context.Context, s Shot) webhook.Outcome
}

// Config is what a Dispatcher is made of. Store, Send, Contracts, Match, Clock
// and Random are required; zero numbers get the defaults named.
type Config struct {
	Store store.Lanes
	Send  Sender
	// Contracts finds a revision of a contract; nil when it is unknown. It is
	// called under the scheduler's lock: a look-up in memory, nothing more.
	Contracts func(name, revision string) *contract.Contract
	// Match fills in the endpoints that take an operational event, and how it is
	// matched again (N2, N19).
	Match func(p *store.AcceptParams)
	Clock *clock.Clock
	// Random returns numbers in [0,1) for the jitter; safe for concurrent use.
	Random func() float64
	// TimeLapse divides every wait that a decision yields (N21); default 1.
	TimeLapse int
	// Slots is the most deliveries in flight on the node, unwritten outcomes
	// included (N10); default 1,024.
	Slots int
	// WindowRows is the most due deliveries that a lane holds; default 256.
	WindowRows int
	// WindowBytes is the most payload that one window read brings along; default
	// 4 MiB.
	WindowBytes int
	// HandoverBytes is the node's budget for payloads that wait in memory, and
	// again for those read when sent (N5); default 64 MiB each.
	HandoverBytes int
	// Log gets no secrets; default: nowhere.
	Log *slog.Logger
}

const (
	defaultSlots         = 1024
	defaultWindowRows    = 256
	defaultWindowBytes   = 4 << 20
	defaultHandoverBytes = 64 << 20
)

func (c Config) withDefaults() Config {
	c.TimeLapse = max(c.TimeLapse, 1)
	c.Slots = orDefault(c.Slots, defaultSlots)
	c.WindowRows = orDefault(c.WindowRows, defaultWindowRows)
	c.WindowBytes = orDefault(c.WindowBytes, defaultWindowBytes)
	c.HandoverBytes = orDefault(c.HandoverBytes, defaultHandoverBytes)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func orDefault(n, def int) int {
	if n <= 0 {
		return def
	}
	return n
}

// phase is the dispatcher's life.
type phase int

const (
	phaseLoading  phase = iota // before Start has read what waits
	phaseRunning               // attempts start
	phaseDraining              // none starts any more
	phaseStopped               // Drain returned
)

// Dispatcher runs the lanes of one node. Make one with New, give it the
// endpoints with Load, then Start it; end with Drain.
//
// One mutex guards all scheduling state. It is held for moves between queues
// only: never while the store, the sender or Match is called.
type Dispatcher struct {
	cfg Config

	// attempts is cancelled when the grace of a drain is over, reads when a
	// drain begins, life when it ended. They are the dispatcher's own life, not a
	// caller's; that is why they stand in a struct.
	attempts, reads, life         context.Context
	cutAttempts, cutReads, cutAll context.CancelFunc

	mu    sync.Mutex
	phase phase
	cut   bool // attempts was cancelled
	shut  bool // the store said ErrClosed: nothing is sent any more
	lanes map[webhook.EndpointKey]*lane
	// out is the out-set of all lanes (N10): what waits in a window, is in
	// flight, or has an outcome that is not known to be committed.
	out     map[webhook.Ref]*item
	revoked revoked

	ready   laneQueue // lanes that can start an attempt now, by turns
	parked  []chan *flight
	starved []*lane // lanes whose head waits for room to load its payload
	young   flightList
	marking markState

	readQueue laneQueue
	active    []*read // reads under way
	readers   int

	alarms alarms
	timer  *time.Timer
	armed  time.Time

	inFlight  int // slots in use: requests under way and unwritten outcomes
	onWire    int // requests under way
	unwritten int // outcomes given up because the store is closed
	held      int // bytes of payload charged to the hand-over budget
	loaded    int // bytes of payload read for attempts under way
	progress  time.Time
	startWait int           // marks whose records Start waits for
	started   chan struct{} // closed when startWait is 0 again
	idle      chan struct{} // closed when a drain has nothing left to wait for
	isIdle    bool

	// rewrites are outcomes whose write went wrong and is repeated later.
	rewrites map[*flight]*time.Timer

	// gates are the closed ones, probes finds them by their probe. owedGates are
	// moves that a superseded outcome did not write. dueProbes are looked at with
	// the next pick, probeReads wait for their delivery to be read.
	gates                 map[webhook.GateKey]*gate
	probes                map[webhook.Ref]*gate
	owedGates             map[webhook.GateKey]struct{}
	dueProbes, probeReads []*gate

	waiters waiters

	freeItems   []*item
	freeFlights []*flight

	// gateWrites is held while a gate's present state is put into a record and the
	// record into the store's queue. It is taken before mu.
	gateWrites sync.Mutex

	settleMu sync.Mutex
	settling bool
	unsettled,
	spare []*flight
}

// New makes a dispatcher that does nothing until Start.
func New(cfg Config) *Dispatcher {
	d := &Dispatcher{
		cfg:       cfg.withDefaults(),
		lanes:     map[webhook.EndpointKey]*lane{},
		out:       map[webhook.Ref]*item{},
		rewrites:  map[*flight]*time.Timer{},
		gates:     map[webhook.GateKey]*gate{},
		probes:    map[webhook.Ref]*gate{},
		owedGates: map[webhook.GateKey]struct{}{},
		started:   make(chan struct{}),
		idle:      make(chan struct{}),
	}
	d.ready.flag = func(l *lane) *bool { return &l.inReady }
	d.readQueue.flag = func(l *lane) *bool { return &l.inReads }
	d.life, d.cutAll = context.WithCancel(context.Background())
	d.attempts, d.cutAttempts = context.WithCancel(d.life)
	d.reads, d.cutReads = context.WithCancel(d.life)
	d.progress = d.now()
	return d
}

// now is the time that due times are compared with (N20), without a monotonic
// part, so that it means the same in the store.
func (d *Dispatcher) now() time.Time { return d.cfg.Clock.Now().Round(0) }

// lapse shortens a wait that a decision yielded (N21).
func (d *Dispatcher) lapse(wait time.Duration) time.Duration {
	return wait / time.Duration(d.cfg.TimeLapse)
}
