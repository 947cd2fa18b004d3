package api

import (
	"sync/atomic"

	"github.com/posthorn/posthorn/internal/webhook"
)

// bodiesBudget bounds the bytes of all bodies that are being read or worked on
// at once (N5): what a body's own limit allows, many requests could add up.
const bodiesBudget = 256 << 20

// budget counts bytes in use against a limit.
type budget struct {
	used atomic.Int64
	most int64
}

// take reserves n bytes; false when they are not there.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.most {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) give(n int64) { b.used.Add(-n) }

// room is what one body has taken of the budget.
type room struct {
	of    *budget
	taken int64
}

// grow makes the room at least size bytes.
func (r *room) grow(size int) error {
	more := int64(size) - r.taken
	if more <= 0 {
		return nil
	}
	if !r.of.take(more) {
		return webhook.NewProblem(webhook.CodeOverloaded, "Too much is being sent at once. Nothing was done; send it again later.")
	}
	r.taken += more
	return nil
}

func (r *room) leave() {
	r.of.give(r.taken)
	r.taken = 0
}
