package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// lines sends NDJSON to a run.
func (f *fixture) lines(run string, lines ...string) got {
	f.Helper()
	return f.send(to("POST", "/v1/runs/"+run+"/events", strings.Join(lines, "\n")).with("Content-Type", mediaLines))
}

// finishedRun makes a run of three events whose type is a.run, and finishes it.
func (f *fixture) finishedRun() (id string) {
	f.Helper()
	id = f.send(to("POST", "/v1/runs", `{"project":"spring","type":"a.run"}`)).is(201).text("id")
	f.lines(id, `{"id":"one","type":"x.y","data":{"n": 1.0}}`, `{"id":"two","type":"x.y","data":[1,  2]}`, `{"type":"x.z","data":"three","created_at":"2026-05-22T14:32:18.847Z"}`).is(200)
	f.send(to("POST", "/v1/runs/"+id+"/finish", "")).is(200)
	return id
}

// page reads a run with a token.
func (f *fixture) page(run, token, query string) got {
	f.Helper()
	return f.send(to("GET", "/v1/runs/"+run+"/events"+query, "").key(token))
}

// TestContract_S13_RunIsReadByPages: open, add, finish; the receiver reads page by
// page with its token, data byte for byte, each event under the same ID.
func TestContract_S13_RunIsReadByPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.endpointUnder("ep", "signals")
	opened := f.send(to("POST", "/v1/runs", `{"project":"spring","type":"a.run"}`)).is(201)
	run := opened.text("id")
	if opened.json["state"] != "open" || opened.json["event"] != nil || !strings.HasPrefix(run, "run_") {
		t.Errorf("opened %s", opened.raw)
	}
	added := f.lines(run, `{"id":"one","type":"x.y","data":{"n": 1.0}}`, ``, `{"id":"two","type":"x.y","data":[1,  2]}`, `{"type":"x.z"}`).is(200)
	if added.header.Get("Posthorn-Accepted") != "2" || added.header.Get("Posthorn-Refused") != "1" || strings.Count(added.raw, "\n") != 3 ||
		!strings.HasPrefix(added.raw, `{"line":1,"id":"one","status":202}`+"\n"+`{"line":3,"id":"two","status":202}`+"\n"+`{"line":4,"status":422,`) {
		t.Errorf("added with %v\n%s", added.header, added.raw)
	}
	// A repeat adds nothing; more may come in another request.
	f.lines(run, `{"id":"two","type":"x.y","data":[1,  2]}`, `{"type":"x.z","data":"three","created_at":"2026-05-22T14:32:18.847Z"}`).is(200)
	done := f.send(to("POST", "/v1/runs/"+run+"/finish", "")).is(200)
	if counts := done.json["counts"].(map[string]any); done.json["state"] != "finished" || counts["total"] != 3.0 || fmt.Sprint(counts["by_type"]) != "map[x.y:2 x.z:1]" {
		t.Errorf("finished as %s", done.raw)
	}
	event := f.send(to("GET", "/v1/events/"+done.text("event"), "")).is(200)
	if event.json["type"] != "a.run" || event.json["run"] != run || !strings.HasSuffix(event.raw, `"data":{"runId":"`+run+`","project":"spring","counts":{"total":3,"by_type":{"x.y":2,"x.z":1}}}}`+"\n") {
		t.Errorf("the event is %s", event.raw)
	}
	w := f.lastOffered()
	if w.Run != run || w.EventID != done.json["event"] {
		t.Errorf("lanes were handed %+v", w)
	}
	if d := f.delivery(w.DeliveryID); d.json["run"] != run {
		t.Errorf("its delivery is %s", d.raw)
	}
	token := f.tokens.Issue(w.Ref)
	first := f.page(run, token, "?limit=2").is(200)
	next := first.text("next")
	if want := `{"data":[{"eventId":"one","type":"x.y","createdAt":"`; !strings.HasPrefix(first.raw, want) || !strings.Contains(first.raw, `"data":{"n": 1.0}},{"eventId":"two"`) || !strings.Contains(first.raw, `"data":[1,  2]}],"next":"`) {
		t.Errorf("the first page is %s", first.raw)
	}
	second := f.page(run, token, "?limit=2&cursor="+next).is(200)
	if items := second.items(); len(items) != 1 || items[0]["data"] != "three" || items[0]["createdAt"] != "2026-05-22T14:32:18.847Z" || second.json["next"] != nil {
		t.Errorf("the second page is %s", second.raw)
	}
	if again := f.page(run, token, "?limit=2&cursor="+next).is(200); again.raw != second.raw {
		t.Error("another reading reads otherwise")
	}
	// A key that may read does it too; the cursor is of this run only.
	f.send(to("GET", "/v1/runs/"+run+"/events?limit=2&cursor="+next, "")).problem(422, "invalid_field").faultAt("cursor", "invalid_field")
	other := f.finishedRun()
	theirs := f.send(to("GET", "/v1/runs/"+other+"/events?limit=2", "")).is(200).text("next")
	f.send(to("GET", "/v1/runs/"+other+"/events?limit=2&cursor="+theirs, "")).is(200)
	f.send(to("GET", "/v1/runs/"+run+"/events?limit=2&cursor="+theirs, "")).problem(422, "invalid_field")
	if byKey := f.send(to("GET", "/v1/runs/"+run+"/events", "")).is(200); len(byKey.items()) != 3 {
		t.Errorf("with a key: %s", byKey.raw)
	}
	// Finishing again, and adding to what is finished.
	if again := f.send(to("POST", "/v1/runs/"+run+"/finish", "")).is(200); again.json["event"] != done.json["event"] {
		t.Errorf("finished again as %s", again.raw)
	}
	f.lines(run, `{"type":"x.y","data":1}`).problem(409, "conflict")
}

