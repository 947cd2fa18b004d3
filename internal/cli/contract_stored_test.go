package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthorn/posthorn/contract"
)

// A contract's file goes to the server under the name that stands in it, as it is.
func TestContractStored(t *testing.T) {
	t.Parallel()
	text, _ := contract.BuiltinYAML(contract.Standard)
	ours := strings.Replace(string(text), "name: standard", "name: ours", 1)
	file := filepath.Join(t.TempDir(), "ours.yaml")
	if err := os.WriteFile(file, []byte(ours), 0o600); err != nil {
		t.Fatal(err)
	}
	stored := `201 {"name":"ours","revision":"5f0c2d9a7b31","builtin":false,"created_at":"2026-05-22T14:32:18.847Z"}`
	a := newAPI(t, `404 {"status":404,"code":"not_found"}`, stored)
	a.run(t, "contract", "put", file).want(t, 0, "ours is stored as revision 5f0c2d9a7b31\n", "")
	a.run(t, "contract", "put", file).want(t, 0, "ours is unchanged, revision 5f0c2d9a7b31\n", "")
	a.run(t, "contract", "put", file, "--under-way", "adopt").want(t, 0, "ours is unchanged, revision 5f0c2d9a7b31; deliveries under way follow it\n", "")
	newAPI(t, `200 {"name":"ours","revision":"000000000000"}`, stored).run(t, "contract", "put", file).want(t, 0, "ours is stored as revision 5f0c2d9a7b31\n", "")
	if want := "PUT /v1/contracts/ours?under_way=keep " + strings.TrimSpace(ours); a.requests[0] != "GET /v1/contracts/ours" || a.requests[1] != want {
		t.Errorf("got %q", a.requests[:2])
	}
	if !strings.HasPrefix(a.requests[5], "PUT /v1/contracts/ours?under_way=adopt ") || a.headers[5].Get("Content-Type") != "application/yaml" {
		t.Errorf("got %s as %s", a.requests[5], a.headers[5].Get("Content-Type"))
	}
	if err := os.WriteFile(file, []byte("name: ours\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := a.run(t, "contract", "put", file); got.code != 1 || len(a.requests) != 6 || !strings.Contains(got.errors, "contract check") {
		t.Errorf("a broken file: %+v after %d requests", got, len(a.requests))
	}
	a = newAPI(t, `200 {"data":[{"name":"ours","revision":"5f0c2d9a7b31","current":true,"follows":null,"yaml":"","created_at":"2026-05-22T14:32:18.847Z"},{"name":"ours","revision":"000000000000","follows":"5f0c2d9a7b31"}],"next":null}`)
	a.run(t, "contract", "revisions", "ours").want(t, 0, `REVISION      CURRENT  FOLLOWS       STORED
5f0c2d9a7b31  yes      -             2026-05-22T14:32:18Z
000000000000  no       5f0c2d9a7b31  -
`, "")
	a = newAPI(t, `200 {"data":[{"name":"standard","revision":"5f0c2d9a7b31","builtin":true,"created_at":null}],"next":null}`)
	a.run(t, "contract", "stored").want(t, 0, "NAME      REVISION      BUILT IN  STORED\nstandard  5f0c2d9a7b31  yes       -\n", "")
	a = newAPI(t, `204 `)
	a.run(t, "contract", "delete", "ours")
	if a.requests[0] != "DELETE /v1/contracts/ours" {
		t.Errorf("got %s", a.requests[0])
	}
}

// What an endpoint takes and how it goes on and off.
func TestEndpoints_LifeAndFilter(t *testing.T) {
	t.Parallel()
	a := newAPI(t, `200 {"id":"ep_1","state":"active","version":1,"filter":"data.n > 1","ordering":{"from":["data.link_id"]},"degraded_until":"2026-05-23T14:32:18.847Z","jwks_url":"https://x.example/jwks/default/ep_1"}`)
	got := a.run(t, "endpoints", "create", "https://x.example", "-e", "*", "--filter", "data.n > 1", "--ordering-from", "data.link_id")
	for _, want := range []string{"filter:          data.n > 1\n", "ordered by:      data.link_id\n", "degraded until:  2026-05-23T14:32:18Z\n", "public keys:     https://x.example/jwks/default/ep_1\n"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("no %q in %s", want, got.out)
		}
	}
	a.run(t, "endpoints", "update", "ep_1", "--filter", "", "--ordering-from", "none")
	a.run(t, "endpoints", "update", "ep_1", "--ordering-from", "data.a,data.b")
	a.run(t, "endpoints", "enable", "ep_1", "--resume", "now")
	a.run(t, "endpoints", "disable", "ep_1", "--reason", "floods")
	for i, want := range []string{
		`POST /v1/endpoints {"url":"https://x.example","events":["*"],"filter":"data.n \u003e 1","ordering":{"from":["data.link_id"]}}`,
		`PATCH /v1/endpoints/ep_1 {"filter":"","ordering":null}`,
		`PATCH /v1/endpoints/ep_1 {"ordering":{"from":["data.a","data.b"]}}`,
		`POST /v1/endpoints/ep_1/enable {"resume":"now"}`,
		`POST /v1/endpoints/ep_1/disable {"reason":"floods"}`,
	} {
		if a.requests[i] != want {
			t.Errorf("got  %s\nwant %s", a.requests[i], want)
		}
	}
	if got := a.run(t, "endpoints", "enable", "ep_1", "--resume", "later"); got.code != 2 || len(a.requests) != 5 {
		t.Errorf("got %+v", got)
	}
}

