package api

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/catalog"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// under makes an endpoint under a contract.
func (f *fixture) under(name string) (path string) {
	f.Helper()
	return "/v1/endpoints/" + f.send(to("POST", "/v1/endpoints", `{"url":"https://example.com/hook","events":["*"],"contract":"`+name+`"}`)).is(201).text("id")
}

// TestElido_E2_PostWebhooksIsTheTenantsContract: the path and the members that its
// customers know mean their platform's contract, by the tenant's default.
func TestElido_E2_PostWebhooksIsTheTenantsContract(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.send(to("PUT", "/v1/tenants/links", `{"default_contract":"elido"}`)).is(201)
	key := f.send(to("POST", "/v1/tenants/links/keys", `{"scopes":["read","manage"]}`)).is(201).text("key")
	const secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	made := f.send(to("POST", "/v1/webhooks", `{"url":"https://example.com/hook","events":["link.created","click"],"secret":"`+secret+`","active":true}`).key(key)).is(201)
	if made.text("contract") != "elido" || made.text("secret") != secret || made.text("state") != "active" || made.text("tenant") != "links" {
		t.Errorf("made %s", made.raw)
	}
	stored, err := f.db.GetEndpoint(t.Context(), "links", made.text("id"))
	if err != nil || stored.Secrets[0].Text.Reveal() != secret {
		t.Errorf("the secret was not taken unchanged: %v", err)
	}
	for _, path := range []string{"/v1/webhooks", "/v1/webhooks/" + made.text("id"), "/v1/audit"} {
		if got := f.send(to("GET", path, "").key(key)).is(200); strings.Contains(got.raw, secret) {
			t.Errorf("%s shows the secret", path)
		}
	}
	if strings.Contains(f.log.String(), secret) {
		t.Error("the log has the secret")
	}
	// Made if absent.
	if own := f.send(to("POST", "/v1/webhooks", `{"url":"https://example.com/hook","events":["*"]}`).key(key)).is(201); !strings.HasPrefix(own.text("secret"), "whsec_") {
		t.Errorf("made %s", own.raw)
	}
}

// TestContracts_SecretFromMade: a contract whose secrets the server makes takes none.
func TestContracts_SecretFromMade(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.send(putYAML("ours", ours("from: either", "from: made"))).is(201)
	const given = `"secret":"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="`
	body := `{"url":"https://example.com/hook","events":["*"],"contract":"ours",` + given + `}`
	f.send(to("POST", "/v1/endpoints", body)).problem(422, "invalid_field").faultAt("/secret", "invalid_field")
	path := f.under("ours")
	f.send(to("POST", path+"/rotate-secret", `{`+given+`}`)).problem(422, "invalid_field").faultAt("/secret", "invalid_field")
	f.send(to("POST", path+"/rotate-secret", `{}`)).is(200)
}

// TestContract_P1_OnlyHTTPS: unless the server is one for trying things out, and then
// on this machine only.
func TestContract_P1_OnlyHTTPS(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	body := func(url string) string { return `{"url":"` + url + `","events":["*"],"contract":"petify"}` }
	f.send(to("POST", "/v1/endpoints", body("http://example.com/"))).problem(422, "invalid_field").faultAt("/url", "invalid_field")
	f.send(to("POST", "/v1/endpoints", body("http://127.0.0.1:9/"))).problem(422, "invalid_field")
	f.send(to("POST", "/v1/endpoints", body("https://example.com/"))).is(201)
	dev := newFixture(t, func(c *Config) { c.Dev = true })
	dev.send(to("POST", "/v1/endpoints", body("http://127.0.0.1:9/"))).is(201)
	dev.send(to("POST", "/v1/endpoints", body("http://example.com/"))).problem(422, "invalid_field")
	// Changing to the contract asks the same.
	plain := f.send(to("POST", "/v1/endpoints", `{"url":"http://example.com/","events":["*"]}`)).is(201).text("id")
	f.send(to("PATCH", "/v1/endpoints/"+plain, `{"contract":"petify"}`)).problem(422, "invalid_field").faultAt("/url", "invalid_field")
}

