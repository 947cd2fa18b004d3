package app

import (
	"crypto/tls"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/client"
	"github.com/posthorn/posthorn/contract"
)

// waits are those of the contract that the server runs.
func waits(t testing.TB) []contract.Duration {
	t.Helper()
	c, ok := contract.Builtin(contract.Standard)
	if !ok {
		t.Fatal("no standard contract")
	}
	return c.Schedule.Waits
}

func TestContract_S1_DeliveredIsA2xxInTime(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	r := newReceiver(t)
	s := start(t, options{timeout: limit})
	for _, c := range []struct {
		name   string
		answer answer
		kind   client.FailureKind
	}{
		{"ok", status(200), ""},
		{"empty", status(204), ""},
		{"talks", body(100_000), ""},
		{"lies", write("HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{\"error\":\"none\"}"), ""},
		{"moved", status(302, "Location: /ok"), client.KindRedirect},
		{"wrong", status(400), client.KindClientError},
		{"broken", status(500), client.KindHTTPStatus},
		{"late", after(2*limit, status(200)), client.KindTimeout},
		{"gone", thenReset(""), client.KindNetwork},
	} {
		r.on("/"+c.name, c.answer)
		s.endpoint(r.url("/"+c.name), events(c.name))
		accepted, err := s.SendEvent(t.Context(), client.NewEvent{Type: c.name, Data: []byte(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		d := s.tried(accepted.ID, 1)
		if (d.Status == client.StatusDelivered) != (c.kind == "") || d.FailureKind != c.kind || d.AttemptCount != 1 {
			t.Errorf("%s: %s, kind %q, %d attempts", c.name, d.Status, d.FailureKind, d.AttemptCount)
		}
		if n := len(d.Attempts[0].Response); n > 4096 {
			t.Errorf("%s: %d bytes of the answer are kept", c.name, n)
		}
	}
}

// The whole schedule: ten attempts, each not before its time; then it is failed,
// which a subscriber hears of, and nothing follows.
func TestContract_S2_WholeScheduleAndItsEnd(t *testing.T) {
	t.Parallel()
	const lapse = 200_000
	r := newReceiver(t)
	r.on("/", status(500))
	s := start(t, options{lapse: lapse})
	e := s.endpoint(r.url("/"))
	told := s.endpoint(r.url("/told"), events("webhook.failed"))
	id := s.send(`{"n":1}`)
	d := s.until(id, client.StatusFailed)
	all := r.at("/")
	schedule := waits(t)
	if len(schedule) != 10 || len(all) != 10 || d.AttemptCount != 10 || len(d.Attempts) != 10 || d.Reason != "exhausted" {
		t.Fatalf("%d requests, %d counted, %d in the log, reason %q", len(all), d.AttemptCount, len(d.Attempts), d.Reason)
	}
	for i := 1; i < 10; i++ {
		least := time.Duration(float64(schedule[i].Std()) * 0.9 / lapse)
		if gap := all[i].at.Sub(all[i-1].at); gap < least-time.Millisecond {
			t.Errorf("attempt %d came %s after the one before, at least %s is promised", i+1, gap, least)
		}
	}
	checkAll(t, e.Secret, all)

	q := r.await("/told", 1)[0]
	checkAll(t, told.Secret, []*request{q})
	var notice struct {
		Type string
		Data struct {
			Endpoint, Delivery, Event, Type string
			Attempts                        int
			FailureKind                     string `json:"failure_kind"`
			StatusCode                      int    `json:"status_code"`
		}
	}
	if err := json.Unmarshal(q.body, &notice); err != nil {
		t.Fatal(err)
	}
	n := notice.Data
	if notice.Type != "webhook.failed" || n.Endpoint != e.ID || n.Delivery != d.ID || n.Event != id || n.Type != "thing.happened" ||
		n.Attempts != 10 || n.FailureKind != "http_status" || n.StatusCode != 500 {
		t.Errorf("the notice says %s", q.body)
	}
	s.quiet()
	if len(r.at("/")) != 10 || len(r.at("/told")) != 1 {
		t.Errorf("%d requests, %d notices", len(r.at("/")), len(r.at("/told")))
	}
}

// 410 ends the delivery and disables the endpoint, which a subscriber hears of;
// what comes meanwhile is held, and enabling sends it.
func TestContract_S4_GoneDisablesAndEnablingSendsTheBacklog(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.on("/", status(410), status(200))
	s := start(t, options{lapse: 1_000_000})
	e := s.endpoint(r.url("/"))
	s.endpoint(r.url("/told"), events("endpoint.*"))
	first := s.send(`"first"`)
	d := s.until(first, client.StatusFailed)
	if d.FailureKind != client.KindGone || len(d.Attempts) != 1 || d.Reason != "stopped" {
		t.Errorf("%s, %d attempts, reason %q", d.FailureKind, len(d.Attempts), d.Reason)
	}
	off, err := s.GetEndpoint(t.Context(), e.ID)
	if err != nil || off.State != client.EndpointDisabled || off.StateReason != "gone" || off.Banner == "" {
		t.Errorf("the endpoint is %s, %q, banner %q, %v", off.State, off.StateReason, off.Banner, err)
	}
	told := r.await("/told", 1)[0]
	for _, part := range []string{`"type":"endpoint.disabled"`, `"endpoint":"` + e.ID + `"`, `"state_reason":"gone"`, `"event":"` + first + `"`} {
		if !strings.Contains(string(told.body), part) {
			t.Errorf("the notice lacks %s: %s", part, told.body)
		}
	}
	backlog := s.flood(50)
	for _, d := range s.list(client.DeliveryFilter{Endpoint: e.ID, Statuses: []client.DeliveryStatus{client.StatusPending}}) {
		if d.AttemptCount != 0 {
			t.Errorf("%s was tried", d.ID)
		}
	}
	if n := len(r.at("/")); n != 1 {
		t.Fatalf("%d requests to a disabled endpoint", n-1)
	}
	if on, err := s.EnableEndpoint(t.Context(), e.ID, client.ResumeBacklog); err != nil || on.State != client.EndpointActive {
		t.Fatalf("%s, %v", on.State, err)
	}
	all := r.await("/", 51)
	checkAll(t, e.Secret, all)
	arrived := ids(all)[1:]
	if got, want := sorted(arrived), sorted(backlog); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("arrived %q, want %q", got, want)
	}
	s.quiet()
	if again := s.only(first); again.Status != client.StatusFailed || len(r.at("/")) != 51 {
		t.Errorf("the first is %s, %d requests", again.Status, len(r.at("/")))
	}
	if notices := r.await("/told", 2); !strings.Contains(string(notices[1].body), `"type":"endpoint.enabled"`) {
		t.Errorf("the second notice is %s", notices[1].body)
	}
}

// Retry-After counts where it is the longer of the two, on any failed answer.
func TestContract_S4_RetryAfterIsTheLongerOfTheTwo(t *testing.T) {
	t.Parallel()
	const lapse = 10_000
	r := newReceiver(t)
	// An hour is longer than the schedule's five seconds; a second is shorter than
	// its five minutes.
	r.on("/", status(429, "Retry-After: 3600"), status(503, "Retry-After: 1"), status(200))
	s := start(t, options{lapse: lapse})
	s.endpoint(r.url("/"))
	s.until(s.send(`{}`), client.StatusDelivered)
	all := r.at("/")
	if len(all) != 3 {
		t.Fatalf("%d requests", len(all))
	}
	if gap := all[1].at.Sub(all[0].at); gap < time.Hour/lapse-10*time.Millisecond {
		t.Errorf("the second try came after %s", gap)
	}
	if gap := all[2].at.Sub(all[1].at); gap < 4*time.Minute/lapse {
		t.Errorf("the third try came after %s", gap)
	}
}

func TestContract_P1_PostOverHTTPS(t *testing.T) {
	t.Parallel()
	cert := certificate(t, true)
	r := newTLSReceiver(t, func(int) *tls.Certificate { return cert })
	r.on("/moved", status(307, "Location: /target"))
	s := start(t, options{})
	e := s.endpoint(r.url("/"), events("fine"))
	s.endpoint(r.url("/moved"), events("moved"))
	publish := func(kind string) string {
		accepted, err := s.SendEvent(t.Context(), client.NewEvent{Type: kind, Data: []byte(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		return accepted.ID
	}
	s.until(publish("fine"), client.StatusDelivered)
	if q := r.at("/")[0]; q.line() != "POST / HTTP/1.1" || q.forged(e.Secret) != nil {
		t.Errorf("%s: %v", q.line(), q.forged(e.Secret))
	}
	if d := s.tried(publish("moved"), 1); d.Status != client.StatusPending || d.FailureKind != client.KindRedirect || len(r.at("/target")) != 0 {
		t.Errorf("%s, %s, %d at the target", d.Status, d.FailureKind, len(r.at("/target")))
	}
}

// Every attempt is recorded: of what, its number, when, the answer; and the
// delivery says when the next one is.
func TestReceive_R11_EveryAttemptIsRecorded(t *testing.T) {
	t.Parallel()
	const lapse = 200
	r := newReceiver(t)
	r.on("/", write("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy"), thenClose("HTTP/1.1 200 OK\r\n"), status(404))
	s := start(t, options{lapse: lapse})
	e := s.endpoint(r.url("/"))
	begin := time.Now().Add(-time.Second)
	id := s.send(`{}`)
	d := s.tried(id, 2) // the third is a second and a half away
	if d.Event != id || d.Endpoint != e.ID || d.WebhookID != id || d.Status != client.StatusPending || d.Reason != "retry" || d.AttemptCount != 2 {
		t.Errorf("delivery %+v", d)
	}
	for i, want := range []struct {
		code           int
		kind           client.FailureKind
		response, says string
	}{{503, client.KindHTTPStatus, "busy", ""}, {0, client.KindNetwork, "", "closed"}} {
		a := d.Attempts[i]
		if a.Number != i+1 || a.Try != i+1 || a.Round != 1 || a.ID == "" || a.StatusCode != want.code || a.FailureKind != want.kind ||
			a.Response != want.response || !strings.Contains(a.Error, want.says) || a.Address != strings.TrimPrefix(r.url(""), "http://") {
			t.Errorf("attempt %d: %+v", i+1, a)
		}
		if a.At.Before(begin) || a.At.After(time.Now()) || a.DurationMS <= 0 {
			t.Errorf("attempt %d at %s for %v ms", i+1, a.At, a.DurationMS)
		}
	}
	wait := waits(t)[2].Std() / lapse
	next := d.NextAttemptAt.Sub(d.Attempts[1].At)
	if slack := 2 * time.Second; next < wait*9/10-slack || next > wait*11/10+slack {
		t.Errorf("the next attempt is %s after the second, want about %s", next, wait)
	}
	d = s.tried(id, 3)
	if at := d.Attempts[2].At; d.Attempts[2].StatusCode != 404 || at.Sub(d.Attempts[1].At) < wait*9/10-50*time.Millisecond {
		t.Errorf("attempt 3: %+v, the second was at %s", d.Attempts[2], d.Attempts[1].At)
	}
	for n := range 3 {
		if got := strconv.Itoa(d.Attempts[n].Number); got != strconv.Itoa(n+1) {
			t.Errorf("attempt %d has the number %s", n+1, got)
		}
	}
}