// TestContract_S13_TokensThatDoNotOpen: forged, of another run, over their time;
// and not before their delivery has ended.
func TestContract_S13_TokensThatDoNotOpen(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.endpointUnder("ep", "signals")
	run := f.finishedRun()
	w := f.lastOffered()
	token := f.tokens.Issue(w.Ref)
	other := f.finishedRun()
	for _, bad := range []string{"x", token + "A", f.tokens.Issue(w.Ref + 1000), f.tokens.Issue(w.Ref) + "=", strings.ToUpper(token)} {
		f.page(run, bad, "").problem(401, "page_token_invalid")
	}
	f.page(other, token, "").problem(401, "page_token_invalid")
	f.page("run_none", token, "").problem(401, "page_token_invalid")
	f.send(to("GET", "/v1/runs/"+run+"/events", "").with("Authorization", "")).problem(401, "unauthorized")
	f.page(run, "phk_none_x", "").problem(401, "unauthorized")
	// A token opens its run and nothing else.
	f.send(to("GET", "/v1/runs/"+run, "").key(token)).problem(401, "unauthorized")
	f.lines(run, `{"type":"x.y","data":1}`).problem(409, "conflict")
	key := f.tenant("acme")
	f.send(to("GET", "/v1/runs/"+run+"/events", "").key(key)).problem(404, "not_found")

	// 30 days from the first attempt, never before the end.
	grant := func(first time.Duration, finished bool) bool {
		g := webhook.PageGrant{Contract: "signals", ContractRevision: w.ContractRevision, Finished: finished}
		now := f.api.cfg.Clock.Wall()
		if first != 0 {
			g.FirstAttemptAt = now.Add(-first)
		}
		return f.api.grantValid(&g, now)
	}
	const days = 24 * time.Hour
	for _, c := range []struct {
		first    time.Duration
		finished bool
		want     bool
	}{
		{0, false, true}, {29 * days, true, true}, {30*days - 1, true, true}, {30 * days, true, false}, {40 * days, false, true}, {0, true, false},
	} {
		if grant(c.first, c.finished) != c.want {
			t.Errorf("first attempt %s ago, finished %v: valid is %v", c.first, c.finished, !c.want)
		}
	}
	now := f.api.cfg.Clock.Wall()
	f.record(w, store.RecordParams{
		Attempt: &webhook.Attempt{Round: 1, Try: 1, Counted: true, At: now.Add(-31 * days), Duration: time.Second, StatusCode: 204}, Status: contract.StatusDelivered, Now: now,
	})
	f.page(run, token, "").problem(401, "page_token_invalid")
}

