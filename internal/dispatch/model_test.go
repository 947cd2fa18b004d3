package dispatch

import (
	"context"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// TestEngine_Model plays random interleavings of offers, reads, changes, faults
// and restarts, and checks after each request and at the end: never two requests
// at once for one delivery; none after its end, after its endpoint's pause, or
// after a success that was seen; fresh events of a lane in their order; no
// request without a row in the log unless a crash took it; none of a key before the
// one in front of it ended; none under a mark; every delivery ends, and every gate
// opens.
func TestEngine_Model(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) {
			m := newModel(t)
			defer m.rig.close()
			t.Repeat(map[string]func(*rapid.T){
				"publish":       m.publish,
				"publish late":  m.publishLate,
				"publish, lost": m.publishLost,
				"schedule":      m.schedule,
				"send a test":   m.sendTest,
				"cancel":        m.cancel,
				"in line":       m.publishKeyed,
				"resend":        m.resend,
				"skip":          m.skip,
				"write skips":   m.writeSkips,
				"enable":        m.enable,
				"catch up":      m.catchUp,
				"switch":        m.switchEndpoint,
				"behave":        m.behave,
				"store faults":  m.storeFaults,
				"stall":         m.stall,
				"kill":          m.kill,
				"drain":         m.drain,
				"wait a moment": func(t *rapid.T) { m.wait(t, 20*time.Millisecond) },
				"wait long":     func(t *rapid.T) { m.wait(t, 2*time.Minute) },
				"":              func(*rapid.T) {},
			})
			m.finish()
		})
	})
}

const modelEndpoints = 3

// behaviour is how an endpoint's receiver answers.
type behaviour struct {
	takes  time.Duration
	answer webhook.Outcome
}

type model struct {
	rig     *rig
	t       *rapid.T
	stalled bool
	unsaid  bool // events were accepted that nobody offered

	mu       sync.Mutex
	behaves  map[webhook.EndpointKey]behaviour
	offAt    map[webhook.EndpointKey]time.Time // when a pause was acknowledged
	ordered  map[webhook.Ref]bool              // offered in order, so sent in order
	newest   map[webhook.EndpointKey]webhook.Ref
	marks    map[webhook.EndpointKey]mark
	requests map[webhook.Ref]int
	answered map[webhook.Ref]int // with a 2xx
	faulted  map[webhook.Ref]int // no handle was left
	lost     map[webhook.Ref]int // a crash may have taken a request's row
}

// mark is an acknowledged mark: what has a seat before it is skipped.
type mark struct {
	before webhook.Ref
	at     time.Time
}

func newModel(t *rapid.T) *model {
	m := &model{
		t: t, behaves: map[webhook.EndpointKey]behaviour{}, offAt: map[webhook.EndpointKey]time.Time{},
		marks: map[webhook.EndpointKey]mark{}, ordered: map[webhook.Ref]bool{}, newest: map[webhook.EndpointKey]webhook.Ref{},
		requests: map[webhook.Ref]int{}, answered: map[webhook.Ref]int{}, faulted: map[webhook.Ref]int{}, lost: map[webhook.Ref]int{},
	}
	m.rig = newRig(t, Config{
		Slots:         rapid.IntRange(1, 12).Draw(t, "slots"),
		WindowRows:    rapid.IntRange(1, 6).Draw(t, "rows"),
		HandoverBytes: rapid.SampledFrom([]int{1, 20, 1 << 20}).Draw(t, "bytes"),
	})
	for key := webhook.EndpointKey(1); key <= modelEndpoints; key++ {
		m.behaves[key] = behaviour{answer: status(200)}
		m.rig.endpoint(key, func(e *webhook.Endpoint) {
			e.Contract = "plain"
			e.MaxInFlight = int(key) // order is exact in the lane of one at a time
			if key > 1 {
				e.Contract, e.URL = "gated", "https://shared.example/"
			}
		})
	}
	m.rig.recv.onSend = m.onSend
	m.rig.recv.answer = m.answer
	m.rig.start()
	return m
}

