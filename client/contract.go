package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Contract tells of a contract: the promise by which deliveries are made.
type Contract struct {
	Name string `json:"name"`
	// Revision changes exactly when the promise does.
	Revision string `json:"revision"`
	// Builtin ones come with the server and can't be changed.
	Builtin bool `json:"builtin"`
	// CreatedAt is when this revision was stored; zero for a built-in one.
	CreatedAt time.Time `json:"created_at,omitzero"`
}

// ContractRevision is one wording of a contract.
type ContractRevision struct {
	Name     string `json:"name"`
	Revision string `json:"revision"`
	// Current is true for the revision that new deliveries follow.
	Current bool `json:"current"`
	// Follows is the revision that the deliveries of this one were asked to follow;
	// "" for their own.
	Follows string `json:"follows"`
	// YAML is the contract's file.
	YAML      string    `json:"yaml"`
	CreatedAt time.Time `json:"created_at,omitzero"`
}

// UnderWay says what becomes of deliveries that were promised under an earlier
// revision of a contract.
type UnderWay string

// What may become of them.
const (
	KeepPromise UnderWay = "keep"  // they go on as promised
	AdoptNew    UnderWay = "adopt" // they follow the new revision
)

// Simulation asks what a contract makes of answers.
type Simulation struct {
	// Contract is a name, or the text of a contract's file.
	Contract string `json:"contract"`
	// Answers is a list such as "500*3,429:retry-after=120,timeout,200".
	Answers string `json:"answers"`
	// Seed of the jitter, nil for none: each answer differs then.
	Seed *int `json:"seed,omitempty"`
	// Jitter false leaves the jitter out; nil is true.
	Jitter *bool `json:"jitter,omitempty"`
}

// SimulatedStep is what a contract makes of one answer. Times are seconds since
// the first attempt.
type SimulatedStep struct {
	Attempt       int            `json:"attempt"`
	At            float64        `json:"at"`
	Answer        string         `json:"answer"`
	StatusCode    int            `json:"status_code,omitempty"`
	FailureKind   FailureKind    `json:"failure_kind,omitempty"`
	Status        DeliveryStatus `json:"status"`
	NextAt        *float64       `json:"next_at"` // nil when there is none
	EndpointState EndpointState  `json:"endpoint_state"`
	Degraded      bool           `json:"degraded"`
	Events        []string       `json:"events"`
}

func (c Contract) lacks() string {
	if c.Name == "" {
		return "name"
	}
	return ""
}

// ListContracts returns all contracts that the server knows.
func (c *Client) ListContracts(ctx context.Context) ([]Contract, error) {
	page, err := listPage[Contract](ctx, c, nil, PageOptions{}, "contracts")
	return page.Data, err
}

// GetContract returns a contract. Its file is in [Client.ContractRevisions].
func (c *Client) GetContract(ctx context.Context, name string) (Contract, error) {
	return invoke[Contract](ctx, c, newCall(http.MethodGet, "contracts", name))
}

// PutContract stores a contract's file, YAML, under the name that stands in it. It
// is safe to repeat and needs an operator's key. With "" for underWay deliveries
// under way keep what they were promised.
func (c *Client) PutContract(ctx context.Context, name string, yaml []byte, underWay UnderWay) (Contract, error) {
	req := newCall(http.MethodPut, "contracts", name)
	req.body, req.mediaType = yaml, "application/yaml"
	if underWay != "" {
		req.query = url.Values{"under_way": {string(underWay)}}
	}
	return invoke[Contract](ctx, c, req)
}

// DeleteContract takes a contract out of use that no endpoint follows and that is
// no tenant's default. It needs an operator's key.
func (c *Client) DeleteContract(ctx context.Context, name string) error {
	_, err := c.do(ctx, newCall(http.MethodDelete, "contracts", name), nil)
	return err
}

// ContractRevisions returns the revisions of a contract, newest first.
func (c *Client) ContractRevisions(ctx context.Context, name string) ([]ContractRevision, error) {
	page, err := listPage[ContractRevision](ctx, c, nil, PageOptions{}, "contracts", name, "revisions")
	return page.Data, err
}

// SimulateContract plays answers to one delivery by the decisions that the server
// makes. Nothing is sent.
func (c *Client) SimulateContract(ctx context.Context, s Simulation) ([]SimulatedStep, error) {
	played, err := invokeJSON[struct {
		Steps []SimulatedStep `json:"steps"`
	}](ctx, c, newCall(http.MethodPost, "contracts", "simulate"), s)
	return played.Steps, err
}
