package client

import (
	"context"
	"net/http"
)

// Limits are the server's limits. A request over one is refused with the
// limit's name in JSON as the code of the field.
type Limits struct {
	EventBytes          int `json:"event_bytes"`
	NDJSONLines         int `json:"ndjson_lines"`
	NDJSONBytes         int `json:"ndjson_bytes"`
	DeliverAtAhead      int `json:"deliver_at_ahead"` // seconds
	OrderingKeyBytes    int `json:"ordering_key_bytes"`
	EndpointPatterns    int `json:"endpoint_patterns"`
	EndpointHeaders     int `json:"endpoint_headers"`
	EndpointHeaderBytes int `json:"endpoint_header_bytes"`
	EndpointMetadata    int `json:"endpoint_metadata"`
	EndpointInFlight    int `json:"endpoint_in_flight"`
	FilterBytes         int `json:"filter_bytes"`
	ResendIDs           int `json:"resend_ids"` // a contract may take fewer
	RunTypes            int `json:"run_types"`
	ContractBytes       int `json:"contract_bytes"`
	ListItems           int `json:"list_items"`
	BodyBytes           int `json:"body_bytes"` // of bodies that publish nothing
}

// GetLimits returns the server's limits.
func (c *Client) GetLimits(ctx context.Context) (Limits, error) {
	return invoke[Limits](ctx, c, newCall(http.MethodGet, "limits"))
}