// TestContract_S10_EnablingGoesOnWhereItStopped: what waited and what is dead go out
// oldest first; "now" skips what came in between, and nothing else.
func TestContract_S10_EnablingGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	s, change := watched()
	f := newFixture(t, change)
	for _, test := range []struct {
		contract, body string
		want           store.EndpointUpdate
	}{
		{"signals", `{}`, store.EndpointUpdate{CatchUp: true, Redeliver: true}},
		{"signals", `{"resume":"backlog"}`, store.EndpointUpdate{CatchUp: true, Redeliver: true}},
		{"signals", `{"resume":"now"}`, store.EndpointUpdate{CatchUp: true, Redeliver: true, Skip: webhook.WhyResumedNow, SkipMissed: true, Why: "resume: now"}},
		{"standard", `{}`, store.EndpointUpdate{CatchUp: true}},
		{"elido", `{"resume":"now"}`, store.EndpointUpdate{CatchUp: true, Skip: webhook.WhyResumedNow, SkipMissed: true, Why: "resume: now"}},
		{"petify", `{}`, store.EndpointUpdate{Skip: webhook.WhyResumedNow}},
	} {
		path := f.under(test.contract)
		f.send(to("POST", path+"/disable", "")).is(200)
		if got := f.send(to("POST", path+"/enable", test.body)).is(200); got.text("state") != "active" || got.json["state_reason"] != nil {
			t.Errorf("%s: %s", test.contract, got.raw)
		}
		test.want.Action = webhook.TypeEndpointEnabled
		if got := s.last(); fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%s %s: %+v, want %+v", test.contract, test.body, got, test.want)
		}
	}
	path := f.under("petify")
	f.send(to("POST", path+"/disable", "")).is(200)
	f.send(to("POST", path+"/enable", `{"resume":"now"}`)).problem(422, "invalid_field").faultAt("/resume", "invalid_field")
	if got := f.send(to("GET", path, "")).is(200); got.text("state") != "disabled" {
		t.Errorf("a refused enabling left %s", got.raw)
	}
}

// TestContract_S10_AfterAPauseDeadOnesStayDead: resuming, by whichever way, sends what
// was held.
func TestContract_S10_AfterAPauseDeadOnesStayDead(t *testing.T) {
	t.Parallel()
	s, change := watched()
	f := newFixture(t, change)
	path := f.under("signals")
	for _, way := range []func(){
		func() { f.send(to("POST", path+"/resume", "")).is(200) },
		func() { f.send(to("POST", path+"/enable", "")).is(200) },
		func() { f.send(to("PATCH", path, `{"active":true}`)).is(200) },
	} {
		f.send(to("POST", path+"/pause", "")).is(200)
		if got := s.last(); got.Skip != webhook.WhyNone || got.Action != webhook.TypeEndpointPaused || got.Why != "person" {
			t.Errorf("pausing asks for %+v", got)
		}
		way()
		if got := s.last(); !got.CatchUp || got.Redeliver || got.Skip != webhook.WhyNone || got.Action != webhook.TypeEndpointResumed {
			t.Errorf("resuming asks for %+v", got)
		}
	}
}

// TestContract_P5_SwitchingOffSkips: what waits and what comes; switching on sends
// none of it.
func TestContract_P5_SwitchingOffSkips(t *testing.T) {
	t.Parallel()
	s, change := watched()
	f := newFixture(t, change)
	path := f.under("petify")
	waiting := f.publish(adminKey, `{"type":"a.b","data":1}`)
	got := f.send(to("PATCH", path, `{"active":false}`)).is(200)
	if got.text("state") != "paused" || got.text("state_reason") != "switched_off" || s.last().Skip != webhook.WhySwitchedOff || s.last().SkipMissed {
		t.Errorf("%s, asking for %+v", got.raw, s.last())
	}
	// True at once, though nothing has written the rows.
	rows := f.send(to("GET", "/v1/deliveries?event="+waiting, "")).is(200).items()
	if len(rows) != 1 || rows[0]["status"] != "skipped" || rows[0]["reason"] != "switched_off" {
		t.Errorf("what waited is %v", rows)
	}
	// It is off: a second reason skips nothing more.
	f.send(to("POST", path+"/disable", "")).is(200)
	if s.last().Skip != webhook.WhyNone {
		t.Errorf("disabling what is off asks for %+v", s.last())
	}
	f.send(to("PATCH", path, `{"active":true}`)).is(200)
	if got := s.last(); got.CatchUp || got.Skip != webhook.WhyResumedNow || got.SkipMissed {
		t.Errorf("switching on asks for %+v", got)
	}
	// Pausing is the same switch.
	f.send(to("POST", path+"/pause", "")).is(200)
	if s.last().Skip != webhook.WhySwitchedOff {
		t.Errorf("pausing asks for %+v", s.last())
	}
}

