package again_test

import (
	"errors"
	"testing"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/again"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

var now = time.Date(2026, 5, 22, 14, 32, 18, 0, time.UTC)

// promises are the built-in contracts; each has one revision.
type promises struct{}

func (promises) Promised(name, _ string) *contract.Contract {
	c, _ := contract.Builtin(name)
	return c
}

func (promises) Current(name string) (*contract.Contract, string) {
	c, ok := contract.Builtin(name)
	if !ok {
		return nil, ""
	}
	return c, c.Revision()
}

func of(name string, s contract.Status) *webhook.Delivery {
	return &webhook.Delivery{ID: "dlv_1", Contract: name, Status: s, Trigger: contract.TriggerEvent, OrderingKey: "k"}
}

func at(name string) *webhook.Endpoint {
	return &webhook.Endpoint{ID: "ep_1", Contract: name, State: webhook.EndpointActive}
}

// TestContract_S11_Resend: failed is resent under its ID, dead is redelivered,
// skipped is left to a replay.
func TestContract_S11_Resend(t *testing.T) {
	t.Parallel()
	decide := again.Resend(promises{}, now)
	resent, err := decide(of("signals", contract.StatusFailed), at("signals"))
	if err != nil || resent.New || resent.MarkOld || !resent.ByPerson || resent.Terms.Trigger != contract.TriggerResend || resent.Terms.Once {
		t.Errorf("failed: %+v, %v", resent, err)
	}
	made, err := decide(of("signals", contract.StatusDead), at("signals"))
	if err != nil || !made.New || !made.MarkOld || !made.ByPerson || made.Terms.Trigger != contract.TriggerRedelivery || made.Key != "" {
		t.Errorf("dead: %+v, %v", made, err)
	}
	replayed, err := again.Event(promises{}, now)(of("signals", contract.StatusSkipped), at("signals"))
	if err != nil || !replayed.New || !replayed.MarkOld || replayed.Terms.Trigger != contract.TriggerReplay {
		t.Errorf("a skipped one's replay: %+v, %v", replayed, err)
	}
}

// TestContract_S11_WhyNot: each refusal says why, and an endpoint that is off is
// said only where being on would help.
func TestContract_S11_WhyNot(t *testing.T) {
	t.Parallel()
	test := of("signals", contract.StatusDead)
	test.Trigger = contract.TriggerTest
	off := at("signals")
	off.State = webhook.EndpointPaused
	for name, c := range map[string]struct {
		d    *webhook.Delivery
		e    *webhook.Endpoint
		want again.Refused
	}{
		"waits":           {of("signals", contract.StatusPending), at("signals"), again.RefusedUnfinished},
		"sending":         {of("signals", contract.StatusSending), at("signals"), again.RefusedUnfinished},
		"redelivered":     {of("signals", contract.StatusRedelivered), at("signals"), again.RefusedRedelivered},
		"canceled":        {of("signals", contract.StatusCanceled), at("signals"), again.RefusedStatus},
		"a test":          {test, at("signals"), again.RefusedTest},
		"off":             {of("signals", contract.StatusDead), off, again.RefusedOff},
		"canceled, off":   {of("signals", contract.StatusCanceled), off, again.RefusedStatus},
		"no endpoint any": {of("signals", contract.StatusDead), nil, again.RefusedDeleted},
	} {
		for kind, decide := range map[string]again.Decide{"resend": again.Resend(promises{}, now), "event": again.Event(promises{}, now)} {
			if _, err := decide(c.d, c.e); !errors.Is(err, c.want) {
				t.Errorf("%s, %s: %v, want %q", name, kind, err, c.want)
			}
		}
	}
	for _, s := range []contract.Status{contract.StatusSkipped, contract.StatusDelivered} {
		for _, e := range []*webhook.Endpoint{at("signals"), off} {
			if _, err := again.Resend(promises{}, now)(of("signals", s), e); !errors.Is(err, again.RefusedReplay) {
				t.Errorf("%s: %v", s, err)
			}
		}
	}
	_, err := again.Resend(promises{}, now)(of("nobody's", contract.StatusDead), at("signals"))
	if refused := again.Refused(""); err == nil || errors.As(err, &refused) {
		t.Errorf("an unknown promise is not the caller's fault: %v", err)
	}
}

// TestContract_E11_AlwaysNew: Elido sends again by new deliveries only, the old
// row stays; a redelivery joins the line of its key, a replay passes it (N15).
func TestContract_E11_AlwaysNew(t *testing.T) {
	t.Parallel()
	for _, s := range []contract.Status{contract.StatusDelivered, contract.StatusFailed, contract.StatusSkipped, contract.StatusCanceled} {
		made, err := again.Resend(promises{}, now)(of("elido", s), at("elido"))
		if err != nil || !made.New || made.MarkOld || made.Key != "k" || made.Terms.Trigger != contract.TriggerRedelivery {
			t.Errorf("resend from %s: %+v, %v", s, made, err)
		}
		made, err = again.Event(promises{}, now)(of("elido", s), at("elido"))
		if err != nil || !made.New || made.MarkOld || made.Key != "" || made.Terms.Trigger != contract.TriggerReplay || made.Terms.Once {
			t.Errorf("replay from %s: %+v, %v", s, made, err)
		}
	}
	e := at("standard")
	e.Ordering = &webhook.Ordering{}
	if made, err := again.Resend(promises{}, now)(of("elido", contract.StatusFailed), e); err != nil || made.Key != "k" || made.Contract != "standard" {
		t.Errorf("at an endpoint that orders itself: %+v, %v", made, err)
	}
}

// TestContract_E8_MadeWhileDegraded: a new delivery has the terms of the moment.
func TestContract_E8_MadeWhileDegraded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		until time.Time
		want  bool
	}{{now.Add(time.Second), true}, {now, false}, {time.Time{}, false}} {
		e := at("elido")
		e.Health.DegradedUntil = c.until
		if made, err := again.Event(promises{}, now)(of("elido", contract.StatusFailed), e); err != nil || made.Terms.Degraded != c.want {
			t.Errorf("until %v: %+v, %v", c.until, made, err)
		}
	}
}

