package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"
)

// The waits of Signals' schedule, of which all but the last attempts together
// take 68 h 36 m.
const (
	signalsWhole = 77 * time.Hour
	day          = 24 * time.Hour
)

// thin is the body of a run's notice.
type thin struct {
	WebhookID string          `json:"webhookId"`
	RunID     string          `json:"runId"`
	Counts    json.RawMessage `json:"counts"`
	PageToken string          `json:"pageToken"`
	PageURL   string          `json:"pageUrl"`
	SentAt    time.Time       `json:"sentAt"`
}

func readThin(t testing.TB, h hit) thin {
	t.Helper()
	var b thin
	if err := json.Unmarshal(h.body, &b); err != nil {
		t.Fatalf("%v: %s", err, h.body)
	}
	return b
}

func TestSignals_S2_S3_NineAttemptsOfTheSameNotice(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.net.on("/", answers(500))
		_, secret := v.under("signals", "/")
		id := v.publish("scan.finished", `{"n":1}`)
		v.pass(signalsWhole)
		hits := v.net.at("/")
		checkWaits(t, hits, promise(t, "signals").Schedule.Waits, 0.1)
		first := readThin(t, hits[0])
		for i, h := range hits {
			checkSignature(t, "signals", secret, h)
			b := readThin(t, h)
			if h.header.Get("Signals-Webhook-Id") != b.WebhookID || h.header.Get("Signals-Delivery-Attempt") != strconv.Itoa(i+1) {
				t.Errorf("attempt %d bears %v", i+1, h.header)
			}
			if d := b.SentAt.Sub(h.at); d < -time.Second || d > time.Second {
				t.Errorf("attempt %d was sent at %v, says %v", i+1, h.at, b.SentAt)
			}
			b.SentAt = first.SentAt
			if !bytes.Equal(b.Counts, first.Counts) || b.PageToken != first.PageToken || b.WebhookID != first.WebhookID ||
				b.RunID != id || b.PageURL != first.PageURL {
				t.Errorf("attempt %d differs: %+v and %+v", i+1, b, first)
			}
		}
		row := v.row("event=" + id)
		if row.text("status") != "dead" || row.number("attempt_count") != 9 || row.text("webhook_id") != first.WebhookID || row.text("id") != first.WebhookID {
			t.Errorf("afterwards: %v", row)
		}
		v.pass(10 * day)
		if n := len(v.net.at("/")); n != 9 {
			t.Errorf("%d attempts: a dead delivery was sent by itself (S8)", n)
		}
	})
}

func TestSignals_S4_RetryAfterCountsUpToAnHourAndNeverShortens(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		for path, c := range map[string]struct {
			answer http.HandlerFunc
			low    time.Duration
			high   time.Duration
		}{
			"/longer":  {answers(429, "Retry-After", "300"), 300 * time.Second, 301 * time.Second},
			"/shorter": {answers(503, "Retry-After", "1"), 54 * time.Second, 67 * time.Second},
			"/most":    {answers(503, "Retry-After", "90000"), time.Hour, time.Hour + time.Second},
			"/other":   {answers(500, "Retry-After", "300"), 54 * time.Second, 67 * time.Second},
		} {
			v.net.on(path, c.answer)
			v.under("signals", path, "t"+path[1:])
			v.publish("t"+path[1:], `{}`)
			v.pass(2 * time.Hour)
			hits := v.net.at(path)
			if gap := hits[1].at.Sub(hits[0].at); gap < c.low || gap > c.high {
				t.Errorf("%s: the second attempt came after %v, want %v to %v", path, gap, c.low, c.high)
			}
		}
	})
}

