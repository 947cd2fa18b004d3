package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/publish"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// TestTrace_EveryEndpointWithItsReason: sent, off, not subscribed, filtered out,
// made or changed after the event, deleted since.
func TestTrace_EveryEndpointWithItsReason(t *testing.T) {
	t.Parallel()
	var undecided publish.Why
	f := newFixture(t, func(c *Config) {
		c.Explain = func(_ string, ev *webhook.Event) (out []publish.Explained) {
			e, err := c.Store.GetEndpoint(t.Context(), ev.Tenant, "filtered")
			if err == nil && undecided != "" {
				out = append(out, publish.Explained{Endpoint: e, Why: undecided})
			}
			return out
		}
		c.Matches = func(ev *webhook.Event, e *webhook.Endpoint) (store.Target, string, bool) {
			return store.Target{}, "", e.ID != "filtered" && webhook.MatchAny(e.Events, ev.Type)
		}
	})
	put := func(id, events string) {
		f.send(to("PUT", "/v1/endpoints/"+id, `{"url":"https://example.com/","events":["`+events+`"]}`))
	}
	for _, id := range []string{"sent", "off", "gone"} {
		put(id, "a.*")
	}
	for _, id := range []string{"filtered", "changed", "elsewhere"} {
		put(id, "z.z")
	}
	f.send(to("POST", "/v1/endpoints/off/pause", "")).is(200)
	event := f.publish(adminKey, `{"type":"a.b","data":1}`)
	f.mu.Lock()
	fresh := (*f.offered)[len(*f.offered)-3:]
	f.mu.Unlock()
	f.end(fresh[0], contract.StatusDelivered)
	put("filtered", "a.*")
	put("changed", "a.*")
	for at := f.api.cfg.Clock.Wall().UnixMilli(); f.api.cfg.Clock.Wall().UnixMilli() == at; { // times are stored in milliseconds
		runtime.Gosched()
	}
	put("later", "a.*")
	f.send(to("DELETE", "/v1/endpoints/gone", "")).is(204)
	want := map[string]string{
		"sent": "sent delivered", "off": "off pending", "filtered": "filtered_out", "changed": "changed_after", "elsewhere": "type_not_subscribed",
		"later": "created_after", "gone": "deleted canceled",
	}
	for _, limit := range []string{"2", "50"} {
		got := map[string]string{}
		for cursor := ""; ; {
			page := f.send(to("GET", "/v1/events/"+event+"/trace?limit="+limit+cursor, "")).is(200)
			if page.json["event"] != event || page.json["type"] != "a.b" {
				t.Errorf("the trace is %s", page.raw)
			}
			for _, one := range page.items() {
				text := one["reason"].(string)
				for _, d := range one["deliveries"].([]any) {
					text += " " + d.(map[string]any)["status"].(string)
				}
				got[one["endpoint"].(string)] = text
			}
			if page.json["next"] == nil {
				break
			}
			cursor = "&cursor=" + page.text("next")
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("by %s: %v\nwant %v", limit, got, want)
		}
	}
	undecided = publish.WhyNoValue
	if got := f.send(to("GET", "/v1/events/"+event+"/trace", "")).is(200); !strings.Contains(got.raw, `{"endpoint":"filtered","reason":"filter_no_value"`) {
		t.Errorf("where the filter has no value: %s", got.raw)
	}
	f.send(to("GET", "/v1/events/none/trace", "")).problem(404, "not_found")
	f.send(to("GET", "/v1/events/"+event+"/trace", "").key(f.tenant("acme"))).problem(404, "not_found")
}

// TestTrace_WhatHoldsADeliveryUp: of what waits the endpoint's part is named.
func TestTrace_WhatHoldsADeliveryUp(t *testing.T) {
	t.Parallel()
	for reason, want := range map[webhook.Reason]Explained{
		webhook.WhyGated: ExplainedGated, webhook.WhyPaused: ExplainedOff, webhook.WhyDisabled: ExplainedOff, webhook.WhySwitchedOff: ExplainedOff,
		webhook.WhyResumedNow: ExplainedOff, webhook.WhyExpanding: ExplainedExpanding, webhook.WhyRetry: ExplainedSent, webhook.WhyNone: ExplainedSent,
	} {
		if got := whyWaits(&webhook.Delivery{Status: contract.StatusPending, Reason: reason}); got != want {
			t.Errorf("%s: %s", reason, got)
		}
	}
}

