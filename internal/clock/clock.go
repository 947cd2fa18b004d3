// Package clock is the process's sense of time (ENGINE N20). Due times come from
// Now, which follows the monotonic clock from the process's start, so that a step
// of the wall clock neither rushes nor delays what waits. New time stamps come
// from Wall. Both run inside a testing/synctest bubble.
package clock

import "time"

// Clock tells time. The zero value is not usable; make one with Start.
type Clock struct {
	started time.Time
}

// Start makes a clock whose Now begins at the present wall time.
func Start() *Clock { return &Clock{started: time.Now()} }

// Now is the start's wall time plus the monotonic time since: what due times are
// compared with.
func (c *Clock) Now() time.Time { return c.started.Add(time.Since(c.started)) }

// Wall is the wall clock: what stamps and signatures bear. It has no monotonic
// part.
func (c *Clock) Wall() time.Time { return time.Now().Round(0) }

// Offset is how far the wall clock has stepped away from Now since the start.
func (c *Clock) Offset() time.Duration {
	return c.Wall().Sub(c.Now().Round(0))
}
