package cli_test

import (
	"io"
	"net/http"
	"net/http/httptest"
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

// A repeat makes nothing, and says only that.
func TestEventsSend_Repeats(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Posthorn-Replayed", "true")
		w.Header().Set("Posthorn-Repeated", "2")
		if r.URL.Path == "/v1/events" {
			_, _ = io.WriteString(w, `{"id":"evt_1","deliveries":1}`)
			return
		}
		_, _ = io.WriteString(w, strings.Repeat(`{"id":"a","status":202}`+"\n", 3))
	}))
	defer server.Close()
	p := program{env: map[string]string{"POSTHORN_SERVER": server.URL}, stdin: "{}\n{}\n{}\n"}
	p.run(t.Context(), "events", "send", "click", "1", "--id", "evt_1").
		want(t, 0, "evt_1\n", "posthorn: accepted before; nothing new was made; see: posthorn deliveries list --event evt_1\n")
	p.run(t.Context(), "runs", "add", "run_1").want(t, 0, "a\na\na\n", "posthorn: 3 events accepted (1 new), 0 refused\n")
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
	results := func(n int) string { return "200 " + strings.Repeat(`{"id":"e","status":202}`+"\n", n) }
	a := newAPI(t, results(500), results(500), results(201))
	p := program{env: map[string]string{"POSTHORN_SERVER": a.URL}, stdin: strings.Repeat("{}\n", 1201)}
	if got := p.run(t.Context(), "events", "send", "--ndjson", "-"); got.code != 0 || got.errors != "posthorn: 1201 events accepted, 0 refused\n" {
		t.Errorf("got %d, %s", got.code, got.errors)
	}
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
	a.run(t, "endpoints", "rotate-secret", "ep_1")
	a.run(t, "endpoints", "rotate-secret", "ep_1", "--secret", "whsec_2", "--overlap", "1d")
	a.run(t, "endpoints", "rotate-secret", "ep_1", "--revoke")
	for i, want := range []string{
		`POST /v1/endpoints {"url":"https://x.example","events":["click","link.*","a"],"active":false,"headers":{"X-Key":"a, b"},"metadata":{"k":"v"}}`,
		`PUT /v1/endpoints/mine {"url":"https://x.example","events":["*"]}`,
		`PATCH /v1/endpoints/ep_1 {"active":false,"description":"","headers":{"X-Key":null},"metadata":{"k":null}}`,
		`POST /v1/endpoints/ep_1/enable {"resume":"backlog"}`,
		`POST /v1/endpoints/ep_1/rotate-secret {}`,
		`POST /v1/endpoints/ep_1/rotate-secret {"secret":"whsec_2","overlap":"86400s"}`,
		`POST /v1/endpoints/ep_1/rotate-secret {"revoke":true}`,
	} {
		if a.requests[i] != want {
			t.Errorf("got  %s\nwant %s", a.requests[i], want)
		}
	}
}

// The secrets that sign are told of, the new one is shown.
func TestEndpointsRotate(t *testing.T) {
	t.Parallel()
	a := newAPI(t, `200 {"id":"ep_1","state":"active","version":2,"secret":"whsec_2","secrets":[{"id":"sec_2"},{"id":"sec_1","expires_at":"2026-05-23T14:32:18.847Z"}]}`)
	a.run(t, "endpoints", "rotate-secret", "ep_1").want(t, 0, `id:          ep_1
state:       active
version:     2
signs with:  sec_2
signs with:  sec_1, until 2026-05-23T14:32:18Z
secret:      whsec_2
`, "posthorn: the secret is shown only now: keep it for the receiver\n")
	if got := a.run(t, "endpoints", "rotate-secret", "ep_1", "--overlap", "1h", "--revoke"); got.code != 2 || len(a.requests) != 1 {
		t.Errorf("got %+v after %d requests", got, len(a.requests))
	}
}

