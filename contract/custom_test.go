package contract

import (
	"strings"
	"testing"
	"time"
)

// harbor is a platform that nobody has heard of: every field is set, and hardly
// one as in a contract that is built in.
const harbor = `
apiVersion: 1
name: harbor_5
operator: Harbor Office
url: {schemes: [https, http]}
delivers: run
body:
  fields:
    - {name: notice, from: webhook_id}
    - {name: ship, from: run.id}
    - {name: seal, from: page.token}
    - {name: at, from: attempt.sent_at}
webhook_id: delivery
headers:
  - {name: X-Harbor-Notice, from: webhook_id}
  - {name: X-Harbor-Try, from: attempt}
  - {name: X-Harbor-Time, from: timestamp}
signature:
  header: X-Harbor-Seal
  form: standard
  signed: "{t}:{id}:{body}"
  algorithms: [hmac-sha256, ed25519]
  key: base64
  tolerance: 90s
  overlap: 2h
secret: {prefix: hb_, bytes: 20, min_bytes: 16, max_bytes: 48, from: made}
timeout: 2500ms
success: ["200-204", "208"]
response: {read: 100, keep: 50}
schedule:
  waits: [0, 7s, 1m10s, 11m]
  jitter: 0.25
retry_after: {on: [420, 503], any: false, mode: replace, max: 15m}
stop:
  - {on: client_error, status: dead, disable: false}
  - {on: redirect, status: failed, disable: true}
exhausted: {status: dead, emit: [webhook.failed]}
gate: {on: [500], any: false, scope: endpoint, passed_by: [poll]}
order: {key: [data.ship.id], mode: strict}
health: {counts: [event, replay]}
degrade: {after: 2, for: 5m, waits: [0, 3s]}
pause: {after: 4}
disable: {no_success_for: 40m}
tell_owner: [paused, degraded]
off: {new: hold, waiting: skip, in_flight: skip}
on_resume: {held: backlog, dead: leave}
on_enable: {held: none, may_skip: true, dead: leave}
resend: {from: [dead, canceled], attempts: once, needs_on: true, batch: 7, all_or_none: true}
redeliver: {from: [failed], marks_old: unchanged}
test: {type: harbor.bell, data: '"ding"', while_off: true, logged: true}
history:
  keep: 36h
  statuses: {pending: pending, sending: pending, delivered: delivered, failed: failed, dead: failed, skipped: skipped, canceled: skipped, redelivered: delivered}
  on_endpoint_delete: delete
run: {token_for: 4h}
receiver_memory: 1h
`

