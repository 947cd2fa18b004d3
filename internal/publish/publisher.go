package publish

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/posthorn/posthorn/internal/clock"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

const (
	// maxBatch and maxRows are how many events, and events and deliveries together,
	// one call of the store carries; longer lists go in several, so that one caller
	// does not hold the writer for long (N25).
	maxBatch = 100
	maxRows  = 512
	// maxMatches is how often an event is matched here before it is given up:
	// subscriptions changed each time between matching and committing, and the
	// store could not match it itself (N2).
	maxMatches = 8
)

// Config is what a Publisher needs.
type Config struct {
	Store    store.Acceptor
	Registry *Registry
	Clock    *clock.Clock
	// Offer hands fresh deliveries to their lanes after their commit. It must not
	// block. May be nil.
	Offer func(fresh []store.Work)
	// Unknown is told of endpoints for which deliveries may have been committed
	// that nobody was handed (N1): their lanes are incomplete and must be read.
	// May be nil.
	Unknown func(endpoints []webhook.EndpointKey)
}

// Publisher accepts events. It is safe for concurrent use and has no goroutines.
type Publisher struct {
	cfg Config
}

// New makes a publisher.
func New(cfg Config) *Publisher {
	if cfg.Offer == nil {
		cfg.Offer = func([]store.Work) {}
	}
	if cfg.Unknown == nil {
		cfg.Unknown = func([]webhook.EndpointKey) {}
	}
	return &Publisher{cfg: cfg}
}

// Result is what came of one event.
type Result struct {
	// ID of the accepted event; "" when it was not.
	ID string
	// Deliveries made when it was first accepted.
	Deliveries int
	// Replayed is true when the same event was accepted before (N3).
	Replayed bool
	// Err is nil, or has a *Problem in its chain: conflict_id (with the store's
	// *ConflictError beside it), invalid_field (expires_at has passed), not_found
	// (no such tenant), overloaded, not_ready. Other errors are internal.
	Err error
	// FirstAcceptedAt is set with conflict_id.
	FirstAcceptedAt time.Time
}

// Publish makes events and their deliveries durable and hands the deliveries on.
// It returns a result for each event, in order; one event's failure is not the
// others'. When the store can't take events any more, the rest is not tried and
// has the same kind of error, so earlier results stay true. The returned error
// is only for a context that was over before the first event.
//
// A result without an error is durable (N1).
func (p *Publisher) Publish(ctx context.Context, tenant string, events []Event) ([]Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("publishing: %w", err)
	}
	results := make([]Result, len(events))
	for start, end := 0, 0; start < len(events); start = end {
		end = p.share(tenant, events, start)
		if err := p.publishBatch(ctx, tenant, events[start:end], results[start:end]); err != nil {
			for i := range results[end:] {
				results[end+i].Err = untried(err)
			}
			break
		}
	}
	return results, nil
}

// share ends the part of a list, from start on, that goes to the store at once.
func (p *Publisher) share(tenant string, events []Event, start int) (end int) {
	rows := 0
	for end = start; end < len(events) && end < start+maxBatch; end++ {
		if rows += 1 + len(p.cfg.Registry.snapshot(tenant).matcher.match(events[end].Type).targets); rows > maxRows && end > start {
			break
		}
	}
	return end
}

// publishBatch matches, commits and hands over; events whose match was out of
// date are matched again (N2). The error says that the store took nothing more;
// the results have it already.
func (p *Publisher) publishBatch(ctx context.Context, tenant string, events []Event, results []Result) error {
	now, ready := p.cfg.Clock.Wall(), p.cfg.Clock.Now()
	open := make([]int, len(events))
	for i := range open {
		open[i] = i
	}
	for range maxMatches {
		params := p.match(tenant, events, open, now, ready)
		accepted, err := p.cfg.Store.Accept(ctx, params)
		if err != nil {
			if errors.Is(err, store.ErrUnknown) {
				p.cfg.Unknown(endpointsOf(params))
			}
			for _, i := range open {
				results[i].Err = refusal(err)
			}
			return err
		}
		p.handOver(accepted)
		stale := open[:0]
		for n, i := range open {
			if errors.Is(accepted[n].Err, store.ErrStale) {
				stale = append(stale, i)
				continue
			}
			results[i] = resultOf(&accepted[n])
		}
		if open = stale; len(open) == 0 {
			return nil
		}
	}
	for _, i := range open {
		results[i].Err = refusal(store.ErrOverloaded)
	}
	return nil
}

