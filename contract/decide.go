package contract

import (
	"slices"
	"time"
)

// Facts are what Before judges a delivery by. All times are those of one clock.
type Facts struct {
	Trigger         Trigger
	EndpointDeleted bool
	EndpointOn      bool
	EventGone       bool // the event or its payload is no more
	// Skipped: a mark on its endpoint says that it is skipped; tests never are.
	Skipped   bool
	Due       time.Time
	ExpiresAt time.Time // zero: never
}

// Verdict is what Before says.
type Verdict string

// Verdicts, in the order in which the rules are asked.
const (
	Drop        Verdict = "drop"        // the endpoint is deleted, or a mark ended it
	EndMissing  Verdict = "end_missing" // ends failed, event_missing
	EndExpired  Verdict = "end_expired" // ends skipped
	Hold        Verdict = "hold"        // the endpoint is off: stays pending
	WaitForTime Verdict = "wait"        // not due yet
	Try         Verdict = "try"         // goes out
)

// Before applies the rules that stand before a try, in their settled order:
// deleted or skipped by a mark, event gone, expired, endpoint off (tests pass), not due.
func (c *Contract) Before(f Facts, now time.Time) Verdict {
	switch {
	case f.EndpointDeleted, f.Skipped && f.Trigger != TriggerTest:
		return Drop
	case f.EventGone:
		return EndMissing
	case !f.ExpiresAt.IsZero() && !now.Before(f.ExpiresAt):
		return EndExpired
	case !f.EndpointOn && f.Trigger != TriggerTest:
		return Hold
	case now.Before(f.Due):
		return WaitForTime
	default:
		return Try
	}
}

// Answer is what came of a try, as far as the contract cares.
type Answer struct {
	Kind       FailureKind // KindNone: a success by status
	StatusCode int         // 0 when no complete headers came
	RetryAfter string      // the header as it stood
}

// Terms are what a delivery was promised beside its contract, when it or its
// round was made.
type Terms struct {
	Trigger Trigger
	// Degraded: made while the endpoint was marked degraded, so that degrade.waits
	// are its schedule (E8).
	Degraded bool
	// Once: this round is a single try (P7's resend).
	Once bool
}

// Single tells whether a round of these terms is one try.
func (t Terms) Single() bool { return t.Once || t.Trigger == TriggerTest }

// Tried is what After judges by.
type Tried struct {
	Terms
	// Try is the number of this attempt among the round's counted ones, from 1.
	Try    int
	Answer Answer
	// EndpointDeleted and EndpointOn are as they stand now, after the try.
	EndpointDeleted bool
	EndpointOn      bool
	// EndedAt is the end of the try: waits run from it.
	EndedAt time.Time
}

// Ending says why a decision ended or kept a delivery.
type Ending string

// Endings.
const (
	ByAnswer     Ending = ""          // delivered
	ByRetry      Ending = "retry"     // another try is planned
	ByStop       Ending = "stopped"   // a stopping answer
	ByExhaustion Ending = "exhausted" // none left
	ByPause      Ending = "paused"    // the endpoint went off meanwhile: held, not counted
	BySkip       Ending = "skipped"   // the endpoint went off meanwhile, and what fails then is skipped
	ByDeletion   Ending = "deleted"   // the endpoint was deleted meanwhile
)

// Decision is what becomes of a delivery after a try.
type Decision struct {
	Status Status
	Ending Ending
	// Kind to show: the answer's, or KindPaused for a try that a pause cut.
	Kind FailureKind
	// Counted is false for a try that does not use up the schedule.
	Counted bool
	// Wait from the end of the try to the next one; meaningful when Status is
	// pending and Ending is ByRetry.
	Wait time.Duration
	// Disable asks for the endpoint to be disabled (410).
	Disable bool
	// Emit lists operational events to raise about the delivery.
	Emit []string
	// Health says whether the try counts for the endpoint's health.
	Health bool
}

// After applies the rules that stand after a try, in their settled order (S1, S2,
// S4, E6, P2): a 2xx is delivered whatever became of the endpoint; deleted
// meanwhile, nothing is kept; a stopping answer; a single try; off meanwhile, held
// and not counted; none left; else wait. random lies in [0,1).
func (c *Contract) After(t Tried, random float64) Decision {
	d := Decision{Kind: t.Answer.Kind, Counted: true, Health: c.counts(t.Trigger)}
	if t.Answer.Kind == KindNone {
		d.Status = StatusDelivered
		return d
	}
	if t.EndpointDeleted {
		d.Status, d.Ending, d.Health = StatusCanceled, ByDeletion, false
		return d
	}
	if stop, ok := c.stopFor(t.Answer.Kind); ok {
		d.Status, d.Ending = stop.Status, ByStop
		d.Disable = stop.Disable && t.Trigger != TriggerTest
		return d
	}
	if t.Single() {
		d.Status, d.Ending = StatusFailed, ByExhaustion
		return d
	}
	if !t.EndpointOn {
		if c.Off.InFlight == FateSkip {
			return Decision{Status: StatusSkipped, Ending: BySkip, Kind: t.Answer.Kind, Counted: true, Health: d.Health}
		}
		return Decision{Status: StatusPending, Ending: ByPause, Kind: KindPaused}
	}
	if t.Try >= len(c.waits(t.Terms)) {
		d.Status, d.Ending, d.Emit = c.Exhausted.Status, ByExhaustion, c.Exhausted.Emit
		return d
	}
	d.Status, d.Ending = StatusPending, ByRetry
	d.Wait = c.wait(t, random)
	return d
}

func (c *Contract) stopFor(kind FailureKind) (Stop, bool) {
	for _, s := range c.Stop {
		if s.On == kind {
			return s, true
		}
	}
	return Stop{}, false
}

// counts tells whether a trigger's tries count for the endpoint's health.
func (c *Contract) counts(t Trigger) bool { return slices.Contains(c.Health.Counts, t) }

// waits is the schedule of a delivery or round.
func (c *Contract) waits(t Terms) []Duration {
	switch {
	case t.Single():
		return c.Schedule.Waits[:1]
	case t.Degraded && c.Degrade.After > 0:
		return c.Degrade.Waits
	default:
		return c.Schedule.Waits
	}
}

// wait is the schedule's wait after try t.Try, off by the jitter, or what
// Retry-After asks: if that is longer, or in its place where the contract says
// replace. No jitter is added to what was asked (S4, E7).
func (c *Contract) wait(t Tried, random float64) time.Duration {
	base := c.waits(t.Terms)[t.Try].Std()
	wait := time.Duration(float64(base) * (1 + c.Schedule.Jitter*(2*random-1)))
	if !c.heeds(t.Answer.StatusCode) {
		return wait
	}
	asked, ok := ParseRetryAfter(t.Answer.RetryAfter, t.EndedAt)
	if !ok {
		return wait
	}
	asked = min(asked, c.RetryAfter.Max.Std())
	if c.RetryAfter.Mode == "replace" {
		return asked
	}
	return max(wait, asked)
}

// heeds tells whether a failed answer's Retry-After counts.
func (c *Contract) heeds(status int) bool {
	if status == 0 {
		return false
	}
	if c.RetryAfter.Any {
		return true
	}
	return slices.Contains(c.RetryAfter.On, status)
}

// Attempts is the number of attempts that a round of these terms may have.
func (c *Contract) Attempts(t Terms) int { return len(c.waits(t)) }
