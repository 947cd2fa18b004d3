package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/auth"
	"github.com/posthorn/posthorn/internal/catalog"
	"github.com/posthorn/posthorn/internal/clock"
	"github.com/posthorn/posthorn/internal/publish"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// minCursorKey is the least length of Config.CursorKey in bytes.
const minCursorKey = 32

// Store is what the API needs of the store.
type Store interface {
	store.Events
	store.Deliveries
	store.Endpoints
	store.Tenants
	store.Keys
	store.Contracts
	store.Replays
	store.Runs
	store.Audit
}

// Publisher accepts events; *publish.Publisher is one.
type Publisher interface {
	Publish(ctx context.Context, tenant string, events []publish.Event) ([]publish.Result, error)
}

// Authenticator says who asks and about which tenant; *auth.Authenticator is one.
type Authenticator interface {
	Authenticate(ctx context.Context, header string) (auth.Identity, error)
	ResolveTenant(ctx context.Context, who auth.Identity, header string, across auth.Across) (string, error)
	CheckTenant(ctx context.Context, id string) error
}

// Contracts finds contracts by name. Names is sorted.
type Contracts interface {
	Lookup(name string) (Contract, bool)
	Names() []string
	// Promised finds what a delivery was promised under; nil where it is not known.
	Promised(name, revision string) *contract.Contract
}

// Contract is the present revision of a contract.
type Contract struct {
	Contract *contract.Contract
	Revision string
	// Builtin ones can't be changed and have no Text.
	Builtin   bool
	Text      string
	CreatedAt time.Time
}

// Filters checks and tries out the filters of endpoints, which are CEL expressions.
type Filters interface {
	// Compile refuses an expression that is no filter with a *webhook.Problem that
	// says what is wrong, where, and what is allowed. It may take some milliseconds:
	// nothing that others wait for calls it.
	Compile(expr string) error
	// Try holds an expression, which Compile took, against the tenant's newest
	// events, limit at most, in bounded time.
	Try(ctx context.Context, tenant, expr string, limit int) (FilterTrial, error)
}

// FilterTrial is what a filter makes of recent events.
type FilterTrial struct {
	// Examined events, of which Matched fulfil the filter; on Errors of them it can't
	// be decided, so that it takes none of those.
	Examined, Matched, Errors int
	// Sample is the IDs of some that matched, newest first.
	Sample []string
}

// TestResult is what came of a test.
type TestResult struct {
	// Delivery is the ID of the test's delivery; "" where the contract logs none (P9).
	Delivery string
	// Status as the contract shows it.
	Status contract.Status
	// Attempt is the one try; nil when it did not end in the time that there is.
	Attempt *webhook.Attempt
}

// PageTokens reads page tokens; *pagetoken.Codec is one.
type PageTokens interface {
	// Parse finds the delivery that a token was made for; ok is false for a text that
	// is no token of this installation.
	Parse(token string) (ref webhook.Ref, ok bool)
}

// Sent is what the requests of a delivery consist of.
type Sent struct {
	Body    []byte
	Headers []SentHeader
}

// SentHeader is one header of a request; the value of a secret one is shown masked.
type SentHeader struct {
	webhook.Header
	Secret bool
}

// Config is what the API is made of. Fields without a remark are required.
type Config struct {
	Store     Store
	Publisher Publisher
	// Match finds the endpoints of operational events (N19).
	Match     publish.MatchFunc
	Auth      Authenticator
	Contracts Contracts
	// DefaultContract is that of tenants that name none.
	DefaultContract string
	// Render puts together what a delivery sends. event is nil when it or its
	// payload is gone (no body then), endpoint when it was deleted.
	Render func(d *webhook.Delivery, event *webhook.Event, endpoint *webhook.Endpoint) (Sent, error)
	// Filters checks the filters of endpoints; nil: none is taken.
	Filters Filters
	// Test sends an endpoint one test event under the contract and waits for its end
	// (E11, P9). The endpoint may be off. nil leaves the route out.
	Test func(ctx context.Context, e *webhook.Endpoint, promise *contract.Contract) (TestResult, error)
	// Matches tells whether an endpoint would take an event, which has its data, now:
	// under which promise and by which ordering key. nil: whatever its patterns take.
	Matches func(*webhook.Event, *webhook.Endpoint) (target store.Target, key string, ok bool)
	// Explain says of each endpoint of a tenant what it makes of an event, which has
	// its data, now. nil: what Matches says.
	Explain func(tenant string, e *webhook.Event) []publish.Explained
	// Offer hands the deliveries of a run that was finished to their lanes, after
	// their commit. It must not block. May be nil.
	Offer func([]store.Work)
	// PageTokens reads the bearers that receivers read a run with; nil: none is
	// valid.
	PageTokens PageTokens
	// Texts are what banners say to those who ask for no language.
	Texts catalog.Texts
	// Catalog has the texts in the language that a caller asks for; nil: Texts for
	// everybody.
	Catalog *catalog.Catalog
	Clock   *clock.Clock
	// Rand is crypto/rand.Reader outside tests: secrets and keys come from it.
	Rand io.Reader
	// CursorKey authenticates list cursors: 32 random bytes or more. With another
	// one, cursors that are in use end.
	CursorKey []byte
	// Limits of publishing.
	Limits publish.Limits
	// Ready are the checks of /readyz; may be empty.
	Ready []Check
	// Metrics answers /metrics; nil leaves the route out.
	Metrics http.Handler
	// PublicURL is where callers reach the server, for the document and for links,
	// without a / at its end; "" leaves it out.
	PublicURL string
	// Version of the program, for the document.
	Version string
	// Dev lets endpoints on loopback be plain http where the contract wants https.
	Dev bool
	Log *slog.Logger
}

// API is the HTTP API. It is safe for concurrent use.
type API struct {
	cfg      Config
	mux      *http.ServeMux
	schemas  *registry
	refusals map[webhook.Code]refusal
	bodies   budget
	// document is the OpenAPI description.
	document []byte
}

// New makes the API. It serves /v1, its aliases, /healthz, /readyz,
// /openapi.json, /docs and, if given, /metrics; anything else is 404.
func New(cfg Config) (*API, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("making the API: %w", err)
	}
	if cfg.Offer == nil {
		cfg.Offer = func([]store.Work) {}
	}
	a := &API{cfg: cfg, mux: http.NewServeMux(), schemas: newRegistry(), refusals: map[webhook.Code]refusal{}, bodies: budget{most: bodiesBudget}}
	for _, row := range refusals() {
		a.refusals[row.Code] = row
	}
	operations := a.operations()
	for _, op := range operations {
		a.mux.Handle(op.method+" "+op.path, a.serve(op))
	}
	if err := a.addDocs(); err != nil {
		return nil, fmt.Errorf("making the API: %w", err)
	}
	document, err := a.describe(operations)
	if err != nil {
		return nil, fmt.Errorf("making the API: %w", err)
	}
	a.document = document
	return a, nil
}

func (c *Config) check() error {
	switch {
	case c.Store == nil || c.Publisher == nil || c.Match == nil || c.Auth == nil || c.Contracts == nil || c.Render == nil:
		return errors.New("a part is missing")
	case c.Clock == nil || c.Rand == nil || c.Log == nil:
		return errors.New("clock, randomness or log is missing")
	case len(c.CursorKey) < minCursorKey:
		return fmt.Errorf("the cursor key has %d bytes; it needs %d", len(c.CursorKey), minCursorKey)
	}
	if _, ok := c.Contracts.Lookup(c.DefaultContract); !ok {
		return errors.New("there is no contract of the default's name")
	}
	return nil
}
