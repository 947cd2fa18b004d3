package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/posthorn/posthorn/internal/publish"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// TestPublishing_KeepsBytes: what was posted is what is shown, byte for byte.
func TestPublishing_KeepsBytes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.endpoint(adminKey)
	for _, data := range []string{
		`{"b":1,  "a":2,"b":3}`, `1.0e+2`, `"\u00e9\ud800"`, `[1,
2]`, `null`, `"<&>"`, `123456789012345678901234567890`, `{}`,
	} {
		id := f.publish(adminKey, `{"type":"a.b", "data": `+data+` }`)
		got := f.send(to("GET", "/v1/events/"+id, "")).is(200)
		if !strings.Contains(got.raw, `"data":`+data+"}") {
			t.Errorf("data %s is shown as %s", data, got.raw)
		}
		work := f.lastOffered()
		if string(work.Data) != data {
			t.Errorf("data %s goes out as %s", data, work.Data)
		}
		delivery := f.send(to("GET", "/v1/deliveries/"+work.DeliveryID, "")).is(200)
		if want := `{"type":"a.b","data":` + data + `}`; delivery.text("body") != want || delivery.text("body_encoding") != "utf8" {
			t.Errorf("the delivery's body is %q, want %q", delivery.text("body"), want)
		}
	}
}

// TestFault_B68_IdempotencyOverHTTP (ENGINE N3): the same again, other content,
// another tenant; by ID and by Idempotency-Key.
func TestFault_B68_IdempotencyOverHTTP(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	alpha, beta := f.tenant("alpha"), f.tenant("beta")
	f.endpoint(alpha)
	first := f.send(to("POST", "/v1/events", `{"id":"k1","type":"a.b","data":{"n":1}}`).key(alpha)).is(202)
	if first.raw != `{"id":"k1","deliveries":1}`+"\n" || first.header.Get("Posthorn-Replayed") != "" {
		t.Errorf("accepted as %s", first.raw)
	}
	again := f.send(to("POST", "/v1/events", `{"data":{"n":1},"id":"k1","type":"a.b"}`).key(alpha)).is(200)
	if again.raw != first.raw || again.header.Get("Posthorn-Replayed") != "true" {
		t.Errorf("repeated as %s %v", again.raw, again.header)
	}
	accepted := f.send(to("GET", "/v1/events/k1", "").key(alpha)).is(200).text("accepted_at")
	for _, other := range []string{`{"id":"k1","type":"a.b","data":{"n":2}}`, `{"id":"k1","type":"a.b","data":{ "n":1 }}`, `{"id":"k1","type":"a.c","data":{"n":1}}`} {
		if got := f.send(to("POST", "/v1/events", other).key(alpha)).problem(409, "conflict_id"); got.json["first_accepted_at"] != accepted {
			t.Errorf("first accepted at %v, want %s", got.json["first_accepted_at"], accepted)
		}
	}
	f.send(to("POST", "/v1/events", `{"id":"k1","type":"a.b","data":{"n":2}}`).key(beta)).is(202)

	post := func(key, body string) got {
		return f.send(to("POST", "/v1/events", body).key(alpha).with("Idempotency-Key", key))
	}
	one := post("order 4711 ✓", `{"type":"a.b","data":1}`).is(202)
	if got := post("order 4711 ✓", `{"type":"a.b","data":1}`).is(200); got.raw != one.raw || got.header.Get("Posthorn-Replayed") != "true" {
		t.Errorf("repeated by key as %s", got.raw)
	}
	post("order 4711 ✓", `{"type":"a.b","data":2}`).problem(409, "conflict_id")
	post("order 4711 ✓", `{"id":"own","type":"a.b","data":2}`).is(202)
	post("k", `{"type":"a.b","data":1}`).is(202)
	post(strings.Repeat("k", 256), `{"type":"a.b","data":1}`).is(202)
	post(strings.Repeat("k", 2000), `{"type":"a.b","data":1}`).problem(422, "invalid_field").faultAt("Idempotency-Key", "invalid_field")
	post("%00", `{"type":"a.b","data":1}`).is(202)
	if got := f.send(to("POST", "/v1/events", `{"type":"a.b","data":1}`).key(alpha)).is(202); got.text("id") == one.text("id") {
		t.Error("an event without key or id is taken for a repeat")
	}
}

