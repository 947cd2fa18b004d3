package api

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// seed accepts events past the API, all at one moment, or a microsecond apart.
func (f *fixture) seed(n int, at time.Time, apart time.Duration) {
	f.Helper()
	params := make([]store.AcceptParams, n)
	for i := range params {
		now := at.Add(time.Duration(i) * apart)
		params[i] = store.AcceptParams{Tenant: "default", Type: "a.b", Data: []byte("1"), ContentType: "application/json", Now: now, Ready: now}
		f.api.cfg.Match(&params[i])
	}
	results, err := f.db.Accept(f.Context(), params)
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			f.Fatal(r.Err)
		}
	}
}

// walk reads a list from a cursor to its end, calling between before each page.
// size is that of the last page, back the cursor that leads away from it.
func (f *fixture) walk(path, first, direction string, between func()) (ids []string, size int, back string) {
	f.Helper()
	cursor := first
	for pages := 0; ; pages++ {
		if pages > 2000 {
			f.Fatal("the list has no end")
		}
		between()
		target := path
		if cursor != "" {
			target += "&cursor=" + cursor
		}
		page := f.send(to("GET", target, "")).is(200)
		var of []string
		for _, item := range page.items() {
			of = append(of, item["id"].(string))
		}
		if direction == "prev" {
			ids = append(of, ids...)
		} else {
			ids = append(ids, of...)
		}
		next, ok := page.json[direction].(string)
		if !ok {
			back, _ = page.json["prev"].(string)
			return ids, len(of), back
		}
		cursor = next
	}
}

// TestFault_B55_PagesNeitherSkipNorRepeat: rows of the same instant, rows a
// microsecond apart, forward and backward, in both orders, while more come in.
func TestFault_B55_PagesNeitherSkipNorRepeat(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.endpoint(adminKey)
	at := time.Date(2026, 5, 22, 14, 0, 0, 0, time.UTC)
	const half = 100
	f.seed(half, at, 0)
	f.seed(half, at, time.Microsecond)
	for _, path := range []string{"/v1/deliveries?limit=7", "/v1/events?limit=7"} {
		oldest, _, _ := f.walk(path+"&order=asc", "", "next", func() {})
		before := len(oldest)
		if before < 2*half || hasRepeats(oldest) {
			t.Fatalf("%s: %d rows, repeats %v", path, before, hasRepeats(oldest))
		}
		// Newest first: what comes in meanwhile lies before the first page.
		inserts := 0
		newest, size, back := f.walk(path, "", "next", func() {
			if inserts++; inserts%5 == 0 {
				f.seed(1, at, 0)
			}
		})
		slices.Reverse(newest)
		if !slices.Equal(newest, oldest) {
			t.Errorf("%s: newest first shows %d rows, oldest first %d", path, len(newest), before)
		}
		// And back again: all that came in meanwhile is found before the beginning.
		all, _, _ := f.walk(path, back, "prev", func() {})
		slices.Reverse(all)
		known := oldest[size:] // the last page is the one we left
		if hasRepeats(all) || len(all) <= len(known) || !slices.Equal(all[:len(known)], known) {
			t.Errorf("%s: backward shows %d rows", path, len(all))
		}
		// Oldest first: what comes in meanwhile stands at the end, once.
		rising, _, _ := f.walk(path+"&order=asc", "", "next", func() {
			if inserts++; inserts%9 == 0 {
				f.seed(1, at, 0)
			}
		})
		if hasRepeats(rising) || !slices.Equal(rising[:before], oldest) {
			t.Errorf("%s: oldest first under inserts shows %d rows", path, len(rising))
		}
	}
}

func hasRepeats(ids []string) bool {
	sorted := slices.Sorted(slices.Values(ids))
	return len(slices.Compact(sorted)) != len(ids)
}

