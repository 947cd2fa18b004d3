package api

import (
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// TestDeliveries_Detail: body, masked headers, and every attempt, whatever bytes
// the receiver answered with.
func TestDeliveries_Detail(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.send(to("PUT", "/v1/endpoints/crm", `{"url":"https://example.com/","events":["*"],"headers":{"X-Api-Key":"h3ad3r-value"}}`)).is(201)
	event := f.publish(adminKey, `{"type":"a.b","data":{"n": 1}}`)
	work := f.lastOffered()
	now := f.api.cfg.Clock.Wall()
	f.record(work, store.RecordParams{
		Attempt: &webhook.Attempt{
			Round: 1, Try: 1, Counted: true, At: now, Duration: 1500 * time.Microsecond, StatusCode: 500, FailureKind: webhook.KindHTTPStatus,
			Error: "The server answered with status 500.", Address: "192.0.2.1:443", Response: []byte{0xff, 0xfe, 0}, Truncated: true,
		},
		Status: contract.StatusPending, Reason: webhook.WhyRetry, FailureKind: webhook.KindHTTPStatus, NextAt: now.Add(time.Minute), Counts: true, Now: now,
	})
	work.Attempts = 1
	got := f.send(to("GET", "/v1/deliveries/"+work.DeliveryID, "")).is(200)
	for name, want := range map[string]any{
		"event": event, "endpoint": "crm", "type": "a.b", "contract": "standard", "trigger": "event", "status": "pending", "reason": "retry", "failure_kind": "http_status",
		"round": 1.0, "attempt_count": 1.0, "status_code": 500.0, "duration_ms": 1.5, "body": `{"type":"a.b","data":{"n": 1}}`, "body_encoding": "utf8",
		"content_type": "application/json", "finished_at": nil, "webhook_id": event,
	} {
		if got.json[name] != want {
			t.Errorf("%s is %v, want %v", name, got.json[name], want)
		}
	}
	if got.json["next_attempt_at"] == nil {
		t.Error("there is no next attempt")
	}
	headers := got.json["request_headers"].(map[string]any)
	if headers["X-Api-Key"] != "[redacted]" || headers["webhook-id"] != event || strings.Contains(got.raw, "h3ad3r-value") {
		t.Errorf("headers are %v", headers)
	}
	attempt := got.json["attempts"].([]any)[0].(map[string]any)
	if attempt["response"] != "//4A" || attempt["response_encoding"] != "base64" || attempt["response_truncated"] != true || attempt["address"] != "192.0.2.1:443" ||
		attempt["duration_ms"] != 1.5 || attempt["number"] != 1.0 || !strings.HasPrefix(attempt["id"].(string), "att_") {
		t.Errorf("the attempt is %v", attempt)
	}
	f.record(work, store.RecordParams{
		Attempt: &webhook.Attempt{Round: 1, Try: 2, Counted: true, At: now, Duration: time.Millisecond, StatusCode: 204},
		Status:  contract.StatusDelivered, Counts: true, Now: now,
	})
	got = f.send(to("GET", "/v1/deliveries/"+work.DeliveryID, "")).is(200)
	if got.json["status"] != "delivered" || got.json["failure_kind"] != nil || got.json["next_attempt_at"] != nil || len(got.json["attempts"].([]any)) != 2 {
		t.Errorf("delivered as %s", got.raw)
	}
	if e := f.send(to("GET", "/v1/endpoints/crm", "")).is(200); e.json["waiting"] != 0.0 || e.json["health"].(map[string]any)["last_success_at"] == nil {
		t.Errorf("the endpoint is %s", e.raw)
	}
	// The log outlives the endpoint.
	f.send(to("DELETE", "/v1/endpoints/crm", "")).is(204)
	f.send(to("GET", "/v1/deliveries/"+work.DeliveryID, "")).is(200)
}

// TestDeliveries_Cancel: waiting ones end; ended ones are refused, canceled ones
// stay as they are.
func TestDeliveries_Cancel(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.endpoint(adminKey)
	f.publish(adminKey, `{"type":"a.b","data":1}`)
	work := f.lastOffered()
	path := "/v1/deliveries/" + work.DeliveryID
	if got := f.send(to("POST", path+"/cancel", "")).is(200); got.json["status"] != "canceled" || got.json["reason"] != "canceled" {
		t.Errorf("canceled as %s", got.raw)
	}
	f.send(to("POST", path+"/cancel", "{}")).is(200)
	f.send(to("POST", path+"/cancel", `{"force":true}`)).problem(422, "unknown_field").faultAt("/force", "unknown_field")
	f.publish(adminKey, `{"type":"a.b","data":1}`)
	work = f.lastOffered()
	now := f.api.cfg.Clock.Wall()
	f.record(work, store.RecordParams{
		Attempt: &webhook.Attempt{Round: 1, Try: 1, Counted: true, At: now, Duration: time.Millisecond, StatusCode: 204}, Status: contract.StatusDelivered, Counts: true, Now: now,
	})
	f.send(to("POST", "/v1/deliveries/"+work.DeliveryID+"/cancel", "")).problem(409, "conflict")
	f.send(to("POST", "/v1/deliveries/dlv_none/cancel", "")).problem(404, "not_found")
}

// A delivery tells that its round has the schedule of a degraded endpoint.
func TestContract_E8_ADeliveryTellsItsSchedule(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, degraded := range []bool{true, false} {
		if got := f.api.showDelivery(&webhook.Delivery{Degraded: degraded}); got.Degraded != degraded {
			t.Errorf("%t is shown as %t", degraded, got.Degraded)
		}
	}
}
