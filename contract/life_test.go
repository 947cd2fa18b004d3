package contract

import (
	"bytes"
	"testing"
	"time"
)

// What an endpoint that is switched on again does with what it missed, as each
// promise has it.
func TestContract_S10_SwitchingOn(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		was  Transition
		skip bool
		want Return
		ok   bool
	}{
		{"signals", BecameDisabled, false, Return{Backlog: true, Redeliver: true}, true},
		{"signals", BecameDisabled, true, Return{Backlog: true, Redeliver: true, SkipMissed: true}, true},
		{"signals", BecamePaused, false, Return{Backlog: true}, true},
		{"elido", BecamePaused, false, Return{Backlog: true}, true},
		{"elido", BecameDisabled, true, Return{Backlog: true, SkipMissed: true}, true},
		{"petify", BecamePaused, false, Return{}, true},
		{"petify", BecameDisabled, true, Return{SkipMissed: true}, false},
		{Standard, BecameDisabled, false, Return{Backlog: true}, true},
	} {
		c := builtin(t, test.name)
		if got, ok := c.SwitchOn(test.was, test.skip); got != test.want || ok != test.ok {
			t.Errorf("%s after %s, skip %t: %+v, %t; want %+v, %t", test.name, test.was, test.skip, got, ok, test.want, test.ok)
		}
	}
	if petify := builtin(t, "petify"); !petify.SkipsNew() || !petify.SkipsWaiting() {
		t.Error("petify skips what comes and what waits while an endpoint is off (P5)")
	}
	if elido := builtin(t, "elido"); elido.SkipsNew() || elido.SkipsWaiting() || !elido.Orders() {
		t.Error("elido holds, and orders by key")
	}
}

// A mark drops what it covers before anything else is asked, tests excepted.
func TestEngine_N17_AMarkDropsBeforeAnyOtherRule(t *testing.T) {
	t.Parallel()
	c := builtin(t, Standard)
	if got := c.Before(Facts{Skipped: true, EndpointOn: true, EventGone: true}, time.Unix(0, 0)); got != Drop {
		t.Errorf("a skipped one: %s", got)
	}
	if got := c.Before(Facts{Skipped: true, EndpointOn: true, Trigger: TriggerTest}, time.Unix(0, 0)); got != Try {
		t.Errorf("a test: %s", got)
	}
}

// Saying a default says nothing: the revision is that of leaving it out.
func TestContract_Revision_SpelledOutDefaultsAreNoOtherPromise(t *testing.T) {
	t.Parallel()
	text, _ := BuiltinYAML("petify")
	plain, err := Parse(bytes.ReplaceAll(text, []byte("order:\n  mode: none\n"), nil))
	if err != nil {
		t.Fatal(err)
	}
	spelled, err := Parse(bytes.ReplaceAll(text, []byte("{held: none}"), []byte("{held: none, dead: leave}"))) // it says order: {mode: none} already
	if err != nil {
		t.Fatal(err)
	}
	if plain.Revision() != spelled.Revision() {
		t.Errorf("revisions %s and %s", plain.Revision(), spelled.Revision())
	}
}
