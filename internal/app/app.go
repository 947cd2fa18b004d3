package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/api"
	"github.com/posthorn/posthorn/internal/auth"
	"github.com/posthorn/posthorn/internal/catalog"
	"github.com/posthorn/posthorn/internal/clock"
	"github.com/posthorn/posthorn/internal/config"
	"github.com/posthorn/posthorn/internal/dispatch"
	"github.com/posthorn/posthorn/internal/pagetoken"
	"github.com/posthorn/posthorn/internal/publish"
	"github.com/posthorn/posthorn/internal/send"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/store/sqlite"
	"github.com/posthorn/posthorn/internal/telemetry"
	"github.com/posthorn/posthorn/internal/transform"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Options are what a server gets besides its settings.
type Options struct {
	Log *slog.Logger
	// Stdout gets the lines that people should read at the start.
	Stdout io.Writer
	// Terminal tells that Stdout is one: only there is a new admin key shown.
	Terminal bool
	// Lookup reads the environment, for the proxy variables that are ignored.
	Lookup func(string) (string, bool)
	// Version stands in the User-Agent.
	Version string
}

// App is a server as a whole.
type App struct {
	cfg       config.Server
	opt       Options
	log       *slog.Logger
	clock     *clock.Clock
	networks  send.Networks
	admin     webhook.SecretText
	contracts *contracts
	seams     seams

	db         *sqlite.DB
	registry   *publish.Registry
	publisher  *publish.Publisher
	dispatcher *dispatch.Dispatcher
	sender     *send.Sender
	deliverer  *deliverer
	auth       *auth.Authenticator
	services   atomic.Pointer[services]
	early      early
	tokens     *pagetoken.Codec
	texts      *catalog.Catalog
	listener   net.Listener
	metrics    net.Listener
	serving    sync.Mutex // guards servers
	servers    []*http.Server

	ended   chan struct{}
	endOnce sync.Once
	endErr  error
}

// seams are what tests put in the place of the machine's own; empty in a server.
type seams struct {
	resolver send.Resolver
	// connect takes the place of dialling TCP.
	connect func(context.Context, netip.AddrPort) (net.Conn, error)
	// lanes stands between the dispatcher and the store.
	lanes func(store.Lanes) store.Lanes
}

// New checks the settings. It touches neither disk nor network.
func New(cfg config.Server, opt Options) (*App, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	networks, err := send.ParseNetworks(cfg.AllowNetworks)
	if err != nil {
		return nil, &config.Fault{Setting: "--allow-network", Text: err.Error(), Cause: err}
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Stdout == nil {
		opt.Stdout = io.Discard
	}
	promises := newContracts(opt.Log)
	expressions, err := transform.New(transform.Config{})
	if err != nil {
		return nil, err
	}
	return &App{
		cfg: cfg, opt: opt, log: opt.Log, clock: clock.Start(), networks: networks, contracts: promises,
		registry: publish.NewRegistry(promises, publish.WithFilters(expressions, opt.Log)),
		ended:    make(chan struct{}),
	}, nil
}

// Start opens storage, lanes and listeners, in that order, and returns when the
// server answers. After an error nothing is left open.
func (a *App) Start(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			a.closeAll()
		}
	}()
	a.warnOfProxies()
	if err := a.openStore(ctx); err != nil {
		return err
	}
	if err := a.listen(ctx); err != nil {
		return err
	}
	handler, err := a.openRest(ctx)
	if err != nil {
		return err
	}
	a.serve(a.listener, handler)
	if a.metrics != nil {
		a.serve(a.metrics, a.metricsHandler())
	}
	return nil
}

// openRest opens the lanes over an open store, and makes the API's handler.
func (a *App) openRest(ctx context.Context) (http.Handler, error) {
	if err := a.openLanes(ctx); err != nil {
		return nil, err
	}
	texts, err := catalog.Load()
	if err != nil {
		return nil, err
	}
	a.texts = texts
	if err := a.openServices(texts); err != nil {
		return nil, err
	}
	handler, err := a.newAPI()
	if err != nil {
		return nil, err
	}
	if err := a.dispatcher.Start(ctx); err != nil {
		return nil, fmt.Errorf("starting the lanes: %w", err)
	}
	return handler, nil
}

// openStore opens the data folder: keys, then the database.
func (a *App) openStore(ctx context.Context) error {
	admin, made, err := adminKey(&a.cfg)
	if err != nil {
		return err
	}
	a.admin = admin
	keys, err := keyring(&a.cfg)
	if err != nil {
		return err
	}
	a.db, err = sqlite.Open(ctx, sqlite.Config{
		Dir: a.cfg.Data, Sealer: keys, OnChange: a.changed, OnFatal: a.fatal, Now: a.clock.Wall(), DueNow: a.clock.Now,
		Contract: a.contracts.Promised, NoMigrate: a.cfg.NoMigrate, Log: a.log,
	})
	if err != nil {
		return a.explainOpen(err)
	}
	a.tellAdminKey(made)
	return nil
}