func parsed(t testing.TB, text string) *Contract {
	t.Helper()
	c, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// status is an answer as a receiver of the contract gives it.
func (c *Contract) status(code int, retryAfter string) Simulated {
	return Simulated{Answer: Answer{Kind: c.Classify(code), StatusCode: code, RetryAfter: retryAfter}}
}

// A contract that no code knows behaves as its file says: its own waits, its own
// mark and pause, its own end.
func TestContract_Custom_ScheduleAndHealth(t *testing.T) {
	t.Parallel()
	c := parsed(t, harbor)
	late := c.status(500, "")
	late.Takes = 2 * time.Second
	steps := c.Simulate([]Simulated{late, late, late, late, late}, nil)
	if len(steps) != 4 {
		t.Fatalf("%d attempts, want 4", len(steps))
	}
	for i, want := range []struct {
		at       time.Duration
		degraded bool
		status   Status
		events   string
	}{
		{0, false, StatusPending, ""},
		{2*time.Second + 7*time.Second, true, StatusPending, "endpoint.degraded"},
		{11*time.Second + 70*time.Second, true, StatusPending, ""},
		// By now the mark of five minutes was over, and this failure renewed it.
		{83*time.Second + 11*time.Minute, true, StatusDead, "webhook.failed endpoint.paused"},
	} {
		s := steps[i]
		if s.At != want.at || s.Degraded != want.degraded || s.Status != want.status || strings.Join(s.Events, " ") != want.events {
			t.Errorf("attempt %d: %+v, want %+v", i+1, s, want)
		}
	}
	if last := steps[3]; last.EndpointOff != BecamePaused || !last.Ended {
		t.Errorf("after four failures in a row: %+v", last)
	}
}

func TestContract_Custom_JitterIsItsOwn(t *testing.T) {
	t.Parallel()
	c := parsed(t, harbor)
	for random, want := range map[float64]time.Duration{0: 5250 * time.Millisecond, 0.5: 7 * time.Second, 0.75: 7875 * time.Millisecond} {
		steps := c.Simulate([]Simulated{c.status(500, "")}, func() float64 { return random })
		if steps[0].NextAt != want {
			t.Errorf("random %g: the second attempt comes at %s, want %s", random, steps[0].NextAt, want)
		}
	}
}

func TestContract_Custom_AnswersMeanWhatItSays(t *testing.T) {
	t.Parallel()
	c := parsed(t, harbor)
	for name, test := range map[string]struct {
		answer Simulated
		status Status
		next   time.Duration
		off    Transition
	}{
		"success in its range":             {c.status(204, ""), StatusDelivered, 0, ""},
		"a single success":                 {c.status(208, ""), StatusDelivered, 0, ""},
		"2xx outside its ranges":           {c.status(205, ""), StatusPending, 7 * time.Second, ""},
		"client error stops":               {c.status(404, ""), StatusDead, 0, ""},
		"redirect stops and disables":      {c.status(307, ""), StatusFailed, 0, BecameDisabled},
		"410 is like any failure":          {c.status(410, ""), StatusPending, 7 * time.Second, ""},
		"Retry-After takes the place":      {c.status(503, "2"), StatusPending, 2 * time.Second, ""},
		"Retry-After up to its cap":        {c.status(503, "90000"), StatusPending, 15 * time.Minute, ""},
		"Retry-After of another status":    {c.status(429, "60"), StatusPending, 7 * time.Second, ""},
		"no connection has no Retry-After": {Simulated{Answer: Answer{Kind: KindNetwork, RetryAfter: "60"}}, StatusPending, 7 * time.Second, ""},
		"blocked URL is retried":           {Simulated{Answer: Answer{Kind: KindUnsafeURL}}, StatusPending, 7 * time.Second, ""},
	} {
		steps := c.Simulate([]Simulated{test.answer}, nil)
		if s := steps[0]; s.Status != test.status || s.NextAt != test.next || s.EndpointOff != test.off {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestContract_Custom_EverythingElse(t *testing.T) {
	t.Parallel()
	c := parsed(t, harbor)
	if !c.BodyChanges() || c.Shown(StatusDead) != StatusFailed || c.Shown(StatusSending) != StatusPending {
		t.Error("body or statuses are not its own")
	}
	if !c.ClosesGate(Answer{Kind: KindHTTPStatus, StatusCode: 500}) || c.ClosesGate(Answer{Kind: KindHTTPStatus, StatusCode: 502}) ||
		!c.PassesGate(TriggerPoll) || c.PassesGate(TriggerTest) {
		t.Error("the gate is not its own")
	}
	for _, test := range []struct {
		status Status
		on     bool
		want   Again
	}{
		{StatusDead, true, AgainResend}, {StatusCanceled, true, AgainResend}, {StatusFailed, true, AgainRedeliver},
		{StatusFailed, false, AgainOff}, {StatusDelivered, true, AgainNot}, {StatusSkipped, true, AgainNot},
	} {
		if got := c.SendAgain(test.status, TriggerEvent, test.on); got != test.want {
			t.Errorf("sending a %s one again: %q, want %q", test.status, got, test.want)
		}
	}
	resent := c.ResendTerms(Terms{Trigger: TriggerEvent})
	marked := Terms{Trigger: TriggerEvent, Degraded: true}
	if c.Attempts(resent) != 1 || c.Attempts(marked) != 2 {
		t.Errorf("attempts: %d of a resend, %d while marked", c.Attempts(resent), c.Attempts(marked))
	}
	in := failed(1, 500)
	in.EndpointOn = false
	if d := c.After(in, 0.5); d.Status != StatusSkipped || d.Ending != BySkip {
		t.Errorf("what fails after switching off: %+v", d)
	}
	// Resends do not count for the health under this contract.
	in = failed(1, 500)
	in.Trigger = TriggerResend
	if d := c.After(in, 0.5); d.Health {
		t.Error("a resend counts for the endpoint's health")
	}
}
