package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestPetify_P2_SevenAttemptsThenFailed(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.net.on("/", answers(410)) // a failure like any other
		_, secret := v.under("petify", "/")
		id := v.publish("image.failed", `{"job":1}`)
		v.pass(24 * time.Hour)
		hits := v.net.at("/")
		checkWaits(t, hits, promise(t, "petify").Schedule.Waits, 0.1)
		for _, h := range hits {
			checkSignature(t, "standardwebhooks", secret, h)
			if h.header.Get("webhook-id") != id || string(h.body) != string(hits[0].body) {
				t.Errorf("a request differs: %v %s", h.header, h.body)
			}
		}
		row := v.row("event=" + id)
		if row.text("status") != "failed" || row.number("attempt_count") != 7 || len(row.list("attempts")) != 7 {
			t.Errorf("afterwards: %v", row)
		}
		v.pass(5 * day)
		if n := len(v.net.at("/")); n != 7 {
			t.Errorf("%d attempts", n)
		}
	})
}

func TestPetify_P2_ASuccessCancelsWhatIsLeft(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.net.on("/", script(500, 500, 204))
		v.under("petify", "/")
		id := v.publish("image.failed", `{"job":1}`)
		v.pass(5 * day)
		if row := v.row("event=" + id); len(v.net.at("/")) != 3 || row.text("status") != "delivered" || row.text("failure_kind") != "" {
			t.Errorf("%d attempts, %v", len(v.net.at("/")), row)
		}
	})
}

func TestPetify_P1_OnlyHTTPS(t *testing.T) {
	inVirtualTime(t, func(_ *testing.T, v *virtual) {
		v.do(422, "POST", "/v1/endpoints", `{"url":"http://example.com/","events":["*"],"contract":"petify"}`)
		v.do(201, "POST", "/v1/endpoints", `{"url":"https://example.com/","events":["*"],"contract":"petify"}`)
		v.do(201, "POST", "/v1/endpoints", `{"url":"http://127.0.0.1:9/","events":["*"],"contract":"petify"}`) // --dev
	})
}

func TestPetify_P3_DeletingTakesDeliveriesAndLog(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.net.on("/", script(200, 500))
		e, _ := v.under("petify", "/")
		v.publish("a", `1`)
		v.pass(time.Second)
		waits := v.publish("a", `2`)
		v.pass(time.Second)
		row := v.row("event=" + waits)
		v.do(204, "DELETE", "/v1/endpoints/"+e, "")
		if n := len(v.rows("")); n != 0 {
			t.Errorf("at once: %d rows", n)
		}
		v.do(404, "GET", "/v1/deliveries/"+row.text("id"), "")
		v.pass(5 * day)
		if n := len(v.net.at("/")); n != 2 {
			t.Errorf("%d requests: a retry went out", n)
		}
		if n := len(v.rows("")); n != 0 {
			t.Errorf("later: %d rows", n)
		}
	})
}

func TestPetify_P4_TheSameIDAtEveryEndpoint(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.under("petify", "/one")
		v.under("petify", "/two")
		id := v.publish("a", `1`)
		v.pass(time.Second)
		for _, path := range []string{"/one", "/two"} {
			if hits := v.net.at(path); len(hits) != 1 || hits[0].header.Get("webhook-id") != id {
				t.Errorf("%s: %v", path, hits)
			}
		}
	})
}

func TestPetify_P5_OffSkipsAndOnSendsNone(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.net.on("/", answers(500))
		e, _ := v.under("petify", "/")
		waiting := v.publish("a", `1`)
		v.pass(time.Second)
		v.do(200, "PATCH", "/v1/endpoints/"+e, `{"active":false}`)
		if row := v.row("event=" + waiting); row.text("status") != "skipped" || row.text("reason") != "switched_off" {
			t.Errorf("waiting when switched off, at once: %v", row)
		}
		missed := v.publish("a", `2`)
		if row := v.row("event=" + missed); row.text("status") != "skipped" || row.text("reason") != "switched_off" {
			t.Errorf("came while off: %v", row)
		}
		v.net.on("/", answers(200))
		v.do(200, "POST", "/v1/endpoints/"+e+"/test", "")
		v.do(200, "PATCH", "/v1/endpoints/"+e, `{"active":true}`)
		v.pass(5 * day)
		if n := len(v.net.at("/")); n != 2 {
			t.Errorf("%d requests, want the first and the test", n)
		}
		if c := v.counts(""); c["skipped"] != 2 || len(c) != 1 {
			t.Errorf("the log: %v (tests are not in it, P9)", c)
		}
	})
}

func TestPetify_P5_UnderWayWhenSwitchedOff(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		for path, status := range map[string]int{"/good": 200, "/bad": 500} {
			v.net.on(path, func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(5 * time.Second)
				w.WriteHeader(status)
			})
			e, _ := v.under("petify", path, path[1:])
			id := v.publish(path[1:], `1`)
			v.pass(time.Second)
			v.do(200, "PATCH", "/v1/endpoints/"+e, `{"active":false}`)
			v.do(200, "PATCH", "/v1/endpoints/"+e, `{"active":true}`)
			v.pass(time.Hour)
			want := map[int]string{200: "delivered", 500: "skipped"}[status]
			if row := v.row("event=" + id); row.text("status") != want || len(v.net.at(path)) != 1 {
				t.Errorf("%s: %v", path, row)
			}
		}
	})
}

