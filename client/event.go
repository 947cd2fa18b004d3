package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"
)

// NewEvent is an event to publish.
type NewEvent struct {
	// ID is the caller's: 1 to 128 of A-Z, a-z, 0-9, _, - and :. Publishing the
	// same event with the same ID again is a repeat and makes no new delivery.
	// "" lets the server make one.
	ID string
	// Type such as "link.created".
	Type string
	// Data is any JSON value. These bytes are what receivers get: they are sent
	// as they are, except for line breaks between tokens, which [Client.SendEvents]
	// turns into spaces.
	Data json.RawMessage
	// CreatedAt is when it happened; zero is when the server accepts it.
	CreatedAt time.Time
	// OrderingKey, where a contract or an endpoint orders by it.
	OrderingKey string
	// DeliverAt holds it back until then; ExpiresAt gives it up. Zero is never.
	DeliverAt time.Time
	ExpiresAt time.Time
}

// appendJSON writes the event by hand, for an encoder would change Data's bytes.
func (e NewEvent) appendJSON(dst []byte) ([]byte, error) {
	head, err := json.Marshal(struct {
		ID          string `json:"id,omitempty"`
		Type        string `json:"type"`
		CreatedAt   string `json:"created_at,omitempty"`
		OrderingKey string `json:"ordering_key,omitempty"`
		DeliverAt   string `json:"deliver_at,omitempty"`
		ExpiresAt   string `json:"expires_at,omitempty"`
	}{e.ID, e.Type, stamp(e.CreatedAt), e.OrderingKey, stamp(e.DeliverAt), stamp(e.ExpiresAt)})
	if err != nil {
		return dst, fmt.Errorf("encode the event: %w", err)
	}
	// Else what follows it could close the object and open another one.
	if !json.Valid(e.Data) {
		return dst, errors.New("encode the event: data is no JSON value")
	}
	dst = append(dst, head[:len(head)-1]...)
	dst = append(append(dst, `,"data":`...), e.Data...)
	return append(dst, '}'), nil
}

// Accepted is the server's answer to one event: it is durable now.
type Accepted struct {
	ID string `json:"id"`
	// Deliveries is how many endpoints it matched when it was accepted first.
	Deliveries int `json:"deliveries"`
	// Replayed is true for a repeat of what was accepted before.
	Replayed bool `json:"-"`
}

// SendEvent publishes one event.
func (c *Client) SendEvent(ctx context.Context, e NewEvent) (Accepted, error) {
	body, err := e.appendJSON(nil)
	if err != nil {
		return Accepted{}, err
	}
	req := newCall(http.MethodPost, "events")
	req.body, req.mediaType, req.repeatable = body, "application/json", e.ID != ""
	var out Accepted
	header, err := c.do(ctx, req, &out)
	out.Replayed = header.Get("Posthorn-Replayed") == "true"
	return out, err
}

// LineResult is what became of one event of several.
type LineResult struct {
	// Line counts from 1.
	Line int    `json:"line"`
	ID   string `json:"id,omitempty"`
	// Status is what SendEvent would have got: 202, 200 for a repeat, or a refusal.
	Status     int          `json:"status"`
	Deliveries int          `json:"deliveries"`
	Code       ErrorCode    `json:"code,omitempty"`
	Detail     string       `json:"detail,omitempty"`
	Errors     []FieldError `json:"errors,omitempty"`
	// FirstAcceptedAt tells with CodeConflictID when the ID was used before.
	FirstAcceptedAt time.Time `json:"first_accepted_at,omitzero"`
}

// Accepted tells whether the line is durable.
func (r LineResult) Accepted() bool { return r.Status >= 200 && r.Status <= 299 }

// Err returns nil for an accepted line, else an [*Error].
func (r LineResult) Err() error {
	if r.Accepted() {
		return nil
	}
	return &Error{Status: r.Status, Code: r.Code, Detail: r.Detail, Fields: r.Errors, FirstAcceptedAt: r.FirstAcceptedAt}
}

// SendEvents publishes up to 1,000 events in one request. They are accepted or
// refused one by one: there is one result for each, in order, and the error is
// for the request as a whole.
func (c *Client) SendEvents(ctx context.Context, events []NewEvent) ([]LineResult, error) {
	body, repeatable, err := linesOf(events)
	if err != nil {
		return nil, err
	}
	results, _, err := c.sendNDJSON(ctx, body, repeatable, "events")
	return results, err
}

// linesOf writes events as NDJSON. They may be sent twice where each has an ID.
func linesOf(events []NewEvent) (body []byte, repeatable bool, err error) {
	repeatable = true
	for i, e := range events {
		start := len(body)
		if body, err = e.appendJSON(body); err != nil {
			return nil, false, fmt.Errorf("event %d: %w", i+1, err)
		}
		joinLines(body[start:])
		body = append(body, '\n')
		repeatable = repeatable && e.ID != ""
	}
	return body, repeatable, nil
}

// joinLines turns line breaks into spaces. In valid JSON they stand only
// between tokens.
func joinLines(line []byte) {
	for i, b := range line {
		if b == '\n' || b == '\r' {
			line[i] = ' '
		}
	}
}

