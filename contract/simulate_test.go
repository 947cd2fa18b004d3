package contract

import (
	"strings"
	"testing"
	"time"
)

func builtin(t testing.TB, name string) *Contract {
	t.Helper()
	c, ok := Builtin(name)
	if !ok {
		t.Fatalf("%s does not parse", name)
	}
	return c
}

func answers(kind FailureKind, status, n int) []Simulated {
	all := make([]Simulated, n)
	for i := range all {
		all[i] = Simulated{Answer: Answer{Kind: kind, StatusCode: status}, Text: "x"}
	}
	return all
}

// timeline plays failures to a contract without jitter.
func timeline(t testing.TB, name string, n int) []Step {
	return builtin(t, name).Simulate(answers(KindHTTPStatus, 500, n), nil)
}

func total(steps []Step) time.Duration { return steps[len(steps)-1].At }

func TestContract_S2_TimelineOfSignals(t *testing.T) {
	t.Parallel()
	steps := timeline(t, "signals", 20)
	if len(steps) != 9 || total(steps) != 68*time.Hour+36*time.Minute {
		t.Fatalf("%d attempts in %s", len(steps), total(steps))
	}
	last := steps[8]
	if last.Status != StatusDead || !last.Ended || strings.Join(last.Events, " ") != "webhook.failed" {
		t.Errorf("the last: %+v", last)
	}
}

func TestContract_E6_TimelineOfElido(t *testing.T) {
	t.Parallel()
	steps := timeline(t, "elido", 20)
	if len(steps) != 7 || total(steps) != 31*time.Hour+5*time.Minute+31*time.Second {
		t.Fatalf("%d attempts in %s", len(steps), total(steps))
	}
	if last := steps[6]; last.Status != StatusFailed || strings.Join(last.Events, " ") != "webhook.failed" {
		t.Errorf("the last: %+v", last)
	}
}

func TestContract_P2_TimelineOfPetify(t *testing.T) {
	t.Parallel()
	steps := timeline(t, "petify", 20)
	if len(steps) != 7 || total(steps) != 20*time.Hour+36*time.Minute {
		t.Fatalf("%d attempts in %s", len(steps), total(steps))
	}
	if last := steps[6]; last.Status != StatusFailed {
		t.Errorf("the last: %+v", last)
	}
}

func TestContract_S4_AnswersOfSignals(t *testing.T) {
	t.Parallel()
	c := builtin(t, "signals")
	gone := c.Simulate(answers(KindGone, 410, 3), nil)
	if len(gone) != 1 || gone[0].Status != StatusDead || gone[0].EndpointOff != BecameDisabled {
		t.Errorf("410: %+v", gone)
	}
	unsafe := c.Simulate(answers(KindUnsafeURL, 0, 3), nil)
	if len(unsafe) != 1 || unsafe[0].Status != StatusDead || unsafe[0].EndpointOff != "" {
		t.Errorf("blocked URL: %+v", unsafe)
	}
	asks := func(status int, header string) time.Duration {
		steps := c.Simulate([]Simulated{{Answer: Answer{Kind: KindHTTPStatus, StatusCode: status, RetryAfter: header}}}, nil)
		return steps[0].NextAt
	}
	if asks(429, "120") != 2*time.Minute || asks(503, "7200") != time.Hour || asks(500, "120") != time.Minute || asks(429, "5") != time.Minute {
		t.Errorf("Retry-After: %s %s %s %s", asks(429, "120"), asks(503, "7200"), asks(500, "120"), asks(429, "5"))
	}
}

// The platform's own example: after the second failure with 429 and Retry-After: 120 the
// wait is 120 s in place of 30 s.
func TestContract_E7_RetryAfterOfElido(t *testing.T) {
	t.Parallel()
	steps := builtin(t, "elido").Simulate([]Simulated{
		{Answer: Answer{Kind: KindHTTPStatus, StatusCode: 500}},
		{Answer: Answer{Kind: KindHTTPStatus, StatusCode: 429, RetryAfter: "120"}},
	}, nil)
	if wait := steps[1].NextAt - steps[1].At; wait != 120*time.Second {
		t.Errorf("the wait is %s", wait)
	}
}

