package dispatch

import (
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// gate holds back what waits for a scope, a URL or an endpoint, after a try that
// failed, until its probe got through (S5, N16). It exists while it is closed.
// What it does is true in memory at once; the store learns of it with the outcome
// that moved it.
//
// A lane is held as a whole, by the head of its window: what stands behind a held
// delivery does not overtake it (N11), whatever its contract. So whenever another
// one becomes the head, or the head may obey another contract, the lane is let go
// and its head is asked: what no gate binds would wait for ever else. What a person
// asked for sorts first, and may pass.
type gate struct {
	key    webhook.GateKey
	closed bool // false once it was opened: an object that flights may still know
	// probe is the delivery that is tried next, at until. 0: the one that closed
	// the gate has no next attempt, and the oldest that waits is tried at once.
	probe     webhook.Ref
	probeLane webhook.EndpointKey
	until     time.Time
	// by is the delivery that closed it, for the record.
	by webhook.Ref
	// probing: the probe is under way, the only one at a time. passing: so is one
	// that a person asked for.
	probing, passing bool
	queued, loading  bool
	alarm            alarm
	// lanes are those whose head it holds.
	lanes map[*lane]struct{}
}

// gateRole says in spite of which closed gate a flight goes out.
type gateRole int

const (
	roleNone  gateRole = iota
	roleProbe          // its outcome moves the gate
	rolePass           // a person asked for it: a success opens, a failure moves nothing
)

// probeGap is the wait before a probe that could not start is looked at again.
const probeGap = 50 * time.Millisecond

// gateKeys are the keys of an endpoint's gates, worked out when one is needed.
type gateKeys struct {
	endpoint *webhook.Endpoint
	url, own webhook.GateKey
}

func (l *lane) gateKeys() *gateKeys {
	if k := l.keys; k == nil || (k.endpoint != l.endpoint && k.endpoint.URL != l.endpoint.URL) {
		l.keys = &gateKeys{
			endpoint: l.endpoint,
			url:      l.endpoint.GateKey(webhook.GateURL), own: l.endpoint.GateKey(webhook.GateEndpoint),
		}
	}
	return l.keys
}

// gateKey is the key of the gate that deliveries of a contract obey in this lane;
// false for a contract without one.
func (l *lane) gateKey(c *contract.Contract) (webhook.GateKey, bool) {
	switch {
	case c == nil || (!c.Gate.Any && len(c.Gate.On) == 0):
		return webhook.GateKey{}, false
	case webhook.GateScope(c.Gate.Scope) == webhook.GateURL:
		return l.gateKeys().url, true
	default:
		return l.gateKeys().own, true
	}
}

// gateOf finds the closed gate that a delivery of a contract stands before.
func (d *Dispatcher) gateOf(l *lane, c *contract.Contract) *gate {
	if len(d.gates) == 0 {
		return nil
	}
	key, ok := l.gateKey(c)
	if !ok {
		return nil
	}
	return d.gates[key]
}

// gatesOf lists the closed gates of a lane's scopes, whatever contract closed
// them.
func (d *Dispatcher) gatesOf(l *lane) (found []*gate) {
	if len(d.gates) == 0 || l.endpoint == nil {
		return nil
	}
	keys := l.gateKeys()
	for _, key := range []webhook.GateKey{keys.url, keys.own} {
		if g := d.gates[key]; g != nil {
			found = append(found, g)
		}
	}
	return found
}

// askGate tells in what role a lane's head may go out, or holds the lane.
func (d *Dispatcher) askGate(l *lane, c *contract.Contract, it *item, now time.Time) (g *gate, role gateRole, held bool) {
	g = d.gateOf(l, c)
	switch {
	case g == nil:
		return nil, roleNone, false
	case it.work.Ref == g.probe && !g.probing && !now.Before(g.until):
		return g, roleProbe, false
	case it.passes && !g.passing:
		return g, rolePass, false
	}
	d.hold(l, g)
	if g.probe == 0 {
		d.queueProbe(g)
	}
	return g, roleNone, true
}

func (d *Dispatcher) hold(l *lane, g *gate) {
	if l.held != g {
		d.unhold(l)
		l.held = g
		g.lanes[l] = struct{}{}
	}
}

func (d *Dispatcher) unhold(l *lane) {
	if l.held != nil {
		delete(l.held.lanes, l)
		l.held = nil
	}
}

// release has the head of a held lane asked again.
func (d *Dispatcher) release(l *lane, now time.Time) {
	if l.held != nil {
		d.unhold(l)
		d.review(l, now)
	}
}

// enter notes that a flight goes out in spite of a gate.
func (f *flight) enter(g *gate, role gateRole) {
	f.gate, f.role = g, role
	switch role {
	case roleProbe:
		g.probing = true
	case rolePass:
		g.passing = true
	case roleNone:
	}
}

// leaveGate takes a flight out of its role. concluded: its try had an outcome,
// which has moved the gate already.
func (d *Dispatcher) leaveGate(f *flight, concluded bool, now time.Time) {
	g := f.gate
	switch f.role {
	case roleNone:
		return
	case rolePass:
		g.passing = false
		for l := range g.lanes {
			d.review(l, now)
		}
	case roleProbe:
		g.probing = false
		switch {
		case !g.closed:
		case concluded:
			if g.probe == 0 { // it has no next attempt, so the oldest is tried at once
				d.queueProbe(g)
			}
		case f.how == howMissing, f.how == howExpired:
			d.unprobe(g)
		default:
			d.queueProbe(g)
		}
	}
	f.gate, f.role = nil, roleNone
}

// moveGate does what an outcome does to the gate of its scope.
func (d *Dispatcher) moveGate(f *flight, a contract.Answer, now time.Time) {
	l, delivered := f.lane, f.dec.Status == contract.StatusDelivered
	if delivered && len(d.gates) == 0 && len(d.owedGates) == 0 {
		return // as nearly always
	}
	key, ok := l.gateKey(f.contract)
	if !ok || l.deleted {
		return
	}
	g := d.gates[key]
	probed := g != nil && f.gate == g && f.role == roleProbe
	switch {
	case f.endpoint.URL != l.endpoint.URL: // it says nothing about the present one
		if probed {
			d.unprobe(g)
		}
	case delivered:
		_, owed := d.owedGates[key]
		f.moves = f.moves || g != nil || owed
		if g != nil {
			d.openGate(g, l, now)
		}
	case f.it.work.Trigger == contract.TriggerTest:
	case f.outcome.Fault != webhook.FaultNone:
		if probed {
			d.unprobe(g) // nothing was sent
		}
	case !f.contract.ClosesGate(a):
		if probed { // its time is over, and this answer begins no other
			f.moves = true
			d.openGate(g, l, now)
		}
	case g == nil || probed:
		d.closeGate(key, f)
		f.moves = true
	}
	if f.moves {
		f.gateKey = key
		delete(d.owedGates, key)
	}
}

// closeGate closes a gate until the next attempt of the delivery that failed.
func (d *Dispatcher) closeGate(key webhook.GateKey, f *flight) {
	g := d.addGate(key)
	l := f.lane
	l.epoch.Add(1) // what is picked and not begun looks again
	d.setProbe(g, 0)
	g.by, g.until = f.it.work.Ref, f.nextAt
	if f.dec.Status == contract.StatusPending && f.dec.Ending == contract.ByRetry {
		d.setProbe(g, g.by)
		g.probeLane = l.key
		d.setAlarm(&g.alarm, g.until)
		return
	}
	d.queueProbe(g)
}

func (d *Dispatcher) addGate(key webhook.GateKey) *gate {
	g := d.gates[key]
	if g == nil {
		g = &gate{key: key, closed: true, lanes: map[*lane]struct{}{}}
		g.alarm.gate = g
		d.gates[key] = g
	}
	return g
}

// openGate lets go what a gate held, oldest first in each lane, slowly at first.
func (d *Dispatcher) openGate(g *gate, by *lane, now time.Time) {
	d.dropGate(g)
	by.pace = 1
	for l := range g.lanes {
		d.unhold(l)
		l.pace = 1
		d.review(l, now)
	}
}

func (d *Dispatcher) dropGate(g *gate) {
	g.closed = false
	delete(d.gates, g.key)
	d.setProbe(g, 0)
	d.setAlarm(&g.alarm, time.Time{})
}

func (d *Dispatcher) setProbe(g *gate, ref webhook.Ref) {
	if g.probe != 0 {
		delete(d.probes, g.probe)
	}
	g.probe = ref
	if ref != 0 {
		d.probes[ref] = g
	}
}

// unprobe is for a probe that has no next attempt: the oldest one that waits is
// tried in its place, at once.
func (d *Dispatcher) unprobe(g *gate) {
	d.setProbe(g, 0)
	d.setAlarm(&g.alarm, time.Time{})
	d.queueProbe(g)
}

// withdraw takes the part of the probe from a lane's deliveries: it went off, or
// to another URL.
func (d *Dispatcher) withdraw(l *lane) {
	for _, g := range d.gatesOf(l) {
		if g.probe != 0 && g.probeLane == l.key {
			d.unprobe(g)
		}
	}
}

// letProbeOut lets one probe out at once, since the lane was switched on, or has
// a new URL.
func (d *Dispatcher) letProbeOut(l *lane) {
	for _, g := range d.gatesOf(l) {
		if !g.probing {
			d.unprobe(g)
		}
	}
}

// gateMove is what the store is told of a gate: how it is now. Outcomes of several
// lanes may be written in another order than they came; the last one written
// tells the truth.
func (d *Dispatcher) gateMove(key webhook.GateKey) *store.GateMove {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := &store.GateMove{Key: key}
	if g := d.gates[key]; g != nil {
		m.Until, m.Probe = g.until, g.by
		if g.probe != 0 {
			m.Probe = g.probe
		}
	}
	return m
}