// onSend checks what must hold when a request begins.
func (m *model) onSend(s Shot) {
	now, ref, key := time.Now(), s.Work.Ref, s.Endpoint.Key
	r := m.rig.db.get(ref)
	ahead := m.rig.db.ahead(ref)
	m.mu.Lock()
	defer m.mu.Unlock()
	if ahead != 0 && r.work.Round == 1 {
		m.t.Errorf("delivery %d goes out before %d of its key has ended", ref, ahead)
	}
	if mk, is := m.marks[key]; is && s.Work.Seat < mk.before && now.After(mk.at) && s.Work.Trigger != contract.TriggerTest {
		m.t.Errorf("delivery %d goes out although a mark skips it", ref)
	}
	m.requests[ref]++
	if r.status.Final() && now.After(r.ended) {
		m.t.Errorf("delivery %d goes out after it ended %s", ref, r.status)
	}
	if off, is := m.offAt[key]; is && now.After(off) && s.Work.Trigger != contract.TriggerTest {
		m.t.Errorf("delivery %d goes out although its endpoint is off", ref)
	}
	if now.Before(s.Work.Due) {
		m.t.Errorf("delivery %d goes out %v early", ref, s.Work.Due.Sub(now))
	}
	if string(s.Work.Data) != `{"a":1}` {
		m.t.Errorf("delivery %d goes out with %q", ref, s.Work.Data)
	}
	if m.requests[ref] == 1 && m.ordered[ref] && key == 1 && !s.Work.ByPerson {
		if ref < m.newest[key] {
			m.t.Errorf("delivery %d was overtaken by %d", ref, m.newest[key])
		}
		m.newest[key] = ref
	}
}