func TestContract_P1_RetriesAnything(t *testing.T) {
	t.Parallel()
	c := builtin(t, "petify")
	for _, kind := range []FailureKind{KindGone, KindUnsafeURL, KindRedirect, KindTimeout, KindNetwork, KindClientError} {
		if steps := c.Simulate(answers(kind, 0, 2), nil); len(steps) != 2 || steps[0].Status != StatusPending || steps[0].EndpointOff != "" {
			t.Errorf("%s: %+v", kind, steps)
		}
	}
	if len(c.URL.Schemes) != 1 || c.URL.Schemes[0] != "https" {
		t.Errorf("schemes: %v", c.URL.Schemes)
	}
}

func TestContract_E8_DegradesThenPauses(t *testing.T) {
	t.Parallel()
	c := builtin(t, "elido")
	now := time.Unix(1_700_000_000, 0)
	s := Standing{On: true}
	for n := 1; n <= 50; n++ {
		turn := c.Judge(s, false, now, 1)
		s = turn.After
		want := Transition("")
		switch n {
		case 3:
			want = BecameDegraded
		case 50:
			want = BecamePaused
		}
		if turn.Became != want || turn.TellOwner != (n == 50) {
			t.Fatalf("failure %d: %+v, want %q", n, turn, want)
		}
		if s.Degraded(now) != (n >= 3) {
			t.Fatalf("failure %d: degraded %v", n, s.Degraded(now))
		}
		now = now.Add(time.Second)
	}
}

func TestContract_E8_MarkEndsAndIsRenewed(t *testing.T) {
	t.Parallel()
	c := builtin(t, "elido")
	now := time.Unix(1_700_000_000, 0)
	s := Standing{On: true}
	for range 3 {
		s = c.Judge(s, false, now, 1).After
	}
	if got := s.DegradedUntil.Sub(now); got != 24*time.Hour {
		t.Errorf("the mark lasts %s", got)
	}
	later := now.Add(25 * time.Hour)
	if turn := c.Judge(s, false, later, 1); turn.Became != "" || turn.After.DegradedUntil.Sub(later) != 24*time.Hour {
		t.Errorf("failing on: %+v", turn)
	}
	during := c.Judge(s, true, now.Add(time.Hour), 1)
	if during.Recovered || !during.After.Degraded(now.Add(2*time.Hour)) || during.After.FailuresInRow != 0 {
		t.Errorf("a success while the mark lasts: %+v", during)
	}
	if turn := c.Judge(during.After, true, later, 1); !turn.Recovered || !turn.After.DegradedUntil.IsZero() {
		t.Errorf("a success after its end: %+v", turn)
	}
}

// Deliveries made while degraded get fewer attempts.
func TestContract_E8_WaitsWhileDegraded(t *testing.T) {
	t.Parallel()
	c := builtin(t, "elido")
	terms := Terms{Trigger: TriggerEvent, Degraded: true}
	if c.Attempts(terms) != 4 || c.Attempts(Terms{Trigger: TriggerEvent}) != 7 {
		t.Errorf("attempts: %d", c.Attempts(terms))
	}
	in := failed(1, 500)
	in.Terms = terms
	if d := c.After(in, 0.5); d.Wait != 5*time.Minute {
		t.Errorf("first wait: %s", d.Wait)
	}
	in.Try = 4
	if d := c.After(in, 0.5); d.Status != StatusFailed || d.Ending != ByExhaustion {
		t.Errorf("after the fourth: %+v", d)
	}
}

func TestContract_S9_DisabledAfterThreeDays(t *testing.T) {
	t.Parallel()
	c := builtin(t, "signals")
	now := time.Unix(1_700_000_000, 0)
	s := c.Judge(Standing{On: true}, false, now, 1).After
	s = c.Judge(s, false, now.Add(time.Hour), 1).After
	if turn := c.Judge(s, false, now.Add(72*time.Hour-time.Second), 1); turn.Became != "" {
		t.Errorf("before three days: %+v", turn)
	}
	if turn := c.Judge(s, false, now.Add(72*time.Hour), 1); turn.Became != BecameDisabled || !turn.TellOwner {
		t.Errorf("after three days: %+v", turn)
	}
	if turn := c.Judge(s, true, now.Add(80*time.Hour), 1); turn.Became != "" || turn.After.FailuresInRow != 0 {
		t.Errorf("a success: %+v", turn)
	}
}