// TestContract_E8_ResumingRenews: failures in a row are 0 again, the mark stays until
// its time.
func TestContract_E8_ResumingRenews(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	path := f.under("elido")
	now := f.api.cfg.Clock.Wall()
	_, err := f.db.UpdateEndpoint(t.Context(), "default", strings.TrimPrefix(path, "/v1/endpoints/"), now, func(e *webhook.Endpoint) (store.EndpointUpdate, error) {
		e.State, e.StateReason, e.StateSince = webhook.EndpointPaused, webhook.ReasonFailuresInRow, now
		e.Health = webhook.Health{FailuresInRow: 50, FirstFailureAt: now.Add(-time.Hour), DegradedUntil: now.Add(time.Hour)}
		return store.EndpointUpdate{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := f.send(to("GET", path, "")).is(200); got.json["degraded_until"] == nil || !strings.Contains(got.text("banner"), "50") {
		t.Errorf("paused as %s", got.raw)
	}
	got := f.send(to("POST", path+"/resume", "")).is(200)
	health := got.json["health"].(map[string]any)
	if health["failures_in_row"] != 0.0 || health["first_failure_at"] != nil || got.json["degraded_until"] == nil || got.json["banner"] != nil {
		t.Errorf("resumed as %s", got.raw)
	}
}

// TestContract_S9_StaffStopsAndTheOwnerEnables: the owner reads why, in their own
// language, is told where the contract says so, and may enable it again.
func TestContract_S9_StaffStopsAndTheOwnerEnables(t *testing.T) {
	t.Parallel()
	s, change := watched()
	all, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, change, func(c *Config) { c.Catalog = all })
	f.send(to("PUT", "/v1/tenants/acme", `{"default_contract":"signals"}`)).is(201)
	key := f.send(to("POST", "/v1/tenants/acme/keys", `{"scopes":["read","manage"]}`)).is(201).text("key")
	path := "/v1/endpoints/" + f.endpoint(key)
	f.send(to("POST", path+"/disable", "").key(key)).problem(403, "forbidden")
	f.send(to("POST", path+"/disable", `{"reason":"floods"}`).with(tenantHeader, "acme")).is(200)
	if got := s.last(); got.Why != "floods" || got.TellOwner != contract.BecameDisabled || got.Action != webhook.TypeEndpointDisabled {
		t.Errorf("disabling asks for %+v", got)
	}
	promise, _ := contract.Builtin("signals")
	for _, ask := range []struct{ path, accept, lang string }{
		{path, "", "en"}, {path + "?lang=ja", "ko", "ja"}, {path, "ko-KR,en;q=0.5", "ko"}, {path, "fr, ja;q=0.4, ko;q=0.2", "ja"}, {path, "fr", "en"}, {path + "?lang=JA-jp", "ko", "ja"}, {path + "?lang=fr", "ko", "en"}, {path + "?lang=", "", "en"},
		{path, "ja;q=0", "en"}, {path, ";;q=x,*", "en"},
	} {
		got := f.send(to("GET", ask.path, "").key(key).with("Accept-Language", ask.accept)).is(200)
		if want := all.For(ask.lang).Banner(promise, webhook.ReasonStaff); got.text("banner") != want || want == "" {
			t.Errorf("%q: %q, want %q", ask.accept, got.text("banner"), want)
		}
	}
	f.send(to("GET", path+"?lang="+strings.Repeat("x", maxTag+1), "").key(key)).problem(422, "invalid_field")
	if got := f.send(to("POST", path+"/enable", "").key(key)).is(200); got.text("state") != "active" || got.json["banner"] != nil {
		t.Errorf("enabled as %s", got.raw)
	}
	// Under a contract that tells owners of pauses only, staff's stop tells nobody.
	other := f.send(to("POST", "/v1/endpoints", `{"url":"https://example.com/","events":["*"],"contract":"elido"}`).with(tenantHeader, "acme")).is(201).text("id")
	f.send(to("POST", "/v1/endpoints/"+other+"/disable", "").with(tenantHeader, "acme")).is(200)
	if got := s.last(); got.TellOwner != "" || got.Why != "staff" {
		t.Errorf("disabling asks for %+v", got)
	}
}

// TestContract_P3_DeletingTakesTheLogAlong: where the contract says so. TestFault_B59:
// else the log stays, and what waited ends with its reason.
func TestContract_P3_DeletingTakesTheLogAlong(t *testing.T) {
	t.Parallel()
	s, change := watched()
	f := newFixture(t, change)
	path := f.under("petify")
	event := f.publish(adminKey, `{"type":"a.b","data":1}`)
	f.send(to("DELETE", path, "")).is(204)
	if rows := f.send(to("GET", "/v1/deliveries?event="+event, "")).is(200).items(); !s.purges[0] || len(rows) != 0 {
		t.Errorf("purge: %v, rows: %v", s.purges, rows)
	}
	f.send(to("DELETE", path, "")).problem(404, "not_found")
}

func TestFault_B59_DeletedEndpointsLogStays(t *testing.T) {
	t.Parallel()
	s, change := watched()
	f := newFixture(t, change)
	path := f.under("standard")
	event := f.publish(adminKey, `{"type":"a.b","data":1}`)
	f.send(to("DELETE", path, "")).is(204)
	rows := f.send(to("GET", "/v1/deliveries?event="+event, "")).is(200).items()
	if s.purges[0] || len(rows) != 1 || rows[0]["status"] != "canceled" || rows[0]["reason"] != "endpoint_deleted" || rows[0]["next_attempt_at"] != nil {
		t.Errorf("purge: %v, rows: %v", s.purges, rows)
	}
}

// TestContract_P9_TestsAreNotLogged: their answer has no delivery then, and they work
// while the endpoint is off.
func TestContract_P9_TestsAreNotLogged(t *testing.T) {
	t.Parallel()
	var tested []*contract.Contract
	result := TestResult{Status: contract.StatusFailed, Attempt: &webhook.Attempt{
		ID: "att_1", Round: 1, Number: 1, Try: 1, Duration: 10 * time.Second, FailureKind: contract.KindTimeout, Error: "No answer came in time.",
	}}
	f := newFixture(t, func(c *Config) {
		c.Test = func(_ context.Context, _ *webhook.Endpoint, promise *contract.Contract) (TestResult, error) {
			tested = append(tested, promise)
			got := result
			if promise.Test.Logged {
				got.Delivery = "dlv_1"
			}
			return got, nil
		}
	})
	path := f.under("petify")
	f.send(to("POST", path+"/pause", "")).is(200)
	got := f.send(to("POST", path+"/test", "")).is(200)
	if got.json["delivery"] != nil || got.text("failure_kind") != "timeout" || got.text("status") != "failed" || got.text("id") != "att_1" || tested[0].Name != "petify" {
		t.Errorf("tested as %s", got.raw)
	}
	logged := f.under("standard")
	if got := f.send(to("POST", strings.Replace(logged, "endpoints", "webhooks", 1)+"/test", "{}")).is(200); got.text("delivery") != "dlv_1" {
		t.Errorf("tested as %s", got.raw)
	}
	f.send(putYAML("ours", ours("while_off: true", "while_off: false"))).is(201)
	off := f.under("ours")
	f.send(to("POST", off+"/test", "")).is(200)
	f.send(to("POST", off+"/pause", "")).is(200)
	f.send(to("POST", off+"/test", "")).problem(409, "endpoint_off")
	f.send(to("POST", "/v1/endpoints/none/test", "")).problem(404, "not_found")
	if len(tested) != 3 {
		t.Errorf("%d tests were sent", len(tested))
	}
	result.Attempt = nil
	f.send(to("POST", path+"/test", "")).problem(503, "overloaded")
}

// TestEndpoints_ContractChangesKeepSecretsThatSign: not one whose keys they are not.
func TestEndpoints_ContractChangesKeepSecretsThatSign(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const private = "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	f.send(to("PUT", "/v1/endpoints/mine", `{"url":"https://example.com/","events":["*"],"secret":"`+private+`"}`)).is(201)
	f.send(to("PATCH", "/v1/endpoints/mine", `{"contract":"petify"}`)).problem(422, "invalid_field").faultAt("/contract", "invalid_field")
	f.send(to("POST", "/v1/endpoints/mine/rotate-secret", `{"secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw","revoke":true}`)).is(200)
	if got := f.send(to("PATCH", "/v1/endpoints/mine", `{"contract":"petify"}`)).is(200); got.text("contract") != "petify" {
		t.Errorf("changed to %s", got.raw)
	}
}