// TestContract_S13_DeletedRun: readers get run_gone, with the token of each
// delivery; deleting is safe to repeat.
func TestContract_S13_DeletedRun(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.endpointUnder("ep", "signals")
	first := f.finishedRun()
	one := f.tokens.Issue(f.lastOffered().Ref)
	second := f.finishedRun()
	two := f.tokens.Issue(f.lastOffered().Ref)
	open := f.send(to("POST", "/v1/runs", "")).is(201).text("id")
	f.send(to("DELETE", "/v1/runs/"+first, "")).is(204)
	f.send(to("DELETE", "/v1/runs/"+first, "")).is(204)
	f.page(first, one, "").problem(410, "run_gone")
	f.send(to("GET", "/v1/runs/"+first+"/events", "")).problem(410, "run_gone")
	f.page(second, two, "").is(200)
	f.send(to("DELETE", "/v1/projects/spring", "")).is(204)
	f.send(to("DELETE", "/v1/projects/spring", "")).is(204)
	f.page(second, two, "").problem(410, "run_gone")
	f.lines(second, `{"type":"x.y","data":1}`).problem(410, "run_gone")
	if got := f.send(to("GET", "/v1/runs/"+second, "")).is(200); got.json["state"] != "deleted" {
		t.Errorf("deleted as %s", got.raw)
	}
	f.send(to("DELETE", "/v1/runs/"+open, "")).is(204)
	f.send(to("POST", "/v1/runs/"+open+"/finish", "")).problem(410, "run_gone")
	f.send(to("DELETE", "/v1/runs/run_none", "")).problem(404, "not_found")
	f.send(to("POST", "/v1/runs/run_none/finish", "")).problem(404, "not_found")
	f.lines("run_none", `{"type":"x.y","data":1}`).problem(404, "not_found")
}

// TestContract_S13_PlainEventIsARunOfOne: its page has the one event, under the
// event's ID.
func TestContract_S13_PlainEventIsARunOfOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.endpointUnder("ep", "signals")
	event := f.publish(adminKey, `{"type":"a.b","data":{"n": 1.0}}`)
	token := f.tokens.Issue(f.lastOffered().Ref)
	page := f.page(event, token, "").is(200)
	if !strings.HasPrefix(page.raw, `{"data":[{"eventId":"`+event+`","type":"a.b","createdAt":"`) || !strings.HasSuffix(page.raw, `"data":{"n": 1.0}}],"next":null}`+"\n") {
		t.Errorf("the page is %s", page.raw)
	}
	f.send(to("DELETE", "/v1/events/"+event+"/data", "")).is(204)
	f.page(event, token, "").problem(410, "run_gone")
	// Under a contract without page tokens a made-up one of a real delivery opens
	// nothing.
	f.endpointUnder("std", "standard")
	f.send(to("POST", "/v1/endpoints/ep/disable", "")).is(200)
	event = f.publish(adminKey, `{"type":"a.b","data":1}`)
	f.mu.Lock()
	fresh := (*f.offered)[1:]
	f.mu.Unlock()
	opened := 0
	for _, w := range fresh {
		if got := f.page(event, f.tokens.Issue(w.Ref), ""); got.status == 200 {
			opened++
		} else {
			got.problem(401, "page_token_invalid")
		}
	}
	if len(fresh) != 2 || opened != 1 {
		t.Errorf("%d of %d tokens open it", opened, len(fresh))
	}
}

// TestRuns_RepeatsAreVisible: a line that the run had before shows 200 where the
// store tells, and counts as a repeat always.
func TestRuns_RepeatsAreVisible(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	run := f.send(to("POST", "/v1/runs", "")).is(201).text("id")
	line := func(id string) string { return `{"id":"` + id + `","type":"x.y","data":1}` }
	for _, c := range []struct {
		ids      string
		statuses string
		repeated string
	}{
		{"a b", "202 202", "0"}, {"a b", "200 200", "2"}, {"b", "200", "1"},
		{"c c", "202 200", "1"}, // twice in one request
		{"a d", "202 202", "1"}, // both at once: which one is not known
		{"a - d", "200 422 200", "2"},
	} {
		var lines, statuses []string
		for id := range strings.FieldsSeq(c.ids) {
			lines = append(lines, strings.Replace(line(id), `"id":"-",`, `"id":"",`, 1))
		}
		got := f.lines(run, lines...).is(200)
		for text := range strings.Lines(got.raw) {
			_, rest, _ := strings.Cut(text, `"status":`)
			statuses = append(statuses, rest[:3])
		}
		if strings.Join(statuses, " ") != c.statuses || got.header.Get("Posthorn-Repeated") != c.repeated {
			t.Errorf("%s: %v, %s repeated", c.ids, statuses, got.header.Get("Posthorn-Repeated"))
		}
	}
	if got := f.send(to("GET", "/v1/runs/"+run, "")).is(200); got.json["counts"].(map[string]any)["total"] != 4.0 {
		t.Errorf("it has %s", got.raw)
	}
}