// TestFault_B55_BackIsWhatWasBefore: prev of a page leads to exactly the page
// that next had left.
func TestFault_B55_BackIsWhatWasBefore(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.seed(20, time.Date(2026, 5, 22, 14, 0, 0, 0, time.UTC), 0)
	for _, order := range []string{"asc", "desc"} {
		path := "/v1/events?limit=7&order=" + order
		one := f.send(to("GET", path, "")).is(200)
		two := f.send(to("GET", path+"&cursor="+one.text("next"), "")).is(200)
		three := f.send(to("GET", path+"&cursor="+two.text("next"), "")).is(200)
		if one.json["prev"] != nil || three.json["next"] != nil || len(three.items()) != 6 {
			t.Errorf("%s: the ends are %v and %v", order, one.json["prev"], three.json["next"])
		}
		back := f.send(to("GET", path+"&cursor="+three.text("prev"), "")).is(200)
		if fmt.Sprint(back.items()) != fmt.Sprint(two.items()) {
			t.Errorf("%s: back from the third page is not the second", order)
		}
		first := f.send(to("GET", path+"&cursor="+back.text("prev"), "")).is(200)
		if fmt.Sprint(first.items()) != fmt.Sprint(one.items()) || first.json["prev"] != nil {
			t.Errorf("%s: back from the second page is not the first", order)
		}
	}
}

// TestLists_CursorIsBound: a cursor fits the tenant, list, filters and order that
// it was made for, and no change of a bit goes unnoticed.
func TestLists_CursorIsBound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.tenant("acme")
	f.seed(5, time.Now(), 0)
	get := func(path string) got { return f.send(to("GET", path, "").with("Posthorn-Tenant", "default")) }
	cursor := get("/v1/events?limit=2&type=a.b").is(200).text("next")
	get("/v1/events?limit=1&type=a.b&cursor=" + cursor).is(200)
	get("/v1/events?limit=2&type=a.b&order=desc&cursor=" + cursor).is(200)
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		t.Fatal(err)
	}
	bad := []string{"x", cursor + "A", cursor[1:], strings.Repeat("A", 32), "%00", strings.Repeat("A", 500)}
	for i := range raw {
		changed := slices.Clone(raw)
		changed[i] ^= 1
		bad = append(bad, base64.RawURLEncoding.EncodeToString(changed))
	}
	for _, text := range bad {
		get("/v1/events?limit=2&type=a.b&cursor="+text).problem(422, "invalid_field").faultAt("cursor", "invalid_field")
	}
	for _, path := range []string{"/v1/events?limit=2", "/v1/events?type=a.c", "/v1/events?type=a.b&order=asc", "/v1/events?type=a.b&since=2026-01-01T00:00:00Z", "/v1/deliveries?type=a.b"} {
		get(path+"&cursor="+cursor).problem(422, "invalid_field").faultAt("cursor", "invalid_field")
	}
	for range 3 {
		f.send(to("POST", "/v1/endpoints", plainEndpoint).with("Posthorn-Tenant", "default")).is(201)
		f.send(to("POST", "/v1/tenants/default/keys", `{"scopes":["read"]}`)).is(201)
	}
	endpoints := get("/v1/endpoints?limit=1").is(200).text("next")
	f.send(to("GET", "/v1/tenants/default/keys?limit=1&cursor="+endpoints, "")).problem(422, "invalid_field").faultAt("cursor", "invalid_field")
	f.send(to("GET", "/v1/events?type=a.b&cursor="+cursor, "").with("Posthorn-Tenant", "acme")).problem(422, "invalid_field")
	f.send(to("GET", "/v1/events?type=a.b&cursor="+cursor, "").with("Posthorn-Tenant", "*")).problem(422, "invalid_field")
}

