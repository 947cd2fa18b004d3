package api

import (
	"slices"
	"strings"
	"testing"
)

// TestTexts_NameWhatIsMissing: every operation on one thing says which kind of
// thing is not there.
func TestTexts_NameWhatIsMissing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, op := range f.api.operations() {
		if named := strings.Contains(op.path, "{"); named != (op.missing() != "") || strings.Contains(op.missing(), "  ") {
			t.Errorf("%s %s: %q", op.method, op.path, op.missing())
		}
	}
	for path, want := range map[string]string{
		"/v1/endpoints/none":                   "There is no endpoint of this ID for this tenant.",
		"/v1/events/none":                      "There is no event of this ID for this tenant.",
		"/v1/deliveries/none":                  "There is no delivery of this ID for this tenant.",
		"/v1/tenants/none":                     "There is no tenant of this ID for this key.",
		"/v1/contracts/none":                   "There is no contract of this name.",
		"DELETE /v1/events/none":               "There is no event of this ID for this tenant.",
		"POST /v1/endpoints/x/pause":           "There is no endpoint of this ID for this tenant.",
		"DELETE /v1/tenants/default/keys/none": "There is no key of this ID for this tenant.",
	} {
		method, target, given := strings.Cut(path, " ")
		if !given {
			method, target = "GET", path
		}
		if got := f.send(to(method, target, "")).problem(404, "not_found"); got.json["detail"] != want {
			t.Errorf("%s: %s", path, got.raw)
		}
	}
}

// TestTexts_SayTheWay: what a caller may try next is in the answer.
func TestTexts_SayTheWay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.send(to("PUT", "/v1/endpoints/mine", `{"url":"https://example.com/","events":["*"]}`)).is(201)
	for _, test := range []struct{ method, path, body, code, at, want string }{
		{"PATCH", "/v1/endpoints/mine", `{"state":"paused"}`, "unknown_field", "/state", "by POST to /pause, /resume or /enable"},
		{"PATCH", "/v1/endpoints/mine", `{"secret":"x"}`, "unknown_field", "/secret", "by POST to /rotate-secret"},
		{"POST", "/v1/endpoints/mine/pause", `{"for":"1h"}`, "unknown_field", "/for", `"allowed":"no fields: the body is empty or {}"`},
		{"GET", "/v1/limits?x=1", "", "unknown_field", "x", `"allowed":"no parameters"`},
		{"GET", "/v1/events?type=order.*", "", "invalid_field", "type", "a pattern such as link.* chooses nothing here"},
		{"GET", "/v1/events?type=a.b,*", "", "invalid_field", "type", "whole event types such as link.created"},
		{"GET", "/v1/deliveries?type=order.*", "", "invalid_field", "type", "whole event types"},
		{"POST", "/v1/endpoints", `{"url":"https://example.com/` + strings.Repeat("a", 2048) + `","events":["*"]}`, "invalid_field", "/url", "at most 2048 bytes"},
		{"POST", "/v1/endpoints", `{"url":"https://example.com/` + strings.Repeat("ü", 1500) + `","events":["*"]}`, "invalid_field", "/url", "at most 2048 bytes"},
	} {
		got := f.send(to(test.method, test.path, test.body)).problem(422, test.code)
		got.faultAt(test.at, test.code)
		if !strings.Contains(got.raw, test.want) {
			t.Errorf("%s %s: %s", test.method, test.path, got.raw)
		}
	}
	// The server's own types can be asked for.
	f.send(to("GET", "/v1/events?type=webhook.failed,a.b", "")).is(200)
}

// TestTexts_ClaimOnlyWhatIsThere: the description names what a filter can read and
// what it bears, the reasons that deliveries have, and that owners' notices prove
// nothing.
func TestTexts_ClaimOnlyWhatIsThere(t *testing.T) {
	t.Parallel()
	f := newFixture(t, everything)
	document := string(f.api.document)
	for _, want := range []string{
		"A CEL expression over type, event (id, type, created_at, ordering_key, tenant) and data: of the events", "More reasons may come.",
		"limited, expanding, transform_error, proxy_error, filter_budget are names for what may come later",
		"by a POST of JSON with a webhook-id and without a signature",
	} {
		if !strings.Contains(document, want) {
			t.Errorf("the description does not say: %s", want)
		}
	}
	if strings.Contains(document, "type, headers and data") {
		t.Error("filters are said to read headers")
	}
	schemas := f.document["components"].(map[string]any)["schemas"].(map[string]any)
	for _, at := range []string{"Delivery", "Traced"} {
		reason := schemas[at].(map[string]any)["properties"].(map[string]any)["reason"].(map[string]any)
		known := reason["x-extensible-enum"].([]any)
		for _, r := range reservedReasons() {
			if slices.Contains(known, any(string(r))) {
				t.Errorf("%s: nothing has the reason %s", at, r)
			}
		}
		if len(known) < 5 {
			t.Errorf("%s: known are %v", at, known)
		}
	}
	f.send(to("GET", "/v1/deliveries?reason=limited,exhausted", "")).is(200)
}