// explainOpen says what the person who starts the server can do about a data
// folder that does not open.
func (a *App) explainOpen(err error) error {
	switch {
	case errors.Is(err, sqlite.ErrInUse):
		return config.NewFault(err, "The data folder %s is in use by another Posthorn server. Stop that one, or give this one another --data.", a.cfg.Data)
	case errors.Is(err, sqlite.ErrWrongKey):
		return config.NewFault(err, "The secrets in %s were encrypted with another key than POSTHORN_SECRETS_KEY (or secrets.key). Give the old one in POSTHORN_SECRETS_KEY_OLD.", a.cfg.Data)
	case errors.Is(err, sqlite.ErrPending):
		return config.NewFault(err, "The database in %s needs a migration. Start the server without --no-migrate.", a.cfg.Data)
	default:
		return config.NewFault(err, "The database in %s can't be opened: %s.", a.cfg.Data, err)
	}
}

func (a *App) tellAdminKey(made bool) {
	switch {
	case !made:
	case a.opt.Terminal:
		_, _ = fmt.Fprintf(a.opt.Stdout, "Admin key (kept in %s): %s\n", a.cfg.AdminKeyPath(), a.admin.Reveal())
	default:
		_, _ = fmt.Fprintf(a.opt.Stdout, "A new admin key is in %s\n", a.cfg.AdminKeyPath())
	}
}

func (a *App) warnOfProxies() {
	if a.opt.Lookup == nil {
		return
	}
	if set := send.ProxyVariables(a.opt.Lookup); len(set) > 0 {
		a.log.Warn("proxy variables of the environment are ignored: webhooks go out directly", slog.Any("variables", set))
	}
}

// openLanes builds everything between the API and the wire.
func (a *App) openLanes(ctx context.Context) error {
	a.sender = send.New(send.Config{Allow: a.networks, Own: a.ownListeners, Wall: a.clock.Wall, Resolver: a.seams.resolver, Connect: a.seams.connect})
	var err error
	if a.tokens, err = pagetoken.New(a.db.DeriveKey("page tokens")); err != nil {
		return err
	}
	a.deliverer = &deliverer{
		sender: a.sender, clock: a.clock, userAgent: userAgent(a.opt.Version), contracts: a.contracts, tokens: a.tokens, pages: a.publicURL(),
	}
	var lanes store.Lanes = a.db
	if a.seams.lanes != nil {
		lanes = a.seams.lanes(lanes)
	}
	a.dispatcher = dispatch.New(dispatch.Config{
		Store: lanes, Send: a.deliverer, Contracts: a.contracts.Promised, Match: a.registry.Match, Clock: a.clock,
		Random: randomFloat, TimeLapse: a.cfg.TimeLapse, Log: a.log,
	})
	a.publisher = publish.New(publish.Config{
		Store: a.db, Registry: a.registry, Clock: a.clock, Offer: a.dispatcher.Offer, Unknown: a.dispatcher.Reread,
	})
	a.auth, err = auth.New(auth.Config{Keys: a.db, Tenants: a.db, AdminKey: a.admin.Reveal(), Clock: a.clock, Log: a.log})
	if err != nil {
		return config.NewFault(err, "The admin key can't be used: %s.", err)
	}
	stored, err := a.db.LoadContracts(ctx)
	if err != nil {
		return fmt.Errorf("reading the contracts: %w", err)
	}
	if err := a.contracts.load(stored); err != nil {
		return err
	}
	endpoints, revisions, err := a.db.LoadSubscriptions(ctx)
	if err != nil {
		return fmt.Errorf("reading the endpoints: %w", err)
	}
	a.registry.Load(endpoints, revisions)
	a.dispatcher.Load(endpoints)
	a.early.release(a.apply)
	a.auth.Start()
	return nil
}

// changed takes a commit's change to all who hold things in memory, before the
// change's caller is answered (N2).
func (a *App) changed(c store.Change) {
	if a.early.keep(c) {
		return
	}
	a.apply(c)
}

// apply tells of a change those who hold what it concerns.
func (a *App) apply(c store.Change) {
	a.tellOff(c.Endpoint)
	a.contracts.apply(c)
	a.registry.Apply(c)
	a.auth.Apply(c)
	a.dispatcher.Apply(c)
	if s := a.services.Load(); s != nil && c.Endpoint != nil {
		s.changed()
	}
	if c.EndpointDeleted != 0 {
		a.deliverer.forget(c.EndpointDeleted)
	}
}

// early keeps the changes that jobs of the store make while the server still opens:
// what is read then may be older than they are.
type early struct {
	mu   sync.Mutex
	open bool
	kept []store.Change
}

// keep takes a change while the server opens; false afterwards.
func (e *early) keep(c store.Change) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.open {
		e.kept = append(e.kept, c)
	}
	return !e.open
}

// release applies what was kept, in order, before whatever comes after.
func (e *early) release(apply func(store.Change)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open = true
	for _, c := range e.kept {
		apply(c)
	}
	e.kept = nil
}

// lastAnswers is how long answers may take after the database is gone.
const lastAnswers = time.Second