// TestLists_Parameters: what lists take, and that everything else is refused.
func TestLists_Parameters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for query, pointer := range map[string]string{
		"limit=0": "limit", "limit=251": "limit", "limit=x": "limit", "limit=1.5": "limit", "limit=": "limit", "order=up": "order", "status=lost": "status", "status=failed,lost": "status",
		"since=yesterday": "since", "until=2026-05-22": "until", "failure_kind=bad": "failure_kind", "reason=": "reason", "trigger=me": "trigger",
		"endpoint=": "endpoint", "limit=1&limit=2": "limit", "type=": "type", "since=2026-05-22T00:00:00+02:00": "since",
	} {
		f.send(to("GET", "/v1/deliveries?"+query, "")).problem(422, "invalid_field").faultAt(pointer, "invalid_field")
	}
	for _, query := range []string{"limit=1", "limit=250", "cursor=&limit=2&order=asc", "status=failed,dead", "since=2026-05-22T00:00:00Z", "since=2026-05-22T00:00:00.123456%2B02:00"} {
		f.send(to("GET", "/v1/deliveries?"+query, "")).is(200)
	}
	f.send(to("GET", "/v1/deliveries?source=x", "")).problem(422, "unknown_field").faultAt("source", "unknown_field")
	f.send(to("GET", "/v1/deliveries?"+strings.Repeat("n", 5000)+"=1", "")).problem(422, "unknown_field").faultAt("query", "unknown_field")
	f.send(to("GET", "/v1/deliveries?%zz", "")).problem(422, "invalid_field").faultAt("query", "invalid_field")
	f.send(to("GET", "/v1/limits?x=1", "")).problem(422, "unknown_field")
	f.send(to("GET", "/healthz?x=1", "")).problem(422, "unknown_field")
}

// TestDeliveries_Filters: each filter takes what it should and nothing else;
// since is inclusive, until exclusive.
func TestDeliveries_Filters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.send(to("PUT", "/v1/endpoints/one", plainEndpoint)).is(201)
	f.send(to("PUT", "/v1/endpoints/two", `{"url":"https://example.com/two","events":["x.y"]}`)).is(201)
	failed := f.publish(adminKey, `{"type":"a.b","data":1,"ordering_key":"k1"}`)
	now := f.api.cfg.Clock.Wall()
	f.record(f.lastOffered(), store.RecordParams{
		Attempt: &webhook.Attempt{Round: 1, Try: 1, Counted: true, At: now, Duration: time.Second, FailureKind: webhook.KindTimeout, Error: "no answer"},
		Status:  contract.StatusFailed, Reason: webhook.WhyExhausted, FailureKind: webhook.KindTimeout, Now: now,
	})
	waiting := f.publish(adminKey, `{"type":"x.y","data":1}`)
	first := f.send(to("GET", "/v1/events/"+failed, "")).is(200).text("accepted_at")
	second := f.send(to("GET", "/v1/events/"+waiting, "")).is(200).text("accepted_at")
	events := func(query string) string {
		t.Helper()
		var names []string
		for _, d := range f.send(to("GET", "/v1/deliveries?order=asc&"+query, "")).is(200).items() {
			name := "failed"
			if d["event"] == waiting {
				name = "waiting"
			}
			names = append(names, name+"/"+d["endpoint"].(string))
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	const all = "failed/one waiting/one waiting/two"
	for query, want := range map[string]string{
		"": all, "endpoint=two": "waiting/two", "event=" + failed: "failed/one", "status=failed": "failed/one", "status=pending,sending": "waiting/one waiting/two",
		"status=pending,failed": all, "type=x.y": "waiting/one waiting/two", "type=x.y,a.b": all, "type=none": "", "failure_kind=timeout": "failed/one", "failure_kind=gone": "",
		"reason=exhausted": "failed/one", "trigger=event": all, "trigger=test,resend": "", "ordering_key=k1": "failed/one", "ordering_key=k2": "",
		"status=failed&endpoint=two": "", "endpoint=none": "", "since=" + first: all, "until=" + first: "", "since=" + second: "waiting/one waiting/two",
		"until=" + second: "failed/one", "since=2999-01-01T00:00:00Z": "",
	} {
		if first == second && (strings.HasPrefix(query, "since=") || strings.HasPrefix(query, "until=")) {
			continue
		}
		if got := events(query); got != want {
			t.Errorf("%q lists %q, want %q", query, got, want)
		}
	}
}
