package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEventsSend(t *testing.T) {
	t.Parallel()
	a := newAPI(t, `202 {"id":"evt_1","deliveries":2}`)
	a.run(t, "events", "send", "click", `{ "a":1 }`, "--id", "x1", "--ordering-key", "k", "--deliver-at", "2030-01-02T03:04:05+01:00").
		want(t, 0, "evt_1\n", "posthorn: accepted, 2 deliveries; see: posthorn deliveries list --event evt_1\n")
	want := `POST /v1/events {"id":"x1","type":"click","ordering_key":"k","deliver_at":"2030-01-02T02:04:05.000Z","data":{ "a":1 }}`
	if a.requests[0] != want {
		t.Errorf("got  %s\nwant %s", a.requests[0], want)
	}
	if got := a.headers[0].Get("Authorization"); got != "Bearer phk_test" {
		t.Errorf("key %q", got)
	}
	a.run(t, "events", "send", "click", "1", "--json").want(t, 0, `{"id":"evt_1","deliveries":2}`+"\n", "")
}

func TestEventsSend_DataFromElsewhere(t *testing.T) {
	t.Parallel()
	a := newAPI(t, `202 {"id":"evt_1","deliveries":0}`)
	file := filepath.Join(t.TempDir(), "data.json")
	if err := os.WriteFile(file, []byte(`["file"]`), 0o600); err != nil {
		t.Fatal(err)
	}
	a.run(t, "events", "send", "click", "@"+file)
	p := program{env: map[string]string{"POSTHORN_SERVER": a.URL}, stdin: `["stdin"]`}
	p.run(t.Context(), "events", "send", "click")
	p.run(t.Context(), "events", "send", "click", "-")
	for i, want := range []string{`["file"]`, `["stdin"]`, `["stdin"]`} {
		if !strings.HasSuffix(a.requests[i], `"data":`+want+"}") {
			t.Errorf("got %s, want data %s", a.requests[i], want)
		}
	}
}

func TestEventsSend_NDJSON(t *testing.T) {
	t.Parallel()
	a := newAPI(t, `200 {"line":1,"id":"evt_1","status":202,"deliveries":1}
{"line":2,"status":422,"code":"invalid_field","detail":"One field is wrong.","errors":[{"pointer":"/type","code":"invalid_field","detail":"it is missing"}]}`)
	p := program{env: map[string]string{"POSTHORN_SERVER": a.URL}, stdin: "{\"type\":\"a\",\"data\":1}\n\n  \n{\"data\":2}"}
	// The second line of the request is the fourth of the file.
	p.run(t.Context(), "events", "send", "--ndjson", "-").want(t, 1, "evt_1\n",
		"posthorn: line 4: One field is wrong. (422 invalid_field); /type: it is missing\nposthorn: 1 event accepted, 1 refused\n")
	if want := "POST /v1/events {\"type\":\"a\",\"data\":1}\n{\"data\":2}"; a.requests[0] != want {
		t.Errorf("got %q, want %q", a.requests[0], want)
	}
}

func TestEventsSend_NDJSONInBatches(t *testing.T) {
	t.Parallel()
	a := newAPI(t, "200 ")
	p := program{env: map[string]string{"POSTHORN_SERVER": a.URL}, stdin: strings.Repeat("{}\n", 1201)}
	p.run(t.Context(), "events", "send", "--ndjson", "-")
	var lines []int
	for _, r := range a.requests {
		lines = append(lines, strings.Count(r, "{}"))
	}
	if len(lines) != 3 || lines[0] != 500 || lines[2] != 201 {
		t.Errorf("batches %v", lines)
	}
}

func TestLists(t *testing.T) {
	t.Parallel()
	first := `200 {"data":[{"id":"dlv_1","status":"failed","type":"click","endpoint":"ep_1","attempt_count":3,"status_code":500,"failure_kind":"http_status","reason":"exhausted","created_at":"2026-05-22T14:32:18.847Z"}],"next":"c2","prev":null}`
	second := `200 {"data":[{"id":"dlv_2","status":"pending","type":"a\u001b[2Jb","endpoint":"ep_1","attempt_count":0,"reason":null,"created_at":"2026-05-22T14:32:18.847Z"}],"next":null,"prev":"c1"}`
	a := newAPI(t, first, second)
	a.run(t, "deliveries", "list", "--status", "failed,pending", "--limit", "2", "--since", "2026-05-22T00:00:00Z").want(t, 0,
		"ID     STATUS   TYPE    ENDPOINT  TRIES  ANSWER  WHY                     CREATED               NEXT TRY\n"+
			"dlv_1  failed   click   ep_1      3      500     http_status, exhausted  2026-05-22T14:32:18Z  -\n"+
			"dlv_2  pending  a�[2Jb  ep_1      0      -       -                       2026-05-22T14:32:18Z  -\n", "")
	if want := "GET /v1/deliveries?limit=2&since=2026-05-22T00%3A00%3A00.000Z&status=failed%2Cpending"; a.requests[0] != want {
		t.Errorf("got %s, want %s", a.requests[0], want)
	}
	a = newAPI(t, first, second)
	a.run(t, "deliveries", "list", "--limit", "1")
	if len(a.requests) != 1 {
		t.Errorf("%d requests for one row", len(a.requests))
	}
	newAPI(t, `200 {"data":[{"id":"acme"}],"next":null}`).run(t, "tenants", "list", "--json").want(t, 0, `{"id":"acme"}`+"\n", "")
	newAPI(t, `200 {"data":[],"next":null}`).run(t, "endpoints", "list").want(t, 0, "", "posthorn: nothing found\n")
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	a := newAPI(t, `201 {"id":"ep_1","url":"https://x.example","events":["click"],"state":"active","version":1,"secret":"whsec_1","waiting":0}`)
	got := a.run(t, "endpoints", "create", "https://x.example", "-e", "click,link.*", "-e", "a", "--header", "X-Key: a, b", "--metadata", "k=v", "--inactive")
	if got.code != 0 || !strings.Contains(got.out, "secret:   whsec_1\n") || !strings.Contains(got.errors, "shown only now") {
		t.Errorf("got %+v", got)
	}
	a.run(t, "endpoints", "create", "https://x.example", "-e", "*", "--id", "mine")
	a.run(t, "endpoints", "update", "ep_1", "--header", "X-Key:", "--metadata", "k=", "--no-active", "--description", "")
	a.run(t, "endpoints", "enable", "ep_1")
	for i, want := range []string{
		`POST /v1/endpoints {"url":"https://x.example","events":["click","link.*","a"],"active":false,"headers":{"X-Key":"a, b"},"metadata":{"k":"v"}}`,
		`PUT /v1/endpoints/mine {"url":"https://x.example","events":["*"]}`,
		`PATCH /v1/endpoints/ep_1 {"active":false,"description":"","headers":{"X-Key":null},"metadata":{"k":null}}`,
		`POST /v1/endpoints/ep_1/enable {"resume":"backlog"}`,
	} {
		if a.requests[i] != want {
			t.Errorf("got  %s\nwant %s", a.requests[i], want)
		}
	}
}

