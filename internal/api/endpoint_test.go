package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

const plainEndpoint = `{"url":"https://example.com/hook","events":["*"]}`

// TestEndpoints_SecretIsShownOnce (E2): taken unchanged or made, in the answer to
// the creation, and in no other answer and no log.
func TestEndpoints_SecretIsShownOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const given = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	made := f.send(to("POST", "/v1/endpoints", `{"url":"https://example.com/?token=t0k3n","events":["*"],"secret":"`+given+`","headers":{"X-Api-Key":"h3ad3r-value"}}`)).is(201)
	if made.text("secret") != given {
		t.Errorf("the secret is %s", made.raw)
	}
	ours := f.send(to("POST", "/v1/endpoints", plainEndpoint)).is(201)
	if secret := ours.text("secret"); !strings.HasPrefix(secret, "whsec_") || len(secret) != len("whsec_")+44 {
		t.Errorf("the secret that we made is %q", secret)
	}
	path := "/v1/endpoints/" + made.text("id")
	for _, got := range []got{
		f.send(to("GET", path, "")).is(200),
		f.send(to("PATCH", path, `{"description":"x"}`)).is(200),
		f.send(to("PUT", path, `{"url":"https://example.com/","events":["*"],"secret":"`+given+`"}`)).is(200),
		f.send(to("POST", path+"/pause", "")).is(200),
		f.send(to("GET", "/v1/endpoints", "")).is(200),
	} {
		if strings.Contains(got.raw, given) || strings.Contains(got.raw, "h3ad3r-value") || got.json["secret"] != nil {
			t.Errorf("a secret is shown again: %s", got.raw)
		}
	}
	stored, err := f.db.GetEndpoint(t.Context(), "default", made.text("id"))
	if err != nil || stored.Secrets[0].Text.Reveal() != given {
		t.Errorf("stored is another secret (%v)", err)
	}
	for _, secret := range []string{given, "h3ad3r-value", "t0k3n", adminKey} {
		if strings.Contains(f.log.String(), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}

// TestEndpoints_SecretRules: what a caller's secret has to be, without any echo.
func TestEndpoints_SecretRules(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const seed = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	for _, secret := range []string{
		"", "whsec_", "whsec_!!!", "whsec_c2hvcnQ=", seed, "whsec_" + strings.Repeat("QUJD", 22), "whpk_" + seed, "whsk_c2hvcnQ=", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n",
	} {
		got := f.send(to("POST", "/v1/endpoints", fmt.Sprintf(`{"url":"https://example.com/","events":["*"],"secret":%q}`, secret))).problem(422, "invalid_field")
		got.faultAt("/secret", "invalid_field")
		if len(secret) > 8 && strings.Contains(got.raw, secret) {
			t.Errorf("the secret is repeated: %s", got.raw)
		}
	}
	made := f.send(to("POST", "/v1/endpoints", `{"url":"https://example.com/","events":["*"],"secret":"whsk_`+seed+`"}`)).is(201)
	public := made.json["secrets"].([]any)[0].(map[string]any)["public_key"]
	if !strings.HasPrefix(fmt.Sprint(public), "whpk_") {
		t.Errorf("an Ed25519 secret shows no public key: %s", made.raw)
	}
}

// TestEndpoints_Shape: defaults and every field of a fresh endpoint.
func TestEndpoints_Shape(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	got := f.send(to("POST", "/v1/endpoints", plainEndpoint)).is(201)
	want := map[string]any{
		"tenant": "default", "url": "https://example.com/hook", "contract": "standard", "state": "active", "state_reason": nil, "banner": nil,
		"description": "", "max_in_flight": 128.0, "waiting": 0.0, "oldest_due_at": nil, "version": 1.0,
	}
	for name, v := range want {
		if got.json[name] != v {
			t.Errorf("%s is %v, want %v", name, got.json[name], v)
		}
	}
	if id := got.text("id"); !strings.HasPrefix(id, "ep_") || got.header.Get("Location") != "/v1/endpoints/"+id || got.header.Get("Etag") != `"1"` {
		t.Errorf("id is %s, headers are %v", id, got.header)
	}
	for _, name := range []string{"created_at", "updated_at", "state_since"} {
		if _, err := time.Parse("2006-01-02T15:04:05.000Z", got.text(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	listed := f.send(to("GET", "/v1/endpoints", "")).is(200).items()
	if len(listed) != 1 || listed[0]["waiting"] != nil {
		t.Errorf("listed as %v", listed)
	}
	f.send(to("DELETE", "/v1/endpoints/"+got.text("id"), "")).is(204)
	f.send(to("DELETE", "/v1/endpoints/"+got.text("id"), "")).problem(404, "not_found")
	f.send(to("GET", "/v1/endpoints/"+got.text("id"), "")).problem(404, "not_found")
}

// TestEndpoints_Put: creates, replaces, is safe to repeat, and leaves the secret
// and the switch alone unless told.
func TestEndpoints_Put(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	body := `{"url":"https://example.com/a","events":["a.*"],"description":"one","metadata":{"k":"v"},"headers":{"X-A":"1"},"max_in_flight":4}`
	made := f.send(to("PUT", "/v1/endpoints/crm", body)).is(201)
	if made.text("secret") == "" || made.text("id") != "crm" || made.header.Get("Location") != "/v1/endpoints/crm" {
		t.Errorf("created %s", made.raw)
	}
	before, _ := f.db.GetEndpoint(t.Context(), "default", "crm")
	f.send(to("POST", "/v1/endpoints/crm/pause", "")).is(200)
	again := f.send(to("PUT", "/v1/endpoints/crm", `{"url":"https://example.com/b","events":["b"]}`)).is(200)
	if again.json["secret"] != nil || again.json["state"] != "paused" || again.json["description"] != "" || again.json["max_in_flight"] != 128.0 ||
		len(again.json["headers"].(map[string]any)) != 0 || len(again.json["metadata"].(map[string]any)) != 0 {
		t.Errorf("replaced %s", again.raw)
	}
	after, _ := f.db.GetEndpoint(t.Context(), "default", "crm")
	if before.Secrets[0].Text.Reveal() != after.Secrets[0].Text.Reveal() {
		t.Error("replacing changed the secret")
	}
	const other = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
	f.send(to("PUT", "/v1/endpoints/crm", `{"url":"https://example.com/b","events":["b"],"secret":"`+other+`","active":true}`)).is(200)
	after, _ = f.db.GetEndpoint(t.Context(), "default", "crm")
	if len(after.Secrets) != 1 || after.Secrets[0].Text.Reveal() != other || after.State != webhook.EndpointActive {
		t.Errorf("a given secret is not the only one, or active was not followed")
	}
	f.send(to("PUT", "/v1/endpoints/Not-Ours", plainEndpoint)).problem(422, "invalid_field").faultAt("id", "invalid_field")
	f.send(to("PUT", "/v1/endpoints/new", plainEndpoint).with("If-Match", "1")).problem(409, "conflict")
	f.send(to("PUT", "/v1/endpoints/crm", plainEndpoint).with("If-Match", `"1"`)).problem(409, "conflict").faultAt("If-Match", "conflict")
}

// TestEndpoints_MergePatch (RFC 7396) and If-Match.
func TestEndpoints_MergePatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.send(to("POST", "/v1/endpoints", `{"url":"https://example.com/a","events":["a"],"description":"one","metadata":{"a":"1","b":"2"},"headers":{"X-A":"1","X-B":"2"},"max_in_flight":4}`)).is(201).text("id")
	path := "/v1/endpoints/" + id
	patch := func(body string) got {
		return f.send(to("PATCH", path, body).with("Content-Type", "application/merge-patch+json"))
	}
	got := patch(`{"events":["b","c.*"],"metadata":{"a":null,"c":"3"},"headers":{"x-b":null,"X-C":"3","X-A":"[redacted]"},"description":null,"max_in_flight":null}`).is(200)
	if fmt.Sprint(got.json["events"]) != "[b c.*]" || fmt.Sprint(got.json["metadata"]) != "map[b:2 c:3]" || got.json["description"] != "" || got.json["max_in_flight"] != 128.0 {
		t.Errorf("patched %s", got.raw)
	}
	stored, _ := f.db.GetEndpoint(t.Context(), "default", id)
	var headers []string
	for _, h := range stored.Headers {
		headers = append(headers, h.Name+"="+h.Value.Reveal())
	}
	if strings.Join(headers, " ") != "X-A=1 X-C=3" {
		t.Errorf("headers are %v", headers)
	}
	if got := patch(`{"contract":null,"headers":null,"metadata":null}`).is(200); got.json["contract"] != "standard" || len(got.json["headers"].(map[string]any)) != 0 {
		t.Errorf("patched %s", got.raw)
	}
	patch(`{"url":null}`).problem(422, "invalid_field").faultAt("/url", "invalid_field")
	patch(`{"events":[]}`).problem(422, "invalid_field").faultAt("/events", "invalid_field")
	patch(`{"secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}`).problem(422, "unknown_field").faultAt("/secret", "unknown_field")
	patch(`{"id":"x","type":"poll"}`).problem(422, "unknown_field").faultAt("/type", "unknown_field")
	patch(`{"headers":{"X-New":"[redacted]"}}`).problem(422, "invalid_field").faultAt("/headers/X-New", "invalid_field")
	patch(`[]`).problem(422, "invalid_field").faultAt("", "invalid_field")

	version := fmt.Sprint(f.send(to("GET", path, "")).is(200).json["version"])
	if got := f.send(to("PATCH", path, `{}`)).is(200); fmt.Sprint(got.json["version"]) != version {
		t.Error("an empty patch raised the version")
	}
	f.send(to("PATCH", path, `{"description":"x"}`).with("If-Match", `"`+version+`"`)).is(200)
	f.send(to("PATCH", path, `{"description":"y"}`).with("If-Match", version)).problem(409, "conflict")
	f.send(to("PATCH", path, `{"description":"y"}`).with("If-Match", "*")).is(200)
	f.send(to("PATCH", path, `{"description":"y"}`).with("If-Match", "soon")).problem(422, "invalid_field").faultAt("If-Match", "invalid_field")
	f.send(to("PATCH", path, `{}`).with("Content-Type", "application/json-patch+json")).problem(415, "unsupported_type")
}

// TestEndpoints_Switches: every state and every way to change it, through the API.
func TestEndpoints_Switches(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const body = `{"url":"https://example.com/","events":["endpoint.*"]}`
	type row struct{ from, do, state, reason, event string }
	rows := []row{
		{"active", "pause", "paused", "person", "endpoint.paused"},
		{"active", "resume", "active", "", ""},
		{"active", "enable", "active", "", ""},
		{"active", "disable", "disabled", "staff", "endpoint.disabled"},
		{"active", "off", "paused", "switched_off", "endpoint.paused"},
		{"active", "on", "active", "", ""},
		{"paused", "pause", "paused", "person", ""},
		{"paused", "resume", "active", "", "endpoint.resumed"},
		{"paused", "enable", "active", "", "endpoint.resumed"},
		{"paused", "disable", "disabled", "staff", "endpoint.disabled"},
		{"paused", "off", "paused", "switched_off", ""},
		{"paused", "on", "active", "", "endpoint.resumed"},
		{"gone", "pause", "409", "", ""},
		{"gone", "resume", "409", "", ""},
		{"gone", "enable", "active", "", "endpoint.enabled"},
		{"gone", "disable", "disabled", "staff", ""},
		{"gone", "off", "disabled", "gone", ""},
		{"gone", "on", "active", "", "endpoint.enabled"},
	}
	for i, r := range rows {
		id := fmt.Sprintf("e%d", i)
		f.send(to("PUT", "/v1/endpoints/"+id, body)).is(201)
		f.setState(id, r.from)
		before := f.send(to("GET", "/v1/events", "")).is(200).items()
		got := f.do(id, r.do)
		if r.state == "409" {
			got.problem(409, "conflict")
			continue
		}
		got.is(200)
		reason, _ := got.json["state_reason"].(string)
		if got.json["state"] != r.state || reason != r.reason {
			t.Errorf("%s from %s: %v/%s, want %s/%s", r.do, r.from, got.json["state"], reason, r.state, r.reason)
		}
		emitted := f.send(to("GET", "/v1/events", "")).is(200).items()
		if r.event == "" && len(emitted) != len(before) {
			t.Errorf("%s from %s emitted %v", r.do, r.from, emitted[0]["type"])
		}
		if r.event != "" && (len(emitted) != len(before)+1 || emitted[0]["type"] != r.event) {
			t.Errorf("%s from %s did not emit %s", r.do, r.from, r.event)
		}
		if r.state == "active" && got.json["health"].(map[string]any)["failures_in_row"] != 0.0 && r.from != "active" {
			t.Errorf("%s from %s: health goes on from %v", r.do, r.from, got.json["health"])
		}
	}
}

func (f *fixture) do(id, what string) got {
	f.Helper()
	switch what {
	case "off":
		return f.send(to("PATCH", "/v1/endpoints/"+id, `{"active":false}`))
	case "on":
		return f.send(to("PATCH", "/v1/endpoints/"+id, `{"active":true}`))
	default:
		return f.send(to("POST", "/v1/endpoints/"+id+"/"+what, ""))
	}
}

// setState brings an endpoint into a state past the API, with a failure behind it.
func (f *fixture) setState(id, state string) {
	f.Helper()
	now := f.api.cfg.Clock.Wall()
	_, err := f.db.UpdateEndpoint(f.Context(), "default", id, now, func(e *webhook.Endpoint) (store.EndpointUpdate, error) {
		e.Health = webhook.Health{FailuresInRow: 3, FirstFailureAt: now}
		switch state {
		case "paused":
			setState(e, webhook.EndpointPaused, webhook.ReasonPerson, now)
		case "gone":
			setState(e, webhook.EndpointDisabled, webhook.ReasonGone, now)
		}
		return store.EndpointUpdate{}, nil
	})
	if err != nil {
		f.Fatal(err)
	}
}

// TestEngine_N19_SwitchEventsAreForSubscribers: the event of a switch is there
// when the switch is, goes to those that wrote its family out, and says why.
func TestEngine_N19_SwitchEventsAreForSubscribers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.send(to("PUT", "/v1/endpoints/watcher", `{"url":"https://example.com/w","events":["endpoint.*"]}`)).is(201)
	f.send(to("PUT", "/v1/endpoints/all", `{"url":"https://example.com/a","events":["*"]}`)).is(201)
	f.send(to("POST", "/v1/endpoints/all/disable", `{"reason":"it was asked for"}`)).is(200)
	event := f.send(to("GET", "/v1/events", "")).is(200).items()[0]
	got := f.send(to("GET", "/v1/events/"+event["id"].(string), "")).is(200)
	data := got.json["data"].(map[string]any)
	if got.json["type"] != "endpoint.disabled" || data["endpoint"] != "all" || data["state_reason"] != "staff" || data["detail"] != "it was asked for" || got.json["deliveries"].(map[string]any)["total"] != 1.0 {
		t.Errorf("the event is %s", got.raw)
	}
	deliveries := f.send(to("GET", "/v1/deliveries", "")).is(200).items()
	if len(deliveries) != 1 || deliveries[0]["endpoint"] != "watcher" {
		t.Errorf("it goes to %v", deliveries)
	}
}

// TestEndpoints_Enable: what resume takes, and the banner of a 410.
func TestEndpoints_Enable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.send(to("PUT", "/v1/endpoints/crm", plainEndpoint)).is(201)
	f.setState("crm", "gone")
	if got := f.send(to("GET", "/v1/endpoints/crm", "")).is(200); !strings.Contains(got.text("banner"), "410") {
		t.Errorf("the banner is %s", got.raw)
	}
	got := f.send(to("POST", "/v1/endpoints/crm/enable", `{"resume":"later"}`)).problem(422, "invalid_field")
	if fault := got.faultAt("/resume", "invalid_field"); fault["allowed"] != "one of backlog, now" {
		t.Errorf("allowed is %v", fault["allowed"])
	}
	f.send(to("POST", "/v1/endpoints/crm/enable", `{"resume":"backlog"}`)).is(200)
	f.send(to("POST", "/v1/endpoints/crm/pause", `{"for":"1h"}`)).problem(422, "unknown_field").faultAt("/for", "unknown_field")
	key := f.send(to("POST", "/v1/tenants/default/keys", `{"scopes":["read","manage","publish"]}`)).is(201).text("key")
	f.send(to("POST", "/v1/endpoints/crm/disable", "").key(key)).problem(403, "forbidden")
	if got := f.send(to("POST", "/v1/endpoints", `{"url":"https://example.com/","events":["*"],"active":false}`)).is(201); got.json["state"] != "paused" || got.json["state_reason"] != "switched_off" {
		t.Errorf("created switched off: %s", got.raw)
	}
}

// TestFault_B84_HeadersAtCreation: what can't be sent is refused where it is
// given, without an echo of the value.
func TestFault_B84_HeadersAtCreation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	refused := map[string]string{
		"line break": `{"X-A":"a\r\nX-Injected: 1"}`, "folded": `{"X-A":"a\n b"}`, "NUL": `{"X-A":"\u0000"}`, "letters": `{"X-A":"é"}`,
		"space in name": `{"X A":"1"}`, "colon in name": `{"X:A":"1"}`, "empty name": `{"":"1"}`, "empty value": `{"X-A":""}`,
		"Host": `{"Host":"evil.example"}`, "length": `{"Content-Length":"1"}`, "encoding": `{"Transfer-Encoding":"chunked"}`, "connection": `{"Connection":"close"}`,
		"signature": `{"webhook-signature":"v1,x"}`, "id": `{"Webhook-Id":"x"}`, "two cases": `{"X-A":"1","x-a":"2"}`,
		"a number": `{"X-A":1}`, "null": `{"X-A":null}`,
	}
	for name, headers := range refused {
		got := f.send(to("POST", "/v1/endpoints", `{"url":"https://example.com/","events":["*"],"headers":`+headers+`}`))
		got.problem(422, "invalid_field")
		for _, leak := range []string{"X-Injected", "evil.example", "chunked"} {
			if strings.Contains(got.raw, leak) {
				t.Errorf("%s: the value is repeated: %s", name, got.raw)
			}
		}
	}
	many := make([]string, 200)
	for i := range many {
		many[i] = fmt.Sprintf(`"X-%d":"1"`, i)
	}
	f.send(to("POST", "/v1/endpoints", `{"url":"https://example.com/","events":["*"],"headers":{`+strings.Join(many, ",")+`}}`)).
		problem(422, "invalid_field").faultAt("/headers", "endpoint_headers")
	f.send(to("POST", "/v1/endpoints", `{"url":"https://example.com/","events":["*"],"headers":{"X-A":"`+strings.Repeat("a", 64<<10)+`"}}`)).problem(422, "invalid_field")
	f.send(to("POST", "/v1/endpoints", `{"url":"https://example.com/","events":["*"],"headers":{"X-A":"`+strings.Repeat("a", 8190)+`"}}`)).
		problem(422, "invalid_field").faultAt("/headers", "endpoint_header_bytes")
	if got := f.send(to("GET", "/v1/endpoints", "")).is(200).items(); len(got) != 0 {
		t.Errorf("a refused endpoint was stored: %v", got)
	}
}