// What is held back has no next try, whatever time was planned for it.
func TestDeliveries_HeldBack(t *testing.T) {
	t.Parallel()
	row := `{"id":"dlv_1","status":"pending","reason":"%s","next_attempt_at":"2026-05-22T14:32:18.847Z","created_at":"2026-05-22T14:32:18.847Z"}`
	for reason, want := range map[string]string{"paused": "paused", "disabled": "disabled", "retry": "2026-05-22T14:32:18Z"} {
		delivery := strings.Replace(row, "%s", reason, 1)
		got := newAPI(t, `200 {"data":[`+delivery+`],"next":null}`).run(t, "deliveries", "list")
		if !strings.HasSuffix(got.out, "  "+want+"\n") {
			t.Errorf("%s: %s", reason, got.out)
		}
		if got := newAPI(t, "200 "+delivery).run(t, "deliveries", "get", "dlv_1"); !strings.Contains(got.out, "next attempt:  "+want+"\n") {
			t.Errorf("%s: %s", reason, got.out)
		}
	}
}

func TestEventsGet(t *testing.T) {
	t.Parallel()
	const data = `{ "a" : 1.0,` + "\n" + ` "b":"<&>", "a":null }`
	event := `200 {"id":"evt_1","type":"click","erased":false,"deliveries":{"total":1,"by_status":{"pending":1}},"data":` + data + `}`
	got := newAPI(t, event).run(t, "events", "get", "evt_1", "--json")
	if got.code != 0 || !strings.HasSuffix(got.out, `,"data":`+data+"}\n") || !strings.HasPrefix(got.out, `{"id":"evt_1",`) {
		t.Errorf("got %s", got.out)
	}
	erased := newAPI(t, `200 {"id":"evt_1","type":"click","erased":true,"deliveries":{"total":0},"data":null}`)
	erased.run(t, "events", "get", "evt_1").want(t, 0, "id:          evt_1\ntype:        click\ndeliveries:  0\ndata:        erased\n", "")
	if got := erased.run(t, "events", "get", "evt_1", "--json"); !strings.HasSuffix(got.out, `"erased":true,"deliveries":{"total":0},"data":null}`+"\n") {
		t.Errorf("got %s", got.out)
	}
}

func TestEventsCancel_SaysHowMany(t *testing.T) {
	t.Parallel()
	event := func(counts string) string {
		return `200 {"id":"e","deliveries":{"total":2,"by_status":{` + counts + `}}}`
	}
	for name, test := range map[string]struct{ before, after, want string }{
		"some":      {event(`"pending":1,"canceled":1`), event(`"canceled":2`), "e: 1 delivery canceled\n"},
		"ended":     {event(`"delivered":1,"canceled":1`), event(`"delivered":1,"canceled":1`), "e: 0 deliveries canceled: they had ended\n"},
		"under way": {event(`"sending":2`), event(`"sending":2`), "e: 0 deliveries canceled: what is left is under way\n"},
		"none":      {`200 {"id":"e","deliveries":{"total":0}}`, `200 {"id":"e","deliveries":{"total":0}}`, "e: 0 deliveries canceled: it had none\n"},
	} {
		newAPI(t, test.before, "204 ", test.after).run(t, "events", "cancel", "e").want(t, 0, test.want, "")
		if t.Failed() {
			t.Fatal(name)
		}
	}
	newAPI(t, event(`"pending":2`), "204 ", event(`"canceled":2`)).run(t, "events", "cancel", "e", "--json").
		want(t, 0, `{"id":"e","canceled":true,"deliveries_canceled":2}`+"\n", "")
	// A key may have the scope manage and not read.
	a := newAPI(t, `403 {"status":403,"code":"forbidden"}`, "204 ")
	if got := a.run(t, "events", "cancel", "e"); got.code != 0 || !strings.Contains(got.out, "waiting deliveries are canceled") || len(a.requests) != 2 {
		t.Errorf("got %+v, %q", got, a.requests)
	}
}