func TestDeliveriesGet(t *testing.T) {
	t.Parallel()
	a := newAPI(t, `200 {"id":"dlv_1","status":"delivered","attempt_count":2,"body":"{\"a\":1}","body_encoding":"utf8","request_headers":{"webhook-id":"evt_1"},
		"attempts":[{"number":1,"at":"2026-05-22T14:32:18.847Z","duration_ms":1.5,"status_code":500,"failure_kind":"http_status","error":"The server answered 500.","response":"no\u0007pe\nnever"},
		{"number":2,"at":"2026-05-22T14:32:23.847Z","duration_ms":2,"status_code":200}]}`)
	a.run(t, "deliveries", "get", "dlv_1").want(t, 0, `id:        dlv_1
status:    delivered
attempts:  2
header:    webhook-id: evt_1
body:
{"a":1}
attempt 1 at 2026-05-22T14:32:18Z, 1.5 ms: http_status, status 500
    The server answered 500.
    answer: no�pe
    never
attempt 2 at 2026-05-22T14:32:23Z, 2.0 ms: delivered, status 200
`, "")
}

func TestKeysCreate_OnlyTheKeyOnStandardOutput(t *testing.T) {
	t.Parallel()
	a := newAPI(t, `201 {"id":"k1","key":"phk_k1_secret","scopes":["publish","read"]}`)
	a.run(t, "keys", "create", "--scope", "publish,read", "--tenant", "acme").
		want(t, 0, "phk_k1_secret\n", "posthorn: key k1 of tenant acme, shown only now\n")
	a.run(t, "keys", "revoke", "k1")
	if a.requests[0] != `POST /v1/tenants/acme/keys {"scopes":["publish","read"]}` || a.requests[1] != "DELETE /v1/tenants/default/keys/k1" {
		t.Errorf("got %q", a.requests)
	}
}

func TestProblems_FieldByField(t *testing.T) {
	t.Parallel()
	a := newAPI(t, `422 {"status":422,"code":"invalid_field","detail":"2 fields can't be taken.","errors":[
		{"pointer":"/url","code":"invalid_field","detail":"it is no URL","allowed":"https"},{"pointer":"/events/0","code":"invalid_field","detail":"no"}]}`)
	a.run(t, "endpoints", "create", "x", "-e", "*").want(t, 1, "",
		"posthorn: 2 fields can't be taken. (422 invalid_field)\nposthorn:   /url: it is no URL; allowed: https\nposthorn:   /events/0: no\n")
	got := newAPI(t, `401 {"status":401,"code":"unauthorized","detail":"No valid key."}`).run(t, "events", "get", "e")
	if got.code != 1 || !strings.Contains(got.errors, "does not know this key") || strings.Contains(got.errors, "phk_test") {
		t.Errorf("got %+v", got)
	}
}

// The key: flag, POSTHORN_KEY, POSTHORN_ADMIN_KEY, the data folder.
func TestKey_Precedence(t *testing.T) {
	t.Parallel()
	a := newAPI(t, `204 `)
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "admin.key"), []byte("from-folder\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"POSTHORN_SERVER": a.URL, "POSTHORN_DATA": folder, "POSTHORN_KEY": "from-key", "POSTHORN_ADMIN_KEY": "from-admin"}
	run := func(args ...string) {
		program{env: env}.run(t.Context(), append([]string{"events", "cancel", "e"}, args...)...)
	}
	run("--key", "from-flag")
	run()
	env["POSTHORN_KEY"] = ""
	run()
	delete(env, "POSTHORN_ADMIN_KEY")
	run()
	env["POSTHORN_DATA"] = t.TempDir()
	run()
	for i, want := range []string{"Bearer from-flag", "Bearer from-key", "Bearer from-admin", "Bearer from-folder", ""} {
		if got := a.headers[i].Get("Authorization"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
