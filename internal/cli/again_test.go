package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDeliveriesResend(t *testing.T) {
	t.Parallel()
	a := newAPI(t, `202 {"id":"dlv_9","warning":"Old."}`)
	a.run(t, "deliveries", "resend", "dlv_1").want(t, 0, "dlv_9\n", "posthorn: dlv_9: Old.\n")
	many := newAPI(t, `202 {"data":[{"id":"dlv_1"},{"id":"dlv_9"}]}`)
	many.run(t, "deliveries", "resend", "dlv_1", "dlv_2").want(t, 0, "dlv_1\ndlv_9\n", "")
	if a.requests[0] != "POST /v1/deliveries/dlv_1/resend" || many.requests[0] != `POST /v1/deliveries/resend {"ids":["dlv_1","dlv_2"]}` {
		t.Errorf("asked by %q and %q", a.requests, many.requests)
	}
	// Refusals name deliveries, not places.
	const fault = `{"pointer":"/ids/1","code":"not_resendable","detail":"it waits","allowed":"ended ones"}`
	newAPI(t, `409 {"status":409,"code":"not_resendable","detail":"1 of 2 can't be.","errors":[`+fault+`]}`).run(t, "deliveries", "resend", "dlv_1", "dlv_2").
		want(t, 1, "", "posthorn: 1 of 2 can't be. (409 not_resendable)\nposthorn:   dlv_2: it waits; allowed: ended ones\n")
	newAPI(t, `202 {"data":[{"id":"dlv_1"}],"errors":[`+fault+`]}`).run(t, "deliveries", "resend", "dlv_1", "dlv_2").
		want(t, 1, "dlv_1\n", "posthorn: Some can't be sent again. (409 not_resendable)\nposthorn:   dlv_2: it waits; allowed: ended ones\n")
	args := []string{"deliveries", "resend"}
	for i := range 101 {
		args = append(args, fmt.Sprint("dlv_", i))
	}
	if got := newAPI(t, "202 {}").run(t, args...); got.code != 2 || !strings.Contains(got.errors, "replays create") {
		t.Errorf("101 at once: %+v", got)
	}
}

func TestDeliveriesSummaryAndExport(t *testing.T) {
	t.Parallel()
	a := newAPI(t, `200 {"total":3,"by_status":{"failed":1,"delivered":2},"by_failure_kind":{"timeout":1},"complete":false,"oldest_at":"2026-05-22T14:32:18.847Z"}`)
	a.run(t, "deliveries", "summary", "--run", "run_1").want(t, 0, "total:               3\ndelivered:           2\nfailed:              1\nbecause of timeout:  1\n",
		"posthorn: there are more: these are the newest, back to 2026-05-22T14:32:18Z; narrow it, by --since for example\n")
	if a.requests[0] != "GET /v1/deliveries/summary?run=run_1" {
		t.Errorf("asked by %q", a.requests)
	}
	a = newAPI(t, `200 {"id":"dlv_1","status":"failed"}`+"\n"+`{"id":"dlv_2"}`+"\n")
	got := a.run(t, "deliveries", "export", "--status", "failed", "--oldest-first")
	if got.code != 0 || strings.Count(got.out, "\n") != 2 || !strings.HasPrefix(got.out, `{"id":"dlv_1",`) || a.requests[0] != "GET /v1/deliveries/export?order=asc&status=failed" {
		t.Errorf("exported %+v by %q", got, a.requests)
	}
	if got := newAPI(t, `200 {"id":"dlv_1"}`+"\n"+`{"id":"dl`).run(t, "deliveries", "export"); got.code != 1 || strings.Count(got.out, "\n") != 1 || got.errors == "" {
		t.Errorf("cut off: %+v", got)
	}
}

