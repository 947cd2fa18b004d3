package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/contract"
)

// lighthouse is a platform that no code knows: other numbers, other names.
const lighthouse = `
apiVersion: 1
name: lighthouse
operator: The Keepers
url: {schemes: [https, http]}
delivers: event
body:
  fields:
    - {name: beam, from: event.type}
    - {name: load, from: event.data}
    - {name: sent, from: attempt.sent_at}
webhook_id: delivery
headers:
  - {name: X-Light-Id, from: webhook_id}
  - {name: X-Light-Try, from: attempt}
signature:
  header: X-Light-Sign
  form: timestamped-hex
  signed: "{t}.{body}"
  algorithms: [hmac-sha256]
  key: text
  tolerance: 1m
  overlap: 1h
secret: {prefix: lt_, bytes: 24, min_bytes: 16, max_bytes: 64, from: either}
timeout: 3s
success: ["200-202"]
response: {read: 64, keep: 8}
schedule: {waits: [0, 11s, 3m, 40m], jitter: 0.2}
retry_after: {on: [418], mode: replace, max: 5m}
stop:
  - {on: client_error, status: dead, disable: true}
exhausted: {status: dead, emit: [webhook.failed]}
gate: {on: [500], scope: endpoint, passed_by: [test]}
health: {counts: [event, redelivery]}
pause: {after: 4}
off: {new: hold, waiting: hold, in_flight: hold}
on_resume: {held: none, dead: redeliver}
on_enable: {held: none, may_skip: true, dead: redeliver}
resend: {from: [delivered], attempts: once, batch: 2, all_or_none: true}
redeliver: {from: [dead], marks_old: redelivered}
test: {type: light.blink, data: '{"ok":true}', while_off: false, logged: true}
history: {keep: 2h, on_endpoint_delete: delete, statuses: {dead: failed}}
receiver_memory: 3h
`

func (v *virtual) store(name, text, query string) {
	v.t.Helper()
	status, _, out := v.raw("PUT", "/v1/contracts/"+name+query, "application/yaml", []byte(text))
	if status != http.StatusOK && status != http.StatusCreated {
		v.t.Fatalf("storing a contract: %d %s", status, out)
	}
}

func TestContract_Custom_AnInventedOneIsKeptWithoutALineOfGo(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.store("lighthouse", lighthouse, "")
		v.restart() // it is stored
		v.net.on("/", script(500, 206, 503))
		e, secret := v.under("lighthouse", "/")
		if !strings.HasPrefix(secret, "lt_") {
			t.Errorf("the secret begins with %.3s", secret)
		}
		id := v.publish("a.b", `[1]`)
		v.pass(time.Second)
		held := v.publish("a.b", `[2]`)
		v.pass(time.Second)
		if row := v.row("event=" + held); row.text("failure_kind") != "endpoint_unavailable" {
			t.Errorf("behind the gate: %v", row)
		} else {
			v.do(200, "POST", "/v1/deliveries/"+row.text("id")+"/cancel", "")
		}
		v.pass(50 * time.Minute)
		hits := v.net.at("/")
		var own []hit
		dead := v.row("event=" + id)
		for _, h := range hits {
			if h.header.Get("X-Light-Id") == dead.text("id") {
				own = append(own, h)
			}
		}
		checkWaits(t, own, []contract.Duration{0, contract.Duration(11 * time.Second), contract.Duration(3 * time.Minute), contract.Duration(40 * time.Minute)}, 0.2)
		for i, h := range own {
			if h.header.Get("X-Light-Try") != fmt.Sprint(i+1) || !strings.HasPrefix(string(h.body), `{"beam":"a.b","load":[1],"sent":"`) ||
				!strings.HasPrefix(h.header.Get("X-Light-Sign"), "t=") {
				t.Errorf("attempt %d: %v %s", i+1, h.header, h.body)
			}
		}
		if dead.text("status") != "failed" || dead.text("reason") != "exhausted" { // dead is shown as failed
			t.Errorf("afterwards: %v", dead)
		}
		now := v.endpointNow(e)
		if now.text("state") != "paused" || now.text("state_reason") != "failures_in_row" {
			t.Errorf("after four failures in a row: %v", now)
		}
		missed := v.publish("a.b", `[3]`)
		if row := v.row("event=" + missed); row.text("status") != "pending" || row.text("reason") != "paused" {
			t.Errorf("came while off: %v", row)
		}
		v.do(409, "POST", "/v1/endpoints/"+e+"/test", "")
		v.net.on("/", answers(200))
		v.do(200, "POST", "/v1/endpoints/"+e+"/resume", "")
		v.pass(time.Minute)
		if row := v.do(200, "GET", "/v1/deliveries/"+dead.text("id"), ""); row.text("status") != "redelivered" {
			t.Errorf("resuming redelivers the dead: %v", row)
		}
		if row := v.row("event=" + missed); row.text("status") != "skipped" || row.text("reason") != "resumed_now" {
			t.Errorf("and skips what was held: %v", row)
		}
		v.pass(5 * time.Hour)
		if n := len(v.rows("")); n != 0 {
			t.Errorf("%d rows after two hours of history", n)
		}
	})
}

func TestContract_Revision_WhatIsUnderWayKeepsItsPromise(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		patient := strings.Replace(lighthouse, "pause: {after: 4}", "pause: {after: 40}", 1)
		v.store("lighthouse", patient, "")
		v.net.on("/", answers(503))
		e, _ := v.under("lighthouse", "/")
		before := v.endpointNow(e).text("contract_revision")
		old := v.publish("a", `1`)
		v.pass(time.Second)
		quick := strings.Replace(patient, "[0, 11s, 3m, 40m]", "[0, 1s]", 1)
		v.store("lighthouse", quick, "")
		after := v.endpointNow(e).text("contract_revision")
		young := v.publish("a", `2`)
		v.pass(30 * time.Second)
		first, second := v.row("event="+old), v.row("event="+young)
		if before == after || first.text("contract_revision") != before || second.text("contract_revision") != after {
			t.Errorf("revisions %s and %s: %v %v", before, after, first, second)
		}
		if first.text("status") != "pending" || first.number("attempt_count") != 2 || second.number("attempt_count") != 2 || second.text("next_attempt_at") != "" {
			t.Errorf("each follows its own: %v %v", first, second)
		}
		v.store("lighthouse", strings.Replace(quick, "jitter: 0.2", "jitter: 0.1", 1), "?under_way=adopt")
		v.pass(4 * time.Minute)
		if first = v.row("event=" + old); first.number("attempt_count") != 3 || first.text("next_attempt_at") != "" {
			t.Errorf("asked to follow the present one: %v", first)
		}
		v.do(409, "DELETE", "/v1/contracts/lighthouse", "")
		v.do(200, "GET", "/v1/contracts/lighthouse/revisions", "")
	})
}

// Anyone's own tenant has its default contract, and changing it changes nothing of
// the endpoints that exist.
func TestContract_Default_IsATenants(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.do(200, "PATCH", "/v1/tenants/default", `{"default_contract":"petify"}`)
		made := v.do(201, "POST", "/v1/endpoints", `{"url":"https://example.com/","events":["*"]}`)
		v.do(200, "PATCH", "/v1/tenants/default", `{"default_contract":"standard"}`)
		if made.text("contract") != "petify" || v.endpointNow(made.text("id")).text("contract") != "petify" {
			t.Errorf("made: %v", made)
		}
	})
}