func TestSignals_S4_S9_S10_GoneDisablesAndEnablingGoesOnOldestFirst(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.net.on("/told", answers(200))
		v.under("standard", "/told", "endpoint.*")
		v.net.on("/", answers(410))
		e, _ := v.under("signals", "/")
		gone := v.publish("a", `1`)
		v.pass(time.Second)
		now := v.endpointNow(e)
		if now.text("state") != "disabled" || now.text("state_reason") != "gone" || now.text("banner") == "" {
			t.Fatalf("after 410: %v", now)
		}
		if row := v.row("event=" + gone); row.text("status") != "dead" || row.text("failure_kind") != "gone" {
			t.Errorf("after 410: %v", row)
		}
		before := v.row("event=" + gone)
		v.do(200, "PATCH", "/v1/endpoints/"+e, `{"max_in_flight":1}`) // so that they arrive as they are sent
		var held []string
		for i := range 5 {
			held = append(held, v.publish("a", strconv.Itoa(i+2)))
			v.pass(time.Minute)
		}
		for _, id := range held {
			if row := v.row("event=" + id); row.text("status") != "pending" || row.text("reason") != "disabled" {
				t.Errorf("while disabled: %v", row)
			}
		}
		v.net.on("/", answers(200))
		v.do(200, "POST", "/v1/endpoints/"+e+"/enable", `{"resume":"backlog"}`)
		v.pass(time.Minute)
		hits := v.net.at("/")[1:]
		var order []string
		for _, h := range hits {
			order = append(order, readThin(t, h).RunID)
		}
		if want := append([]string{gone}, held...); !slices.Equal(order, want) {
			t.Errorf("went out as %v, want %v", order, want)
		}
		again := readThin(t, hits[0])
		first := readThin(t, v.net.at("/")[0])
		if again.WebhookID == first.WebhookID || again.PageToken == first.PageToken {
			t.Error("the redelivery of a dead one has its webhook ID or page token")
		}
		old := v.do(200, "GET", "/v1/deliveries/"+before.text("id"), "")
		if old.text("status") != "redelivered" || old.text("replaced_by") != again.WebhookID {
			t.Errorf("the old row: %v", old)
		}
		if told := v.net.at("/told"); len(told) != 2 {
			t.Errorf("%d operational events, want endpoint.disabled and endpoint.enabled", len(told))
		}
	})
}

func TestSignals_S10_ResumeNowSkipsWhatCameBetween(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.net.on("/", answers(410))
		e, _ := v.under("signals", "/")
		gone := v.publish("a", `1`)
		v.pass(time.Second)
		between := v.publish("a", `2`)
		v.net.on("/", answers(200))
		v.do(200, "POST", "/api/public/v1/webhooks/"+e+"/enable", `{"resume":"now"}`)
		if row := v.row("event=" + between); row.text("status") != "skipped" || row.text("reason") != "resumed_now" {
			t.Errorf("at once: %v", row)
		}
		v.pass(time.Minute)
		hits := v.net.at("/")
		if len(hits) != 2 || readThin(t, hits[1]).RunID != gone {
			t.Errorf("%d requests; the dead one goes out again, what came between does not", len(hits))
		}
		if row := v.row("event=" + between); row.text("status") != "skipped" || row.text("reason") != "resumed_now" {
			t.Errorf("later: %v", row)
		}
	})
}

func TestSignals_S5_OnlyTheProbeGoesOut(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.net.on("/", answers(500))
		one, _ := v.under("signals", "/", "one")
		two, _ := v.under("signals", "/", "two") // the same URL, so the same gate
		probe := v.publish("one", `0`)
		v.pass(time.Second)
		const held = 40
		for i := range held {
			v.publish([]string{"one", "two"}[i%2], strconv.Itoa(i))
		}
		v.pass(30 * time.Second)
		if n := len(v.net.at("/")); n != 1 {
			t.Fatalf("%d requests before the probe's time", n)
		}
		for _, e := range []string{one, two} {
			for _, row := range v.rows("endpoint=" + e + "&failure_kind=endpoint_unavailable") {
				if row.text("status") != "pending" || row.text("reason") != "gated" || row.number("attempt_count") != 0 {
					t.Fatalf("a held one: %v", row)
				}
			}
		}
		if n := len(v.rows("failure_kind=endpoint_unavailable")); n != held {
			t.Errorf("%d of %d show endpoint_unavailable", n, held)
		}
		v.pass(time.Minute) // the probe fails again
		if hits := v.net.at("/"); len(hits) != 2 || readThin(t, hits[1]).RunID != probe {
			t.Fatalf("%d requests, want the probe's second", len(hits))
		}
		v.restart() // and the gate stays
		v.pass(time.Minute)
		if n := len(v.net.at("/")); n != 2 {
			t.Fatalf("%d requests after a restart", n)
		}
		v.net.on("/", answers(200))
		v.pass(6 * time.Minute)
		if n := v.counts(""); n["delivered"] != held+1 {
			t.Errorf("afterwards: %v", n)
		}
	})
}

func TestSignals_S5_ATestPassesAndItsSuccessOpens(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.net.on("/", answers(500))
		e, _ := v.under("signals", "/")
		v.publish("a", `0`)
		v.pass(time.Second)
		v.publish("a", `1`)
		v.pass(time.Second)
		v.net.on("/", answers(200))
		v.do(200, "POST", "/v1/endpoints/"+e+"/test", "")
		v.pass(10 * time.Second)
		if n := v.counts("trigger=event"); n["delivered"] != 1 || n["pending"] != 1 {
			t.Errorf("after a test's success the held one goes out, the failed one at its time: %v", n)
		}
	})
}