func TestEngine_N20_AJumpDisablesNobody(t *testing.T) {
	t.Parallel()
	c := builtin(t, "signals")
	now := time.Unix(1_700_000_000, 0)
	s := c.Judge(Standing{On: true}, false, now, 1).After
	if turn := c.Judge(s, false, now.Add(1000*time.Hour), 1); turn.Became != "" {
		t.Errorf("the second failure disabled: %+v", turn)
	}
}

func TestEngine_N21_SpansOfHealthAreDivided(t *testing.T) {
	t.Parallel()
	c := builtin(t, "elido")
	now := time.Unix(1_700_000_000, 0)
	s := Standing{On: true}
	for range 3 {
		s = c.Judge(s, false, now, 24).After
	}
	if got := s.DegradedUntil.Sub(now); got != time.Hour {
		t.Errorf("the mark lasts %s", got)
	}
}

func TestContract_S11_WhatSendingAgainMeans(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		contract string
		status   Status
		trigger  Trigger
		on       bool
		want     Again
	}{
		{"signals", StatusFailed, TriggerEvent, true, AgainResend},
		{"signals", StatusDead, TriggerEvent, true, AgainRedeliver},
		{"signals", StatusDead, TriggerEvent, false, AgainOff},
		{"signals", StatusPending, TriggerEvent, true, AgainNot},
		{"signals", StatusRedelivered, TriggerEvent, true, AgainNot},
		{"signals", StatusDead, TriggerTest, true, AgainNot},
		{"elido", StatusDelivered, TriggerEvent, true, AgainRedeliver},
		{"elido", StatusFailed, TriggerEvent, true, AgainRedeliver},
		{"petify", StatusDelivered, TriggerEvent, true, AgainResend},
		{"petify", StatusSkipped, TriggerEvent, true, AgainResend},
		{"petify", StatusSkipped, TriggerEvent, false, AgainOff},
		{"petify", StatusSending, TriggerEvent, true, AgainNot},
	} {
		if got := builtin(t, test.contract).SendAgain(test.status, test.trigger, test.on); got != test.want {
			t.Errorf("%s %s %s on=%v: %q, want %q", test.contract, test.status, test.trigger, test.on, got, test.want)
		}
	}
}

func TestContract_P7_ResendIsOneTry(t *testing.T) {
	t.Parallel()
	c := builtin(t, "petify")
	terms := c.ResendTerms(Terms{Trigger: TriggerEvent, Degraded: true})
	in := failed(1, 500)
	in.Terms = terms
	if d := c.After(in, 0.5); d.Status != StatusFailed || c.Attempts(terms) != 1 {
		t.Errorf("a failed resend: %+v", d)
	}
	if terms := builtin(t, "signals").ResendTerms(Terms{Trigger: TriggerEvent}); terms.Single() {
		t.Error("under signals a resend has the whole schedule")
	}
}

func TestContract_S5_WhatClosesAGate(t *testing.T) {
	t.Parallel()
	signals, standard, elido := builtin(t, "signals"), builtin(t, "standard"), builtin(t, "elido")
	refused := Answer{Kind: KindNetwork}
	if !signals.ClosesGate(refused) || standard.ClosesGate(refused) || elido.ClosesGate(refused) {
		t.Error("a refused connection closes the gate of signals alone")
	}
	for status, want := range map[int]bool{429: true, 502: true, 504: true, 503: false, 500: false} {
		if got := standard.ClosesGate(Answer{Kind: KindHTTPStatus, StatusCode: status}); got != want {
			t.Errorf("standard, %d: %v", status, got)
		}
	}
	if signals.ClosesGate(Answer{StatusCode: 200}) {
		t.Error("a success closes a gate")
	}
	for trigger, want := range map[Trigger]bool{TriggerTest: true, TriggerResend: true, TriggerRedelivery: true, TriggerEvent: false, TriggerReplay: false} {
		if signals.PassesGate(trigger) != want {
			t.Errorf("%s passes: %v", trigger, !want)
		}
	}
}

func TestContract_P5_SkippedWhileOff(t *testing.T) {
	t.Parallel()
	in := failed(2, 500)
	in.EndpointOn = false
	if d := builtin(t, "petify").After(in, 0.5); d.Status != StatusSkipped || d.Ending != BySkip {
		t.Errorf("petify: %+v", d)
	}
	if d := builtin(t, "signals").After(in, 0.5); d.Status != StatusPending || d.Ending != ByPause || d.Counted {
		t.Errorf("signals: %+v", d)
	}
}
