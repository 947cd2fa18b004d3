package dispatch

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

const (
	mostReaders = 4
	// jobGap is the wait before a lane is read again whose rows are being brought
	// into order, or marked, by the store (N17).
	jobGap         = 20 * time.Millisecond
	mostReadBack   = 5 * time.Second
	firstReadBack  = 100 * time.Millisecond
	mostWindowData = 64 << 10 // larger payloads are read when sent
)

// read is a window read under way, and what happened to its lane meanwhile.
type read struct {
	lane   *lane
	params store.WindowParams
	// gate is set for the reading of its probe in place of a window.
	gate  *gate
	probe webhook.Ref
	// moved are deliveries whose state was committed after the read began: what
	// the read says of them may be old (N10).
	moved []webhook.Ref
	// expected is the earliest due time that was committed meanwhile.
	expected time.Time
}

// startReaders makes sure that queued reads are being worked on.
func (d *Dispatcher) startReaders() {
	if d.phase != phaseRunning || d.shut {
		return
	}
	for n := d.readQueue.len() + len(d.probeReads); n > 0 && d.readers < mostReaders; n-- {
		d.readers++
		go d.readLoop()
	}
}

func (d *Dispatcher) readLoop() {
	for r := d.nextRead(); r != nil; r = d.nextRead() {
		if r.gate != nil {
			w, found, err := d.cfg.Store.LoadWork(d.reads, r.probe)
			d.absorbProbe(r, w, found, err)
			continue
		}
		w, err := d.cfg.Store.ReadWindow(d.reads, r.params)
		d.absorb(r, w, err)
	}
}

// nextRead begins the next queued read; nil ends the reader.
func (d *Dispatcher) nextRead() *read {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.phase == phaseRunning && !d.shut {
		if r := d.nextProbeRead(); r != nil {
			return r
		}
		l := d.readQueue.pop()
		if l == nil {
			break
		}
		if !l.readable(d.low(l)) {
			continue
		}
		now := d.now()
		r := &read{lane: l, params: store.WindowParams{
			Endpoint: l.key,
			Now:      now,
			// The store knows nothing of the out-set: its rows come again.
			Limit:   d.windowRows(l) - l.window.len() + l.outRows,
			Bytes:   min(d.cfg.WindowBytes, max(d.cfg.HandoverBytes-d.held, 0)) + l.outBytes,
			MaxData: d.maxData(),
		}}
		l.reading, l.dirty, l.readAt = r, false, now.Add(readGap)
		d.active = append(d.active, r)
		return r
	}
	d.readers--
	if len(d.dueProbes) > 0 { // of gates whose probe cannot be read
		d.dispatch(d.now())
	}
	d.checkIdle()
	return nil
}

func (d *Dispatcher) maxData() int { return min(mostWindowData, d.cfg.WindowBytes) }

// absorb puts what a read found into its lane.
func (d *Dispatcher) absorb(r *read, w store.Window, err error) {
	l := r.lane
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	d.active = slices.DeleteFunc(d.active, func(a *read) bool { return a == r })
	l.reading = nil
	switch {
	case errors.Is(err, store.ErrClosed):
		d.close()
	case err != nil:
		d.dropPending(l)
		d.retryRead(l, now, err)
	case !l.on():
		d.dropPending(l)
	default:
		l.readFails = 0
		d.merge(r, w, now)
	}
	d.review(l, now)
	d.dispatch(now)
}

// merge is N10 and N11: rows that memory has, or that moved on meanwhile, are
// left out; fresh ones follow the backlog only if all of it is here now.
func (d *Dispatcher) merge(r *read, w store.Window, now time.Time) {
	l, before := r.lane, len(d.out)
	slices.Sort(r.moved)
	for i := range w.Work {
		row := &w.Work[i]
		l.seen = max(l.seen, row.Ref)
		if _, moved := slices.BinarySearch(r.moved, row.Ref); moved {
			continue
		}
		it := d.out[row.Ref]
		switch {
		case it == nil && (l.skips(row) || store.IsParked(row.Due)):
		case it == nil:
			d.enqueue(l, d.take(l, row, placeWindow, now))
		case it.place == placePending:
			it.place = placeWindow
			d.enqueue(l, it)
		}
	}
	l.backlog = !w.Complete
	if !w.Complete {
		if len(d.out) > before {
			l.readAt = time.Time{} // a backlog is read as fast as it is sent
		} else {
			l.readAt = now.Add(jobGap) // what a job of the store has in hand
		}
		if n := len(w.Work); n > 0 {
			l.nextDue = w.Work[n-1].Due // the rest is due no earlier
		}
		d.dropPending(l)
		return
	}
	for _, it := range l.pending {
		if it.place == placePending {
			it.place = placeWindow
			d.enqueue(l, it) // a canceled one is left out when its turn comes
		}
	}
	l.pending = nil
	l.complete = !l.dirty
	l.nextDue = earlier(w.NextDue, r.expected)
}

// dropPending forgets fresh deliveries that the store has as well.
func (d *Dispatcher) dropPending(l *lane) {
	for _, it := range l.pending {
		if it.place == placePending {
			d.expel(it)
			d.recycle(it)
		}
	}
	l.pending = nil
	l.complete = false
}

// retryRead plans another read after one that went wrong.
func (d *Dispatcher) retryRead(l *lane, now time.Time, err error) {
	wait := min(firstReadBack<<min(l.readFails, 10), mostReadBack)
	l.readFails++
	l.readAt = now.Add(wait)
	if d.phase == phaseRunning {
		d.cfg.Log.Warn("reading a lane went wrong, it is read again",
			slog.String("endpoint", l.endpoint.ID), slog.Duration("wait", wait), slog.Any("error", err))
	}
}

// close stops sending for good: the store is closed (N1).
func (d *Dispatcher) close() {
	if !d.shut {
		d.shut = true
		d.cfg.Log.Error("the store is closed, sending stops")
	}
}