// SendNDJSON publishes events that are NDJSON already, an object as
// POST /v1/events takes it on each line; 1,000 lines and 16 MiB at most. It is
// never repeated by itself.
func (c *Client) SendNDJSON(ctx context.Context, lines []byte) ([]LineResult, error) {
	results, _, err := c.sendNDJSON(ctx, lines, false, "events")
	return results, err
}

func (c *Client) sendNDJSON(ctx context.Context, lines []byte, repeatable bool, path ...string) ([]LineResult, http.Header, error) {
	req := newCall(http.MethodPost, path...)
	req.body, req.mediaType, req.repeatable = lines, "application/x-ndjson", repeatable
	var answer []byte
	header, err := c.do(ctx, req, &answer)
	if err != nil {
		return nil, nil, err
	}
	var results []LineResult
	for line := range bytes.Lines(answer) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		var r LineResult
		if err := json.Unmarshal(line, &r); err != nil {
			return results, header, c.badForm(req, fmt.Sprintf("its line %d is no JSON of that form", len(results)+1), err)
		}
		if r.Status == 0 {
			return results, header, c.badForm(req, fmt.Sprintf("its line %d has no status", len(results)+1), nil)
		}
		results = append(results, r)
	}
	// Every line has its result. Where some are missing nobody can tell which
	// events were accepted.
	if want := countLines(lines); len(results) != want {
		return results, header, c.badForm(req, fmt.Sprintf("%d results for %d events", len(results), want), nil)
	}
	return results, header, nil
}

// countLines counts the lines that are events to the server: all but blank ones.
func countLines(text []byte) int {
	n := 0
	for line := range bytes.Lines(text) {
		if len(bytes.Trim(line, " \t\r\n")) > 0 {
			n++
		}
	}
	return n
}

// Event is a published event.
type Event struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant"`
	Type   string `json:"type"`
	// Data is empty in lists, and null once it was erased.
	Data json.RawMessage `json:"data,omitempty"`
	// Run is the run that it tells of; "" for a plain event.
	Run         string         `json:"run,omitempty"`
	ContentType string         `json:"content_type,omitempty"`
	CreatedAt   time.Time      `json:"created_at"`
	AcceptedAt  time.Time      `json:"accepted_at"`
	OrderingKey string         `json:"ordering_key,omitempty"`
	DeliverAt   time.Time      `json:"deliver_at,omitzero"`
	ExpiresAt   time.Time      `json:"expires_at,omitzero"`
	Erased      bool           `json:"erased,omitempty"`
	Deliveries  DeliveryCounts `json:"deliveries"`
}

// DeliveryCounts counts an event's deliveries.
type DeliveryCounts struct {
	Total    int                    `json:"total"`
	ByStatus map[DeliveryStatus]int `json:"by_status,omitempty"`
}

// EventFilter chooses events; empty fields do not filter.
type EventFilter struct {
	Types       []string
	OrderingKey string
	Since       time.Time // inclusive
	Until       time.Time // exclusive
}

func (f EventFilter) query() filter {
	q := filter{}
	q.set("type", join(f.Types))
	q.set("ordering_key", f.OrderingKey)
	q.span(f.Since, f.Until)
	return q
}

// GetEvent returns an event with its data.
func (c *Client) GetEvent(ctx context.Context, id string) (Event, error) {
	return invoke[Event](ctx, c, newCall(http.MethodGet, "events", id))
}

// ListEvents returns one page of events, without data.
func (c *Client) ListEvents(ctx context.Context, f EventFilter, p PageOptions) (Page[Event], error) {
	return listPage[Event](ctx, c, f.query(), p, "events")
}

// AllEvents iterates over events, without data, page by page from p on.
func (c *Client) AllEvents(ctx context.Context, f EventFilter, p PageOptions) iter.Seq2[Event, error] {
	return listAll[Event](ctx, c, f.query(), p, "events")
}

// Traced is what became of an event at one endpoint.
type Traced struct {
	Endpoint string `json:"endpoint"`
	// Reason is sent, or what holds its delivery up (gated, off), or why
	// it has none (type_not_subscribed, filtered_out, filter_no_value, created_after and others).
	Reason     string     `json:"reason"`
	Deliveries []Delivery `json:"deliveries"` // newest first
}

// TraceEvent returns one page of the tenant's endpoints, with what became of an
// event at each.
func (c *Client) TraceEvent(ctx context.Context, id string, p PageOptions) (Page[Traced], error) {
	return listPage[Traced](ctx, c, nil, p, "events", id, "trace")
}

// AllTraced iterates over the endpoints of a trace, page by page from p on.
func (c *Client) AllTraced(ctx context.Context, id string, p PageOptions) iter.Seq2[Traced, error] {
	return listAll[Traced](ctx, c, nil, p, "events", id, "trace")
}

// CancelEvent ends the event's waiting deliveries as canceled. One that is
// under way may still be delivered.
func (c *Client) CancelEvent(ctx context.Context, id string) error {
	_, err := c.do(ctx, newCall(http.MethodDelete, "events", id), nil)
	return err
}

// EraseEventData deletes the event's data for good and keeps the log. Waiting
// deliveries fail as event_missing.
func (c *Client) EraseEventData(ctx context.Context, id string) error {
	_, err := c.do(ctx, newCall(http.MethodDelete, "events", id, "data"), nil)
	return err
}
