package client

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// DeliveryStatus is the state of a delivery.
type DeliveryStatus string

// The statuses; a contract shows some of them or all.
const (
	StatusPending     DeliveryStatus = "pending"     // waits for its next attempt
	StatusSending     DeliveryStatus = "sending"     // an attempt is under way
	StatusDelivered   DeliveryStatus = "delivered"   // a 2xx came
	StatusFailed      DeliveryStatus = "failed"      // ended without a 2xx
	StatusDead        DeliveryStatus = "dead"        // stopped, can be redelivered
	StatusSkipped     DeliveryStatus = "skipped"     // not sent, by a rule
	StatusCanceled    DeliveryStatus = "canceled"    // ended by a caller
	StatusRedelivered DeliveryStatus = "redelivered" // replaced by a new delivery
)

// FailureKind says why a delivery has not got through.
type FailureKind string

// The failure kinds.
const (
	KindHTTPStatus          FailureKind = "http_status"
	KindClientError         FailureKind = "client_error"
	KindGone                FailureKind = "gone"
	KindTimeout             FailureKind = "timeout"
	KindNetwork             FailureKind = "network"
	KindRedirect            FailureKind = "redirect"
	KindUnsafeURL           FailureKind = "unsafe_url"
	KindEndpointUnavailable FailureKind = "endpoint_unavailable"
	KindEventMissing        FailureKind = "event_missing"
	KindPaused              FailureKind = "paused"
)

// Trigger says what made a delivery.
type Trigger string

// The triggers.
const (
	TriggerEvent      Trigger = "event"
	TriggerTest       Trigger = "test"
	TriggerResend     Trigger = "resend"
	TriggerRedelivery Trigger = "redelivery"
	TriggerReplay     Trigger = "replay"
	TriggerPoll       Trigger = "poll"
)

// Delivery is one event for one endpoint. Body and what follows it come with
// [Client.GetDelivery] only.
type Delivery struct {
	ID               string         `json:"id"`
	Tenant           string         `json:"tenant"`
	Endpoint         string         `json:"endpoint"`
	Event            string         `json:"event"`
	Run              string         `json:"run,omitempty"` // whose notice it is; "" for a plain event
	Type             string         `json:"type"`
	WebhookID        string         `json:"webhook_id"`
	Contract         string         `json:"contract"`
	ContractRevision string         `json:"contract_revision"`
	Trigger          Trigger        `json:"trigger"`
	Status           DeliveryStatus `json:"status"`
	// Reason says in engine words why it waits or ended otherwise, such as
	// retry, paused or exhausted; "" for none.
	Reason        string      `json:"reason,omitempty"`
	FailureKind   FailureKind `json:"failure_kind,omitempty"`
	Round         int         `json:"round"`
	Degraded      bool        `json:"degraded,omitempty"` // the round has a degraded endpoint's schedule
	AttemptCount  int         `json:"attempt_count"`
	StatusCode    int         `json:"status_code,omitempty"` // the last attempt's
	DurationMS    float64     `json:"duration_ms,omitempty"`
	NextAttemptAt time.Time   `json:"next_attempt_at,omitzero"`
	OrderingKey   string      `json:"ordering_key,omitempty"`
	ExpiresAt     time.Time   `json:"expires_at,omitzero"`
	CreatedAt     time.Time   `json:"created_at"`
	FinishedAt    time.Time   `json:"finished_at,omitzero"`
	// Replaces is the delivery that this one was made from, ReplacedBy the one that
	// took this one's place; "" for none.
	Replaces   string `json:"replaces,omitempty"`
	ReplacedBy string `json:"replaced_by,omitempty"`
	// Warning comes with sending it again, where its receiver may take the event for
	// a new one.
	Warning string `json:"warning,omitempty"`

	// Body is what is sent; BodyEncoding is utf8 or base64.
	Body           string            `json:"body,omitempty"`
	BodyEncoding   string            `json:"body_encoding,omitempty"`
	ContentType    string            `json:"content_type,omitempty"`
	RequestHeaders map[string]string `json:"request_headers,omitempty"`
	Attempts       []Attempt         `json:"attempts,omitempty"`
}

// Attempt is one row of a delivery's log.
type Attempt struct {
	ID string `json:"id"`
	// Number counts rows over the delivery's life, Try the counted attempts of
	// the round.
	Round       int         `json:"round"`
	Number      int         `json:"number"`
	Try         int         `json:"try"`
	At          time.Time   `json:"at"`
	DurationMS  float64     `json:"duration_ms"`
	StatusCode  int         `json:"status_code,omitempty"`
	FailureKind FailureKind `json:"failure_kind,omitempty"`
	Error       string      `json:"error,omitempty"`
	Address     string      `json:"address,omitempty"`
	// Response is the beginning of the answer's body; ResponseEncoding is utf8
	// or base64.
	Response          string `json:"response,omitempty"`
	ResponseEncoding  string `json:"response_encoding,omitempty"`
	ResponseTruncated bool   `json:"response_truncated,omitempty"`
	Superseded        bool   `json:"superseded,omitempty"`
}

// DeliveryFilter chooses deliveries; empty fields do not filter, several values
// of one field are alternatives, fields combine.
type DeliveryFilter struct {
	Endpoint     string
	Event        string
	Run          string
	Statuses     []DeliveryStatus
	Types        []string
	FailureKinds []FailureKind
	Reasons      []string
	Triggers     []Trigger
	OrderingKey  string
	Since        time.Time // inclusive
	Until        time.Time // exclusive
}

func (f DeliveryFilter) query() filter {
	q := filter{}
	q.set("endpoint", f.Endpoint)
	q.set("event", f.Event)
	q.set("run", f.Run)
	q.set("status", join(f.Statuses))
	q.set("type", join(f.Types))
	q.set("failure_kind", join(f.FailureKinds))
	q.set("reason", join(f.Reasons))
	q.set("trigger", join(f.Triggers))
	q.set("ordering_key", f.OrderingKey)
	q.span(f.Since, f.Until)
	return q
}

// GetDelivery returns a delivery with its body, headers and attempts.
func (c *Client) GetDelivery(ctx context.Context, id string) (Delivery, error) {
	return invoke[Delivery](ctx, c, newCall(http.MethodGet, "deliveries", id))
}

// ListDeliveries returns one page of the log.
func (c *Client) ListDeliveries(ctx context.Context, f DeliveryFilter, p PageOptions) (Page[Delivery], error) {
	return listPage[Delivery](ctx, c, f.query(), p, "deliveries")
}

// AllDeliveries iterates over the log, page by page from p on.
func (c *Client) AllDeliveries(ctx context.Context, f DeliveryFilter, p PageOptions) iter.Seq2[Delivery, error] {
	return listAll[Delivery](ctx, c, f.query(), p, "deliveries")
}

// CancelDelivery ends a waiting delivery; one request under way may still
// deliver. One that has ended otherwise is refused with CodeConflict.
func (c *Client) CancelDelivery(ctx context.Context, id string) (Delivery, error) {
	return invoke[Delivery](ctx, c, newCall(http.MethodPost, "deliveries", id, "cancel"))
}