// TestPublishing_Lines: NDJSON answers always 200, a line for each line, in order;
// what is refused holds nothing back.
func TestPublishing_Lines(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.endpoint(adminKey)
	body := strings.Join([]string{
		`{"id":"a","type":"a.b","data":1}`, ``, `{"type":"no good","data":1,"extra":2}`, `{"id":"a","type":"a.b","data":1}`, `{"id":"a","type":"a.b","data":2}`, `nonsense`, `{"type":"a.b","data":1}`,
	}, "\n")
	got := f.send(to("POST", "/v1/events", body).with("Content-Type", "application/x-ndjson")).is(200)
	if got.header.Get("Posthorn-Accepted") != "3" || got.header.Get("Posthorn-Refused") != "3" {
		t.Errorf("headers are %v", got.header)
	}
	want := []struct {
		line, status float64
		code         string
	}{{1, 202, ""}, {3, 422, "invalid_field"}, {4, 200, ""}, {5, 409, "conflict_id"}, {6, 400, "invalid_body"}, {7, 202, ""}}
	lines := strings.Split(strings.TrimSpace(got.raw), "\n")
	if len(lines) != len(want) {
		t.Fatalf("answered %s", got.raw)
	}
	for i, text := range lines {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		f.fits("/components/schemas/Line", line)
		code, _ := line["code"].(string)
		if line["line"] != want[i].line || line["status"] != want[i].status || code != want[i].code {
			t.Errorf("line %d is %s", i, text)
		}
		if want[i].code == "conflict_id" && line["first_accepted_at"] == nil {
			t.Errorf("the conflict does not say when the first was accepted: %s", text)
		}
		if want[i].status == 422 && len(line["errors"].([]any)) != 2 {
			t.Errorf("line %d does not name its fields: %s", i, text)
		}
	}
	if none := f.send(to("POST", "/v1/events", "").with("Content-Type", "application/x-ndjson")).is(200); none.header.Get("Content-Type") != "application/x-ndjson" || none.raw != "" {
		t.Errorf("no lines are answered as %q: %q", none.header.Get("Content-Type"), none.raw)
	}
	again := f.send(to("POST", "/v1/events", `{"type":"a.b","data":1}`+"\n"+`{"type":"a.b","data":1}`).with("Content-Type", "application/x-ndjson; charset=utf-8").with("Idempotency-Key", "x"))
	once := f.send(to("POST", "/v1/events", `{"type":"a.b","data":1}`+"\n"+`{"type":"a.b","data":1}`).with("Content-Type", "application/x-ndjson").with("Idempotency-Key", "x"))
	if strings.ReplaceAll(again.raw, "202", "200") != once.raw {
		t.Errorf("by key, %s and then %s", again.raw, once.raw)
	}
	f.send(to("POST", "/v1/events", strings.Repeat(`{"type":"a.b","data":1}`+"\n", 1001)).with("Content-Type", "application/x-ndjson")).problem(413, "too_large").faultAt("", "ndjson_lines")
	f.send(to("POST", "/v1/events", strings.Repeat(" ", 16<<20+1)).with("Content-Type", "application/x-ndjson")).problem(413, "too_large").faultAt("", "ndjson_bytes")
}

