package catalog

import (
	"strings"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Texts are the texts of one language. A nil contract asks for words that hold
// under any, as filters over several contracts need. A member that no text is
// known of is its own label.
type Texts struct {
	own, english *language
}

// Lang is the BCP 47 tag of the language.
func (t Texts) Lang() string { return t.own.tag }

// Status gives label and meaning of a delivery's status, as the contract shows
// it (S7, P6).
func (t Texts) Status(c *contract.Contract, s contract.Status) (label, meaning string) {
	if c != nil {
		s = c.Shown(s)
	}
	key := "status." + string(s)
	return t.label(c, key, string(s)), t.text(c, key+".meaning")
}

// Kind gives the three texts of a failure kind: label, what happened, what to do
// (S6). All are empty for KindNone.
func (t Texts) Kind(c *contract.Contract, k contract.FailureKind) (label, what, remedy string) {
	key := "kind." + string(k)
	return t.label(c, key, string(k)), t.text(c, key+".what"), t.text(c, key+".remedy")
}

// Reason gives label and meaning of why a delivery waits or ended. Both are empty
// for WhyNone.
func (t Texts) Reason(c *contract.Contract, r webhook.Reason) (label, meaning string) {
	key := "reason." + string(r)
	return t.label(c, key, string(r)), t.text(c, key+".meaning")
}

// State gives label and meaning of an endpoint's state.
func (t Texts) State(c *contract.Contract, s webhook.EndpointState) (label, meaning string) {
	key := "state." + string(s)
	return t.label(c, key, string(s)), t.text(c, key+".meaning")
}

// StateReason says in a few words why an endpoint is off; empty for ReasonActive.
func (t Texts) StateReason(c *contract.Contract, r webhook.StateReason) string {
	return t.label(c, "state_reason."+string(r), string(r))
}

// Banner is what an endpoint's owner reads above an endpoint that is off (S9,
// E8). Empty where its owner did it, and for ReasonActive.
func (t Texts) Banner(c *contract.Contract, r webhook.StateReason) string {
	return t.text(c, "banner."+string(r))
}

// Degraded gives label and text of the mark that failures in a row leave on an
// endpoint (E8).
func (t Texts) Degraded(c *contract.Contract) (label, text string) {
	return t.text(c, keyDegradedLabel), t.text(c, keyDegradedText)
}

// Trigger says what made a delivery or a round.
func (t Texts) Trigger(c *contract.Contract, tr contract.Trigger) string {
	return t.label(c, "trigger."+string(tr), string(tr))
}

// Action is what the button or menu entry of an action says.
func (t Texts) Action(c *contract.Contract, a Action) string {
	if text := t.text(c, "action."+string(a)); text != "" {
		return text
	}
	return string(a)
}

// Word is a name of something shown.
func (t Texts) Word(c *contract.Contract, w Word) string {
	if text := t.text(c, "word."+string(w)); text != "" {
		return text
	}
	return string(w)
}

// Answer gives the name of a group of answers and what the contract does on
// them. A contract that stops on failure kinds of its own choice gets a general
// sentence, unless it has words of its own.
func (t Texts) Answer(c *contract.Contract, a Answer) (label, effect string) {
	key := "answer." + string(a)
	label = t.label(c, key, string(a))
	if general := stopKey(c, a); general != "" && !t.own.overrides(c, key+".effect") {
		return label, t.text(c, general)
	}
	return label, t.text(c, key+".effect")
}

// stopKey is the key of the sentence for a group that the contract stops on, ""
// where all of it goes by the schedule.
func stopKey(c *contract.Contract, a Answer) string {
	if c == nil {
		return ""
	}
	kinds := a.kinds()
	stopped, disabled := 0, false
	for _, k := range kinds {
		for _, s := range c.Stop {
			if s.On == k {
				stopped++
				disabled = disabled || s.Disable
			}
		}
	}
	switch {
	case stopped == 0:
		return ""
	case stopped < len(kinds):
		return keyPartlyStopped
	case disabled:
		return keyStoppedDisabled
	default:
		return keyStopped
	}
}

// Duration says a time span in words: "10 seconds", "10 秒", "10초". Whole days
// from two on are said in days, all else in hours and less; below a millisecond
// nothing is said.
func (t Texts) Duration(d time.Duration) string { return t.own.duration(d) }

// label is the label of a member, or the member's name if it is not known.
func (t Texts) label(c *contract.Contract, key, name string) string {
	if text := t.text(c, key+".label"); text != "" {
		return text
	}
	return name
}

// text is the text of a key, filled in; "" if there is none in any language.
func (t Texts) text(c *contract.Contract, key string) string {
	for _, l := range []*language{t.own, t.english} {
		if found, ok := l.find(c, key); ok {
			return l.fill(found, c)
		}
	}
	return ""
}

// fill puts the contract's values into a text.
func (l *language) fill(t template, c *contract.Contract) string {
	if len(t) == 1 && t[0].param == "" {
		return t[0].literal
	}
	var b strings.Builder
	for _, s := range t {
		if s.param == "" {
			b.WriteString(s.literal)
			continue
		}
		b.WriteString(l.value(s.param, c))
	}
	return b.String()
}
