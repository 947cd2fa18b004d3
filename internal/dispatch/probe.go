package dispatch

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// queueProbe has a gate's probe looked at with the next pick: probes go before
// everything else.
func (d *Dispatcher) queueProbe(g *gate) {
	if g.closed && !g.queued && !g.probing {
		g.queued = true
		d.dueProbes = append(d.dueProbes, g)
	}
}

// pickProbe starts the next probe whose time has come.
func (d *Dispatcher) pickProbe(now time.Time) *flight {
	for len(d.dueProbes) > 0 {
		g := d.dueProbes[0]
		d.dueProbes = d.dueProbes[1:]
		g.queued = false
		if !g.closed || g.probing {
			continue
		}
		if it := d.findProbe(g, now); it != nil {
			if f := d.launchProbe(g, it, now); f != nil {
				return f
			}
		}
	}
	d.dueProbes = nil
	return nil
}

// findProbe finds the delivery to try; nil when there is none now.
func (d *Dispatcher) findProbe(g *gate, now time.Time) *item {
	if g.probe == 0 {
		return d.elect(g, now)
	}
	if now.Before(g.until) {
		d.setAlarm(&g.alarm, g.until)
		return nil
	}
	it := d.out[g.probe]
	switch {
	case it == nil:
		if !g.loading {
			g.loading = true
			d.probeReads = append(d.probeReads, g)
		}
		return nil
	case it.place == placeFlight:
		d.setAlarm(&g.alarm, now.Add(probeGap)) // an outcome of it is not written yet
		return nil
	default:
		return it
	}
}

// elect chooses the oldest of those that wait for the gate in the held lanes. What
// the gate does not bind is no probe of it, though it waits there too.
func (d *Dispatcher) elect(g *gate, now time.Time) (best *item) {
	for l := range g.lanes {
		it := l.window.find(func(it *item) bool {
			return !it.canceled && !it.passes && !it.work.Joins && d.binds(g, l, it)
		})
		switch {
		case it == nil:
		case !l.mayProbe(now):
			d.setAlarm(&g.alarm, now.Add(probeGap))
		case best == nil || it.seat() < best.seat():
			best = it
		}
	}
	return best
}

// binds tells whether a delivery of a lane obeys the gate.
func (d *Dispatcher) binds(g *gate, l *lane, it *item) bool {
	key, ok := l.gateKey(d.contractFor(l, &it.work))
	return ok && key == g.key
}

// mayProbe tells whether a probe of the lane may start now: all that an attempt
// needs, but for the adaptive limit.
func (l *lane) mayProbe(now time.Time) bool {
	return l.on() && l.barred == 0 && !l.starved && !now.Before(l.restUntil) && l.onWire < l.most()
}

// launchProbe asks the rules before a try and starts the probe. Where it has the
// gate looked at again at once, the gate is left with one candidate less: pickProbe
// comes to an end by that.
func (d *Dispatcher) launchProbe(g *gate, it *item, now time.Time) *flight {
	l := it.lane
	c := d.contractFor(l, &it.work)
	verdict := d.before(c, l, &it.work, now)
	switch verdict {
	case contract.Drop, contract.Hold:
		d.leaveWindow(it)
		l.distrust()
		d.expel(it)
		d.recycle(it)
		d.unprobe(g)
		d.review(l, now)
		return nil
	case contract.WaitForTime:
		g.until = it.work.Due
		d.setAlarm(&g.alarm, g.until)
		return nil
	case contract.Try, contract.EndMissing, contract.EndExpired:
	}
	if !d.binds(g, l, it) {
		if g.probe == it.work.Ref {
			d.unprobe(g) // it went to another scope
		}
		return nil
	}
	if !l.mayProbe(now) || d.starve(l, it) {
		d.setAlarm(&g.alarm, now.Add(probeGap))
		return nil
	}
	d.leaveWindow(it)
	f := d.launch(l, it, c, verdict, now)
	f.enter(g, roleProbe)
	d.review(l, now)
	return f
}

// leaveWindow takes a delivery out of the middle of its lane's window.
func (d *Dispatcher) leaveWindow(it *item) {
	l := it.lane
	if it.place == placePending {
		l.pending = slices.DeleteFunc(l.pending, func(p *item) bool { return p == it })
		return
	}
	if l.window.first() == it {
		d.unhold(l)
	}
	l.window.remove(it)
}

// nextProbeRead begins the reading of a probe that is not in memory: it may stand
// behind a large backlog, where no window comes to it.
func (d *Dispatcher) nextProbeRead() *read {
	for len(d.probeReads) > 0 {
		g := d.probeReads[0]
		d.probeReads = d.probeReads[1:]
		l := d.lanes[g.probeLane]
		if g.closed && g.probe != 0 && l != nil {
			r := &read{lane: l, gate: g, probe: g.probe}
			d.active = append(d.active, r)
			return r
		}
		g.loading = false
		if g.closed && g.probe != 0 {
			d.unprobe(g)
		}
	}
	d.probeReads = nil
	return nil
}

// absorbProbe takes a probe that was read into its lane's window, from where it
// is started.
func (d *Dispatcher) absorbProbe(r *read, w store.Work, found bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, g := d.now(), r.gate
	d.active = slices.DeleteFunc(d.active, func(a *read) bool { return a == r })
	g.loading = false
	l := d.lanes[w.Endpoint]
	switch {
	case errors.Is(err, store.ErrClosed):
		d.close()
	case !g.closed || g.probe != r.probe:
	case err != nil:
		d.setAlarm(&g.alarm, now.Add(firstRest))
		if d.phase == phaseRunning {
			d.cfg.Log.Warn("reading a gate's probe went wrong, it is read again", slog.Any("error", err))
		}
	case slices.Contains(r.moved, r.probe), d.out[r.probe] != nil:
		d.queueProbe(g) // what was read may be old
	case !found, l == nil, !l.on(), store.IsParked(w.Due), l.skips(&w):
		d.unprobe(g)
	case w.Due.After(now):
		g.until = w.Due
		d.setAlarm(&g.alarm, g.until)
	default:
		d.enqueue(l, d.admit(l, &w, placeWindow))
		d.queueProbe(g)
		d.review(l, now)
	}
	d.dispatch(now)
}

// loadGates takes over the gates that the last process left closed.
func (d *Dispatcher) loadGates(closed []store.Gate) {
	for i := range closed {
		g := d.addGate(closed[i].Key)
		g.until, g.by, g.probeLane = closed[i].Until, closed[i].Probe, closed[i].ProbeEndpoint
		d.setProbe(g, g.by)
		d.queueProbe(g)
	}
}

// lostProbe looks whether a delivery that goes no more was a gate's probe.
func (d *Dispatcher) lostProbe(ref webhook.Ref) {
	if g := d.probes[ref]; g != nil && !g.probing {
		d.unprobe(g)
	}
}