func TestEventsTraceAndReplay(t *testing.T) {
	t.Parallel()
	a := newAPI(t, `200 {"event":"evt_1","data":[{"endpoint":"ep_1","reason":"sent","deliveries":[{"id":"dlv_2","status":"pending","reason":"retry","attempt_count":1},{"id":"dlv_1","status":"failed","attempt_count":7}]},
		{"endpoint":"ep_2","reason":"filtered_out","deliveries":[]}],"next":null,"prev":null}`)
	a.run(t, "events", "trace", "evt_1").want(t, 0, `ENDPOINT  REASON        DELIVERY  STATUS   TRIES  WHY
ep_1      sent          dlv_2     pending  1      retry
ep_1      sent          dlv_1     failed   7      -
ep_2      filtered_out  -         -        -      -
`, "")
	a = newAPI(t, `202 {"id":"dlv_3"}`)
	a.run(t, "events", "replay", "evt_1", "--endpoint", "ep_1").want(t, 0, "dlv_3\n", "")
	if a.requests[0] != "POST /v1/endpoints/ep_1/events/evt_1/replay" {
		t.Errorf("asked by %q", a.requests)
	}
	if got := a.run(t, "events", "replay", "evt_1"); got.code != 2 || !strings.Contains(got.errors, "--endpoint") {
		t.Errorf("without an endpoint: %+v", got)
	}
}

func TestReplays(t *testing.T) {
	t.Parallel()
	a := newAPI(t, `200 {"count":120,"complete":true,"warning":"Old."}`)
	a.run(t, "replays", "create", "ep_1", "--dry-run", "--events", "missing").want(t, 0, "120 deliveries would be sent\n", "posthorn: Old.\n")
	if want := `POST /v1/endpoints/ep_1/replay {"selection":{"events":"missing"},"dry_run":true}`; a.requests[0] != want {
		t.Errorf("got  %s\nwant %s", a.requests[0], want)
	}
	replay := func(state string, done int) string {
		return fmt.Sprintf(`{"id":"rpl_1","endpoint":"ep_1","state":%q,"count":3,"done":%d,"created_at":"2026-05-22T14:32:18.847Z","selection":{"status":["failed"],"events":"attempted"}}`, state, done)
	}
	shown := func(state string, done int) string {
		return fmt.Sprintf("id:        rpl_1\nendpoint:  ep_1\ntakes:     failed\nstate:     %s\ncount:     3\ndone:      %d\ncreated:   2026-05-22T14:32:18Z\n", state, done)
	}
	a = newAPI(t, "202 "+replay("counting", 0), "200 "+replay("running", 1), "200 "+replay("done", 3))
	a.run(t, "replays", "create", "ep_1", "--status", "failed", "--type", "a,b", "--run", "run_1", "--since", "2026-05-22T00:00:00Z", "--rate", "5", "--wait").
		want(t, 0, shown("done", 3), "posthorn: rpl_1 began\nposthorn: rpl_1: running, 1 of 3\n")
	if want := `POST /v1/endpoints/ep_1/replay {"selection":{"status":["failed"],"types":["a","b"],"runs":["run_1"],"since":"2026-05-22T00:00:00Z","events":"attempted"},"rate":5}`; a.requests[0] != want {
		t.Errorf("got  %s\nwant %s", a.requests[0], want)
	}
	if got := newAPI(t, "202 "+replay("canceled", 1)).run(t, "replays", "create", "ep_1", "--wait"); got.code != 1 {
		t.Errorf("canceled by another: %+v", got)
	}
	newAPI(t, "200 "+replay("paused", 1)).run(t, "replays", "get", "rpl_1").want(t, 0, shown("paused", 1), "")
	newAPI(t, `200 {"data":[`+replay("running", 1)+`],"next":null}`).run(t, "replays", "list", "--endpoint", "ep_1").want(t, 0,
		"ID     ENDPOINT  STATE    COUNT  DONE  FAILED  CREATED               FINISHED\nrpl_1  ep_1      running  3      1     0       2026-05-22T14:32:18Z  -\n", "")
	newAPI(t, "200 "+replay("canceled", 1)).run(t, "replays", "cancel", "rpl_1").want(t, 0, "rpl_1 canceled\n", "")
}