// TestRuns_TypesAreBounded: a run has events of 1,000 types, and more events of
// those.
func TestRuns_TypesAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	run := f.send(to("POST", "/v1/runs", "")).is(201).text("id")
	kinds := func(from, to int) (lines []string) {
		for i := from; i < to; i++ {
			lines = append(lines, fmt.Sprintf(`{"type":"x.%d","data":1}`, i))
		}
		return lines
	}
	f.lines(run, kinds(0, 600)...).is(200)
	got := f.lines(run, kinds(599, 1002)...).is(200)
	if got.header.Get("Posthorn-Accepted") != "401" || got.header.Get("Posthorn-Refused") != "2" || strings.Count(got.raw, `"pointer":"/type","code":"run_types"`) != 2 {
		t.Errorf("added %v: %s", got.header, got.raw[len(got.raw)-500:])
	}
	got = f.lines(run, kinds(999, 1001)...).is(200)
	if got.header.Get("Posthorn-Accepted") != "1" || !strings.Contains(got.raw, "at most 1000 types") {
		t.Errorf("added %v: %s", got.header, got.raw)
	}
	shown := f.send(to("GET", "/v1/runs/"+run, "")).is(200).json["counts"].(map[string]any)
	if len(shown["by_type"].(map[string]any)) != 1000 || shown["total"] != 1002.0 {
		t.Errorf("it has %v events of %d types", shown["total"], len(shown["by_type"].(map[string]any)))
	}
	limits := f.send(to("GET", "/v1/limits", "")).is(200)
	for name, want := range map[string]float64{"run_types": 1000, "filter_bytes": 2048, "resend_ids": 100, "contract_bytes": 262144} {
		if limits.json[name] != want {
			t.Errorf("the limit %s is %v", name, limits.json[name])
		}
	}
}

// TestRuns_LargeRun: many requests, each up to the limits; what is no event of a
// run is refused, line by line.
func TestRuns_LargeRun(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	run := f.send(to("POST", "/v1/runs", "")).is(201).text("id")
	for part := range 3 {
		lines := make([]string, 450)
		for i := range lines {
			lines[i] = fmt.Sprintf(`{"id":"e-%d","type":"x.y","data":%d}`, part*400+i, part*400+i) // 50 of the part before again
		}
		if got := f.lines(run, lines...).is(200); got.header.Get("Posthorn-Accepted") != "450" {
			t.Fatalf("added %v", got.header)
		}
	}
	if got := f.send(to("GET", "/v1/runs/"+run, "")).is(200); got.json["counts"].(map[string]any)["total"] != 1250.0 {
		t.Errorf("it has %s", got.raw)
	}
	read, cursor := 0, ""
	for range 10 {
		page := f.send(to("GET", "/v1/runs/"+run+"/events?limit=250"+cursor, "")).is(200)
		for _, e := range page.items() {
			if e["eventId"] != fmt.Sprintf("e-%d", read) {
				t.Fatalf("event %d is %v", read, e)
			}
			read++
		}
		if page.json["next"] == nil {
			break
		}
		cursor = "&cursor=" + page.text("next")
	}
	if read != 1250 {
		t.Errorf("%d events read", read)
	}
	f.lines(run, strings.Repeat(`{"type":"x.y","data":1}`+"\n", 1001)).problem(413, "too_large")
	f.send(to("POST", "/v1/runs/"+run+"/events", `{"type":"x.y","data":1}`)).problem(415, "unsupported_type")
	bad := f.lines(run, `{"type":"x.y","data":1,"deliver_at":"2036-05-22T14:32:18Z"}`, `{"type":"webhook.failed","data":1}`, `{"type":"x.y","data":1,"ordering_key":"k"}`, `[]`).is(200)
	if bad.header.Get("Posthorn-Refused") != "4" || !strings.Contains(bad.raw, `"pointer":"/ordering_key","code":"unknown_field"`) {
		t.Errorf("refused with %s", bad.raw)
	}
	// The same key gives the same events.
	once := func() string {
		return f.send(to("POST", "/v1/runs/"+run+"/events", `{"type":"x.y","data":1}`).with("Content-Type", mediaLines).with("Idempotency-Key", "k")).is(200).raw
	}
	if first, again := once(), once(); strings.Replace(first, `"status":202`, `"status":200`, 1) != again || !strings.Contains(first, `"status":202`) {
		t.Errorf("a repeat is another event: %s and %s", first, again)
	}
	f.send(to("POST", "/v1/runs", `{"type":"endpoint.paused"}`)).problem(422, "invalid_field").faultAt("/type", "invalid_field")
	f.send(to("POST", "/v1/runs", `{"project":"../x"}`)).problem(422, "invalid_field").faultAt("/project", "invalid_field")
	if items := f.send(to("GET", "/v1/runs?project=none", "")).is(200).items(); len(items) != 0 {
		t.Errorf("of no project: %v", items)
	}
	if items := f.send(to("GET", "/v1/runs", "")).is(200).items(); len(items) != 1 || items[0]["type"] != "run.finished" {
		t.Errorf("runs are %v", items)
	}
}