// A test that the receiver did not take is shown, and is no success.
func TestEndpointsTest(t *testing.T) {
	t.Parallel()
	a := newAPI(t, `200 {"id":"att_1","at":"2026-05-22T14:32:18.847Z","duration_ms":34.2,"status_code":204,"delivery":null,"status":"delivered"}`)
	a.run(t, "endpoints", "test", "ep_1").want(t, 0, "status:  delivered\nat:      2026-05-22T14:32:18Z\nanswer:  204\ntook:    34.2 ms\n", "")
	if a.requests[0] != "POST /v1/endpoints/ep_1/test" {
		t.Errorf("got %s", a.requests[0])
	}
	a = newAPI(t, `200 {"id":"att_1","at":"2026-05-22T14:32:18.847Z","duration_ms":10000,"failure_kind":"timeout","error":"No answer came in time.","delivery":"dlv_1","status":"failed"}`)
	got := a.run(t, "endpoints", "test", "ep_1")
	if got.code != 1 || !strings.Contains(got.out, "failure:   timeout\n") || !strings.Contains(got.out, "delivery:  dlv_1\n") || got.errors != "posthorn: the receiver did not take the test\n" {
		t.Errorf("got %+v", got)
	}
}

func TestAuditAndFilters(t *testing.T) {
	t.Parallel()
	a := newAPI(t, `200 {"data":[{"id":"7","at":"2026-05-22T14:32:18.847Z","tenant":"default","actor":{"kind":"key","id":"01k8"},"action":"endpoint.paused","kind":"endpoint","target":"ep_1","why":"person","before":{"state":"active"},"after":{"state":"paused"}}],"next":null}`)
	a.run(t, "audit", "list", "--kind", "endpoint", "--action", "endpoint.paused,endpoint.resumed", "--since", "2026-05-22T00:00:00Z").want(t, 0,
		"AT                    WHO       ACTION           TARGET  WHY\n2026-05-22T14:32:18Z  key 01k8  endpoint.paused  ep_1    person\n", "")
	if want := "GET /v1/audit?action=endpoint.paused%2Cendpoint.resumed&kind=endpoint&limit=50&since=2026-05-22T00%3A00%3A00.000Z"; a.requests[0] != want {
		t.Errorf("got %s", a.requests[0])
	}
	a = newAPI(t, `200 {"examined":1000,"matched":2,"errors":3,"sample":["evt_1","evt_2"]}`)
	a.run(t, "filters", "check", "data.n == 1", "--events", "1000").want(t, 0, "examined:   1000\nmatched:    2\nundecided:  3\nsuch as:    evt_1, evt_2\n", "")
	if want := `POST /v1/filters/check {"filter":"data.n == 1","limit":1000}`; a.requests[0] != want {
		t.Errorf("got %s", a.requests[0])
	}
}

// The mark degraded stands in the list while it lasts, and a delivery's round tells
// that it has the shorter schedule.
func TestContract_E8_DegradedIsShown(t *testing.T) {
	t.Parallel()
	newAPI(t, `200 {"data":[{"id":"ep_1","state":"active","degraded_until":"9999-05-23T14:32:18.847Z"},{"id":"ep_2","state":"active","degraded_until":"2020-05-23T14:32:18.847Z"}],"next":null}`).run(t, "endpoints", "list").want(t, 0,
		"ID    STATE             URL  EVENTS  CONTRACT  CREATED\nep_1  active, degraded  -    -       -         -\nep_2  active            -    -       -         -\n", "")
	for answer, want := range map[string]bool{`200 {"id":"dlv_1","degraded":true}`: true, `200 {"id":"dlv_1","degraded":false}`: false} {
		if got := newAPI(t, answer).run(t, "deliveries", "get", "dlv_1"); strings.Contains(got.out, "that of a degraded endpoint\n") != want {
			t.Errorf("of %s: %s", answer, got.out)
		}
	}
}