func TestSignals_S6_PausedUnderWay(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.net.on("/", func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(5 * time.Second)
			w.WriteHeader(500)
		})
		e, _ := v.under("signals", "/")
		id := v.publish("a", `0`)
		v.pass(time.Second)
		v.do(200, "POST", "/v1/endpoints/"+e+"/pause", "")
		v.pass(time.Minute)
		row := v.row("event=" + id)
		if row.text("status") != "pending" || row.text("failure_kind") != "paused" || row.number("attempt_count") != 0 || len(row.list("attempts")) != 1 {
			t.Errorf("cut by the pause: %v", row)
		}
		v.net.on("/", answers(200))
		v.do(200, "POST", "/v1/endpoints/"+e+"/resume", "")
		v.pass(time.Second)
		hits := v.net.at("/")
		if len(hits) != 2 || hits[1].header.Get("Signals-Delivery-Attempt") != "1" {
			t.Errorf("after the pause: %d requests, %v", len(hits), hits[len(hits)-1].header)
		}
	})
}

func TestSignals_S9_NoSuccessForThreeDaysDisables(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.net.on("/", answers(500))
		e, _ := v.under("signals", "/")
		v.do(200, "PATCH", "/v1/tenants/default", `{"owner_url":"http://127.0.0.1:9/owner"}`)
		v.publish("a", `0`)
		for range 71 {
			v.pass(time.Hour)
			if state := v.endpointNow(e).text("state"); state != "active" {
				t.Fatalf("%s before the three days", state)
			}
			v.do(200, "POST", "/v1/endpoints/"+e+"/test", "") // counts for nothing
		}
		v.publish("a", `1`)
		v.pass(30 * time.Hour)
		now := v.endpointNow(e)
		if now.text("state") != "disabled" || now.text("state_reason") != "no_success" || now.text("banner") == "" {
			t.Errorf("after three days: %v", now)
		}
		if n := len(v.net.at("/owner")); n != 1 {
			t.Errorf("the owner was told %d times", n)
		}
	})
}

func TestSignals_S11_ResendKeepsTheIDAndRedeliveryDoesNot(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.net.on("/", answers(500))
		e, _ := v.under("signals", "/")
		id := v.publish("a", `0`)
		v.pass(time.Second)
		v.do(200, "PATCH", "/v1/endpoints/"+e, `{"url":"http://10.1.2.3/"}`) // refused by the guard: dead at once
		v.pass(2 * time.Minute)
		dead := v.row("event=" + id)
		v.do(200, "PATCH", "/v1/endpoints/"+e, fmt.Sprintf(`{"url":%q}`, virtualAddress+"/"))
		v.net.on("/", answers(200))
		made := v.do(202, "POST", "/v1/deliveries/"+dead.text("id")+"/resend", "")
		v.pass(time.Second)
		if made.text("id") == dead.text("id") || made.text("trigger") != "redelivery" || made.text("replaces") != dead.text("id") {
			t.Errorf("the redelivery: %v", made)
		}
		hits := v.net.at("/")
		last, first := readThin(t, hits[len(hits)-1]), readThin(t, hits[0])
		if hits[len(hits)-1].header.Get("Signals-Delivery-Attempt") != "1" || last.WebhookID == first.WebhookID || last.RunID != first.RunID {
			t.Errorf("as sent: %+v", last)
		}
		if n := v.counts("event=" + id); n["redelivered"] != 1 || n["delivered"] != 1 {
			t.Errorf("the history adds a row and marks the old one (S14): %v", n)
		}
		v.do(409, "POST", "/v1/deliveries/"+dead.text("id")+"/resend", "")
		v.do(409, "POST", "/v1/deliveries/"+made.text("id")+"/resend", "") // delivered: a replay by run takes it
	})
}

func TestSignals_S11_ReplayRedeliversAllDead(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		e, _ := v.under("signals", "/")
		v.do(200, "PATCH", "/v1/endpoints/"+e, `{"url":"http://10.1.2.3/"}`) // refused by the guard: dead at once
		const events = 30
		for i := range events {
			v.publish("a", strconv.Itoa(i))
		}
		v.pass(time.Hour)
		if n := v.counts("endpoint=" + e); n["dead"] != events {
			t.Fatalf("an unsafe URL ends them at once (S4): %v", n)
		}
		v.do(200, "PATCH", "/v1/endpoints/"+e, fmt.Sprintf(`{"url":%q}`, virtualAddress+"/"))
		preview := v.do(200, "POST", "/v1/endpoints/"+e+"/replay", `{"selection":{},"dry_run":true}`)
		if preview.number("count") != events {
			t.Errorf("the preview: %v", preview)
		}
		job := v.do(202, "POST", "/api/public/v1/webhooks/"+e+"/replay", `{"selection":{}}`)
		v.pass(10 * time.Minute)
		job = v.do(200, "GET", "/v1/replays/"+job.text("id"), "")
		if job.text("state") != "done" || job.number("done") != events || job.number("failed") != 0 {
			t.Errorf("the job: %v", job)
		}
		if n := v.counts("endpoint=" + e); n["redelivered"] != events || n["delivered"] != events {
			t.Errorf("afterwards: %v", n)
		}
	})
}

