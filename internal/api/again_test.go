package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// endpointUnder makes an endpoint of this ID that follows a contract.
func (f *fixture) endpointUnder(id, promise string) {
	f.Helper()
	f.send(to("PUT", "/v1/endpoints/"+id, `{"url":"https://example.com/`+id+`","events":["a.*"],"contract":"`+promise+`"}`)).is(201)
}

// ended publishes an event that has one delivery, and ends that in a status.
func (f *fixture) ended(status contract.Status) store.Work {
	f.Helper()
	f.publish(adminKey, `{"type":"a.b","data":{"n":1}}`)
	w := f.lastOffered()
	f.end(w, status)
	return w
}

// end books the end of a delivery by one try; a skipped one had none.
func (f *fixture) end(w store.Work, status contract.Status) {
	f.Helper()
	now := f.api.cfg.Clock.Wall()
	p := store.RecordParams{Status: status, Now: now}
	switch status { //nolint:exhaustive // because deliveries end in no other way here
	case contract.StatusDelivered:
		p.Attempt = &webhook.Attempt{Round: w.Round, Try: 1, Counted: true, At: now, Duration: time.Millisecond, StatusCode: 204}
	case contract.StatusSkipped:
		p.Reason = webhook.WhyExpired
	default:
		p.Attempt = &webhook.Attempt{Round: w.Round, Try: 1, Counted: true, At: now, Duration: time.Millisecond, StatusCode: 500, FailureKind: webhook.KindHTTPStatus}
		p.Reason, p.FailureKind = webhook.WhyExhausted, webhook.KindHTTPStatus
	}
	f.record(w, p)
}

func (f *fixture) delivery(id string) got {
	f.Helper()
	return f.send(to("GET", "/v1/deliveries/"+id, "")).is(200)
}

// lastTold is what was sent again last, as lanes were told of it.
func (f *fixture) lastTold() store.Work {
	f.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(*f.told) == 0 {
		f.Fatal("no lane was told of anything")
	}
	return (*f.told)[len(*f.told)-1]
}

// TestContract_S11_ResendAndRedeliver: a failed one is the same delivery in a new
// round, a dead one a new delivery, and its old row is redelivered.
func TestContract_S11_ResendAndRedeliver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.endpointUnder("ep", "signals")
	failed := f.ended(contract.StatusFailed)
	resent := f.send(to("POST", "/v1/deliveries/"+failed.DeliveryID+"/resend", "")).is(202)
	for name, want := range map[string]any{"id": failed.DeliveryID, "webhook_id": failed.DeliveryID, "status": "pending", "round": 2.0, "attempt_count": 0.0, "trigger": "resend", "replaces": nil} {
		if resent.json[name] != want {
			t.Errorf("resent with %s %v, want %v", name, resent.json[name], want)
		}
	}
	if w := f.lastTold(); w.DeliveryID != failed.DeliveryID || !w.ByPerson || w.Round != 2 || w.Trigger != contract.TriggerResend {
		t.Errorf("lanes were told of %+v", w)
	}
	dead := f.ended(contract.StatusDead)
	made := f.send(to("POST", "/v1/deliveries/"+dead.DeliveryID+"/resend", "{}")).is(202)
	if made.text("id") == dead.DeliveryID || made.json["replaces"] != dead.DeliveryID || made.json["trigger"] != "redelivery" || made.json["webhook_id"] != made.json["id"] || made.json["round"] != 1.0 {
		t.Errorf("redelivered as %s", made.raw)
	}
	if old := f.delivery(dead.DeliveryID); old.json["status"] != "redelivered" || old.json["replaced_by"] != made.json["id"] {
		t.Errorf("the old row is %s", old.raw)
	}
	f.send(to("POST", "/v1/deliveries/"+dead.DeliveryID+"/resend", "")).problem(409, "not_resendable")
	f.send(to("POST", "/v1/deliveries/"+made.text("id")+"/resend", "")).problem(409, "not_resendable") // it waits
	skipped := f.ended(contract.StatusSkipped)
	if refused := f.send(to("POST", "/v1/deliveries/"+skipped.DeliveryID+"/resend", "")).problem(409, "not_resendable"); !strings.Contains(refused.text("detail"), "replay") {
		t.Errorf("a skipped one is refused with %s", refused.raw)
	}
	f.send(to("POST", "/v1/endpoints/ep/events/"+skipped.EventID+"/replay", "")).is(202)
	f.send(to("POST", "/v1/deliveries/dlv_none/resend", "")).problem(404, "not_found")
	f.send(to("POST", "/v1/deliveries/"+skipped.DeliveryID+"/resend", `{"force":true}`)).problem(422, "unknown_field")
}

