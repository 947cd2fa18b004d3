package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/again"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// runReplay does what the worker of replays does, to the end.
func (f *fixture) runReplay(id string) *webhook.Replay {
	f.Helper()
	r, err := f.db.GetReplay(f.Context(), "default", id)
	for n := 0; err == nil && r.Open() && n < 100; n++ {
		now := f.api.cfg.Clock.Wall()
		var result store.StepResult
		result, err = f.db.StepReplay(f.Context(), store.StepParams{
			Replay: *r, Most: 2, Decide: again.Replay(present{f.api.cfg.Contracts}, now), Matches: f.api.matches, Now: now, Ready: f.api.cfg.Clock.Now(),
		})
		r = &result.Replay
	}
	if err != nil {
		f.Fatal(err)
	}
	return r
}

// TestContract_S11_ReplayTakesTheDead: dead ones by default, failed and skipped
// ones on request, any finished one of a run that is named.
func TestContract_S11_ReplayTakesTheDead(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.endpointUnder("ep", "signals")
	of := map[contract.Status]store.Work{}
	for _, s := range []contract.Status{contract.StatusDead, contract.StatusFailed, contract.StatusSkipped, contract.StatusDelivered} {
		of[s] = f.ended(s)
	}
	f.publish(adminKey, `{"type":"a.c","data":1}`) // waits
	count := func(selection string, want int) {
		t.Helper()
		got := f.send(to("POST", "/api/public/v1/webhooks/ep/replay", `{"dry_run":true,"selection":`+selection+`}`)).is(200)
		if got.json["count"] != float64(want) || got.json["complete"] != true {
			t.Errorf("%s counts %s, want %d", selection, got.raw, want)
		}
	}
	count(`{}`, 1)
	count(`{"status":["failed","skipped"]}`, 2)
	count(`{"status":["failed"],"types":["a.c"]}`, 0)
	count(`{"status":["dead","failed","skipped","delivered"]}`, 4)
	count(fmt.Sprintf(`{"until":%q}`, f.api.cfg.Clock.Wall().Add(-time.Minute).UTC().Format(time.RFC3339)), 0)
	run := f.finishedRun()
	f.end(f.lastOffered(), contract.StatusDelivered)
	count(fmt.Sprintf(`{"runs":[%q]}`, run), 1)
	count(fmt.Sprintf(`{"runs":[%q],"status":["dead"]}`, run), 0)

	made := f.send(to("POST", "/v1/endpoints/ep/replay", `{"selection":{"status":["dead","failed"]},"rate":50}`)).is(202)
	if made.json["state"] != "counting" || made.json["rate"] != 50.0 || made.json["endpoint"] != "ep" || fmt.Sprint(made.json["selection"].(map[string]any)["status"]) != "[failed dead]" {
		t.Errorf("made %s", made.raw)
	}
	if r := f.runReplay(made.text("id")); r.State != webhook.ReplayDone || r.Done != 2 || r.Failed != 0 {
		t.Errorf("ended as %+v", r)
	}
	for s, w := range of {
		d := f.delivery(w.DeliveryID)
		if replaced := d.json["status"] == "redelivered"; replaced != (s == contract.StatusDead || s == contract.StatusFailed) {
			t.Errorf("the %s one is %s", s, d.raw)
		}
	}
	if w := f.lastTold(); w.ByPerson || w.Trigger != contract.TriggerRedelivery {
		t.Errorf("lanes were told of %+v", w)
	}
	count(`{"status":["dead","failed"]}`, 0)
}