// TestContract_P7_OneTry: Petify's resend is one try, wherever it is asked for.
func TestContract_P7_OneTry(t *testing.T) {
	t.Parallel()
	for _, s := range []contract.Status{contract.StatusDelivered, contract.StatusFailed, contract.StatusSkipped} {
		for kind, decide := range map[string]again.Decide{"resend": again.Resend(promises{}, now), "event": again.Event(promises{}, now)} {
			got, err := decide(of("petify", s), at("petify"))
			if err != nil || got.New || !got.Terms.Once || got.Terms.Trigger != contract.TriggerResend || !got.ByPerson {
				t.Errorf("%s from %s: %+v, %v", kind, s, got, err)
			}
		}
		if got, ok := again.Replay(promises{}, now)(of("petify", s), at("petify")); !ok || got.New || !got.Terms.Once || got.ByPerson {
			t.Errorf("replay's job from %s: %+v", s, got)
		}
	}
	if _, ok := again.Replay(promises{}, now)(of("petify", contract.StatusPending), at("petify")); ok {
		t.Error("a waiting one is taken")
	}
}

// TestContract_S11_ReplaysJob: everything chosen is redelivered, failed ones too,
// and none of it goes before what waits.
func TestContract_S11_ReplaysJob(t *testing.T) {
	t.Parallel()
	decide := again.Replay(promises{}, now)
	for _, s := range contract.Statuses() {
		got, ok := decide(of("signals", s), at("signals"))
		want := s == contract.StatusDead || s == contract.StatusFailed || s == contract.StatusSkipped || s == contract.StatusDelivered
		if ok != want || want && (!got.New || !got.MarkOld || got.ByPerson || got.Terms.Trigger != contract.TriggerRedelivery) {
			t.Errorf("%s: %+v, %v", s, got, ok)
		}
	}
	test := of("signals", contract.StatusDead)
	test.Trigger = contract.TriggerTest
	if got, ok := decide(test, at("signals")); ok {
		t.Errorf("a test: %+v", got)
	}
	if got, ok := decide(of("signals", contract.StatusDead), nil); ok || got != (store.Again{}) {
		t.Errorf("without an endpoint: %+v", got)
	}
}