// TestContract_P6_StatusesAsShown: under a contract that shows no sending, a
// request under way is pending: in lists, by the filter, in counts and exports.
func TestContract_P6_StatusesAsShown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.endpointUnder("shop", "petify")
	f.endpointUnder("std", "standard")
	event := f.publish(adminKey, `{"type":"a.b","data":1}`)
	f.mu.Lock()
	fresh := (*f.offered)[len(*f.offered)-2:]
	f.mu.Unlock()
	for _, w := range fresh {
		if err := f.db.MarkRunning(t.Context(), []store.Mark{{Ref: w.Ref, Round: 1, Try: 1, At: f.api.cfg.Clock.Wall()}}); err != nil {
			t.Fatal(err)
		}
	}
	for query, want := range map[string]string{"?status=pending": "shop", "?status=sending": "std", "?status=pending,sending": "std shop", "": "std shop", "?status=failed": ""} {
		var got []string
		for _, d := range f.send(to("GET", "/v1/deliveries"+query, "")).is(200).items() {
			got = append(got, d["endpoint"].(string))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q finds %v, want %s", query, got, want)
		}
		summary := f.send(to("GET", "/v1/deliveries/summary"+query, "")).is(200)
		if summary.json["total"] != float64(len(got)) || summary.json["complete"] != true {
			t.Errorf("%q counts %s", query, summary.raw)
		}
	}
	const both = "map[pending:1 sending:1]"
	if e := f.send(to("GET", "/v1/events/"+event, "")).is(200); fmt.Sprint(e.json["deliveries"].(map[string]any)["by_status"]) != both {
		t.Errorf("the event has %s", e.raw)
	}
	if s := f.send(to("GET", "/v1/deliveries/summary", "")).is(200); fmt.Sprint(s.json["by_status"]) != both {
		t.Errorf("the summary is %s", s.raw)
	}
	if d := f.delivery(fresh[0].DeliveryID); d.json["status"] != "pending" {
		t.Errorf("it is shown as %s", d.raw)
	}
}

// TestDeliveries_SummaryAndExport: every delivery that the filters choose, counted
// and line by line, over more than one page.
func TestDeliveries_SummaryAndExport(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.endpointUnder("ep", "standard")
	var body strings.Builder
	for range 300 {
		body.WriteString(`{"type":"a.b","data":1}` + "\n")
	}
	f.send(to("POST", "/v1/events", body.String()).with("Content-Type", mediaLines)).is(200)
	f.end(f.lastOffered(), contract.StatusFailed)
	summary := f.send(to("GET", "/v1/deliveries/summary?endpoint=ep", "")).is(200)
	if summary.json["total"] != 300.0 || fmt.Sprint(summary.json["by_status"]) != "map[failed:1 pending:299]" || fmt.Sprint(summary.json["by_failure_kind"]) != "map[http_status:1]" || summary.json["oldest_at"] == nil {
		t.Errorf("the summary is %s", summary.raw)
	}
	f.send(to("GET", "/v1/deliveries/summary?limit=3", "")).problem(422, "unknown_field")
	seen := map[string]bool{}
	export := f.send(to("GET", "/v1/deliveries/export?order=asc&endpoint=ep", "")).is(200)
	last := ""
	for lines := bufio.NewScanner(strings.NewReader(export.raw)); lines.Scan(); {
		var one map[string]any
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		f.fits("/components/schemas/Delivery", one)
		last = one["id"].(string)
		seen[last] = true
	}
	if len(seen) != 300 || last != f.lastOffered().DeliveryID {
		t.Errorf("%d lines, the last is %s", len(seen), last)
	}
	if one := f.send(to("GET", "/v1/deliveries/export?status=failed", "")).is(200); strings.Count(one.raw, "\n") != 1 {
		t.Errorf("of the failed ones: %s", one.raw)
	}
	f.send(to("GET", "/v1/deliveries/export?status=x", "")).problem(422, "invalid_field")
}

// cutLog fails from the second page of deliveries on.
type cutLog struct {
	Store
	pages int
}

func (l *cutLog) ListDeliveries(ctx context.Context, tenant string, f store.DeliveryFilter, p store.Page) (store.Listed[*webhook.Delivery], error) {
	if l.pages++; l.pages > 1 {
		return store.Listed[*webhook.Delivery]{}, errors.New("the disk is gone")
	}
	return l.Store.ListDeliveries(ctx, tenant, f, p)
}

// TestDeliveries_ExportBreaksOff: what can't be finished ends by a broken
// connection, never as an export that looks whole.
func TestDeliveries_ExportBreaksOff(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.Store = &cutLog{Store: c.Store} })
	f.endpointUnder("ep", "standard")
	var body strings.Builder
	for range 300 {
		body.WriteString(`{"type":"a.b","data":1}` + "\n")
	}
	f.send(to("POST", "/v1/events", body.String()).with("Content-Type", mediaLines)).is(200)
	server := httptest.NewServer(f.api)
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v1/deliveries/export", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+adminKey)
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	n := 0
	for lines.Scan() {
		n++
	}
	if lines.Err() == nil || n < logPage {
		t.Errorf("it ended after %d lines with %v", n, lines.Err())
	}
	if !strings.Contains(f.log.String(), "an answer broke off") {
		t.Error("nothing was logged")
	}
}
