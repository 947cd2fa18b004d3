package store

import (
	"context"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Events reads events and changes them as far as callers may.
type Events interface {
	// GetEvent returns an event with its payload, by the caller's ID or ours.
	GetEvent(ctx context.Context, tenant, id string) (*webhook.Event, error)
	// ListEvents lists events without their payload, by acceptance.
	ListEvents(ctx context.Context, tenant string, f EventFilter, p Page) (Listed[*webhook.Event], error)
	// CountDeliveries counts an event's deliveries by status.
	CountDeliveries(ctx context.Context, tenant, event string) (map[contract.Status]int, error)
	// CancelEvent ends the event's waiting deliveries as canceled and returns
	// how many. Those of an event with many end a piece at a time: after an error a
	// part of them may have, as n says. Repeating it is harmless. What a mark or a
	// deletion has ended stays as it is shown. A try under way may still deliver.
	CancelEvent(ctx context.Context, tenant, event string, now time.Time) (int, error)
	// EraseEventData deletes the payload and keeps the log. Waiting deliveries
	// end as event_missing when their turn comes. Repeating it is harmless.
	EraseEventData(ctx context.Context, tenant, event string, now time.Time) error
}

// EventFilter chooses events; empty fields do not filter.
type EventFilter struct {
	Types       []string
	OrderingKey string
	Span        Span
}

// Deliveries reads the log.
type Deliveries interface {
	GetDelivery(ctx context.Context, tenant, id string) (*webhook.Delivery, error)
	// ListAttempts returns a delivery's log rows, oldest first.
	ListAttempts(ctx context.Context, tenant, delivery string) ([]webhook.Attempt, error)
	// ListDeliveries lists deliveries by acceptance.
	ListDeliveries(ctx context.Context, tenant string, f DeliveryFilter, p Page) (Listed[*webhook.Delivery], error)
	// CancelDelivery ends a waiting delivery as canceled; canceled is false when
	// it had ended before, also by a mark or a deletion that its row does not bear yet.
	CancelDelivery(ctx context.Context, tenant, id string, now time.Time) (canceled bool, err error)
	// SendAgain sends deliveries again, in one commit: all of them, or none when
	// one can't be (its Err says why, in the words of Decide or ErrNotFound). New
	// and renewed deliveries are told of by Change.Accepted.
	SendAgain(ctx context.Context, p SendAgainParams) ([]SentAgain, error)
}

// SendAgainParams asks for deliveries to be sent again.
type SendAgainParams struct {
	Tenant string
	IDs    []string
	// Event and Endpoint choose, in place of IDs, the newest delivery of an event
	// at an endpoint that is finished (E11); ErrNotFound without one.
	Event, Endpoint string
	// Decide sees each delivery as it is now, shown status and all, and its
	// endpoint (nil: deleted), and says how to send it. It may run more than once.
	Decide func(*webhook.Delivery, *webhook.Endpoint) (Again, error)
	Now    time.Time
	// Ready is the same moment on the clock of due times.
	Ready time.Time
}

// Again is how a delivery is sent again.
type Again struct {
	// New makes a new delivery of the same event under the endpoint's present
	// contract; else the delivery itself gets another round.
	New bool
	// Contract and ContractRevision of a new one.
	Contract, ContractRevision string
	// Key is the ordering key whose line a new one joins at its tail; "" for none.
	Key string
	// Terms of the round.
	Terms contract.Terms
	// MarkOld makes the old row redelivered, with replaced_by set.
	MarkOld bool
	// ByPerson: see AcceptParams.
	ByPerson bool
}

// SentAgain is what came of one.
type SentAgain struct {
	// ID of the delivery that will be sent.
	ID  string
	Err error
}

// DeliveryFilter chooses deliveries; empty fields do not filter, several values
// of one field are alternatives, fields combine.
type DeliveryFilter struct {
	Endpoint     string
	Event        string
	Run          string
	Statuses     []contract.Status
	Types        []string
	FailureKinds []contract.FailureKind
	Reasons      []webhook.Reason
	Triggers     []contract.Trigger
	OrderingKey  string
	Span         Span
}

// Endpoints keeps endpoints. Every change raises the tenant's revision and is
// handed to Config.OnChange before the method returns (N2).
type Endpoints interface {
	// CreateEndpoint stores a new endpoint; the store gives Key, and ID where it
	// is empty. ErrExists: the ID is taken. ErrNotFound: no such tenant.
	CreateEndpoint(ctx context.Context, e *webhook.Endpoint) (*webhook.Endpoint, error)
	// UpdateEndpoint applies change to the present endpoint and stores the
	// result, in one transaction: change sees what is current and may refuse with
	// an error, which is returned unchanged. change may run more than once and
	// must not keep its argument. Emit of the returned update is accepted in the
	// same commit; with ErrStale everything is repeated by the caller.
	UpdateEndpoint(ctx context.Context, tenant, id string, now time.Time, change func(*webhook.Endpoint) (EndpointUpdate, error)) (*webhook.Endpoint, error)
	// DeleteEndpoint removes an endpoint: no attempt starts after it returned,
	// waiting deliveries end as canceled (endpoint_deleted), the log stays; with
	// purge its log goes too (P3). A job writes the rows; it is true at once for
	// reads and dispatch.
	DeleteEndpoint(ctx context.Context, tenant, id string, purge bool, now time.Time) error
	GetEndpoint(ctx context.Context, tenant, id string) (*webhook.Endpoint, error)
	ListEndpoints(ctx context.Context, tenant string, p Page) (Listed[*webhook.Endpoint], error)
	// CountWaiting returns how many deliveries of an endpoint wait, counting no
	// further than most, and the earliest of their times as they are shown (zero for
	// none): now for what has a place in the order of its lane, nothing for what
	// stands in line behind another of its key. What a mark skips does not wait;
	// while a job still writes the mark into a long backlog, n may be too low.
	CountWaiting(ctx context.Context, tenant, id string, most int) (n int, oldestDue time.Time, err error)
	// CountDue returns how many could go out by now, counting no further than most:
	// not what waits for a later time, or in line behind another of its key. What a
	// mark skips may be counted until a job has written it.
	CountDue(ctx context.Context, tenant, id string, now time.Time, most int) (n int, err error)
	// LoadSubscriptions returns every live endpoint and each tenant's revision:
	// the state that OnChange continues.
	LoadSubscriptions(ctx context.Context) ([]*webhook.Endpoint, map[string]int64, error)
}

// EndpointUpdate is what a change function decided.
type EndpointUpdate struct {
	// Unchanged: store nothing, answer with what is there.
	Unchanged bool
	// Emit are operational events of the change (N19). Rematch is asked as in
	// Accept.
	Emit []AcceptParams
	// Skip marks deliveries as skipped for this reason (N17); WhyNone marks none.
	Skip webhook.Reason
	// SkipMissed narrows Skip to what was accepted since the endpoint went off.
	SkipMissed bool
	// CatchUp lets all that waits go out oldest first (S10), but what has a
	// deliver_at ahead; Redeliver makes redeliveries of the dead ones in the same
	// order, tests excepted. They are made under the endpoint's
	// present contract.
	CatchUp   bool
	Redeliver bool
	// TellOwner queues a notice to the tenant's owner about the transition.
	TellOwner contract.Transition
	// Action and Why go into the audit trail; "" for endpoint.updated.
	Action, Why string
}

// Tenants keeps tenants.
type Tenants interface {
	// CreateTenant stores a new tenant. ErrExists: the ID is taken.
	CreateTenant(ctx context.Context, t webhook.Tenant) error
	// UpdateTenant applies change to the present tenant in one transaction.
	UpdateTenant(ctx context.Context, id string, change func(*webhook.Tenant) error) (*webhook.Tenant, error)
	// DeleteTenant removes a tenant that owns no endpoints; its keys die at
	// once. ErrNotEmpty else.
	DeleteTenant(ctx context.Context, id string) error
	GetTenant(ctx context.Context, id string) (*webhook.Tenant, error)
	ListTenants(ctx context.Context, p Page) (Listed[*webhook.Tenant], error)
	// SoleTenant tells whether only the default tenant exists.
	SoleTenant(ctx context.Context) (bool, error)
}

// Keys keeps API keys.
type Keys interface {
	CreateKey(ctx context.Context, k *webhook.APIKey) error
	// RevokeKey removes a key at once. tenant "" means an operator's key.
	RevokeKey(ctx context.Context, tenant, id string) error
	// FindKey returns a key by its ID, of whatever tenant.
	FindKey(ctx context.Context, id string) (*webhook.APIKey, error)
	ListKeys(ctx context.Context, tenant string, p Page) (Listed[*webhook.APIKey], error)
	// TouchKeys writes when keys were last used.
	TouchKeys(ctx context.Context, used map[string]time.Time) error
}
