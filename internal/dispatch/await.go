package dispatch

import (
	"slices"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Ended is what came of a delivery's try, as it was committed.
type Ended struct {
	// Attempt is the log's row; nil for an end without a try.
	Attempt *webhook.Attempt
	Status  contract.Status
	Kind    contract.FailureKind
	Reason  webhook.Reason
}

// waiters are who waits for outcomes, and the last outcomes of tests: a read may
// have found one before its sender began to wait.
type waiters struct {
	by     map[webhook.Ref][]chan Ended
	recent [recentTests]struct {
		ref webhook.Ref
		end Ended
	}
	next int
}

const recentTests = 64

// Await tells when the next outcome of a delivery is committed. The channel is
// closed behind it, and without one when the delivery ended otherwise: canceled,
// or its endpoint deleted. Register before the delivery is offered; cancel when
// the answer is no longer wanted.
func (d *Dispatcher) Await(ref webhook.Ref) (ended <-chan Ended, cancel func()) {
	ch := make(chan Ended, 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.waiters.recent {
		if r := &d.waiters.recent[i]; r.ref == ref {
			ch <- r.end
			close(ch)
			return ch, func() {}
		}
	}
	if d.waiters.by == nil {
		d.waiters.by = map[webhook.Ref][]chan Ended{}
	}
	d.waiters.by[ref] = append(d.waiters.by[ref], ch)
	return ch, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		left := slices.DeleteFunc(d.waiters.by[ref], func(c chan Ended) bool { return c == ch })
		if d.waiters.by[ref] = left; len(left) == 0 {
			delete(d.waiters.by, ref)
		}
	}
}

// tell answers those who wait for a flight whose outcome is committed.
func (d *Dispatcher) tell(f *flight) {
	w := &f.it.work
	isTest := w.Trigger == contract.TriggerTest
	if (!isTest && len(d.waiters.by) == 0) || f.record.Join {
		return
	}
	if !f.result.Applied && !f.result.Absorbed {
		d.untell(w.Ref)
		return
	}
	end := Ended{Status: f.record.Status, Kind: f.record.FailureKind, Reason: f.record.Reason}
	if f.record.Attempt != nil {
		a := f.attempt
		a.Number = w.Rows + 1
		a.Response = slices.Clone(a.Response)
		end.Attempt = &a
	}
	if isTest {
		r := &d.waiters.recent[d.waiters.next%recentTests]
		r.ref, r.end = w.Ref, end
		d.waiters.next++
	}
	for _, ch := range d.waiters.by[w.Ref] {
		ch <- end
		close(ch)
	}
	delete(d.waiters.by, w.Ref)
}

// untell ends the waiting for a delivery that no outcome comes of.
func (d *Dispatcher) untell(ref webhook.Ref) {
	for _, ch := range d.waiters.by[ref] {
		close(ch)
	}
	delete(d.waiters.by, ref)
}