// TestContract_S11_NeedsAnEnabledEndpoint: what would be sent again were the
// endpoint on says so.
func TestContract_S11_NeedsAnEnabledEndpoint(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.endpointUnder("ep", "signals")
	dead := f.ended(contract.StatusDead)
	f.send(to("POST", "/v1/endpoints/ep/pause", "")).is(200)
	f.send(to("POST", "/v1/deliveries/"+dead.DeliveryID+"/resend", "")).problem(409, "endpoint_off")
	f.send(to("POST", "/v1/endpoints/ep/events/"+dead.EventID+"/replay", "")).problem(409, "endpoint_off")
	f.send(to("POST", "/v1/deliveries/resend", `{"ids":["`+dead.DeliveryID+`"]}`)).problem(409, "endpoint_off").faultAt("/ids/0", "endpoint_off")
	f.send(to("POST", "/v1/endpoints/ep/replay", "")).problem(409, "endpoint_off")
	if preview := f.send(to("POST", "/v1/endpoints/ep/replay", `{"dry_run":true}`)).is(200); preview.json["count"] != 1.0 {
		t.Errorf("the preview is %s", preview.raw)
	}
	f.send(to("DELETE", "/v1/endpoints/ep", "")).is(204)
	f.send(to("POST", "/v1/deliveries/"+dead.DeliveryID+"/resend", "")).problem(409, "not_resendable")
	f.send(to("POST", "/v1/endpoints/ep/events/"+dead.EventID+"/replay", "")).problem(404, "not_found")
}

// TestContract_P7_AllOrNone: up to 100 at once; one that can't be resent keeps all
// from it, and each such one is named with its reason.
func TestContract_P7_AllOrNone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.endpointUnder("shop", "petify")
	good := []string{f.ended(contract.StatusDelivered).DeliveryID, f.ended(contract.StatusFailed).DeliveryID, f.ended(contract.StatusSkipped).DeliveryID}
	f.publish(adminKey, `{"type":"a.b","data":1}`)
	waits := f.lastOffered().DeliveryID
	ask := func(ids ...string) *ask {
		return to("POST", "/v1/deliveries/resend", `{"ids":["`+strings.Join(ids, `","`)+`"]}`)
	}
	refused := f.send(ask(good[0], waits, good[1], "dlv_none", good[2])).problem(409, "not_resendable")
	if n := len(refused.json["errors"].([]any)); n != 2 {
		t.Errorf("%d reasons: %s", n, refused.raw)
	}
	refused.faultAt("/ids/1", "not_resendable")
	refused.faultAt("/ids/3", "not_found")
	f.send(ask(good[0], waits)).problem(409, "not_resendable")
	for _, id := range good {
		if d := f.delivery(id); d.json["round"] != 1.0 {
			t.Errorf("resent all the same: %s", d.raw)
		}
	}
	sent := f.send(ask(good...)).is(202)
	for i, d := range sent.items() {
		if d["id"] != good[i] || d["status"] != "pending" || d["round"] != 2.0 || d["trigger"] != "resend" {
			t.Errorf("resent %v", d)
		}
	}
	if w := f.lastTold(); !w.Once || !w.ByPerson {
		t.Errorf("not one try: %+v", w)
	}
	// While its one attempt is ahead it is pending, and so refused.
	f.send(to("POST", "/v1/deliveries/"+good[0]+"/resend", "")).problem(409, "not_resendable")
	f.end(f.lastTold(), contract.StatusFailed)
	if d := f.delivery(good[2]); d.json["status"] != "failed" || len(d.json["attempts"].([]any)) != 1 {
		t.Errorf("ended as %s", d.raw)
	}
	f.send(ask(slices.Repeat([]string{good[0]}, 101)...)).problem(422, "invalid_field").faultAt("/ids", "resend_ids")
	f.send(to("POST", "/v1/deliveries/resend", `{"ids":[]}`)).problem(422, "invalid_field")
	f.send(to("POST", "/v1/deliveries/resend", "")).problem(422, "invalid_field")
}

// TestContract_P7_AContractsOwnBatch: what a contract takes at once, and whether
// it sends the others, stands in its file.
func TestContract_P7_AContractsOwnBatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	text, ok := contract.BuiltinYAML("petify")
	if !ok {
		t.Fatal("no such contract")
	}
	own := strings.NewReplacer("name: petify", "name: small", "batch: 100", "batch: 2", "all_or_none: true", "all_or_none: false").Replace(string(text))
	f.send(to("PUT", "/v1/contracts/small", own).with("Content-Type", "application/yaml")).is(201)
	f.endpointUnder("shop", "small")
	var ids []string
	for range 3 {
		ids = append(ids, f.ended(contract.StatusFailed).DeliveryID)
	}
	ask := func(ids ...string) *ask {
		return to("POST", "/v1/deliveries/resend", `{"ids":["`+strings.Join(ids, `","`)+`"]}`)
	}
	f.send(ask(ids...)).problem(422, "invalid_field").faultAt("/ids/2", "resend_ids")
	f.send(ask(ids[0])).is(202)
	sent := f.send(ask(ids[0], ids[1])).is(202)
	if items := sent.items(); len(items) != 1 || items[0]["id"] != ids[1] {
		t.Errorf("sent %s", sent.raw)
	}
	sent.faultAt("/ids/0", "not_resendable")
	f.send(ask(ids[0], ids[1])).problem(409, "not_resendable") // neither can be
}

