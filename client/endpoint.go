package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strconv"
	"time"
)

// EndpointState says whether an endpoint is sent to.
type EndpointState string

// The states.
const (
	EndpointActive   EndpointState = "active"
	EndpointPaused   EndpointState = "paused"
	EndpointDisabled EndpointState = "disabled"
)

// Endpoint is a URL that events are delivered to.
type Endpoint struct {
	ID               string        `json:"id"`
	Tenant           string        `json:"tenant"`
	URL              string        `json:"url"`
	Events           []string      `json:"events"`
	Contract         string        `json:"contract"`
	ContractRevision string        `json:"contract_revision"`
	State            EndpointState `json:"state"`
	// StateReason says why it is not active: person, staff, switched_off, gone,
	// no_success or failures_in_row.
	StateReason string    `json:"state_reason,omitempty"`
	StateSince  time.Time `json:"state_since,omitzero"`
	// Banner is a text for its owner when it is off for a reason that is not theirs.
	Banner string `json:"banner,omitempty"`
	// DegradedUntil is the end of the mark that failures in a row leave; zero
	// without it.
	DegradedUntil time.Time         `json:"degraded_until,omitzero"`
	Description   string            `json:"description,omitempty"`
	Metadata      map[string]string `json:"metadata,omitempty"`
	// Headers are the fixed request headers; their values are masked.
	Headers map[string]string `json:"headers,omitempty"`
	// Filter is a CEL expression that events must fulfil; "" for none.
	Filter string `json:"filter,omitempty"`
	// Ordering makes its deliveries strict by key; nil leaves it to the contract.
	Ordering    *Ordering       `json:"ordering,omitempty"`
	MaxInFlight int             `json:"max_in_flight,omitempty"`
	Secrets     []SigningSecret `json:"secrets,omitempty"`
	// JWKSURL is where receivers find the public keys, if there are any.
	JWKSURL string `json:"jwks_url,omitempty"`
	// Secret is the signing secret in clear: only in the answers to the creation
	// and to [Client.RotateSecret].
	Secret string         `json:"secret,omitempty"`
	Health EndpointHealth `json:"health,omitzero"`
	// Waiting counts the deliveries that wait, up to a bound; nil in lists.
	Waiting   *int      `json:"waiting,omitempty"`
	OldestDue time.Time `json:"oldest_due_at,omitzero"`
	Version   int64     `json:"version"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Ordering says by which key deliveries go out one after the other.
type Ordering struct {
	// From lists paths into the data, such as data.link_id; the first one present is
	// an event's key where its publisher gave none.
	From []string `json:"from"`
}

// SigningSecret tells of a secret, not its text.
type SigningSecret struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"` // the end of an overlap
	PublicKey string    `json:"public_key,omitempty"`
}

// EndpointHealth is what the contract's health rules are judged by.
type EndpointHealth struct {
	FailuresInRow  int       `json:"failures_in_row"`
	FirstFailureAt time.Time `json:"first_failure_at,omitzero"`
	LastSuccessAt  time.Time `json:"last_success_at,omitzero"`
	LastAttemptAt  time.Time `json:"last_attempt_at,omitzero"`
}

