package app

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const elidoWhole = 36 * time.Hour // the schedule takes 31 h 5 m 31 s, ±10 %

// elidoTenant makes the default tenant Elido's, so that the seed's own path means
// its contract.
func (v *virtual) elidoTenant() {
	v.t.Helper()
	v.do(200, "PATCH", "/v1/tenants/default", `{"default_contract":"elido","owner_url":"http://127.0.0.1:9/owner"}`)
}

// subscribe is E2's own request.
func (v *virtual) subscribe(path string, events ...string) (id, secret string) {
	v.t.Helper()
	patterns, err := json.Marshal(events)
	if err != nil {
		v.t.Fatal(err)
	}
	secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
	made := v.do(201, "POST", "/v1/webhooks", fmt.Sprintf(`{"url":%q,"events":%s,"secret":%q,"active":true}`, virtualAddress+path, patterns, secret))
	if made.text("secret") != secret || made.text("contract") != "elido" {
		v.t.Fatalf("subscribing: %v", made)
	}
	return made.text("id"), secret
}

func TestElido_E2_E3_E5_SubscribingAndTheEnvelope(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.elidoTenant()
		e, secret := v.subscribe("/", "link.created")
		if shown := v.endpointNow(e); strings.Contains(fmt.Sprint(shown), secret) {
			t.Error("the secret is shown again")
		}
		id := v.publish("link.created", `{ "link_id" : "lnk_1", "n": 1.0 }`, `,"created_at":"2026-05-22T14:32:18.847Z"`)
		v.pass(time.Second)
		hits := v.net.at("/")
		if len(hits) != 1 {
			t.Fatalf("%d requests", len(hits))
		}
		want := `{"id":"` + id + `","type":"link.created","created_at":"2026-05-22T14:32:18.847Z","data":{ "link_id" : "lnk_1", "n": 1.0 },"workspace_id":"default"}`
		if string(hits[0].body) != want {
			t.Errorf("body %s\nwant %s", hits[0].body, want)
		}
		checkSignature(t, "elido", secret, hits[0])
		if h := hits[0].header; h.Get("Elido-Webhook-Id") != id || h.Get("Elido-Delivery-Attempt") != "1" {
			t.Errorf("headers %v", h)
		}
	})
}

func TestElido_E6_SevenAttemptsThenFailedAndTheInternalEvent(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.elidoTenant()
		v.net.on("/", answers(500))
		v.subscribe("/", "click")
		v.under("standard", "/told", "webhook.failed")
		// Two deliveries' failures in a row would degrade the endpoint for later ones;
		// this one was made before.
		id := v.publish("click", `{}`)
		v.pass(elidoWhole)
		checkWaits(t, v.net.at("/"), promise(t, "elido").Schedule.Waits, 0.1)
		if row := v.row("event=" + id); row.text("status") != "failed" || row.text("reason") != "exhausted" || row.number("attempt_count") != 7 {
			t.Errorf("afterwards: %v", row)
		}
		told := v.net.at("/told")
		if len(told) != 1 || !strings.Contains(string(told[0].body), id) {
			t.Errorf("webhook.failed arrived %d times", len(told))
		}
		for i, h := range v.net.at("/") {
			if h.header.Get("Elido-Webhook-Id") != id || h.header.Get("Elido-Delivery-Attempt") != strconv.Itoa(i+1) {
				t.Errorf("attempt %d: %v", i+1, h.header)
			}
		}
	})
}

func TestElido_E7_RetryAfterInThePlaceOfAShorterWait(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.elidoTenant()
		v.net.on("/", answers(429, "Retry-After", "120"))
		v.subscribe("/", "click")
		v.publish("click", `{}`)
		v.pass(5 * time.Minute)
		hits := v.net.at("/")
		if gap := hits[2].at.Sub(hits[1].at); gap < 120*time.Second || gap > 121*time.Second {
			t.Errorf("after the second failure it waits %v, want 120 s in place of 30", gap)
		}
	})
}

func TestElido_E8_DegradedThenPausedAndTheOwnerToldOnce(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.elidoTenant()
		v.net.on("/", answers(500))
		e, _ := v.subscribe("/", "click")
		v.under("standard", "/told", "endpoint.*")
		v.publish("click", `{"n":0}`)
		v.pass(40 * time.Second) // at once, 1 s, 30 s: three failures in a row
		now := v.endpointNow(e)
		until, err := time.Parse(time.RFC3339, now.text("degraded_until"))
		if left := time.Until(until); err != nil || now.text("state") != "active" || left < 23*time.Hour || left > 24*time.Hour {
			t.Fatalf("after three failures: %v", now)
		}
		made := v.publish("click", `{"n":1}`) // gets the waits 0, 5 m, 1 h, 24 h
		v.pass(23 * time.Hour)
		var at []time.Time
		for _, h := range v.net.at("/") {
			if h.header.Get("Elido-Webhook-Id") == made {
				at = append(at, h.at)
			}
		}
		if len(at) != 3 || at[1].Sub(at[0]) < 4*time.Minute || at[2].Sub(at[1]) < 50*time.Minute {
			t.Errorf("a delivery made while degraded went out at %v", at)
		}
		for i := range 60 { // 50 failures in a row pause it
			v.publish("click", fmt.Sprintf(`{"n":%d}`, i+2))
			v.pass(time.Second)
		}
		v.pass(time.Minute)
		now = v.endpointNow(e)
		if now.text("state") != "paused" || now.text("state_reason") != "failures_in_row" || now.number("health.failures_in_row") < 50 {
			t.Fatalf("after fifty: %v", now)
		}
		n := len(v.net.at("/"))
		v.pass(10 * 24 * time.Hour)
		if later := len(v.net.at("/")); later != n {
			t.Errorf("%d requests to a paused endpoint", later-n)
		}
		if told := v.net.at("/owner"); len(told) != 1 {
			t.Errorf("the owner was told %d times, want once", len(told))
		}
		var types []string
		for _, h := range v.net.at("/told") {
			var b struct{ Type string }
			if err := json.Unmarshal(h.body, &b); err != nil {
				t.Fatal(err)
			}
			types = append(types, b.Type)
		}
		if !slices.Equal(types, []string{"endpoint.degraded", "endpoint.paused"}) {
			t.Errorf("operational events %v", types)
		}
		v.net.on("/", answers(200))
		v.do(200, "POST", "/v1/webhooks/"+e+"/resume", "")
		v.pass(time.Minute)
		if c := v.counts("endpoint=" + e); c["pending"] != 0 {
			t.Errorf("after resuming: %v", c)
		}
		if now = v.endpointNow(e); now.number("health.failures_in_row") != 0 {
			t.Errorf("after resuming: %v", now)
		}
	})
}