// TestContract_E11_ReplayOfAnEvent: by the seed's path; a new delivery with the
// whole schedule, from any finished one, and the old row stays.
func TestContract_E11_ReplayOfAnEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.endpointUnder("hook", "elido")
	first := f.ended(contract.StatusDelivered)
	made := f.send(to("POST", "/v1/webhooks/hook/events/"+first.EventID+"/replay", "")).is(202)
	if made.json["replaces"] != first.DeliveryID || made.json["trigger"] != "replay" || made.json["status"] != "pending" || made.json["event"] != first.EventID || made.json["webhook_id"] != first.EventID || made.json["warning"] != nil {
		t.Errorf("replayed as %s", made.raw)
	}
	if old := f.delivery(first.DeliveryID); old.json["status"] != "delivered" || old.json["replaced_by"] != made.json["id"] {
		t.Errorf("the old row is %s", old.raw)
	}
	f.end(f.lastTold(), contract.StatusFailed)
	again := f.send(to("POST", "/v1/deliveries/"+made.text("id")+"/resend", "")).is(202)
	if again.text("id") == made.text("id") || again.json["replaces"] != made.json["id"] {
		t.Errorf("sent again as %s", again.raw)
	}
	if e := f.send(to("GET", "/v1/events/"+first.EventID, "")).is(200); e.json["deliveries"].(map[string]any)["total"] != 3.0 {
		t.Errorf("the event has %v", e.json["deliveries"])
	}
	// Nothing finished, nothing at all, no such event, no such endpoint.
	f.publish(adminKey, `{"type":"a.b","data":1}`)
	f.send(to("POST", "/v1/endpoints/hook/events/"+f.lastOffered().EventID+"/replay", "")).problem(409, "not_resendable")
	other := f.publish(adminKey, `{"type":"other","data":1}`)
	if got := f.send(to("POST", "/v1/endpoints/hook/events/"+other+"/replay", "")).problem(404, "not_found"); !strings.Contains(got.raw, "events: missing") {
		t.Errorf("nothing of the way out: %s", got.raw)
	}
	f.send(to("POST", "/v1/endpoints/hook/events/none/replay", "")).problem(404, "not_found")
	f.send(to("POST", "/v1/endpoints/none/events/"+first.EventID+"/replay", "")).problem(404, "not_found")
}

// TestContract_E10_OlderThanTheReceiversMemory: who sends an event again that its
// receiver may have forgotten is told so.
func TestContract_E10_OlderThanTheReceiversMemory(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.endpointUnder("hook", "elido")
	f.endpointUnder("run", "signals")
	f.publish(adminKey, `{"type":"a.b","data":1}`)
	f.mu.Lock()
	fresh := slices.Clone(*f.offered)
	f.mu.Unlock()
	for _, w := range fresh {
		f.end(w, contract.StatusFailed)
	}
	late := f.api.cfg.Clock.Wall().Add(15 * 24 * time.Hour)
	for _, w := range fresh {
		d, err := f.db.GetDelivery(t.Context(), "default", w.DeliveryID)
		if err != nil {
			t.Fatal(err)
		}
		c := &call{r: to("GET", "/", "").request(f), tenant: "default", now: late}
		shown, err := f.api.showResent(c, store.SentAgain{ID: d.ID})
		if err != nil || (shown.Warning != "") != (d.Endpoint == "hook") {
			t.Errorf("at %s: %q, %v", d.Endpoint, shown.Warning, err)
		}
		c.now = late.Add(-2 * 24 * time.Hour)
		if shown, err := f.api.showResent(c, store.SentAgain{ID: d.ID}); err != nil || shown.Warning != "" {
			t.Errorf("at %s, in time: %q, %v", d.Endpoint, shown.Warning, err)
		}
	}
	promise, _ := contract.Builtin("elido")
	for now, want := range map[time.Time]bool{late: true, late.Add(-2 * 24 * time.Hour): false} {
		c := &call{r: to("GET", "/", "").request(f), tenant: "default", now: now}
		if said, err := f.api.warnOfReplay(c, &webhook.Selection{}, promise); err != nil || strings.Contains(said, "14 days") != want {
			t.Errorf("a replay at %s: %q, %v", now, said, err)
		}
		// Another tenant's events say nothing of this one's.
		c.tenant = "acme"
		if said, err := f.api.warnOfReplay(c, &webhook.Selection{}, promise); err != nil || said != "" {
			t.Errorf("a replay at %s without events: %q, %v", now, said, err)
		}
	}
	if preview := f.send(to("POST", "/v1/endpoints/hook/replay", `{"dry_run":true}`)).is(200); preview.json["warning"] != nil {
		t.Errorf("the preview is %s", preview.raw)
	}
	recent := f.api.cfg.Clock.Wall().Add(-time.Hour).UTC().Format(time.RFC3339)
	for _, path := range []string{"/v1/endpoints/run/replay", "/v1/endpoints/hook/replay"} {
		if preview := f.send(to("POST", path, fmt.Sprintf(`{"dry_run":true,"selection":{"since":%q}}`, recent))).is(200); preview.json["warning"] != nil {
			t.Errorf("%s warns: %s", path, preview.raw)
		}
	}
}