func TestRuns(t *testing.T) {
	t.Parallel()
	const run = `{"id":"run_1","project":"spring","type":"run.finished","state":"finished","counts":{"total":3,"by_type":{"x":2,"y":1}},"event":"evt_1","created_at":"2026-05-22T14:32:18.847Z","finished_at":"2026-05-22T14:40:00Z"}`
	a := newAPI(t, "201 "+run)
	a.run(t, "runs", "create", "--project", "spring", "--type", "a.b").want(t, 0, "run_1\n", "")
	a.run(t, "runs", "finish", "run_1").want(t, 0, `id:        run_1
project:   spring
type:      run.finished
state:     finished
events:    3
of x:      2
of y:      1
told by:   evt_1
created:   2026-05-22T14:32:18Z
finished:  2026-05-22T14:40:00Z
`, "")
	if a.requests[0] != `POST /v1/runs {"project":"spring","type":"a.b"}` || a.requests[1] != "POST /v1/runs/run_1/finish" {
		t.Errorf("asked by %q", a.requests)
	}
	newAPI(t, `200 {"data":[`+run+`],"next":null}`).run(t, "runs", "list").want(t, 0,
		"ID     PROJECT  TYPE          STATE     EVENTS  CREATED               FINISHED\nrun_1  spring   run.finished  finished  3       2026-05-22T14:32:18Z  2026-05-22T14:40:00Z\n", "")
	file := filepath.Join(t.TempDir(), "events.ndjson")
	if err := os.WriteFile(file, []byte(`{"id":"a","type":"x","data":1}`+"\n\n"+`{"type":"y"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a = newAPI(t, `200 {"line":1,"id":"a","status":202}`+"\n"+`{"line":2,"status":422,"code":"invalid_field","detail":"No data."}`)
	a.run(t, "runs", "add", "run_1", file).want(t, 1, "a\n", "posthorn: line 3: No data. (422 invalid_field)\nposthorn: 1 event accepted (1 new), 1 refused\n")
	if !strings.HasPrefix(a.requests[0], "POST /v1/runs/run_1/events {") {
		t.Errorf("asked by %q", a.requests)
	}
	a = newAPI(t, "204 ")
	a.run(t, "runs", "delete", "run_1").want(t, 0, "run_1 deleted\n", "")
	a.run(t, "runs", "delete", "--project", "spring").want(t, 0, "spring deleted\n", "")
	if a.requests[0] != "DELETE /v1/runs/run_1" || a.requests[1] != "DELETE /v1/projects/spring" {
		t.Errorf("asked by %q", a.requests)
	}
	for _, args := range [][]string{{"runs", "delete"}, {"runs", "delete", "run_1", "--project", "spring"}} {
		if got := a.run(t, args...); got.code != 2 || len(a.requests) != 2 {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

// A receiver reads with its page token alone: no key and no tenant goes along.
func TestRunsEvents(t *testing.T) {
	t.Parallel()
	page := `200 {"data":[{"eventId":"one","type":"x","createdAt":"2026-05-22T14:32:18.847Z","data":{"n": 1.0,` + "\n" + `"a":"<&>"}}],"next":null}`
	a := newAPI(t, page)
	a.run(t, "runs", "events", "run_1", "--token", "tok", "--json").want(t, 0, `{"eventId":"one","type":"x","createdAt":"2026-05-22T14:32:18.847Z","data":{"n": 1.0, "a":"<&>"}}`+"\n", "")
	if a.requests[0] != "GET /v1/runs/run_1/events?limit=50" || a.headers[0].Get("Authorization") != "Bearer tok" {
		t.Errorf("asked by %q with %v", a.requests, a.headers[0])
	}
	a.run(t, "runs", "events", "run_1", "--token", "tok", "--tenant", "acme")
	if a.headers[1].Get("Posthorn-Tenant") != "" {
		t.Errorf("asked with %v", a.headers[1])
	}
	a.run(t, "runs", "events", "run_1").want(t, 0, "ID   TYPE  CREATED\none  x     2026-05-22T14:32:18Z\n", "")
	if a.headers[2].Get("Authorization") != "Bearer phk_test" {
		t.Errorf("asked with %v", a.headers[2])
	}
}

// What answers otherwise is no success.
func TestAgain_ServerIsSomethingElse(t *testing.T) {
	t.Parallel()
	for _, command := range [][]string{
		{"deliveries", "resend", "d"}, {"deliveries", "resend", "d", "e"}, {"deliveries", "summary"}, {"deliveries", "export"}, {"events", "trace", "e"},
		{"events", "replay", "e", "--endpoint", "x"}, {"replays", "create", "e"}, {"replays", "create", "e", "--dry-run"}, {"replays", "list"},
		{"replays", "get", "r"}, {"runs", "create"}, {"runs", "finish", "r"}, {"runs", "list"}, {"runs", "events", "r"},
	} {
		if got := newAPI(t, `200 {}`).run(t, command...); got.code != 1 || got.out != "" || !strings.Contains(got.errors, "a Posthorn server?") {
			t.Errorf("%s: %+v", command, got)
		}
	}
}
