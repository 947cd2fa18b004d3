package store

import (
	"context"
	"errors"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Store is all roles together; drivers implement it, callers take the role they
// need.
type Store interface {
	Acceptor
	Lanes
	Events
	Deliveries
	Endpoints
	Tenants
	Keys
	Contracts
	Replays
	Runs
	Audit
	Notices
	Keeper
	// Ping tells whether the store can commit now.
	Ping(ctx context.Context) error
	// Close waits for commits under way and closes. Later calls get ErrClosed.
	Close() error
}

// Errors that callers decide by. Everything else is internal.
var (
	// ErrNotFound: no such thing in this tenant.
	ErrNotFound = errors.New("not found")
	// ErrExists: the ID is taken.
	ErrExists = errors.New("exists already")
	// ErrStale: the caller's view (subscriptions' revision, or an expected
	// version) is no longer current. Nothing changed; look again and repeat.
	ErrStale = errors.New("stale revision")
	// ErrExpired: the event's time has passed, and it is no repeat of one that came
	// in time. Nothing changed.
	ErrExpired = errors.New("expired")
	// ErrOverloaded: the writer's queue is over its limit (N5). Try later.
	ErrOverloaded = errors.New("store is overloaded")
	// ErrUnknown: the commit's outcome is not known (N1).
	ErrUnknown = errors.New("outcome of the commit is unknown")
	// ErrClosed: the store was closed, by us or after an I/O error.
	ErrClosed = errors.New("store is closed")
	// ErrNotEmpty: the tenant still owns something.
	ErrNotEmpty = errors.New("not empty")
)

// TenantAll stands for every tenant where a read may cross tenants.
const TenantAll = "*"

// Change tells what a commit did to what is held in memory elsewhere:
// subscriptions, lanes, key caches. A driver hands changes to Config.OnChange in
// the order of their commits, after each commit and before its caller is
// answered (N2).
type Change struct {
	Tenant string
	// Revision of the tenant's subscriptions after the change.
	Revision int64
	// Endpoint after the change; nil when none changed.
	Endpoint *webhook.Endpoint
	// EndpointDeleted is the key of a deleted endpoint, else 0.
	EndpointDeleted webhook.EndpointKey
	// Canceled lists deliveries that a caller ended.
	Canceled []webhook.Ref
	// Erased lists deliveries whose payload was deleted: what is held of it in
	// memory must not be sent any more.
	Erased []webhook.Ref
	// TenantDeleted is true when the tenant is no more.
	TenantDeleted bool
	// Contract is a revision that was stored or removed; Revisions are those of
	// the tenants whose endpoints it concerns.
	Contract  *ContractRevision
	Revisions map[string]int64
	// KeyRevoked is the ID of a key that is no longer valid.
	KeyRevoked string
	// Accepted are deliveries made by the same commit beside an acceptance:
	// those of operational events, and what is sent again. They are handed to
	// lanes.
	Accepted []Work
}

// Page asks for a part of a list.
type Page struct {
	// After is the position that the last page ended at; 0 begins.
	After int64
	// Limit is the most items, 1 to 250.
	Limit int
	// Ascending lists oldest first; the default is newest first.
	Ascending bool
	// Backward reads the page before After instead of the one behind it; items
	// come in the list's order all the same.
	Backward bool
}

// Listed is a page of a list. A page may be shorter than asked, even empty,
// while Next is set: a filter bounds what is examined for one page.
type Listed[T any] struct {
	Items []T
	// Next continues behind the last examined item; 0 at the end.
	Next int64
	// Prev leads back before the first; 0 at the beginning.
	Prev int64
}

// Span bounds a list by acceptance time: Since is inclusive, Until exclusive;
// zero times do not bound.
type Span struct {
	Since, Until time.Time
}

// Delivered tells whether the recorded try got a success.
func (p *RecordParams) Delivered() bool { return p.Status == contract.StatusDelivered }