// TestPublishing_Refusals: every way in which one event is refused.
func TestPublishing_Refusals(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const good = `{"type":"a.b","data":1}`
	for _, media := range []string{"", "text/plain", "application/xml", "application/json; charset=latin1", "nonsense/", "application/merge-patch+json"} {
		f.send(to("POST", "/v1/events", good).with("Content-Type", media)).problem(415, "unsupported_type").faultAt("Content-Type", "unsupported_type")
	}
	for _, media := range []string{"application/json", "application/json; charset=utf-8", "Application/JSON"} {
		f.send(to("POST", "/v1/events", good).with("Content-Type", media)).is(202)
	}
	f.send(to("POST", "/v1/events", "")).problem(415, "unsupported_type")
	f.send(to("POST", "/v1/events", good).with("Content-Encoding", "gzip")).problem(415, "unsupported_type").faultAt("Content-Encoding", "unsupported_type")
	f.send(to("POST", "/v1/events?dry_run=1", good)).problem(422, "unknown_field").faultAt("dry_run", "unknown_field")
	f.send(to("POST", "/v1/events", `{"type":"a.b","data":1,"data":2}`)).problem(400, "invalid_body")
	f.send(to("POST", "/v1/events", `{"type":"a.b"`)).problem(400, "invalid_body")
	f.send(to("POST", "/v1/events", `{"type":"a.b"}`)).problem(422, "invalid_field").faultAt("/data", "invalid_field")
	f.send(to("POST", "/v1/events", `{"type":"a.b","data":1,"run":"x"}`)).problem(422, "unknown_field").faultAt("/run", "unknown_field")
	f.send(to("POST", "/v1/events", `{"type":"endpoint.paused","data":1}`)).problem(422, "invalid_field").faultAt("/type", "invalid_field")
	f.send(to("POST", "/v1/events", `{"id":"a.b","type":"a.b","data":1}`)).problem(422, "invalid_field").faultAt("/id", "invalid_field")
	full := strings.Repeat("x", publish.DefaultEventBytes-2)
	f.send(to("POST", "/v1/events", `{"type":"a.b","data":"`+full+`"}`)).is(202)
	f.send(to("POST", "/v1/events", `{"type":"a.b","data":"`+full+`x"}`)).problem(413, "too_large").faultAt("/data", "event_bytes")
	f.send(to("POST", "/v1/events", `{"type":"a.b","data":"`+full+full+`"}`)).problem(413, "too_large").faultAt("/data", "event_bytes")
}

// busyPublisher refuses as the store does when too much waits.
type busyPublisher struct{ err error }

func (b busyPublisher) Publish(_ context.Context, _ string, events []publish.Event) ([]publish.Result, error) {
	results := make([]publish.Result, len(events))
	for i := range results {
		results[i].Err = b.err
		if i == 0 && len(events) > 1 {
			results[i] = publish.Result{ID: "evt_1", Deliveries: 1}
		}
	}
	return results, nil
}

// TestEngine_N5_OverloadOverHTTP: 503 with Retry-After; in the middle of NDJSON,
// 503 lines behind the accepted ones.
func TestEngine_N5_OverloadOverHTTP(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) {
		c.Publisher = busyPublisher{webhook.NewProblem(webhook.CodeOverloaded, "there is too much to do")}
	})
	got := f.send(to("POST", "/v1/events", `{"type":"a.b","data":1}`)).problem(503, "overloaded")
	if got.header.Get("Retry-After") != "1" {
		t.Errorf("headers are %v", got.header)
	}
	lines := f.send(to("POST", "/v1/events", `{"type":"a.b","data":1}`+"\n"+`{"type":"a.b","data":1}`).with("Content-Type", "application/x-ndjson")).is(200)
	if !strings.Contains(lines.raw, `"status":202`) || !strings.Contains(lines.raw, `"status":503`) || lines.header.Get("Posthorn-Refused") != "1" {
		t.Errorf("answered %s", lines.raw)
	}
}

