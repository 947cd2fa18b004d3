package app

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/client"
)

// Pausing answers once nothing starts any more; what is on the wire may end.
func TestEngine_N2_PauseIsExact(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	s := start(t, options{})
	e := s.endpoint(r.url("/"), func(e *client.NewEndpoint) { e.MaxInFlight = 8 })
	w := flooding(s.caller, 2, 600)
	r.await("/", 100)
	if _, err := s.PauseEndpoint(t.Context(), e.ID); err != nil {
		t.Fatal(err)
	}
	s.quiet() // what is on the wire ends
	before := len(r.at("/"))
	w.running.Wait()
	for range 20 {
		s.send(`{}`)
	}
	if n := len(r.at("/")); n != before {
		t.Errorf("%d requests after the pause", n-before)
	}
	if s.app.dispatcher.Stats().InFlight != 0 {
		t.Error("something is under way")
	}
	waiting := s.list(client.DeliveryFilter{Endpoint: e.ID, Statuses: []client.DeliveryStatus{client.StatusPending}})
	if len(waiting)+before != w.count()+20 {
		t.Errorf("%d wait, %d arrived, %d were sent", len(waiting), before, w.count()+20)
	}
	if _, err := s.ResumeEndpoint(t.Context(), e.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what was held", func() bool { return len(r.at("/")) == w.count()+20 })
	s.quiet()
	if n := len(r.at("/")); n != w.count()+20 {
		t.Errorf("%d requests for %d events", n, w.count()+20)
	}
}

func TestEngine_N2_RevokedKeyIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	key, err := s.CreateKey(t.Context(), "default", client.NewAPIKey{Scopes: []client.Scope{client.ScopePublish, client.ScopeRead}})
	if err != nil {
		t.Fatal(err)
	}
	own := *s.Client
	own.Key = key.Key
	for range 5 {
		if _, err := own.SendEvent(t.Context(), client.NewEvent{Type: "a.b", Data: []byte(`1`)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.RevokeKey(t.Context(), "default", key.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := own.SendEvent(t.Context(), client.NewEvent{Type: "a.b", Data: []byte(`1`)}); !errors.Is(err, client.CodeUnauthorized) {
		t.Errorf("the revoked key: %v", err)
	}
	if _, err := own.ListEvents(t.Context(), client.EventFilter{}, client.PageOptions{}); !errors.Is(err, client.CodeUnauthorized) {
		t.Errorf("the revoked key: %v", err)
	}
}

// A retry goes to the endpoint's present URL, with its present headers.
func TestEngine_N2_RetriesGoToTheNewURL(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.on("/old", status(500))
	s := start(t, options{lapse: 200})
	e := s.endpoint(r.url("/old"))
	id := s.send(`{}`)
	s.tried(id, 2) // the third is a second and a half away
	value := "new"
	patch := client.EndpointPatch{URL: new(string), Headers: map[string]*string{"X-Which": &value}}
	*patch.URL = r.url("/new")
	if _, err := s.UpdateEndpoint(t.Context(), e.ID, patch); err != nil {
		t.Fatal(err)
	}
	before := len(r.at("/old"))
	d := s.until(id, client.StatusDelivered)
	if len(r.at("/old")) != before || len(r.at("/new")) != 1 || len(d.Attempts) != before+1 {
		t.Errorf("%d more at the old URL, %d at the new, %d attempts", len(r.at("/old"))-before, len(r.at("/new")), len(d.Attempts))
	}
	q := r.at("/new")[0]
	if q.forged(e.Secret) != nil || q.value("X-Which") != "new" || q.id() != id {
		t.Errorf("the new URL got %q", q.head)
	}
}

// Operational events can't be published, match only where they are written out,
// and raise none themselves.
func TestEngine_N19_OperationalEvents(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.on("/all", status(500))
	r.on("/told", status(500))
	s := start(t, options{lapse: 1_000_000})
	all := s.endpoint(r.url("/all"))
	s.endpoint(r.url("/told"), events("webhook.failed"))
	s.endpoint(r.url("/family"), events("webhook.*"))
	for _, kind := range []string{"webhook.failed", "endpoint.disabled", "replay.finished"} {
		code, _, answer := s.raw(http.MethodPost, "/v1/events", "application/json", []byte(`{"type":"`+kind+`","data":{}}`))
		if code != http.StatusUnprocessableEntity || !strings.Contains(string(answer), "/type") {
			t.Errorf("%s: %d %s", kind, code, answer)
		}
	}
	s.until(s.send(`{}`), client.StatusFailed)
	// Its notice fails too, as often as anything; nobody is told of that.
	eventually(t, "the end of the notice", func() bool { return len(r.at("/told")) == 10 })
	r.await("/family", 1)
	s.quiet()
	failed := client.DeliveryFilter{Types: []string{"webhook.failed"}}
	eventually(t, "both deliveries of the notice", func() bool {
		both := s.list(failed)
		return len(both) == 2 && both[0].Status != client.StatusPending && both[1].Status != client.StatusPending
	})
	if n := len(s.list(failed)); n != 2 || len(r.at("/family")) != 1 {
		t.Errorf("%d deliveries of notices, %d arrived", n, len(r.at("/family")))
	}
	if n := s.count(all.ID); n != 1 || len(r.at("/all")) != 10 {
		t.Errorf("the endpoint for * has %d deliveries and got %d requests", n, len(r.at("/all")))
	}
	page, err := s.ListEvents(t.Context(), client.EventFilter{Types: []string{"webhook.failed"}}, client.PageOptions{})
	if err != nil || len(page.Data) != 1 {
		t.Errorf("%d notices, %v", len(page.Data), err)
	}
}

// Due times are kept as moments: a process that starts anew neither hurries a
// retry nor forgets it.
func TestEngine_N20_DueTimesHoldOverARestart(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.on("/", status(500), status(500), status(200))
	s := start(t, options{lapse: 100})
	s.endpoint(r.url("/"))
	id := s.send(`{}`)
	due := s.tried(id, 2).NextAttemptAt // three seconds after the second
	s = s.restart()
	if d := s.only(id); !d.NextAttemptAt.Equal(due) {
		t.Errorf("it was due at %s, now at %s", due, d.NextAttemptAt)
	}
	s.until(id, client.StatusDelivered)
	all := r.at("/")
	if len(all) != 3 || all[2].at.Before(due.Add(-50*time.Millisecond)) || all[2].at.After(due.Add(10*time.Second)) {
		t.Errorf("%d requests, the last at %s, due at %s", len(all), all[len(all)-1].at, due)
	}
}

// Time-lapse hurries waits of contracts and nothing else.
func TestEngine_N21_TimeLapse(t *testing.T) {
	t.Parallel()
	const limit, ahead = time.Second, 1500 * time.Millisecond
	r := newReceiver(t)
	r.on("/slow", hang(), status(200))
	r.on("/asked", status(429, "Retry-After: 86400"), status(200))
	s := start(t, options{lapse: 1_000_000, timeout: limit})
	s.endpoint(r.url("/slow"), events("slow"))
	s.endpoint(r.url("/asked"), events("asked"))
	s.endpoint(r.url("/later"), events("later"))
	publish := func(e client.NewEvent) string {
		e.Data = []byte(`{}`)
		accepted, err := s.SendEvent(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		return accepted.ID
	}
	begin := time.Now()
	slow, asked := publish(client.NewEvent{Type: "slow"}), publish(client.NewEvent{Type: "asked"})
	later := publish(client.NewEvent{Type: "later", DeliverAt: begin.Add(ahead)})

	// A day of Retry-After passes in 0.09 s.
	if took := s.until(asked, client.StatusDelivered).FinishedAt.Sub(begin); took > ahead+10*time.Second {
		t.Errorf("Retry-After took %s", took)
	}
	// Time-outs stay.
	if d := s.until(slow, client.StatusDelivered); d.Attempts[0].DurationMS < 1000 || d.Attempts[0].FailureKind != client.KindTimeout {
		t.Errorf("the time-out of %s came after %v ms", limit, d.Attempts[0].DurationMS)
	}
	// deliver_at stays, and so do time stamps.
	d := s.until(later, client.StatusDelivered)
	if q := r.at("/later")[0]; q.at.Sub(begin) < ahead-10*time.Millisecond {
		t.Errorf("deliver_at: it arrived after %s", q.at.Sub(begin))
	}
	if at := d.Attempts[0].At; at.Before(begin) || at.After(time.Now()) {
		t.Errorf("the attempt is stamped %s", at)
	}
}