// NewEndpoint is an endpoint to create. URL and Events are needed.
type NewEndpoint struct {
	URL string `json:"url"`
	// Events are patterns: a type, "link.*" for a family, "*" for all.
	Events []string `json:"events"`
	// Secret signs; "" lets the server make one.
	Secret string `json:"secret,omitempty"`
	// Active false creates it switched off; nil is true.
	Active      *bool             `json:"active,omitempty"`
	Contract    string            `json:"contract,omitempty"`
	Description string            `json:"description,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	// Filter is a CEL expression over type, event (id, type, created_at, ordering_key,
	// tenant) and data that events must fulfil.
	Filter string `json:"filter,omitempty"`
	// Ordering, if not nil, makes deliveries strict by key.
	Ordering    *Ordering `json:"ordering,omitempty"`
	MaxInFlight int       `json:"max_in_flight,omitempty"`
}

// EndpointPatch changes an endpoint as a JSON merge patch (RFC 7396): what is
// nil stays; a nil value in Headers or Metadata removes that member.
type EndpointPatch struct {
	URL         *string            `json:"url,omitempty"`
	Events      []string           `json:"events,omitempty"`
	Active      *bool              `json:"active,omitempty"`
	Contract    *string            `json:"contract,omitempty"`
	Description *string            `json:"description,omitempty"`
	Headers     map[string]*string `json:"headers,omitempty"`
	Metadata    map[string]*string `json:"metadata,omitempty"`
	// Filter takes "" to remove the filter.
	Filter *string `json:"filter,omitempty"`
	// Ordering without paths removes what the endpoint has of its own.
	Ordering    *Ordering `json:"-"`
	MaxInFlight *int      `json:"max_in_flight,omitempty"`
	// IfVersion refuses the change with CodeConflict if the endpoint's version
	// is another one by now; 0 does not ask.
	IfVersion int64 `json:"-"`
}

// MarshalJSON implements json.Marshaler.
func (p EndpointPatch) MarshalJSON() ([]byte, error) {
	type plain EndpointPatch
	body := struct {
		plain
		Ordering json.RawMessage `json:"ordering,omitempty"`
	}{plain: plain(p)}
	switch {
	case p.Ordering == nil:
	case len(p.Ordering.From) == 0:
		body.Ordering = json.RawMessage("null")
	default:
		text, err := json.Marshal(p.Ordering)
		if err != nil {
			return nil, err
		}
		body.Ordering = text
	}
	return json.Marshal(body)
}

// Rotation changes an endpoint's signing secret. The zero value takes a new
// secret from the server and lets the earlier ones go on to sign for as long as
// the contract says.
type Rotation struct {
	// Secret is the new one; "" lets the server make it.
	Secret string
	// Overlap is how long earlier secrets go on to sign beside the new one, in
	// whole seconds, up to 30 days; 0 leaves it to the contract.
	Overlap time.Duration
	// Revoke ends the earlier secrets at once: for a secret that leaked. It does
	// not go together with Overlap.
	Revoke bool
}

// Resume says what becomes of what waited while an endpoint was off.
type Resume string

// Ways to resume.
const (
	ResumeBacklog Resume = "backlog" // it is sent, oldest first
	ResumeNow     Resume = "now"     // what came meanwhile is skipped
)

// TestResult is the one attempt of a test.
type TestResult struct {
	Attempt
	// Delivery is the ID of the test's delivery; "" where the contract logs none.
	Delivery string         `json:"delivery,omitempty"`
	Status   DeliveryStatus `json:"status"`
}

func (t TestResult) lacks() string {
	if t.Status == "" {
		return "status"
	}
	return ""
}

// CreateEndpoint creates an endpoint. Its answer alone bears the secret.
func (c *Client) CreateEndpoint(ctx context.Context, e NewEndpoint) (Endpoint, error) {
	return invokeJSON[Endpoint](ctx, c, newCall(http.MethodPost, "endpoints"), e)
}

// PutEndpoint creates or replaces the endpoint with the caller's own ID; it is
// safe to repeat. Only the answer to a creation bears the secret.
func (c *Client) PutEndpoint(ctx context.Context, id string, e NewEndpoint) (Endpoint, error) {
	return invokeJSON[Endpoint](ctx, c, newCall(http.MethodPut, "endpoints", id), e)
}

// GetEndpoint returns an endpoint.
func (c *Client) GetEndpoint(ctx context.Context, id string) (Endpoint, error) {
	return invoke[Endpoint](ctx, c, newCall(http.MethodGet, "endpoints", id))
}

// ListEndpoints returns one page of endpoints.
func (c *Client) ListEndpoints(ctx context.Context, p PageOptions) (Page[Endpoint], error) {
	return listPage[Endpoint](ctx, c, nil, p, "endpoints")
}

// AllEndpoints iterates over endpoints, page by page from p on.
func (c *Client) AllEndpoints(ctx context.Context, p PageOptions) iter.Seq2[Endpoint, error] {
	return listAll[Endpoint](ctx, c, nil, p, "endpoints")
}

// UpdateEndpoint changes an endpoint.
func (c *Client) UpdateEndpoint(ctx context.Context, id string, patch EndpointPatch) (Endpoint, error) {
	req := newCall(http.MethodPatch, "endpoints", id)
	req.ifMatch = patch.IfVersion
	return invokeJSON[Endpoint](ctx, c, req, patch)
}

// DeleteEndpoint deletes an endpoint; its waiting deliveries are canceled.
func (c *Client) DeleteEndpoint(ctx context.Context, id string) error {
	_, err := c.do(ctx, newCall(http.MethodDelete, "endpoints", id), nil)
	return err
}

// PauseEndpoint holds an endpoint's deliveries back.
func (c *Client) PauseEndpoint(ctx context.Context, id string) (Endpoint, error) {
	return invoke[Endpoint](ctx, c, newCall(http.MethodPost, "endpoints", id, "pause"))
}

// ResumeEndpoint lets a paused endpoint's deliveries go out again.
func (c *Client) ResumeEndpoint(ctx context.Context, id string) (Endpoint, error) {
	return invoke[Endpoint](ctx, c, newCall(http.MethodPost, "endpoints", id, "resume"))
}

// EnableEndpoint turns a disabled endpoint on again. With "" the server's
// default applies, the backlog.
func (c *Client) EnableEndpoint(ctx context.Context, id string, resume Resume) (Endpoint, error) {
	req := newCall(http.MethodPost, "endpoints", id, "enable")
	if resume == "" {
		return invoke[Endpoint](ctx, c, req)
	}
	return invokeJSON[Endpoint](ctx, c, req, map[string]Resume{"resume": resume})
}

// TestEndpoint sends an endpoint one test event and waits for its end. That the
// receiver refused it, or did not answer, is a result and no error.
func (c *Client) TestEndpoint(ctx context.Context, id string) (TestResult, error) {
	return invoke[TestResult](ctx, c, newCall(http.MethodPost, "endpoints", id, "test"))
}

// RotateSecret gives an endpoint a new signing secret, which its answer alone
// bears. At most three secrets sign at once; one more drops the oldest.
func (c *Client) RotateSecret(ctx context.Context, id string, r Rotation) (Endpoint, error) {
	body := struct {
		Secret  string `json:"secret,omitempty"`
		Overlap string `json:"overlap,omitempty"`
		Revoke  bool   `json:"revoke,omitempty"`
	}{Secret: r.Secret, Revoke: r.Revoke}
	if r.Overlap > 0 {
		body.Overlap = strconv.FormatInt(int64((r.Overlap+time.Second-1)/time.Second), 10) + "s"
	}
	return invokeJSON[Endpoint](ctx, c, newCall(http.MethodPost, "endpoints", id, "rotate-secret"), body)
}

// DisableEndpoint turns an endpoint off for staff; its owner may enable it
// again. It needs an operator's key. The reason, in your own words, may be "".
func (c *Client) DisableEndpoint(ctx context.Context, id, reason string) (Endpoint, error) {
	req := newCall(http.MethodPost, "endpoints", id, "disable")
	if reason == "" {
		return invoke[Endpoint](ctx, c, req)
	}
	return invokeJSON[Endpoint](ctx, c, req, map[string]string{"reason": reason})
}