func TestPetify_P6_FourStatuses(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.net.on("/", func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(9 * time.Second)
			w.WriteHeader(200)
		})
		v.under("petify", "/")
		id := v.publish("a", `1`)
		v.pass(5 * time.Second)
		if row := v.row("event=" + id + "&status=pending"); row.text("status") != "pending" {
			t.Errorf("while an attempt runs: %v", row)
		}
		if n := len(v.rows("status=sending")); n != 0 {
			t.Errorf("%d rows are called sending", n)
		}
		v.pass(10 * time.Second)
		if row := v.row("event=" + id); row.text("status") != "delivered" {
			t.Errorf("afterwards: %v", row)
		}
	})
}

func TestPetify_P7_ResendIsOneTryOfTheOriginal(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.net.on("/", script(200, 500))
		v.under("petify", "/")
		id := v.publish("a", `{"n": 1.50}`)
		v.pass(time.Second)
		row := v.row("event=" + id)
		made := v.do(202, "POST", "/v1/deliveries/"+row.text("id")+"/resend", "")
		if made.text("id") != row.text("id") || made.text("status") != "pending" {
			t.Errorf("the resend: %v", made)
		}
		v.pass(5 * day)
		row = v.row("event=" + id)
		hits := v.net.at("/")
		if len(hits) != 2 || string(hits[0].body) != string(hits[1].body) || hits[1].header.Get("webhook-id") != id {
			t.Errorf("%d requests", len(hits))
		}
		if row.text("status") != "failed" || row.number("round") != 2 || len(row.list("attempts")) != 2 || row.list("attempts")[1].number("number") != 2 {
			t.Errorf("afterwards: %v", row)
		}
	})
}

func TestPetify_P7_AHundredAtOnceAllOrNone(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		e, _ := v.under("petify", "/")
		for i := range 100 {
			v.publish("a", fmt.Sprint(i))
		}
		v.pass(time.Minute)
		var all []string
		for _, r := range v.rows("") {
			all = append(all, r.text("id"))
		}
		v.net.on("/", answers(500))
		late := v.publish("a", `100`)
		v.pass(time.Second)
		pending := v.row("event=" + late).text("id")
		list := func(ids []string) string {
			text, err := json.Marshal(map[string][]string{"ids": ids})
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		before := len(v.net.at("/"))
		refused := v.do(409, "POST", "/v1/deliveries/resend", list(append([]string{pending, "dlv_unknown"}, all[:98]...)))
		if refused.text("code") != "not_resendable" || len(refused.list("errors")) != 2 {
			t.Errorf("refused: %v", refused)
		}
		v.pass(time.Second)
		if n := len(v.net.at("/")); n != before {
			t.Errorf("%d requests went out although one can't", n-before)
		}
		v.net.on("/", answers(200))
		v.do(422, "POST", "/v1/deliveries/resend", list(append(all, pending)))
		if made := v.do(202, "POST", "/v1/deliveries/resend", list(all)); len(made.list("data")) != 100 {
			t.Errorf("%d are sent", len(made.list("data")))
		}
		v.pass(30 * time.Second)
		if n := len(v.net.at("/")); n != before+100 {
			t.Errorf("%d requests, want 100", n-before)
		}
		v.do(200, "POST", "/v1/endpoints/"+e+"/pause", "")
		off := v.do(409, "POST", "/v1/deliveries/"+all[0]+"/resend", "")
		if off.text("code") != "endpoint_off" {
			t.Errorf("while off: %v", off)
		}
	})
}

func TestPetify_P8_BodyAndAttemptsWithTheFirstKilobyte(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.net.on("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(strings.Repeat("x", 3000))) })
		v.under("petify", "/")
		id := v.publish("a", `{"n":1}`)
		v.pass(time.Second)
		row := v.row("event=" + id)
		a := row.list("attempts")[0]
		if row.text("body") != string(v.net.at("/")[0].body) || len(a.text("response")) != 1024 || a.at("response_truncated") != true || a.number("status_code") != 200 {
			t.Errorf("the entry: %v", row)
		}
	})
}

func TestPetify_P9_TestsLeaveNothingInTheLog(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.net.on("/", answers(500))
		e, _ := v.under("petify", "/")
		result := v.do(200, "POST", "/v1/endpoints/"+e+"/test", "")
		if !strings.Contains(fmt.Sprint(result), "500") {
			t.Errorf("the answer: %v", result)
		}
		v.pass(time.Hour)
		if n := len(v.rows("")); n != 0 || len(v.net.at("/")) != 1 {
			t.Errorf("%d rows, %d requests", n, len(v.net.at("/")))
		}
		if all := v.do(200, "GET", "/v1/events", "").list("data"); len(all) != 0 {
			t.Errorf("events: %v", all)
		}
		if now := v.endpointNow(e); now.number("health.failures_in_row") != 0 {
			t.Errorf("it counted: %v", now)
		}
	})
}
