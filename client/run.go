package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strconv"
	"time"
)

// NewRun is a run to open.
type NewRun struct {
	// Project groups runs, by a name of your own; "" for none.
	Project string `json:"project,omitempty"`
	// Type of the event that finishing publishes; "" is run.finished.
	Type string `json:"type,omitempty"`
}

// RunState is how far a run is.
type RunState string

// The states.
const (
	RunOpen     RunState = "open"
	RunFinished RunState = "finished"
	RunDeleted  RunState = "deleted"
)

// Run is a batch of events that is delivered as one notice; receivers fetch the
// events.
type Run struct {
	ID      string    `json:"id"`
	Tenant  string    `json:"tenant"`
	Project string    `json:"project,omitempty"`
	Type    string    `json:"type"`
	State   RunState  `json:"state"`
	Counts  RunCounts `json:"counts"`
	// Event is the ID of the event that finishing published; "" before.
	Event      string    `json:"event,omitempty"`
	CreatedAt  time.Time `json:"created_at"`
	FinishedAt time.Time `json:"finished_at,omitzero"`
}

// RunCounts says how many events a run has.
type RunCounts struct {
	Total  int            `json:"total"`
	ByType map[string]int `json:"by_type"`
}

// RunEvent is an event of a run, as its receivers read it.
type RunEvent struct {
	// EventID is the same in every reading, and in every redelivery.
	EventID   string          `json:"eventId"`
	Type      string          `json:"type"`
	CreatedAt time.Time       `json:"createdAt"`
	Data      json.RawMessage `json:"data"`
}

// AddedToRun is what became of events that were to be added to a run.
type AddedToRun struct {
	// Lines has a result for each event, in order. Its Status is 200 where all of a
	// slice of the request are repeats, and may be 202 for one beside new ones.
	Lines []LineResult
	// Repeated counts the accepted ones that the run had before.
	Repeated int
}

// CreateRun opens a run.
func (c *Client) CreateRun(ctx context.Context, r NewRun) (Run, error) {
	return invokeJSON[Run](ctx, c, newCall(http.MethodPost, "runs"), r)
}

// GetRun returns a run.
func (c *Client) GetRun(ctx context.Context, id string) (Run, error) {
	return invoke[Run](ctx, c, newCall(http.MethodGet, "runs", id))
}

// ListRuns returns one page of runs, of one project if that is not "".
func (c *Client) ListRuns(ctx context.Context, project string, p PageOptions) (Page[Run], error) {
	return listPage[Run](ctx, c, runFilter(project), p, "runs")
}

// AllRuns iterates over runs, page by page from p on.
func (c *Client) AllRuns(ctx context.Context, project string, p PageOptions) iter.Seq2[Run, error] {
	return listAll[Run](ctx, c, runFilter(project), p, "runs")
}

func runFilter(project string) filter {
	q := filter{}
	q.set("project", project)
	return q
}

// AddRunEvents adds up to 1,000 events to an open run, in order. Only ID, Type,
// Data and CreatedAt of them count. One whose ID the run has already is left out and
// no error.
func (c *Client) AddRunEvents(ctx context.Context, id string, events []NewEvent) (AddedToRun, error) {
	body, repeatable, err := linesOf(events)
	if err != nil {
		return AddedToRun{}, err
	}
	return c.addToRun(ctx, id, body, repeatable)
}

// AddRunNDJSON adds events that are NDJSON already to an open run; 1,000 lines and
// 16 MiB at most. It is never repeated by itself.
func (c *Client) AddRunNDJSON(ctx context.Context, id string, lines []byte) (AddedToRun, error) {
	return c.addToRun(ctx, id, lines, false)
}

func (c *Client) addToRun(ctx context.Context, id string, lines []byte, repeatable bool) (AddedToRun, error) {
	results, header, err := c.sendNDJSON(ctx, lines, repeatable, "runs", id, "events")
	repeated, _ := strconv.Atoi(header.Get("Posthorn-Repeated"))
	return AddedToRun{Lines: results, Repeated: repeated}, err
}

// FinishRun closes a run and publishes the event that tells of it. Repeating it
// changes nothing.
func (c *Client) FinishRun(ctx context.Context, id string) (Run, error) {
	req := newCall(http.MethodPost, "runs", id, "finish")
	req.repeatable = true
	return invoke[Run](ctx, c, req)
}

// DeleteRun deletes a run's events for good; its readers get CodeRunGone.
func (c *Client) DeleteRun(ctx context.Context, id string) error {
	_, err := c.do(ctx, newCall(http.MethodDelete, "runs", id), nil)
	return err
}

// DeleteProject deletes the events of all of a project's runs.
func (c *Client) DeleteProject(ctx context.Context, project string) error {
	_, err := c.do(ctx, newCall(http.MethodDelete, "projects", project), nil)
	return err
}

// ReadRunEvents returns one page of a run's events, in the order in which they
// were added. A receiver's client has the page token of its notice as Key.
func (c *Client) ReadRunEvents(ctx context.Context, id string, p PageOptions) (Page[RunEvent], error) {
	return listPage[RunEvent](ctx, c, nil, p, "runs", id, "events")
}

// AllRunEvents iterates over a run's events, page by page from p on.
func (c *Client) AllRunEvents(ctx context.Context, id string, p PageOptions) iter.Seq2[RunEvent, error] {
	return listAll[RunEvent](ctx, c, nil, p, "runs", id, "events")
}