func TestElido_E9_OneLinksEventsArriveInOrder(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.elidoTenant()
		v.net.on("/", script(500, 500, 200))
		v.subscribe("/", "*")
		var first, other []string
		for i := range 5 {
			first = append(first, v.publish("click", fmt.Sprintf(`{"link_id":"a","n":%d}`, i)))
		}
		for i := range 5 {
			other = append(other, v.publish("link.updated", fmt.Sprintf(`{"link":{"id":"b"},"n":%d}`, i)))
		}
		v.pass(500 * time.Millisecond)
		for _, id := range first[1:] {
			if row := v.row("event=" + id); row.text("reason") != "ordered" || row.text("next_attempt_at") != "" || row.text("ordering_key") != "a" {
				t.Errorf("behind another: %v", row)
			}
		}
		v.restart()
		v.pass(10 * time.Minute)
		for name, want := range map[string][]string{"a": first, "b": other} {
			var got []string
			for _, h := range v.net.at("/") {
				if id := h.header.Get("Elido-Webhook-Id"); slices.Contains(want, id) && !slices.Contains(got, id) {
					got = append(got, id)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("of link %s arrived %v, want %v", name, got, want)
			}
		}
		if c := v.counts(""); c["delivered"] != 10 {
			t.Errorf("afterwards: %v", c)
		}
	})
}

func TestElido_E11_ReplayAndTestByTheSeedsPaths(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.elidoTenant()
		e, _ := v.subscribe("/", "click")
		id := v.publish("click", `{"n":1}`)
		v.pass(time.Second)
		old := v.row("event=" + id)
		made := v.do(202, "POST", "/v1/webhooks/"+e+"/events/"+id+"/replay", "")
		v.pass(time.Second)
		if made.text("id") == old.text("id") || made.text("trigger") != "replay" {
			t.Errorf("the replay: %v", made)
		}
		if c := v.counts("event=" + id); c["delivered"] != 2 {
			t.Errorf("the old row stays, the new one is delivered: %v", c)
		}
		hits := v.net.at("/")
		if len(hits) != 2 || string(hits[0].body) != string(hits[1].body) || hits[1].header.Get("Elido-Webhook-Id") != id {
			t.Errorf("%d requests", len(hits))
		}
		result := v.do(200, "POST", "/v1/webhooks/"+e+"/test", "")
		v.pass(time.Second)
		test := v.net.at("/")[2]
		var body struct{ Type string }
		if err := json.Unmarshal(test.body, &body); err != nil || body.Type != "test" {
			t.Errorf("the test event: %s", test.body)
		}
		if result.number("status_code") != 200 && result.number("attempt.status_code") != 200 {
			t.Errorf("the test's answer: %v", result)
		}
		if c := v.counts("trigger=test"); c["delivered"] != 1 {
			t.Errorf("tests in the log: %v", c)
		}
	})
}

// A second replay takes nothing of what the first one sent.
func TestFault_B91_AnotherReplayTakesNothingTwice(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.elidoTenant()
		v.net.on("/", answers(500))
		e, _ := v.subscribe("/", "click")
		const events = 2 // not enough failures in a row for a pause
		for i := range events {
			v.publish("click", strconv.Itoa(i))
		}
		v.pass(elidoWhole)
		if n := v.counts("endpoint=" + e); n["failed"] != events {
			t.Fatalf("before: %v", n)
		}
		v.net.on("/", answers(200))
		before := len(v.net.at("/"))
		for range 2 {
			v.do(202, "POST", "/v1/endpoints/"+e+"/replay", `{"selection":{"status":["failed"]}}`)
			v.pass(time.Hour)
		}
		if n := len(v.net.at("/")) - before; n != events {
			t.Errorf("%d requests by two replays of %d", n, events)
		}
		if preview := v.do(200, "POST", "/v1/endpoints/"+e+"/replay", `{"selection":{"status":["failed"]},"dry_run":true}`); preview.number("count") != 0 {
			t.Errorf("a preview afterwards: %v", preview)
		}
	})
}