func TestSignals_S12_TheHistoryEndsAfterThirtyDays(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.under("signals", "/")
		id := v.publish("a", `0`)
		v.pass(29 * day)
		if n := len(v.rows("event=" + id)); n != 1 {
			t.Fatalf("%d rows on day 29", n)
		}
		v.pass(3 * day)
		v.do(404, "GET", "/v1/events/"+id, "")
		if n := len(v.rows("")); n != 0 {
			t.Errorf("%d rows on day 32", n)
		}
	})
}

// openRun makes a run with events and finishes it; its ID.
func openRun(v *virtual, n int) string {
	v.t.Helper()
	run := v.do(201, "POST", "/v1/runs", `{"project":"pj"}`).text("id")
	var lines []byte
	for i := range n {
		lines = fmt.Appendf(lines, "{\"type\":\"finding\",\"data\":{\"n\":%d}}\n", i)
	}
	if status, _, out := v.raw("POST", "/v1/runs/"+run+"/events", "application/x-ndjson", lines); status != 200 {
		v.t.Fatalf("adding events: %d %s", status, out)
	}
	v.do(200, "POST", "/v1/runs/"+run+"/finish", "")
	return run
}

// page reads a page of a run with a token.
func (v *virtual) page(b thin, query string) (int, object) {
	v.t.Helper()
	as := v.caller
	other := *v.Client
	other.Key = b.PageToken
	as.Client = &other
	status, _, out := as.raw("GET", "/v1/runs/"+b.RunID+"/events"+query, "", nil)
	var o object
	if err := json.Unmarshal(out, &o); err != nil {
		v.t.Fatal(err)
	}
	return status, o
}

func TestSignals_S13_S14_ARunIsReadPageByPage(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.net.on("/", script(500, 200))
		v.under("signals", "/")
		run := openRun(v, 25)
		v.pass(2 * time.Minute)
		hits := v.net.at("/")
		if len(hits) != 2 {
			t.Fatalf("%d requests", len(hits))
		}
		b := readThin(t, hits[1])
		if b.RunID != run || b.PageURL != "https://hooks.example.com/v1/runs/"+run+"/events" || string(b.Counts) != `{"total":25,"by_type":{"finding":25}}` {
			t.Errorf("the notice: %s", hits[1].body)
		}
		if n := len(v.rows("")); n != 1 {
			t.Errorf("%d rows for one run", n)
		}
		var ids []string
		for range 2 { // every reading gives the same IDs
			var got []string
			for query := "?limit=10"; ; {
				status, p := v.page(b, query)
				if status != 200 {
					t.Fatalf("reading: %d %v", status, p)
				}
				for _, e := range p.list("data") {
					got = append(got, e.text("eventId"))
				}
				if p.text("next") == "" {
					break
				}
				query = "?limit=10&cursor=" + p.text("next")
			}
			if ids != nil && !slices.Equal(ids, got) {
				t.Error("another reading gives other IDs")
			}
			ids = got
		}
		if slices.Sort(ids); len(slices.Compact(ids)) != 25 {
			t.Errorf("%d different events", len(ids))
		}
		forged := b
		forged.PageToken = b.PageToken[:len(b.PageToken)-2] + "00"
		if status, p := v.page(forged, ""); status != 401 || p.text("code") != "page_token_invalid" {
			t.Errorf("a forged token: %d %v", status, p)
		}
		v.pass(29*day + 22*time.Hour)
		if status, _ := v.page(b, ""); status != 200 {
			t.Errorf("within the 30 days: %d", status)
		}
		v.pass(4 * time.Hour)
		if status, p := v.page(b, ""); status != 401 || p.text("code") != "page_token_invalid" {
			t.Errorf("after 30 days: %d %v", status, p)
		}
	})
}

func TestSignals_S6_S13_ADeletedRunIsGoneAndItsNoticeEnds(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		v.net.on("/", answers(500))
		v.under("signals", "/")
		run := openRun(v, 3)
		v.pass(time.Second)
		b := readThin(t, v.net.at("/")[0])
		v.do(204, "DELETE", "/v1/runs/"+run, "")
		if status, p := v.page(b, ""); status != 410 || p.text("code") != "run_gone" {
			t.Errorf("reading a deleted run: %d %v", status, p)
		}
		v.pass(2 * time.Minute)
		if row := v.row(""); row.text("status") != "failed" || row.text("failure_kind") != "event_missing" {
			t.Errorf("its notice: %v", row)
		}
		if n := len(v.net.at("/")); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}