// fatal ends the process after the database closed itself (N1): a supervisor
// starts it anew, and the database is read from what is durable. Who waits for
// an answer gets it first, and it is no success (R2). It does not wait: the
// store's writer calls it.
func (a *App) fatal(cause error) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), lastAnswers)
		defer cancel()
		if err := a.hangUp(ctx); err != nil {
			a.log.Warn("some requests were not answered", slog.Any("error", err))
		}
		a.end(fmt.Errorf("the database failed: %w", cause))
	}()
}

// hangUp ends the listeners and lets requests under way end until ctx does.
func (a *App) hangUp(ctx context.Context) error {
	a.serving.Lock()
	servers := slices.Clone(a.servers)
	a.serving.Unlock()
	var g errgroup.Group
	for _, s := range servers {
		g.Go(func() error {
			if err := s.Shutdown(ctx); err != nil {
				return s.Close()
			}
			return nil
		})
	}
	return g.Wait()
}

func (a *App) end(err error) {
	a.endOnce.Do(func() {
		a.endErr = err
		close(a.ended)
	})
}

// newAPI makes the HTTP surface.
func (a *App) newAPI() (http.Handler, error) {
	return api.New(api.Config{
		Texts: a.texts.For("en"), Catalog: a.texts, Filters: filters{a.registry, a.db}, Test: a.test, Matches: a.registry.WouldTake, Explain: a.registry.Explain,
		Offer: a.dispatcher.Offer, PageTokens: a.tokens,
		Store: nudged{a.db, a.services.Load()}, Publisher: a.publisher, Match: a.registry.Match, Auth: a.auth, Contracts: a.contracts,
		DefaultContract: contract.Standard, Render: a.deliverer.render, Clock: a.clock, Rand: rand.Reader,
		CursorKey: a.db.DeriveKey("list cursors"), Limits: a.limits(), Ready: a.checks(), Metrics: telemetry.Handler(a.snapshot),
		PublicURL: a.publicURL(), Version: a.opt.Version, Dev: a.cfg.Dev, Log: a.log,
	})
}

// limits of publishing: an ID that we could have made ourselves is refused.
func (a *App) limits() publish.Limits { return publish.Limits{IsOwn: a.db.OwnsID} }

// Wait returns when the server has ended: nil after Stop, else why.
func (a *App) Wait() error {
	<-a.ended
	return a.endErr
}

// Stop drains and closes: no new claims, attempts under way may end within the
// grace or until ctx ends.
func (a *App) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.ShutdownGrace)
	defer cancel()
	var g errgroup.Group
	g.Go(func() error { return a.hangUp(ctx) })
	g.Go(func() error {
		if a.dispatcher == nil {
			return nil
		}
		return a.dispatcher.Drain(ctx)
	})
	err := g.Wait()
	a.closeAll()
	a.end(nil)
	return err
}

func (a *App) closeAll() {
	if s := a.services.Load(); s != nil {
		s.stop()
	}
	if a.auth != nil {
		a.auth.Stop()
	}
	for _, l := range []net.Listener{a.listener, a.metrics} {
		if l != nil {
			_ = l.Close() // a server may have closed it before
		}
	}
	if a.db != nil {
		if err := a.db.Close(); err != nil {
			a.log.Error("closing the database", slog.Any("error", err))
		}
	}
	if a.sender != nil {
		a.sender.Close()
	}
}

// Addr is the address of the API, host:port with the real port.
func (a *App) Addr() string { return a.listener.Addr().String() }

// AdminKey is the admin key, given or made.
func (a *App) AdminKey() string { return a.admin.Reveal() }

// publicURL is what links to this server begin with, without a / at its end.
func (a *App) publicURL() string {
	if base := a.cfg.PublicBase(); base != "" {
		return base
	}
	return "http://" + a.Addr()
}

// ownListeners are the addresses that no webhook may reach (N28).
func (a *App) ownListeners() []netip.AddrPort {
	var own []netip.AddrPort
	for _, l := range []net.Listener{a.listener, a.metrics} {
		if l == nil {
			continue
		}
		if addr, err := netip.ParseAddrPort(l.Addr().String()); err == nil {
			own = append(own, addr)
		}
	}
	return own
}

// checks are what /readyz asks.
func (a *App) checks() []api.Check {
	return []api.Check{
		{Name: "store", Run: a.db.Ping},
		{Name: "lanes", Run: func(context.Context) error { return lanesMove(a.dispatcher.Stats(), a.clock.Now()) }},
	}
}

// stuckAfter is how long nothing may be recorded while something is due.
const stuckAfter = time.Minute

// lanesMove tells whether deliveries go on: something that is due for long while
// nothing was recorded for as long is a stop.
func lanesMove(s dispatch.Stats, now time.Time) error {
	switch {
	case !s.Running:
		return errors.New("no deliveries are being made")
	case s.OldestDue > stuckAfter && now.Sub(s.LastProgress) > stuckAfter:
		return errors.New("deliveries are due and none was made for over a minute")
	default:
		return nil
	}
}
