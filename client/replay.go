package client

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// What a replay takes, see [Selection].
const (
	EventsAttempted = "attempted" // events that the endpoint has deliveries of
	EventsMissing   = "missing"   // events that it would take now and has none of
)

// Selection says what a replay takes. Empty fields do not narrow it; without
// Statuses and Runs it takes what was given up.
type Selection struct {
	Statuses []DeliveryStatus `json:"status,omitempty"` // as the endpoint's contract shows them
	Types    []string         `json:"types,omitempty"`
	Runs     []string         `json:"runs,omitempty"`
	Since    time.Time        `json:"since,omitzero"` // inclusive
	Until    time.Time        `json:"until,omitzero"` // exclusive
	Events   string           `json:"events,omitempty"`
}

// NewReplay is a replay to begin.
type NewReplay struct {
	Selection Selection `json:"selection"`
	// Rate bounds it in deliveries a second; 0 leaves it to the endpoint's pace.
	Rate int `json:"rate,omitempty"`
}

// ReplayState is how far a replay is.
type ReplayState string

// The states.
const (
	ReplayCounting ReplayState = "counting"
	ReplayRunning  ReplayState = "running"
	ReplayPaused   ReplayState = "paused" // its endpoint is off; it goes on when that is on again
	ReplayDone     ReplayState = "done"
	ReplayCanceled ReplayState = "canceled"
)

// Replay is a job that sends an endpoint's deliveries again. It goes on after a
// restart of the server.
type Replay struct {
	ID        string      `json:"id"`
	Tenant    string      `json:"tenant"`
	Endpoint  string      `json:"endpoint"`
	Selection Selection   `json:"selection"`
	Rate      int         `json:"rate,omitempty"`
	State     ReplayState `json:"state"`
	// Count is how many it takes, as counted before it began; Done how many were
	// queued so far, Failed how many could not be any more.
	Count      int       `json:"count"`
	Done       int       `json:"done"`
	Failed     int       `json:"failed"`
	CreatedAt  time.Time `json:"created_at"`
	FinishedAt time.Time `json:"finished_at,omitzero"`
	// Warning comes with its creation, where the receiver may take events for new
	// ones.
	Warning string `json:"warning,omitempty"`
}

// Open tells whether the replay still has work.
func (r Replay) Open() bool { return r.State != ReplayDone && r.State != ReplayCanceled }

// ReplayPreview is what a replay would take.
type ReplayPreview struct {
	Count int `json:"count"`
	// Complete is false when there are more than could be counted in time.
	Complete bool   `json:"complete"`
	Warning  string `json:"warning,omitempty"`
}

// preview tells an answer without a count from a count of nothing.
type preview struct {
	Count *int `json:"count"`
	ReplayPreview
}

func (p preview) lacks() string {
	if p.Count == nil {
		return "count"
	}
	return ""
}

// CreateReplay begins a replay of an endpoint. One at a time: CodeConflict while
// another one is open, CodeEndpointOff while the endpoint is off.
func (c *Client) CreateReplay(ctx context.Context, endpoint string, r NewReplay) (Replay, error) {
	return invokeJSON[Replay](ctx, c, newCall(http.MethodPost, "endpoints", endpoint, "replay"), r)
}

// PreviewReplay counts what a replay would take, and sends nothing.
func (c *Client) PreviewReplay(ctx context.Context, endpoint string, r NewReplay) (ReplayPreview, error) {
	body := struct {
		NewReplay
		DryRun bool `json:"dry_run"`
	}{r, true}
	req := newCall(http.MethodPost, "endpoints", endpoint, "replay")
	req.repeatable = true
	p, err := invokeJSON[preview](ctx, c, req, body)
	if err == nil {
		p.ReplayPreview.Count = *p.Count
	}
	return p.ReplayPreview, err
}

// GetReplay returns a replay.
func (c *Client) GetReplay(ctx context.Context, id string) (Replay, error) {
	return invoke[Replay](ctx, c, newCall(http.MethodGet, "replays", id))
}

// ListReplays returns one page of replays, of one endpoint if that is not "".
func (c *Client) ListReplays(ctx context.Context, endpoint string, p PageOptions) (Page[Replay], error) {
	return listPage[Replay](ctx, c, replayFilter(endpoint), p, "replays")
}

// AllReplays iterates over replays, page by page from p on.
func (c *Client) AllReplays(ctx context.Context, endpoint string, p PageOptions) iter.Seq2[Replay, error] {
	return listAll[Replay](ctx, c, replayFilter(endpoint), p, "replays")
}

func replayFilter(endpoint string) filter {
	q := filter{}
	q.set("endpoint", endpoint)
	return q
}

// CancelReplay ends a replay: it queues nothing more. One that is done is refused
// with CodeConflict.
func (c *Client) CancelReplay(ctx context.Context, id string) (Replay, error) {
	return invoke[Replay](ctx, c, newCall(http.MethodPost, "replays", id, "cancel"))
}