func TestTenantsUpdate_SendsWhatIsNamed(t *testing.T) {
	t.Parallel()
	a := newAPI(t, `200 {"id":"acme","default_contract":"ours"}`)
	a.run(t, "tenants", "update", "acme", "--default-contract", "ours", "--owner-url", "").
		want(t, 0, "id:                acme\ndefault contract:  ours\n", "")
	if got := a.requests; len(got) != 1 || got[0] != `PATCH /v1/tenants/acme {"default_contract":"ours","owner_url":""}` {
		t.Errorf("requests %q", got)
	}
}

func TestTenantsCreate_TellsOfTheSecond(t *testing.T) {
	t.Parallel()
	list := func(ids ...string) string {
		return `200 {"data":[{"id":"` + strings.Join(ids, `"},{"id":"`) + `"}],"next":null}`
	}
	got := newAPI(t, `201 {"id":"acme"}`, list("acme", "default")).run(t, "tenants", "create", "acme")
	if got.code != 0 || got.out != "id:  acme\n" || !strings.Contains(got.errors, "--tenant") || !strings.Contains(got.errors, "Posthorn-Tenant") {
		t.Errorf("got %+v", got)
	}
	newAPI(t, `201 {"id":"third"}`, list("third", "acme", "default")).run(t, "tenants", "create", "third").want(t, 0, "id:  third\n", "")
}

// Something else than Posthorn, whatever it answers, is no success.
func TestServer_IsSomethingElse(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{`200 {}`, `200 <p>Welcome</p>`, `200 `, `204 `, `200 {"id":""}`} {
		for _, command := range [][]string{
			{"events", "list"}, {"events", "get", "e"}, {"events", "send", "a", "1"}, {"endpoints", "pause", "e"},
			{"deliveries", "list"}, {"tenants", "get", "a"}, {"keys", "create", "--scope", "read"},
		} {
			got := newAPI(t, answer).run(t, command...)
			if got.code != 1 || got.out != "" || !strings.Contains(got.errors, "a Posthorn server?") || strings.Count(got.errors, "\n") != 1 {
				t.Errorf("%s, answered with %q: %+v", command, answer, got)
			}
		}
	}
	if got := newAPI(t, `200 {}`).run(t, "endpoints", "delete", "e"); got.code != 1 || got.out != "" {
		t.Errorf("got %+v", got)
	}
}

// Without any key one line says where it was looked for.
func TestKey_None(t *testing.T) {
	t.Parallel()
	a := newAPI(t, `401 {"status":401,"code":"unauthorized","detail":"No valid key."}`)
	folder := t.TempDir()
	p := program{env: map[string]string{"POSTHORN_SERVER": a.URL, "POSTHORN_DATA": folder}}
	p.run(t.Context(), "events", "list").want(t, 1, "",
		"posthorn: No key: "+folder+"/admin.key does not exist. Set POSTHORN_DATA to the server's data folder, or POSTHORN_KEY to a key.\n")
	program{env: map[string]string{"POSTHORN_SERVER": a.URL}}.run(t.Context(), "events", "list").want(t, 1, "",
		"posthorn: No key: ./posthorn-data/admin.key does not exist here. Run this in the server's folder, or set POSTHORN_DATA or POSTHORN_KEY.\n")
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
	a := newAPI(t, `201 {"id":"k1","key":"phk_k1_secret","scopes":["publish","read"]}`, "204 ")
	a.run(t, "keys", "create", "--scope", "publish,read", "--tenant", "acme").
		want(t, 0, "phk_k1_secret\n", "posthorn: key k1 of tenant acme, shown only now\n")
	a.run(t, "keys", "revoke", "k1").want(t, 0, "k1 revoked\n", "")
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
		program{env: env}.run(t.Context(), append([]string{"events", "erase", "e"}, args...)...)
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
