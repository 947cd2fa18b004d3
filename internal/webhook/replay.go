package webhook

import (
	"time"

	"github.com/posthorn/posthorn/contract"
)

// ReplayState is how far a replay is.
type ReplayState string

// States of a replay.
const (
	ReplayCounting ReplayState = "counting"
	ReplayRunning  ReplayState = "running"
	ReplayPaused   ReplayState = "paused" // its endpoint is off; it goes on when that is on
	ReplayDone     ReplayState = "done"
	ReplayCanceled ReplayState = "canceled"
)

// Which events a replay takes.
const (
	EventsAttempted = "attempted" // those the endpoint has deliveries of
	// EventsMissing are those it would match now and has none of. An event that is as
	// old as the shortest time for which any contract keeps history is never one of
	// them: its delivery may have been removed after it had arrived.
	EventsMissing = "missing"
)

// Selection says what a replay takes. Empty fields do not narrow.
type Selection struct {
	// Statuses as stored (the engine's words); dead where empty, unless Runs are
	// named: then any finished one.
	Statuses []contract.Status `json:"status,omitempty"`
	Types    []string          `json:"types,omitempty"`
	Runs     []string          `json:"runs,omitempty"`
	Since    time.Time         `json:"since,omitzero"`
	Until    time.Time         `json:"until,omitzero"`
	// Events is EventsAttempted or EventsMissing.
	Events string `json:"events,omitempty"`
}

// Replay is a durable job that sends an endpoint's deliveries again.
type Replay struct {
	ID        string
	Tenant    string
	Endpoint  string
	Selection Selection
	// Rate bounds it in deliveries a second; 0 for the lane's own pace.
	Rate  int
	State ReplayState
	// Count is how many it takes, as counted before it began; Done how many were
	// queued, Failed how many could not be.
	Count, Done, Failed int
	CreatedAt           time.Time
	FinishedAt          time.Time
}

// Open tells whether the replay still has work.
func (r *Replay) Open() bool { return r.State != ReplayDone && r.State != ReplayCanceled }
