package app

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

// A round per resend: numbers of the log only rise, tries begin anew, and each
// round has one end.
func TestEngine_N13_RoundsOfADelivery(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.net.on("/", script(500, 500, 200, 500, 200))
		v.under("standard", "/")
		id := v.publish("a", `1`)
		v.pass(time.Hour)
		first := v.row("event=" + id)
		v.do(202, "POST", "/v1/deliveries/"+first.text("id")+"/resend", "")
		v.pass(time.Hour)
		row := v.row("event=" + id)
		var numbers, tries, rounds []int
		for _, a := range row.list("attempts") {
			numbers, tries, rounds = append(numbers, a.number("number")), append(tries, a.number("try")), append(rounds, a.number("round"))
		}
		if !slices.Equal(numbers, []int{1, 2, 3, 4, 5}) || !slices.Equal(tries, []int{1, 2, 3, 1, 2}) || !slices.Equal(rounds, []int{1, 1, 1, 2, 2}) {
			t.Errorf("numbers %v, tries %v, rounds %v", numbers, tries, rounds)
		}
		if row.text("status") != "delivered" || row.number("round") != 2 || row.number("attempt_count") != 2 {
			t.Errorf("afterwards: %v", row)
		}
	})
}

// The line of a key across a restart, tests and resends passing it, and a blocked
// key beside a free one.
func TestEngine_N15_ALineIsPassedByWhatAPersonAsksFor(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		e, _ := v.under("elido", "/")
		done := v.publish("click", `{"link_id":"a","n":0}`)
		v.pass(time.Second)
		v.net.on("/", answers(500))
		head := v.publish("click", `{"link_id":"a","n":1}`)
		v.publish("click", `{"link_id":"a","n":2}`)
		v.pass(time.Second)
		v.restart()
		v.pass(time.Second)
		n := len(v.net.at("/"))
		v.do(202, "POST", "/v1/endpoints/"+e+"/events/"+done+"/replay", "")
		v.do(200, "POST", "/v1/endpoints/"+e+"/test", "")
		v.pass(100 * time.Millisecond)
		if got := len(v.net.at("/")) - n; got < 2 {
			t.Errorf("%d requests: a replay and a test pass the line", got)
		}
		v.do(422, "POST", "/v1/events", `{"type":"click","data":{},"ordering_key":"a","deliver_at":"2000-01-02T00:00:00Z"}`)
		v.net.on("/", answers(200))
		v.pass(2 * time.Hour)
		if row := v.row("event=" + head); row.text("status") != "delivered" {
			t.Errorf("the head: %v", row)
		}
		if c := v.counts("trigger=event"); c["delivered"] != 3 {
			t.Errorf("afterwards: %v", c)
		}
	})
}

// Only the probe goes out; when it can't go any more, the oldest of those that
// wait takes its part at once.
func TestEngine_N16_TheOldestTakesTheProbesPart(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.net.on("/", answers(500))
		v.under("signals", "/")
		probe := v.publish("a", `0`)
		v.pass(time.Second)
		next := v.publish("a", `1`)
		v.publish("a", `2`)
		v.pass(time.Second)
		v.net.on("/", answers(200))
		v.do(200, "POST", "/v1/deliveries/"+v.row("event="+probe).text("id")+"/cancel", "")
		v.pass(5 * time.Second)
		hits := v.net.at("/")
		if len(hits) != 3 || readThin(t, hits[1]).RunID != next {
			t.Errorf("%d requests after the probe was canceled", len(hits))
		}
	})
}

