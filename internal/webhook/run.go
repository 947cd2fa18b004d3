package webhook

import "time"

// RunState is how far a run is.
type RunState string

// States of a run.
const (
	RunOpen     RunState = "open"
	RunFinished RunState = "finished"
	RunDeleted  RunState = "deleted"
)

// TypeRunFinished is the type that finishing a run publishes unless the run names
// another one. Callers may publish it too.
const TypeRunFinished = "run.finished"

// Run is a batch of events that is delivered as one notice (S3, S13).
type Run struct {
	ID      string
	Tenant  string
	Project string
	// Type of the event that finishing publishes.
	Type   string
	State  RunState
	Counts RunCounts
	// Event is the ID of the event that finishing published; "" before.
	Event      string
	CreatedAt  time.Time
	FinishedAt time.Time
}

// RunCounts says how many events a run has.
type RunCounts struct {
	Total  int            `json:"total"`
	ByType map[string]int `json:"by_type"`
}

// RunEvent is one event of a run. ID is the same in every reading and redelivery.
type RunEvent struct {
	ID        string
	Type      string
	CreatedAt time.Time
	// Data is the bytes as posted.
	Data []byte
}

// PageGrant is what the validity of a page token hangs on: the delivery that it
// was made for.
type PageGrant struct {
	Tenant string
	// Run is "" for a plain event delivered as a run of one; Event is its ID.
	Run, Event string
	Contract   string
	// ContractRevision names the promise with the token's span.
	ContractRevision string
	// FirstAttemptAt begins the span; zero before the first attempt. Unfinished
	// deliveries keep their token valid.
	FirstAttemptAt time.Time
	Finished       bool
	// Gone: the run was deleted, or the event's payload erased.
	Gone bool
}
