package client

import (
	"context"
	"net/http"
)

// FilterTrial is what a filter makes of a tenant's recent events.
type FilterTrial struct {
	// Examined events, of which Matched fulfil the filter; on Errors of them it
	// could not be decided.
	Examined int `json:"examined"`
	Matched  int `json:"matched"`
	Errors   int `json:"errors"`
	// Sample is the IDs of some that matched, newest first.
	Sample []string `json:"sample"`
}

// CheckFilter tries a filter of an endpoint on the tenant's newest events, at most
// limit of them; 0 leaves that to the server.
func (c *Client) CheckFilter(ctx context.Context, expr string, limit int) (FilterTrial, error) {
	body := struct {
		Filter string `json:"filter"`
		Limit  int    `json:"limit,omitempty"`
	}{expr, limit}
	return invokeJSON[FilterTrial](ctx, c, newCall(http.MethodPost, "filters", "check"), body)
}