// Switching off and on with thousands waiting answers at once, and is true at once.
func TestEngine_N17_SwitchingIsAtOnce(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.net.on("/", answers(500))
		e, _ := v.under("petify", "/")
		const waiting = 3000
		for range waiting / 500 {
			var lines []byte
			for i := range 500 {
				lines = fmt.Appendf(lines, "{\"type\":\"a\",\"data\":%d}\n", i)
			}
			if status, _, out := v.raw("POST", "/v1/events", "application/x-ndjson", lines); status != http.StatusOK {
				t.Fatalf("%d %s", status, out)
			}
		}
		v.pass(time.Second)
		before := len(v.net.at("/"))
		v.do(200, "PATCH", "/v1/endpoints/"+e, `{"active":false}`)
		if rows := v.rows("endpoint=" + e + "&status=pending"); len(rows) != 0 {
			t.Errorf("%d still show pending", len(rows))
		}
		if n := v.endpointNow(e).number("waiting"); n != 0 {
			t.Errorf("%d are said to wait", n)
		}
		v.do(200, "PATCH", "/v1/endpoints/"+e, `{"active":true}`)
		v.net.on("/", answers(200))
		fresh := v.publish("a", `"fresh"`)
		v.pass(time.Minute)
		if row := v.row("event=" + fresh); row.text("status") != "delivered" {
			t.Errorf("what came afterwards: %v", row)
		}
		if n := len(v.net.at("/")) - before; n != 1 {
			t.Errorf("%d requests after switching off, want the fresh one", n)
		}
		if rows := v.rows("endpoint=" + e + "&status=skipped&reason=switched_off"); len(rows) != 250 {
			t.Errorf("a page shows %d skipped", len(rows))
		}
	})
}

// What is owed outlives the history's span, and goes out when it can; what has
// ended goes.
func TestEngine_N22_WhatIsOwedStays(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.net.on("/", answers(200))
		e, _ := v.under("standard", "/")
		ended := v.publish("a", `0`)
		v.pass(5 * day)
		v.do(200, "POST", "/v1/endpoints/"+e+"/pause", "")
		owed := v.publish("a", `1`)
		v.pass(28 * day)
		v.do(404, "GET", "/v1/events/"+ended, "")
		if row := v.row("event=" + owed); row.text("status") != "pending" {
			t.Errorf("what is owed: %v", row)
		}
		v.do(200, "POST", "/v1/endpoints/"+e+"/resume", "")
		v.pass(time.Minute)
		if row := v.row("event=" + owed); row.text("status") != "delivered" {
			t.Errorf("afterwards: %v", row)
		}
	})
}

// Each status of the contract is reached and shown.
func TestSignals_S7_S8_EveryStatus(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.net.on("/", func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(5 * time.Second)
			w.WriteHeader(http.StatusOK)
		})
		e, _ := v.under("signals", "/")
		id := v.publish("a", `0`)
		v.pass(2 * time.Second)
		if row := v.row("event=" + id); row.text("status") != "sending" {
			t.Errorf("under way: %v", row)
		}
		v.pass(10 * time.Second)
		if row := v.row("event=" + id); row.text("status") != "delivered" {
			t.Errorf("afterwards: %v", row)
		}
		v.do(200, "PATCH", "/v1/endpoints/"+e, `{"url":"http://10.1.2.3/"}`)
		dead := v.publish("a", `1`)
		v.pass(time.Minute)
		if row := v.row("event=" + dead); row.text("status") != "dead" || row.text("failure_kind") != "unsafe_url" {
			t.Errorf("refused by the guard: %v", row)
		}
		v.do(200, "PATCH", "/v1/endpoints/"+e, `{"url":"`+virtualAddress+`/"}`)
		v.pass(10 * day) // a dead one is never sent by itself
		if n := len(v.net.at("/")); n != 1 {
			t.Errorf("%d requests", n)
		}
		v.net.on("/", answers(500))
		run := v.do(201, "POST", "/v1/runs", `{}`).text("id")
		v.do(200, "POST", "/v1/runs/"+run+"/finish", "")
		v.pass(time.Second)
		if row := v.row("run=" + run); row.text("status") != "pending" {
			t.Errorf("waiting: %v", row)
		}
		v.do(204, "DELETE", "/v1/runs/"+run, "")
		v.pass(2 * time.Minute)
		if row := v.row("run=" + run); row.text("status") != "failed" {
			t.Errorf("its events are gone: %v", row)
		}
		v.do(202, "POST", "/v1/deliveries/"+v.row("event="+dead).text("id")+"/resend", "")
		if c := v.counts("event=" + dead); c["redelivered"] != 1 {
			t.Errorf("replaced: %v", c)
		}
	})
}