// TestEvents_CancelAndErase: canceling ends what waits, erasing keeps the log.
func TestEvents_CancelAndErase(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.endpoint(adminKey)
	id := f.publish(adminKey, `{"type":"a.b","data":{"email":"a@b.example"},"ordering_key":"k","created_at":"2026-05-22T14:32:18.8479Z","expires_at":"2999-01-01T00:00:00+01:00"}`)
	delivery := f.lastOffered().DeliveryID
	got := f.send(to("GET", "/v1/events/"+id, "")).is(200)
	if got.text("created_at") != "2026-05-22T14:32:18.847Z" || got.text("expires_at") != "2998-12-31T23:00:00.000Z" || got.text("ordering_key") != "k" ||
		fmt.Sprint(got.json["deliveries"]) != "map[by_status:map[pending:1] total:1]" || got.json["erased"] != false {
		t.Errorf("the event is %s", got.raw)
	}
	f.send(to("DELETE", "/v1/events/"+id, "")).is(204)
	if got := f.send(to("GET", "/v1/deliveries/"+delivery, "")).is(200); got.json["status"] != "canceled" || got.json["reason"] != "canceled" || got.json["next_attempt_at"] != nil || got.json["finished_at"] == nil {
		t.Errorf("the delivery is %s", got.raw)
	}
	f.send(to("DELETE", "/v1/events/"+id, "")).is(204)
	f.send(to("DELETE", "/v1/events/"+id+"/data", "")).is(204)
	f.send(to("DELETE", "/v1/events/"+id+"/data", "")).is(204)
	got = f.send(to("GET", "/v1/events/"+id, "")).is(200)
	if got.json["data"] != nil || got.json["erased"] != true || strings.Contains(got.raw, "a@b.example") {
		t.Errorf("the erased event is %s", got.raw)
	}
	if got := f.send(to("GET", "/v1/deliveries/"+delivery, "")).is(200); got.json["body"] != nil || strings.Contains(got.raw, "a@b.example") {
		t.Errorf("the erased event's delivery is %s", got.raw)
	}
	listed := f.send(to("GET", "/v1/events?type=a.b,c.d&ordering_key=k", "")).is(200).items()
	if len(listed) != 1 || listed[0]["data"] != nil {
		t.Errorf("listed as %v", listed)
	}
	if got := f.send(to("GET", "/v1/events?type=c.d", "")).is(200).items(); len(got) != 0 {
		t.Errorf("another type lists %v", got)
	}
	f.send(to("DELETE", "/v1/events/evt_none", "")).problem(404, "not_found")
	f.send(to("DELETE", "/v1/events/evt_none/data", "")).problem(404, "not_found")
}

// failingStore fails in a way that is internal, with a text that nobody may see.
type failingStore struct {
	Store
	err *error
}

func (s failingStore) GetEvent(context.Context, string, string) (*webhook.Event, error) {
	return nil, *s.err
}

func (s failingStore) ListEvents(context.Context, string, store.EventFilter, store.Page) (store.Listed[*webhook.Event], error) {
	panic("whsec_in_a_panic")
}

// TestErrors_InternalIsNotShown: the store's errors have their codes; what is
// internal is logged and not shown; a panic is an answer and shows nothing.
func TestErrors_InternalIsNotShown(t *testing.T) {
	t.Parallel()
	var failure error
	f := newFixture(t, func(c *Config) { c.Store = failingStore{c.Store, &failure} })
	for err, code := range map[error]string{
		store.ErrNotFound: "not_found", store.ErrOverloaded: "overloaded", store.ErrStale: "overloaded", store.ErrUnknown: "overloaded",
		store.ErrClosed: "not_ready", context.DeadlineExceeded: "overloaded", context.Canceled: "not_ready",
	} {
		failure = fmt.Errorf("reading: %w", err)
		got := f.send(to("GET", "/v1/events/evt_1", ""))
		if got.json["code"] != code || strings.Contains(got.raw, "reading:") {
			t.Errorf("%v is answered as %s", err, got.raw)
		}
	}
	if log := f.log.String(); log != "" {
		t.Errorf("what the caller may read is logged as well: %s", log)
	}
	failure = errors.New("disk on fire")
	if got := f.send(to("GET", "/v1/events/evt_1", "")).problem(500, "internal"); strings.Contains(got.raw, "fire") {
		t.Errorf("answered %s", got.raw)
	}
	f.send(to("GET", "/v1/events", "")).problem(500, "internal")
	log := f.log.String()
	if !strings.Contains(log, "disk on fire") || !strings.Contains(log, "request panicked") || strings.Contains(log, "whsec_in_a_panic") {
		t.Errorf("logged is %s", log)
	}
}

// TestErrors_AbortPassesOn: the server's own way to end an answer is no panic of ours.
func TestErrors_AbortPassesOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) {
		c.Metrics = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	})
	defer func() {
		if cause := recover(); cause != http.ErrAbortHandler { //nolint:errorlint // because a panic's value is compared
			t.Errorf("recovered %v", cause)
		}
	}()
	f.send(to("GET", "/metrics", ""))
}
