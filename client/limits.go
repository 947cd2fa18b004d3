package client

import (
	"context"
	"encoding/json"
	"net/http"
)

// Limits are the server's limits by name, as GET /v1/limits shows them.
type Limits map[string]json.RawMessage

// GetLimits returns the server's limits.
func (c *Client) GetLimits(ctx context.Context) (Limits, error) {
	return invoke[Limits](ctx, c, newCall(http.MethodGet, "limits"))
}
