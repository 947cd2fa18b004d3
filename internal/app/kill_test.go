package app

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthorn/posthorn/client"
)

// checkEnded checks that all deliveries of an endpoint are delivered, and none
// shows what did not happen.
func checkEnded(c caller, endpoint string, want int) {
	c.t.Helper()
	eventually(c.t, "all delivered", func() bool { return c.count(endpoint, client.StatusDelivered) == want })
	if n := c.count(endpoint); n != want {
		c.t.Errorf("%d deliveries, want %d", n, want)
	}
}

const textInterrupted = "interrupted: outcome unknown"

func TestFault_B01_KilledWhileSending(t *testing.T) {
	t.Parallel()
	const events, wire = 500, 8 // at once, as a lane begins
	r := newReceiver(t)
	open := make(chan struct{})
	r.on("/", held(open, status(200)))
	p := launch(t, t.TempDir())
	e := p.endpoint(r.url("/"), func(e *client.NewEndpoint) { e.MaxInFlight = wire })
	sent := p.flood(events)
	r.await("/", wire)
	// Those of over a second are shown; only of them can a restart know.
	eventually(t, "deliveries shown as sending", func() bool { return p.count(e.ID, client.StatusSending) == wire })
	p.kill()
	first := r.at("/")
	close(open) // from now on it answers at once

	p = p.again()
	if n := p.count(e.ID, client.StatusSending); n != 0 {
		t.Errorf("%d deliveries are shown as sending right after the start", n)
	}
	checkEnded(p.caller, e.ID, events)
	all := r.at("/")
	if got := slices.Compact(sorted(ids(all))); !slices.Equal(got, sorted(sent)) {
		t.Errorf("%d events arrived, %d were sent", len(got), len(sent))
	}
	if len(all) > events+len(first) {
		t.Errorf("%d requests for %d events, %d were under way", len(all), events, len(first))
	}
	checkAll(t, e.Secret, all)
	for _, q := range first {
		d := p.only(q.id())
		if len(d.Attempts) != 2 || d.AttemptCount != 1 {
			t.Fatalf("%s: %d attempts, %d counted", q.id(), len(d.Attempts), d.AttemptCount)
		}
		cut, done := d.Attempts[0], d.Attempts[1]
		if cut.Error != textInterrupted || cut.StatusCode != 0 || cut.Number != 1 || cut.Try != 1 {
			t.Errorf("the interrupted try is shown as %+v", cut)
		}
		if done.StatusCode != 200 || done.Number != 2 || done.Try != 1 {
			t.Errorf("its repetition is shown as %+v", done)
		}
	}
	if got, err := p.GetEndpoint(t.Context(), e.ID); err != nil || got.Health.FailuresInRow != 0 {
		t.Errorf("health %+v, %v", got.Health, err)
	}
}

// publishers post events in requests of a hundred until so many are acknowledged
// or the server is gone.
type publishers struct {
	running sync.WaitGroup
	most    int
	mu      sync.Mutex
	acked   []string
	refused map[int]int
}

func flooding(c caller, n, most int) *publishers {
	w := &publishers{most: most, refused: map[int]int{}}
	for range n {
		w.running.Go(func() { w.publish(c) })
	}
	return w
}

func (w *publishers) publish(c caller) {
	batch := slices.Repeat([]client.NewEvent{{Type: "thing.happened", Data: []byte(`{"n":1}`)}}, 100)
	for w.count() < w.most {
		results, err := c.SendEvents(c.t.Context(), batch)
		w.mu.Lock()
		for _, r := range results {
			if r.Accepted() {
				w.acked = append(w.acked, r.ID)
			} else {
				w.refused[r.Status]++
			}
		}
		w.mu.Unlock()
		if err != nil {
			return // the server is gone
		}
	}
}

func (w *publishers) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked)
}

// A receiver that answers nothing, events far faster than it, and kill -9: what
// was answered with 2xx is there after the restart.
func TestFault_B09_EveryAcknowledgedEventSurvives(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	open := make(chan struct{})
	r.on("/", held(open, status(200)))
	p := launch(t, t.TempDir())
	e := p.endpoint(r.url("/"))
	w := flooding(p.caller, 4, 20_000)
	eventually(t, "4,000 events acknowledged", func() bool { return w.count() >= 4000 })
	p.kill()
	w.running.Wait()
	close(open)
	for code, n := range w.refused {
		if code != 503 {
			t.Errorf("%d events were refused with %d", n, code)
		}
	}
	p = p.again()
	p.drained(e.ID)
	arrived := map[string]bool{}
	for _, q := range r.at("/") {
		arrived[q.id()] = true
	}
	lost := slices.DeleteFunc(w.acked, func(id string) bool { return arrived[id] })
	t.Logf("%d acknowledged, %d arrived, %d requests", w.count(), len(arrived), len(r.at("/")))
	if len(lost) != 0 {
		t.Errorf("%d acknowledged events were lost, among them %s", len(lost), lost[0])
	}
}

