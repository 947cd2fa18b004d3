package contract

import (
	"slices"
	"time"
)

// Standing is an endpoint's health before a counted try is recorded.
type Standing struct {
	// On is false while the endpoint is paused, disabled or switched off: what
	// then ends changes neither state nor mark.
	On bool
	// FailuresInRow since the last 2xx, enabling or resuming.
	FailuresInRow int
	// FirstFailureAt is the first failure after the last success, enabling or
	// resuming; zero when there is none.
	FirstFailureAt time.Time
	LastSuccessAt  time.Time
	LastAttemptAt  time.Time
	// DegradedUntil is the end of the mark; zero without one. A mark that is over
	// stays until it is renewed or a success clears it.
	DegradedUntil time.Time
}

// Degraded tells whether the mark holds at now.
func (s *Standing) Degraded(now time.Time) bool { return now.Before(s.DegradedUntil) }

// minFailures is how many failures in a row a lack of success needs before it
// disables: a jump of the clock alone disables nobody (N20).
const minFailures = 3

// Turn is what a try does to its endpoint.
type Turn struct {
	// After is the health afterwards.
	After Standing
	// Became is the transition of the endpoint's state or mark; "" for none. Of
	// several, the first of disabled, paused, degraded.
	Became Transition
	// Recovered is true when a success cleared a mark that was over.
	Recovered bool
	// TellOwner is true when the tenant's owner is to be told of Became.
	TellOwner bool
}

// Judge applies the health rules to a counted try that ended at now, once: a
// success clears the failures in a row; a failure may mark the endpoint, pause
// it (E8) or disable it for lack of success (S9). lapse divides the spans
// (N21).
func (c *Contract) Judge(s Standing, delivered bool, now time.Time, lapse int) Turn {
	t := Turn{After: s}
	a := &t.After
	a.LastAttemptAt = later(a.LastAttemptAt, now)
	if delivered {
		a.LastSuccessAt = later(a.LastSuccessAt, now)
		a.FailuresInRow, a.FirstFailureAt = 0, time.Time{}
		if !s.DegradedUntil.IsZero() && !s.Degraded(now) {
			a.DegradedUntil, t.Recovered = time.Time{}, true
		}
		return t
	}
	a.FailuresInRow++
	if a.FirstFailureAt.IsZero() {
		a.FirstFailureAt = now
	}
	if !s.On {
		return t
	}
	span := func(d Duration) time.Duration { return d.Std() / time.Duration(max(lapse, 1)) }
	if c.Degrade.After > 0 && a.FailuresInRow >= c.Degrade.After && !s.Degraded(now) {
		if s.DegradedUntil.IsZero() { // else the mark is renewed, which is no change
			t.Became = BecameDegraded
		}
		a.DegradedUntil = now.Add(span(c.Degrade.For))
	}
	if c.Pause.After > 0 && a.FailuresInRow >= c.Pause.After {
		t.Became = BecamePaused
	}
	long := c.Disable.NoSuccessFor
	if long > 0 && a.FailuresInRow >= minFailures && now.Sub(a.FirstFailureAt) >= span(long) {
		t.Became = BecameDisabled
	}
	t.TellOwner = slices.Contains(c.TellOwner, t.Became)
	return t
}

// Renewed is the health after enabling or resuming: the rules begin anew (S9).
func (s Standing) Renewed() Standing {
	s.FailuresInRow, s.FirstFailureAt = 0, time.Time{}
	return s
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// ClosesGate tells whether a failed try closes the gate of its scope until its
// delivery's next attempt (S5).
func (c *Contract) ClosesGate(a Answer) bool {
	if a.Kind == KindNone {
		return false
	}
	return c.Gate.Any || slices.Contains(c.Gate.On, a.StatusCode)
}

// PassesGate tells whether deliveries of a trigger go out in spite of a gate.
func (c *Contract) PassesGate(t Trigger) bool {
	return slices.Contains(c.Gate.PassedBy, t)
}