// TestEndpoints_BadFields: everything wrong is named at once, by pointer.
func TestEndpoints_BadFields(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	got := f.send(to("POST", "/v1/endpoints", `{"url":1,"events":["ok","no good",3],"active":"yes","max_in_flight":0,"metadata":{"a":1},"rate_limit":{},"transform":"x"}`)).problem(422, "invalid_field")
	for pointer, code := range map[string]string{
		"/url": "invalid_field", "/events/1": "invalid_field", "/events/2": "invalid_field", "/active": "invalid_field",
		"/max_in_flight": "invalid_field", "/metadata/a": "invalid_field", "/rate_limit": "unknown_field", "/transform": "unknown_field",
	} {
		got.faultAt(pointer, code)
	}
	got = f.send(to("POST", "/v1/endpoints", `{"url":"https://user:pa55word@example.com/","events":["*"],"contract":"nope"}`)).problem(422, "invalid_field")
	got.faultAt("/contract", "invalid_field")
	got = f.send(to("POST", "/v1/endpoints", `{"url":"https://user:pa55word@example.com/","events":["*"]}`)).problem(422, "invalid_field")
	got.faultAt("/url", "invalid_field")
	if strings.Contains(got.raw, "pa55word") {
		t.Errorf("the URL is repeated: %s", got.raw)
	}
	patterns := make([]string, 51)
	for i := range patterns {
		patterns[i] = fmt.Sprintf(`"t.%d"`, i)
	}
	f.send(to("POST", "/v1/endpoints", `{"url":"https://example.com/","events":[`+strings.Join(patterns, ",")+`]}`)).problem(422, "invalid_field").faultAt("/events", "endpoint_patterns")
	for text, want := range map[string]float64{"28.0": 28, "2.8e1": 28, "1000": 1000} {
		if got := f.send(to("POST", "/v1/endpoints", `{"url":"https://example.com/","events":["*"],"max_in_flight":`+text+`}`)).is(201); got.json["max_in_flight"] != want {
			t.Errorf("%s is taken as %v", text, got.json["max_in_flight"])
		}
	}
	for _, text := range []string{"28.5", "1e400", "-1", "1001", "1e300"} {
		f.send(to("POST", "/v1/endpoints", `{"url":"https://example.com/","events":["*"],"max_in_flight":`+text+`}`)).problem(422, "invalid_field").faultAt("/max_in_flight", "invalid_field")
	}
	f.send(to("POST", "/v1/endpoints", "")).problem(422, "invalid_field").faultAt("/url", "invalid_field")
	f.send(to("POST", "/v1/endpoints", `{"~a/b":1,"url":"https://example.com/","events":["*"]}`)).problem(422, "unknown_field").faultAt("/~0a~1b", "unknown_field")
}

