// Package clock is the process's sense of time (ENGINE N20). Due times come from
// Now, which follows the monotonic clock from the process's start, so that a step
// of the wall clock neither rushes nor delays what waits. New time stamps come
// from Wall. Both run inside a testing/synctest bubble.
package clock

import (
	"sync/atomic"
	"time"
)

// Clock tells time. The zero value is not usable; make one with Start.
type Clock struct {
	started time.Time
	step    atomic.Int64 // nanoseconds, see Step
}

// Start makes a clock whose Now begins at the present wall time.
func Start() *Clock { return &Clock{started: time.Now()} }

// Now is the start's wall time plus the monotonic time since: what due times are
// compared with.
func (c *Clock) Now() time.Time { return c.started.Add(time.Since(c.started)) }

// Wall is the wall clock: what stamps and signatures bear. It has no monotonic
// part.
func (c *Clock) Wall() time.Time { return time.Now().Round(0).Add(time.Duration(c.step.Load())) }

// OnDueClock puts a wall time that a caller gave onto the clock of due times.
func (c *Clock) OnDueClock(wall time.Time) time.Time { return wall.Add(-c.Offset()) }

// Step lets the wall clock step by d, as an administrator's hand or a late time
// server does. It is for tests: nobody can set a machine's clock for one.
func (c *Clock) Step(d time.Duration) { c.step.Add(int64(d)) }

// Offset is how far the wall clock has stepped away from Now since the start.
func (c *Clock) Offset() time.Duration {
	return c.Wall().Sub(c.Now().Round(0))
}
