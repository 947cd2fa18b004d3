package dispatch

import (
	"log/slog"
	"time"

	"github.com/posthorn/posthorn/internal/store"
)

const (
	// markAfter is when a running attempt is marked in the store (N14).
	markAfter = time.Second
	// markGap is the least time between two batches of marks.
	markGap = 250 * time.Millisecond
)

// markState is the one timer behind the marks. It runs only while attempts do.
type markState struct {
	timer *time.Timer
	armed bool // set, or its batch is being written
}

// watch lets an attempt be marked if it runs for long.
func (d *Dispatcher) watch(f *flight, now time.Time) {
	d.young.add(f)
	if !d.marking.armed {
		d.armMarks(now)
	}
}

func (d *Dispatcher) armMarks(now time.Time) {
	d.marking.armed = d.young.head != nil && d.phase != phaseStopped
	if !d.marking.armed {
		return
	}
	wait := max(d.young.head.started.Add(markAfter).Sub(now), markGap)
	if d.marking.timer == nil {
		d.marking.timer = time.AfterFunc(wait, d.mark)
	} else {
		d.marking.timer.Reset(wait)
	}
}

// mark writes one batch of marks.
func (d *Dispatcher) mark() {
	flights, marks := d.longRunning()
	if len(marks) > 0 {
		if err := d.cfg.Store.MarkRunning(d.life, marks); err != nil && d.life.Err() == nil {
			d.cfg.Log.Warn("long attempts could not be marked, a crash may repeat them without trace",
				slog.Int("count", len(marks)), slog.Any("error", err))
		}
	}
	for _, f := range d.markDone(flights) {
		d.submit(f)
	}
}

func (d *Dispatcher) longRunning() (flights []*flight, marks []store.Mark) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.phase == phaseStopped || d.shut {
		return nil, nil
	}
	now, wall := d.now(), d.cfg.Clock.Wall()
	for f := d.young.head; f != nil && now.Sub(f.started) >= markAfter; f = d.young.head {
		d.young.remove(f)
		f.marking = true
		w := &f.it.work
		flights = append(flights, f)
		marks = append(marks, store.Mark{
			Ref: w.Ref, Round: w.Round, Attempts: w.Attempts, Try: w.Attempts + 1,
			At: wall.Add(-now.Sub(f.started)),
		})
	}
	return flights, marks
}

// markDone ends the marking of a batch and returns the flights whose outcome
// waited for it.
func (d *Dispatcher) markDone(flights []*flight) (waiting []*flight) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range flights {
		f.marking = false
		if f.waits {
			f.waits = false
			waiting = append(waiting, f)
		}
	}
	d.armMarks(d.now())
	return waiting
}