// TestEndpoints_PatternsAgree: the pattern in the schema and that of the nouns
// say the same about what an endpoint may subscribe to.
func TestEndpoints_PatternsAgree(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	events, _ := f.api.schemas.components["EndpointInput"].Properties.find("events")
	for _, p := range []string{"*", "a", "a.*", "a.b.c.*", "A-_.9", "", ".", "a.", ".a", "a..b", "*.a", "**", "a*", "a.*.b", "a b", "é", "a.*\n", "endpoint.*"} {
		var found faults
		events.Items.check(p, "", &found)
		if (len(found) == 0) != webhook.ValidPattern(p) {
			t.Errorf("%q: the schema says %v, the noun %v", p, len(found) == 0, webhook.ValidPattern(p))
		}
	}
}

// TestEndpoints_Aliases: the other paths are the same routes, also with a query.
func TestEndpoints_Aliases(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, base := range []string{"/v1/webhooks", "/api/public/v1/webhooks"} {
		id := f.send(to("POST", base, plainEndpoint)).is(201).text("id")
		f.send(to("GET", base+"/"+id, "")).is(200)
		f.send(to("POST", base+"/"+id+"/pause", "")).is(200)
		if next := f.send(to("GET", base+"?limit=1", "")).is(200).items(); len(next) != 1 {
			t.Errorf("listed %v", next)
		}
		f.send(to("PATCH", base, "{}")).problem(405, "method_not_allowed")
		f.send(to("GET", base+"x", "")).problem(404, "not_found")
		f.send(to("DELETE", base+"/"+id, "")).is(204)
	}
	f.send(to("GET", "/api/public/v1/endpoints", "")).problem(404, "not_found")
	// A cursor of one path is good for the other: they are one list.
	f.endpoint(adminKey)
	f.endpoint(adminKey)
	cursor := f.send(to("GET", "/v1/webhooks?limit=1", "")).is(200).text("next")
	f.send(to("GET", "/v1/endpoints?limit=1&cursor="+cursor, "")).is(200)
}
