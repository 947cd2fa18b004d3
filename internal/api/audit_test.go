package api

import (
	"strings"
	"testing"
)

// TestAudit_WhoWhenWhatWhy: each change with its actor, without a secret, for the
// tenant's own eyes.
func TestAudit_WhoWhenWhatWhy(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key, other := f.tenant("acme"), f.tenant("other")
	made := f.send(to("PUT", "/v1/endpoints/mine", `{"url":"https://example.com/hook?token=pa55word","events":["*"],"headers":{"X-Api-Key":"h3ad3r-value"}}`).key(key)).is(201)
	f.send(to("POST", "/v1/endpoints/mine/pause", "").key(key)).is(200)
	f.send(to("POST", "/v1/endpoints/mine/resume", "").key(key)).is(200)
	rotated := f.send(to("POST", "/v1/endpoints/mine/rotate-secret", "").key(key)).is(200)
	f.send(to("POST", "/v1/endpoints/mine/disable", `{"reason":"floods"}`).with(tenantHeader, "acme")).is(200)
	f.send(putYAML("ours", ours())).is(201)
	got := f.send(to("GET", "/v1/audit?kind=endpoint&target=mine", "").key(key)).is(200)
	rows := got.items()
	var actions []string
	for _, row := range rows {
		actions = append(actions, row["action"].(string))
		if row["tenant"] != "acme" || row["at"] == nil {
			t.Errorf("the entry is %v", row)
		}
	}
	if want := "endpoint.disabled endpoint.secret_rotated endpoint.resumed endpoint.paused endpoint.created"; strings.Join(actions, " ") != want {
		t.Fatalf("actions are %v, want %s", actions, want)
	}
	if jsonText(rows[0]["actor"]) != `{"id":null,"kind":"admin"}` || rows[0]["why"] != "floods" {
		t.Errorf("staff's stop is %v", rows[0])
	}
	actor := rows[3]["actor"].(map[string]any)
	if id, _ := actor["id"].(string); actor["kind"] != "key" || id == "" || !strings.HasPrefix(key, "phk_"+id+"_") {
		t.Errorf("pausing was done by %v", actor)
	}
	if rows[3]["before"].(map[string]any)["state"] != "active" || rows[3]["after"].(map[string]any)["state"] != "paused" || rows[4]["before"] != nil {
		t.Errorf("the entries are %s", got.raw)
	}
	across := f.send(to("GET", "/v1/audit", "").with(tenantHeader, "*")).is(200)
	for _, secret := range []string{"pa55word", "h3ad3r-value", made.text("secret"), rotated.text("secret"), key} {
		if strings.Contains(across.raw, secret) {
			t.Errorf("the trail shows a secret: %s", across.raw)
		}
	}
	if !strings.Contains(across.raw, `"contract.put"`) || !strings.Contains(across.raw, `"tenant":null`) {
		t.Errorf("the stored contract is not in the trail: %s", across.raw)
	}
	if mine := f.send(to("GET", "/v1/audit", "").key(other)).is(200); strings.Contains(mine.raw, "mine") || strings.Contains(mine.raw, "acme") {
		t.Errorf("another tenant sees %s", mine.raw)
	}
	if one := f.send(to("GET", "/v1/audit?action=endpoint.paused,endpoint.resumed&limit=1", "").key(key)).is(200); len(one.items()) != 1 || one.json["next"] == nil {
		t.Errorf("a page is %s", one.raw)
	}
	if none := f.send(to("GET", "/v1/audit?since=2100-01-01T00:00:00Z", "").key(key)).is(200); len(none.items()) != 0 {
		t.Errorf("the future holds %s", none.raw)
	}
}
