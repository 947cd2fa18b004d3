package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"time"
)

// ResendDelivery sends a delivery again as its contract promises: itself in
// another round, or a new one, which then is what is returned. One that can't be
// is refused with CodeNotResendable or CodeEndpointOff.
func (c *Client) ResendDelivery(ctx context.Context, id string) (Delivery, error) {
	return invoke[Delivery](ctx, c, newCall(http.MethodPost, "deliveries", id, "resend"))
}

// Resent is what came of sending several deliveries again.
type Resent struct {
	// Data are the deliveries that will be sent.
	Data []Delivery `json:"data"`
	// Errors are those that can't be, under contracts that send the others all the
	// same. Under all others one that can't be refuses the whole.
	Errors []FieldError `json:"errors,omitempty"`
}

// ResendDeliveries sends up to 100 deliveries again, all or none. A refusal has a
// field error for each that can't be; its pointer is /ids/ and the place in ids.
func (c *Client) ResendDeliveries(ctx context.Context, ids []string) (Resent, error) {
	return invokeJSON[Resent](ctx, c, newCall(http.MethodPost, "deliveries", "resend"), map[string][]string{"ids": ids})
}

// ReplayEvent sends an event to an endpoint again, as a new delivery with the
// whole schedule where the contract makes new ones.
func (c *Client) ReplayEvent(ctx context.Context, endpoint, event string) (Delivery, error) {
	return invoke[Delivery](ctx, c, newCall(http.MethodPost, "endpoints", endpoint, "events", event, "replay"))
}

// DeliverySummary counts deliveries.
type DeliverySummary struct {
	Total         int                    `json:"total"`
	ByStatus      map[DeliveryStatus]int `json:"by_status"`
	ByFailureKind map[FailureKind]int    `json:"by_failure_kind"`
	// Complete is false when there are more than were counted; those counted are
	// the newest, back to OldestAt.
	Complete bool      `json:"complete"`
	OldestAt time.Time `json:"oldest_at,omitzero"`
}

// SummarizeDeliveries counts what a filter chooses, up to a bound.
func (c *Client) SummarizeDeliveries(ctx context.Context, f DeliveryFilter) (DeliverySummary, error) {
	req := newCall(http.MethodGet, "deliveries", "summary")
	req.query = f.query().values()
	return invoke[DeliverySummary](ctx, c, req)
}

// ExportDeliveries iterates over everything that a filter chooses, newest first
// unless oldestFirst is set, in one request whose answer is read as it comes: the
// HTTP client's timeout has to allow for it. An error ends the sequence; without
// one it was whole.
func (c *Client) ExportDeliveries(ctx context.Context, f DeliveryFilter, oldestFirst bool) iter.Seq2[Delivery, error] {
	req := newCall(http.MethodGet, "deliveries", "export")
	q := f.query()
	if oldestFirst {
		q.set("order", "asc")
	}
	req.query = q.values()
	return func(yield func(Delivery, error) bool) {
		body, err := c.open(ctx, req)
		if err != nil {
			yield(Delivery{}, err)
			return
		}
		defer func() { _ = body.Close() }()
		for lines := json.NewDecoder(body); ; {
			var d Delivery
			err := lines.Decode(&d)
			if errors.Is(err, io.EOF) {
				return // a connection that broke is io.ErrUnexpectedEOF
			}
			switch {
			case err != nil:
				err = fmt.Errorf("read the answer to %s %s: %w", req.method, req.path, err)
			case d.ID == "":
				err = c.badForm(req, "a line has no id", nil)
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}
