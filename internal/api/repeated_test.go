package api

import (
	"net/http"
	"testing"
)

// A proxy before this server may look at the last of two headers: that a request
// means one thing to it and another here must not be possible.
func TestTenancy_RepeatedHeadersAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b := f.tenant("a"), f.tenant("b")
	for _, path := range []string{"/v1/endpoints", "/v1/endpoints/x", "/v1/deliveries", "/v1/events"} {
		twice := to(http.MethodGet, path, "")
		twice.header["Authorization"] = []string{"Bearer " + a, "Bearer " + b}
		f.send(twice).problem(401, "unauthorized")

		twice = to(http.MethodGet, path, "")
		twice.header[tenantHeader] = []string{"a", "b"}
		f.send(twice).problem(422, "invalid_field").faultAt(tenantHeader, "invalid_field")
	}
}