// match prepares the open events with one snapshot of the subscriptions.
func (p *Publisher) match(tenant string, events []Event, open []int, now, ready time.Time) []store.AcceptParams {
	params := make([]store.AcceptParams, len(open))
	for n, i := range open {
		params[n] = paramsOf(tenant, &events[i], now, ready)
		p.cfg.Registry.Match(&params[n])
	}
	return params
}

// paramsOf is an event as the store takes it, not matched yet.
func paramsOf(tenant string, e *Event, now, ready time.Time) store.AcceptParams {
	return store.AcceptParams{
		Tenant:      tenant,
		ID:          e.ID,
		Type:        e.Type,
		Data:        e.Data,
		ContentType: e.ContentType,
		CreatedAt:   e.CreatedAt,
		OrderingKey: e.OrderingKey,
		DeliverAt:   e.DeliverAt,
		ExpiresAt:   e.ExpiresAt,
		Fingerprint: e.Fingerprint,
		Run:         e.Run,
		Now:         now,
		Ready:       ready,
	}
}

// handOver offers what a commit has made.
func (p *Publisher) handOver(accepted []store.AcceptResult) {
	if len(accepted) == 1 {
		if len(accepted[0].Fresh) > 0 {
			p.cfg.Offer(accepted[0].Fresh)
		}
		return
	}
	var fresh []store.Work
	for i := range accepted {
		fresh = append(fresh, accepted[i].Fresh...)
	}
	if len(fresh) > 0 {
		p.cfg.Offer(fresh)
	}
}

func resultOf(a *store.AcceptResult) Result {
	if conflict, ok := errors.AsType[*store.ConflictError](a.Err); ok {
		return Result{Err: errors.Join(conflictProblem(conflict), conflict), FirstAcceptedAt: conflict.FirstAcceptedAt}
	}
	if a.Err != nil {
		return Result{Err: refusal(a.Err)}
	}
	return Result{ID: a.ID, Deliveries: a.Deliveries, Replayed: a.Replayed}
}

func conflictProblem(c *store.ConflictError) *webhook.Problem {
	detail := "An event with this ID but with other content was accepted at " +
		c.FirstAcceptedAt.UTC().Format("2006-01-02T15:04:05.000Z07:00") + ". Nothing was accepted now."
	return &webhook.Problem{
		Code:   webhook.CodeConflictID,
		Detail: detail,
		Fields: []webhook.FieldFault{{
			Pointer: "/id", Code: webhook.CodeConflictID,
			Detail: "it was used for other content", Allowed: "another ID, or the same content again",
		}},
	}
}

// refusal puts a store's error into words for callers; what has none stays as it
// is and is internal.
func refusal(err error) error {
	switch {
	case errors.Is(err, store.ErrOverloaded):
		return webhook.NewProblem(webhook.CodeOverloaded, "More is coming in than can be stored. The event was not accepted; send it again later.")
	case errors.Is(err, store.ErrUnknown):
		return webhook.NewProblem(webhook.CodeNotReady, "Storing was interrupted: the event may have been accepted or not. Sending it again with the same id is safe.")
	case errors.Is(err, store.ErrClosed):
		return webhook.NewProblem(webhook.CodeNotReady, "The server is stopping, or has lost its store. The event was not accepted; send it again later.")
	case errors.Is(err, store.ErrExpired):
		return expired()
	case errors.Is(err, store.ErrNotFound):
		return webhook.NewProblem(webhook.CodeNotFound, "There is no such tenant.")
	default:
		return fmt.Errorf("accepting an event: %w", err)
	}
}

// untried is the error of events behind a batch that the store failed: unlike
// that batch, they are known not to be stored.
func untried(err error) error {
	if errors.Is(err, store.ErrUnknown) {
		return refusal(store.ErrClosed)
	}
	return refusal(err)
}

// endpointsOf lists the endpoints of some events, each once.
func endpointsOf(params []store.AcceptParams) []webhook.EndpointKey {
	var keys []webhook.EndpointKey
	seen := make(map[webhook.EndpointKey]bool)
	for i := range params {
		for _, t := range params[i].Targets {
			if !seen[t.Endpoint] {
				seen[t.Endpoint] = true
				keys = append(keys, t.Endpoint)
			}
		}
	}
	return keys
}