func TestEngine_N1_AnsweredIsDurable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newReceiver(t)
	p := launch(t, dir)
	e := p.endpoint(r.url("/"), events("never.sent"))
	var acked []string
	for range 3 {
		acked = append(acked, p.send(`{"at":"the last moment"}`))
		p.kill() // right after the answer
		p = p.again()
	}
	for _, id := range acked {
		got, err := p.GetEvent(t.Context(), id)
		if err != nil || string(got.Data) != `{"at":"the last moment"}` {
			t.Errorf("event %s: %s, %v", id, got.Data, err)
		}
	}
	if got, err := p.GetEndpoint(t.Context(), e.ID); err != nil || got.URL != r.url("/") {
		t.Errorf("endpoint %+v, %v", got, err)
	}
}

// An attempt of over a second is shown; killed in it, the log says so; the third
// time in a row counts as a failure.
func TestEngine_N14_KilledThreeTimesInTheMiddle(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.on("/", hang(), hang(), hang(), status(200))
	p := launch(t, t.TempDir(), "--time-lapse", "100000")
	e := p.endpoint(r.url("/"))
	id := p.send(`{}`)
	for round := 1; round <= 3; round++ {
		d := p.until(id, client.StatusSending)
		if len(d.Attempts) != round-1 || d.AttemptCount != 0 {
			t.Fatalf("before kill %d: %d attempts in the log, %d counted", round, len(d.Attempts), d.AttemptCount)
		}
		p.kill()
		p = p.again()
		d = p.only(id)
		if len(d.Attempts) < round || d.Status == client.StatusSending && len(r.at("/")) <= round {
			t.Fatalf("after kill %d: %s with %d attempts", round, d.Status, len(d.Attempts))
		}
		for i, a := range d.Attempts[:round] {
			if a.Error != textInterrupted || a.Number != i+1 || a.Try != 1 || a.StatusCode != 0 {
				t.Errorf("attempt %d is shown as %+v", i+1, a)
			}
		}
	}
	d := p.until(id, client.StatusDelivered)
	if len(d.Attempts) != 4 || d.AttemptCount != 2 {
		t.Errorf("%d attempts, %d counted; the third kill and the success count", len(d.Attempts), d.AttemptCount)
	}
	if kind := d.Attempts[2].FailureKind; kind != client.KindNetwork {
		t.Errorf("the counted interruption has the kind %q", kind)
	}
	if last := d.Attempts[3]; last.Try != 2 || last.Number != 4 || last.StatusCode != 200 {
		t.Errorf("the last attempt is %+v", last)
	}
	checkAll(t, e.Secret, r.at("/"))
}

// One node: the lock on the folder is the lease, so that a start takes over at
// once and a second process is refused.
func TestEngine_N6_RestartTakesOverAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newReceiver(t)
	r.on("/", hang(), status(200))
	p := launch(t, dir)
	p.endpoint(r.url("/"))
	id := p.send(`{}`)
	r.await("/", 1)

	second, _ := spawn(t, dir)
	if code := second.exitCode(); code != 1 {
		t.Errorf("a second server on the folder exits with %d", code)
	}
	line := strings.TrimSpace(second.stderr.String())
	line = lastLine(line)
	if !strings.HasPrefix(line, "posthorn: The data folder "+dir+" is in use by another Posthorn server.") {
		t.Errorf("it says %q", second.stderr)
	}

	p.kill()
	begin := time.Now()
	p = p.again()
	r.await("/", 2)
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("took over after %s", took)
	}
	p.until(id, client.StatusDelivered)
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

func TestStart_PortInUse(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	taken := r.listener.Addr().String()
	p, _ := spawn(t, t.TempDir(), "--listen", taken)
	if code := p.exitCode(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if line := lastLine(p.stderr.String()); !strings.Contains(line, taken) || !strings.Contains(line, "in use") {
		t.Errorf("it says %q", p.stderr)
	}
}

func TestFault_B103_AWrongNetworkStopsTheStart(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{"10.1.2.3/8", "*", "192.168.3", "gitlab.example", "10.0.0.0/8:0"} {
		p, _ := spawn(t, t.TempDir(), "--allow-network", " 192.168.3.207 , "+wrong+",")
		if code := p.exitCode(); code == 0 {
			t.Errorf("%s: the server started", wrong)
		}
		if said := p.stderr.String(); !strings.Contains(said, wrong) || strings.Contains(said, "192.168.3.207 ") {
			t.Errorf("%s: it says %q", wrong, said)
		}
	}
	p := launch(t, t.TempDir(), "--allow-network", " 192.168.3.207, ::ffff:192.168.3.207 ,[fd00::1],")
	if code, _ := p.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