func (m *model) answer(ctx context.Context, s Shot) webhook.Outcome {
	m.mu.Lock()
	b := m.behaves[s.Endpoint.Key]
	m.mu.Unlock()
	select {
	case <-time.After(b.takes):
	case <-ctx.Done():
		return webhook.Outcome{Kind: webhook.KindNetwork, Fault: webhook.FaultShutdown}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if b.answer.Delivered() {
		m.answered[s.Work.Ref]++
		if m.answered[s.Work.Ref] > s.Work.Round+m.lost[s.Work.Ref] {
			m.t.Errorf("delivery %d succeeded twice", s.Work.Ref)
		}
	}
	if b.answer.Fault == webhook.FaultHandles {
		m.faulted[s.Work.Ref]++
	}
	return b.answer
}

func drawEndpoint(t *rapid.T) webhook.EndpointKey {
	return webhook.EndpointKey(rapid.IntRange(1, modelEndpoints).Draw(t, "endpoint"))
}

// accept commits deliveries; nothing can be accepted while the store stands still.
func (m *model) accept(t *rapid.T, tpl template) []store.Work {
	if m.stalled {
		t.Skip("the store stands still")
	}
	tpl.endpoint = drawEndpoint(t)
	if rapid.IntRange(0, 3).Draw(t, "moved") == 0 {
		tpl.contract = "plain" // no gate binds it, in the lane of some that one does
	}
	return m.rig.commit(rapid.IntRange(1, 5).Draw(t, "n"), tpl)
}

func (m *model) publish(t *rapid.T) {
	works := m.accept(t, template{})
	if !m.unsaid {
		m.mu.Lock()
		for _, w := range works {
			m.ordered[w.Ref] = true
		}
		m.mu.Unlock()
	}
	m.rig.d.Offer(works)
}

// publishLate is a publisher that is slow to hand over.
func (m *model) publishLate(t *rapid.T) {
	works := m.accept(t, template{})
	wait := time.Duration(rapid.IntRange(0, 100).Draw(t, "ms")) * time.Millisecond
	d := m.rig.d
	time.AfterFunc(wait, func() { d.Offer(works) })
}

// publishLost is a commit whose outcome its caller did not learn.
func (m *model) publishLost(t *rapid.T) {
	works := m.accept(t, template{})
	if rapid.Bool().Draw(t, "told") {
		m.rig.d.Reread([]webhook.EndpointKey{works[0].Endpoint})
	} else {
		m.unsaid = true
	}
}

func (m *model) schedule(t *rapid.T) {
	ahead := time.Duration(rapid.IntRange(0, 90_000).Draw(t, "ms")) * time.Millisecond
	m.rig.d.Offer(m.accept(t, template{due: m.rig.clk.Now().Round(0).Add(ahead)}))
}

func (m *model) sendTest(t *rapid.T) {
	m.rig.d.Offer(m.accept(t, template{trigger: contract.TriggerTest}))
}

// publishKeyed accepts what stands in line, or joins it when its time has come.
func (m *model) publishKeyed(t *rapid.T) {
	tpl := template{key: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")}
	if tpl.joins = rapid.Bool().Draw(t, "joins"); tpl.joins {
		tpl.due = m.rig.clk.Now().Round(0).Add(time.Second)
	}
	m.rig.d.Offer(m.accept(t, tpl))
}

// resend gives a finished delivery of an endpoint that is on another round.
func (m *model) resend(t *rapid.T) {
	ref := webhook.Ref(rapid.IntRange(0, int(m.rig.db.last)).Draw(t, "ref"))
	if m.stalled || ref == 0 {
		t.Skip("nothing to resend")
	}
	row := m.rig.db.get(ref)
	m.mu.Lock()
	_, off := m.offAt[row.work.Endpoint]
	m.mu.Unlock()
	if !row.status.Final() || off || row.work.Trigger == contract.TriggerTest {
		t.Skip("it can't be resent")
	}
	m.rig.db.again(ref, contract.Terms{Trigger: contract.TriggerResend, Once: rapid.Bool().Draw(t, "once")})
}

func (m *model) skip(t *rapid.T) {
	if m.stalled {
		t.Skip("the store stands still")
	}
	key := drawEndpoint(t)
	before := m.rig.db.last + 1
	m.rig.db.skipAll(key, webhook.EndpointPaused)
	m.mu.Lock()
	m.offAt[key] = time.Now()
	m.marks[key] = mark{before: before, at: time.Now()}
	m.mu.Unlock()
}

func (m *model) writeSkips(t *rapid.T) {
	if m.stalled {
		t.Skip("the store stands still")
	}
	m.rig.db.writeSkips(drawEndpoint(t))
}

func (m *model) enable(t *rapid.T) {
	key := drawEndpoint(t)
	m.mu.Lock()
	_, off := m.offAt[key]
	m.mu.Unlock()
	if m.stalled || !off {
		t.Skip("it can't be enabled")
	}
	m.mu.Lock()
	delete(m.offAt, key)
	m.mu.Unlock()
	m.rig.db.enable(key)
}

func (m *model) catchUp(t *rapid.T) {
	if m.stalled {
		t.Skip("the store stands still")
	}
	m.rig.db.catchUpStep(drawEndpoint(t), rapid.IntRange(1, 10).Draw(t, "slice"))
}

func (m *model) cancel(t *rapid.T) {
	last := m.rig.db.last
	if m.stalled || last == 0 {
		t.Skip("nothing to cancel")
	}
	m.rig.db.cancel(webhook.Ref(rapid.IntRange(1, int(last)).Draw(t, "ref")))
}

func (m *model) switchEndpoint(t *rapid.T) {
	if m.stalled {
		t.Skip("the store stands still")
	}
	m.setState(drawEndpoint(t), rapid.SampledFrom([]webhook.EndpointState{
		webhook.EndpointActive, webhook.EndpointActive, webhook.EndpointPaused, webhook.EndpointDisabled,
	}).Draw(t, "state"))
}

func (m *model) setState(key webhook.EndpointKey, state webhook.EndpointState) {
	if state == webhook.EndpointActive {
		m.mu.Lock()
		delete(m.offAt, key)
		m.mu.Unlock()
	}
	m.rig.db.setState(key, state)
	if state != webhook.EndpointActive {
		m.mu.Lock()
		m.offAt[key] = time.Now()
		m.mu.Unlock()
	}
}

func (m *model) behave(t *rapid.T) {
	key := drawEndpoint(t)
	b := behaviour{
		takes: rapid.SampledFrom([]time.Duration{0, time.Millisecond, 300 * time.Millisecond, 4 * time.Second}).Draw(t, "takes"),
		answer: rapid.SampledFrom([]webhook.Outcome{
			status(200), status(200), status(500), {Kind: webhook.KindTimeout},
			{Kind: webhook.KindNetwork, Fault: webhook.FaultHandles}, {Fault: webhook.FaultPrepare},
		}).Draw(t, "answer"),
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.behaves[key] = b
}

func (m *model) storeFaults(t *rapid.T) {
	writes := rapid.IntRange(0, 3).Draw(t, "failing writes")
	unknown := rapid.IntRange(0, 3).Draw(t, "unknown writes")
	reads := rapid.IntRange(0, 2).Draw(t, "failing reads")
	takes := rapid.SampledFrom([]time.Duration{0, time.Millisecond, 30 * time.Millisecond}).Draw(t, "takes")
	m.rig.db.set(func() {
		m.rig.db.commitTakes, m.rig.db.readTakes = takes/2, takes
		m.rig.db.failRecord = countdown[*store.RecordParams](writes, errDisk)
		m.rig.db.afterRecord = countdown[*store.RecordParams](unknown, store.ErrUnknown)
		m.rig.db.failLoad = countdown[webhook.Ref](reads, errDisk)
		fail := countdown[struct{}](reads, errDisk)
		m.rig.db.failRead = func() error { return fail(struct{}{}) }
	})
}

func countdown[T any](n int, err error) func(T) error {
	return func(T) error {
		if n--; n >= 0 {
			return err
		}
		return nil
	}
}

func (m *model) stall(t *rapid.T) {
	m.stalled = rapid.Bool().Draw(t, "on")
	m.rig.db.stall(m.stalled)
}

// kill and drain end the process and start another. What has a request without
// a row then may have been lost; so may outcomes that are not written.
func (m *model) kill(*rapid.T) {
	m.unstall()
	m.rig.kill()
	m.mu.Lock()
	m.rig.db.mu.Lock()
	for ref, n := range m.requests {
		if n > len(m.rig.db.rows[ref].log)+m.lost[ref]+m.faulted[ref] || !m.rig.db.rows[ref].status.Final() {
			m.lost[ref]++
		}
	}
	m.rig.db.mu.Unlock()
	m.mu.Unlock()
	m.rig.start()
}

func (m *model) drain(t *rapid.T) {
	m.unstall()
	grace := time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond
	if err := m.rig.drain(grace); err != nil {
		t.Errorf("%v", err)
	}
	m.rig.start()
}

func (m *model) unstall() {
	m.stalled = false
	m.rig.db.stall(false)
	m.rig.db.set(func() { m.rig.db.failRecord = nil })
}

func (m *model) wait(t *rapid.T, most time.Duration) {
	time.Sleep(time.Duration(rapid.Int64Range(1, int64(most)).Draw(t, "wait")))
}

// finish heals everything and lets time pass: every delivery must end.
func (m *model) finish() {
	m.unstall()
	m.rig.db.set(func() { m.rig.db.afterRecord, m.rig.db.failRead, m.rig.db.failLoad = nil, nil, nil })
	m.mu.Lock()
	for key := range m.behaves {
		m.behaves[key] = behaviour{answer: status(200)}
	}
	m.mu.Unlock()
	for key := webhook.EndpointKey(1); key <= modelEndpoints; key++ {
		m.setState(key, webhook.EndpointActive)
		for !m.rig.db.catchUpStep(key, 10) {
			time.Sleep(time.Millisecond)
		}
		m.rig.db.writeSkips(key)
	}
	if m.unsaid {
		m.rig.d.Reread([]webhook.EndpointKey{1, 2, 3})
	}
	time.Sleep(time.Hour)
	if s := m.rig.d.Stats(); s.InFlight != 0 || s.OnWire != 0 || s.Ready != 0 || s.BytesHeld != 0 || s.Busy != 0 || s.Reads != 0 || s.OldestDue != 0 {
		m.t.Errorf("at rest: %+v", s)
	}
	m.rig.d.mu.Lock()
	if gates, owed := len(m.rig.d.gates), len(m.rig.d.owedGates); gates+owed != len(m.rig.db.gates) && owed == 0 {
		m.t.Errorf("%d gates in memory, %d in the store", gates, len(m.rig.db.gates))
	}
	m.rig.d.mu.Unlock()
	m.rig.db.set(func() {
		for ref, r := range m.rig.db.rows {
			if !r.status.Final() {
				m.t.Errorf("delivery %d of endpoint %d never ended: %s %s, due %v", ref, r.work.Endpoint, r.status, r.reason, r.work.Due)
			}
			if n := m.requests[ref]; n > len(r.log)+m.faulted[ref]+m.lost[ref] {
				m.t.Errorf("delivery %d: %d requests, %d rows, %d faults, %d lost", ref, n, len(r.log), m.faulted[ref], m.lost[ref])
			}
		}
	})
}