// TestFault_B91_OneReplayAtATime: a second one of an endpoint is refused until the
// first has ended; canceling ends it, and says what it can't undo.
func TestFault_B91_OneReplayAtATime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.endpointUnder("ep", "signals")
	f.endpointUnder("other", "signals")
	f.publish(adminKey, `{"type":"a.b","data":1}`)
	first := f.send(to("POST", "/v1/endpoints/ep/replay", "")).is(202).text("id")
	f.send(to("POST", "/v1/endpoints/ep/replay", "")).problem(409, "conflict")
	f.send(to("POST", "/v1/endpoints/ep/replay", `{"dry_run":true}`)).is(200)
	second := f.send(to("POST", "/v1/endpoints/other/replay", "")).is(202).text("id")
	if got := f.send(to("POST", "/v1/replays/"+first+"/cancel", "")).is(200); got.json["state"] != "canceled" || got.json["finished_at"] == nil {
		t.Errorf("canceled as %s", got.raw)
	}
	f.send(to("POST", "/v1/replays/"+first+"/cancel", "")).is(200)
	f.send(to("POST", "/v1/endpoints/ep/replay", "")).is(202)
	f.runReplay(second)
	f.send(to("POST", "/v1/replays/"+second+"/cancel", "")).problem(409, "conflict")
	if got := f.send(to("GET", "/v1/replays/"+second, "")).is(200); got.json["state"] != "done" {
		t.Errorf("done as %s", got.raw)
	}
	if n := len(f.send(to("GET", "/v1/replays", "")).is(200).items()); n != 3 {
		t.Errorf("%d replays", n)
	}
	if items := f.send(to("GET", "/v1/replays?endpoint=other", "")).is(200).items(); len(items) != 1 || items[0]["id"] != second {
		t.Errorf("those of one endpoint: %v", items)
	}
	key := f.tenant("acme")
	f.send(to("GET", "/v1/replays/"+second, "").key(key)).problem(404, "not_found")
	f.send(to("POST", "/v1/replays/"+second+"/cancel", "").key(key)).problem(404, "not_found")
	f.send(to("POST", "/v1/endpoints/other/replay", "").key(key)).problem(404, "not_found")
}

// TestReplay_Selections: what can't be meant is refused, each fault by its place.
func TestReplay_Selections(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.endpointUnder("ep", "elido")
	for body, at := range map[string]string{
		`{"selection":{"status":["pending"]}}`:                                          "/selection/status/0",
		`{"selection":{"status":["redelivered"]}}`:                                      "/selection/status/0",
		`{"selection":{"status":[]}}`:                                                   "/selection/status",
		`{"selection":{"types":["link.*"]}}`:                                            "/selection/types/0",
		`{"selection":{"events":"all"}}`:                                                "/selection/events",
		`{"selection":{"events":"missing","status":["failed"]}}`:                        "/selection/status",
		`{"selection":{"since":"2026-05-22T00:00:00Z","until":"2026-05-22T00:00:00Z"}}`: "/selection/until",
		`{"selection":{"since":"yesterday"}}`:                                           "/selection/since",
		`{"rate":0}`:                                                                    "/rate",
	} {
		f.send(to("POST", "/v1/endpoints/ep/replay", body)).problem(422, "invalid_field").faultAt(at, "invalid_field")
	}
	f.send(to("POST", "/v1/endpoints/ep/replay", `{"selection":{"stati":[]}}`)).problem(422, "unknown_field").faultAt("/selection/stati", "unknown_field")
	// What was given up is the contract's last word: failed, under this one.
	f.ended(contract.StatusFailed)
	f.ended(contract.StatusDelivered)
	if got := f.send(to("POST", "/v1/endpoints/ep/replay", `{"dry_run":true}`)).is(200); got.json["count"] != 1.0 {
		t.Errorf("by default: %s", got.raw)
	}
	made := f.send(to("POST", "/v1/endpoints/ep/replay", "")).is(202)
	if selection := made.json["selection"].(map[string]any); fmt.Sprint(selection["status"]) != "[failed]" || selection["events"] != "attempted" || made.json["rate"] != nil {
		t.Errorf("made %s", made.raw)
	}
}

// TestReplay_MissingEvents: events that the endpoint would take and never got.
func TestReplay_MissingEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.publish(adminKey, `{"type":"a.b","data":{"n":1}}`)
	f.publish(adminKey, `{"type":"other","data":{"n":2}}`)
	f.endpointUnder("ep", "standard")
	f.ended(contract.StatusDelivered)
	if got := f.send(to("POST", "/v1/endpoints/ep/replay", `{"dry_run":true,"selection":{"events":"missing"}}`)).is(200); got.json["count"] != 1.0 {
		t.Errorf("the preview is %s", got.raw)
	}
	made := f.send(to("POST", "/v1/endpoints/ep/replay", `{"selection":{"events":"missing"}}`)).is(202)
	if made.json["selection"].(map[string]any)["events"] != "missing" {
		t.Errorf("made %s", made.raw)
	}
	if r := f.runReplay(made.text("id")); r.Done != 1 || r.State != webhook.ReplayDone {
		t.Errorf("ended as %+v", r)
	}
	if items := f.send(to("GET", "/v1/deliveries?endpoint=ep&trigger=replay", "")).is(200).items(); len(items) != 1 || items[0]["status"] != "pending" || !strings.HasPrefix(items[0]["event"].(string), "evt_") {
		t.Errorf("its deliveries are %v", items)
	}
}
