package store

import (
	"context"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/webhook"
)

// ContractRevision is one wording of a stored contract. Built-in ones are not
// stored.
type ContractRevision struct {
	Name     string
	Revision string
	// Text is the YAML as it was given.
	Text string
	// Current is true for the revision that new deliveries follow. A deleted
	// contract has none; its revisions stay, since deliveries refer to them.
	Current bool
	// Follows is the revision that deliveries under this one follow since somebody
	// asked for it; "" for their own.
	Follows   string
	CreatedAt time.Time
}

// Contracts keeps the contracts that operators write. They belong to the whole
// installation.
type Contracts interface {
	// PutContract stores a revision as the current one of its name; storing the
	// current one again changes nothing. With adopt, what is under way under
	// earlier revisions follows it too. It raises the revision of every tenant
	// whose endpoints follow the contract (N2).
	PutContract(ctx context.Context, r ContractRevision, adopt bool) (created bool, err error)
	// DeleteContract takes a name out of use. ErrNotEmpty: an endpoint or a tenant's
	// default names it. ErrNotFound: there is none.
	DeleteContract(ctx context.Context, name string, now time.Time) error
	// ListContractRevisions returns a name's revisions, newest first.
	ListContractRevisions(ctx context.Context, name string) ([]ContractRevision, error)
	// LoadContracts returns every revision: the state that Change continues.
	LoadContracts(ctx context.Context) ([]ContractRevision, error)
}

// Replays keeps the jobs that send an endpoint's deliveries again.
type Replays interface {
	// CreateReplay stores a new one, counting. ErrExists: the endpoint has an open
	// one. ErrNotFound: no such endpoint.
	CreateReplay(ctx context.Context, r webhook.Replay) (*webhook.Replay, error)
	GetReplay(ctx context.Context, tenant, id string) (*webhook.Replay, error)
	ListReplays(ctx context.Context, tenant, endpoint string, p Page) (Listed[*webhook.Replay], error)
	// CancelReplay ends one; canceled is false when it had ended.
	CancelReplay(ctx context.Context, tenant, id string, now time.Time) (canceled bool, err error)
	// ListOpenReplays returns all that still have work, of every tenant.
	ListOpenReplays(ctx context.Context) ([]*webhook.Replay, error)
	// StepReplay does a slice of a replay's work in one commit, its cursor with it,
	// so that a restart neither leaves one out nor takes one twice.
	StepReplay(ctx context.Context, p StepParams) (StepResult, error)
	// CountReplay counts what a replay would take, a slice at a time: it goes on
	// from after, and done tells when all is counted.
	CountReplay(ctx context.Context, p StepParams, after int64) (n int, next int64, done bool, err error)
}

// StepParams asks for a slice of a replay.
type StepParams struct {
	Replay webhook.Replay
	// Most is the most deliveries that the slice queues.
	Most int
	// Decide says how a chosen delivery is sent again; ok is false for one that the
	// contract lets nobody send again.
	Decide func(*webhook.Delivery, *webhook.Endpoint) (again Again, ok bool)
	// Matches tells whether the endpoint would take an event now, with the promise
	// and the key, for EventsMissing. The event has its data.
	Matches func(*webhook.Event, *webhook.Endpoint) (target Target, key string, ok bool)
	// Emit prepares replay.finished when the replay ends.
	Emit       func(webhook.Replay) AcceptParams
	Now, Ready time.Time
}

// StepResult is how far a replay is after a slice.
type StepResult struct {
	Replay webhook.Replay
	// Queued is how many the slice queued.
	Queued int
}

// Runs keeps runs and their events (S3, S13).
type Runs interface {
	CreateRun(ctx context.Context, r webhook.Run) (*webhook.Run, error)
	GetRun(ctx context.Context, tenant, id string) (*webhook.Run, error)
	ListRuns(ctx context.Context, tenant, project string, p Page) (Listed[*webhook.Run], error)
	// AddRunEvents adds events in order. An event whose ID the run has already is
	// left out (added is smaller). ErrNotEmpty: the run is not open any more.
	AddRunEvents(ctx context.Context, tenant, id string, events []webhook.RunEvent) (added int, err error)
	// FinishRun closes a run and accepts the event that tells of it, in one commit.
	// Finishing a finished one again answers with what there is. event prepares the
	// acceptance from the run with its final counts.
	FinishRun(ctx context.Context, tenant, id string, now time.Time, event func(webhook.Run) AcceptParams) (*webhook.Run, AcceptResult, error)
	// DeleteRun deletes a run's events; deliveries that still wait end as
	// event_missing. Repeating it is harmless. DeleteProject deletes all of a
	// project's and returns how many.
	DeleteRun(ctx context.Context, tenant, id string, now time.Time) error
	DeleteProject(ctx context.Context, tenant, project string, now time.Time) (int, error)
	// ReadRunEvents reads a page of a run, oldest first, from behind after (0
	// begins); next is 0 at the end.
	ReadRunEvents(ctx context.Context, tenant, run string, after int64, limit int) (events []webhook.RunEvent, next int64, err error)
	// ReadPageGrant returns what a page token of a delivery hangs on.
	ReadPageGrant(ctx context.Context, ref webhook.Ref) (webhook.PageGrant, error)
}

// AuditFilter chooses entries; empty fields do not filter.
type AuditFilter struct {
	Kind, Target string
	Actions      []string
	Span         Span
}

// Audit reads the trail of changes. Every method that changes a tenant, a key, an
// endpoint, a contract, a run or a replay writes into it, in the same commit, with
// the actor of its context (webhook.ActorOf).
type Audit interface {
	ListAudit(ctx context.Context, tenant string, f AuditFilter, p Page) (Listed[webhook.AuditEntry], error)
}

// Notice is something a tenant's owner is to be told of.
type Notice struct {
	ID     int64
	Tenant webhook.Tenant
	// Endpoint as it is now; nil when it was deleted meanwhile.
	Endpoint *webhook.Endpoint
	// Became is what happened at At, for the reason Why. BecameExpiring: what is
	// held for the endpoint ends tomorrow.
	Became contract.Transition
	Why    webhook.StateReason
	At     time.Time
	// Tries counts what went wrong so far.
	Tries int
	Due   time.Time
}

// BecameExpiring is the notice that held deliveries end the next day.
const BecameExpiring contract.Transition = "expiring"

// Notices are what owners are still to be told (N19). A notice is made in the
// commit that causes it, for a tenant that has an owner's address.
type Notices interface {
	// DueNotices returns notices due by now, oldest first, and when the next one
	// will be (zero: none).
	DueNotices(ctx context.Context, now time.Time, limit int) (due []Notice, next time.Time, err error)
	// SettleNotice removes a notice, or plans another try at again.
	SettleNotice(ctx context.Context, id int64, again time.Time) error
}

// Keeper removes what was kept for as long as it was promised (N22). Each method
// is one small slice.
type Keeper interface {
	// Retain removes finished deliveries, with their attempts, whose contract keeps
	// them no longer, then events that nothing refers to; never what is unfinished.
	// It goes on from after (0 begins); done tells when it came to the end.
	Retain(ctx context.Context, after webhook.Ref, now time.Time) (next webhook.Ref, removed int, done bool, err error)
	// SkipHeld marks as skipped what endpoints that are off have held for longer
	// than their contract keeps history, and queues owners' notices the day before.
	SkipHeld(ctx context.Context, now time.Time) error
}
