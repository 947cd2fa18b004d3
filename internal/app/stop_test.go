package app

import (
	"slices"
	"testing"
	"time"

	"github.com/posthorn/posthorn/client"
)

// SIGTERM with a hundred requests under way, several times in a row: they end
// within the grace, no endpoint is blamed, and each start goes on.
func TestFault_B50_StopsWithRequestsUnderWay(t *testing.T) {
	t.Parallel()
	// A lane begins with eight at once.
	const endpoints, each, cycles = 12, 8, 3
	r := newReceiver(t)
	p := launch(t, t.TempDir())
	var to []string
	for range endpoints {
		to = append(to, p.endpoint(r.url("/")).ID)
	}
	var sent []string
	for cycle := range cycles {
		open := make(chan struct{})
		r.on("/", held(open, status(200)))
		sent = append(sent, p.flood(each)...)
		eventually(t, "a hundred requests under way", func() bool { return r.waiting() == endpoints*each })
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			if code, took := p.terminate(); code != 0 || took > 20*time.Second {
				t.Errorf("cycle %d: exit code %d after %s", cycle, code, took)
			}
		}()
		// It takes nothing new, and waits for what is under way.
		eventually(t, "a closed door", func() bool {
			_, err := p.GetLimits(t.Context())
			return err != nil
		})
		select {
		case <-stopped:
			t.Error("it did not wait for the requests")
		default:
		}
		close(open)
		<-stopped
		p = p.again()
	}
	for _, e := range to {
		checkEnded(p.caller, e, len(sent))
		if got, err := p.GetEndpoint(t.Context(), e); err != nil || got.Health.FailuresInRow != 0 {
			t.Errorf("health %+v, %v", got.Health, err)
		}
	}
	got := sorted(ids(r.at("/")))
	if len(got) != endpoints*len(sent) || !slices.Equal(slices.Compact(got), sorted(sent)) {
		t.Errorf("%d requests for %d events at %d endpoints", len(got), len(sent), endpoints)
	}
	for _, d := range p.list(client.DeliveryFilter{}) {
		if d.AttemptCount != 1 || d.FailureKind != "" {
			t.Errorf("delivery %s: %d attempts, %q", d.ID, d.AttemptCount, d.FailureKind)
		}
	}
}

// A receiver that never answers holds nobody up: what still runs at the end of
// the grace is put back, not counted, and due at once after the restart.
func TestFault_B50_NeverAnsweringReceiver(t *testing.T) {
	t.Parallel()
	const wire = 8 // what a lane begins with
	const grace = time.Second
	r := newReceiver(t)
	r.on("/", hang())
	p := launch(t, t.TempDir(), "--shutdown-grace", grace.String())
	e := p.endpoint(r.url("/"))
	sent := p.flood(wire)
	for cycle := range 2 {
		r.await("/", (cycle+1)*wire)
		if code, took := p.terminate(); code != 0 || took > grace+3*time.Second {
			t.Errorf("exit code %d after %s", code, took)
		}
		p = p.again()
	}
	r.await("/", 3*wire)
	r.on("/", status(200))
	p.kill() // what hangs now hangs for the rest of its 15 s
	p = p.again()
	checkEnded(p.caller, e.ID, wire)
	for _, id := range sent {
		d := p.only(id)
		if d.AttemptCount != 1 {
			t.Errorf("%s: %d attempts are counted", id, d.AttemptCount)
		}
		for _, a := range d.Attempts[:len(d.Attempts)-1] {
			if a.FailureKind != "" || a.StatusCode != 0 || a.Try != 1 {
				t.Errorf("%s: a stop is shown as %+v", id, a)
			}
		}
	}
	if got, err := p.GetEndpoint(t.Context(), e.ID); err != nil || got.Health.FailuresInRow != 0 {
		t.Errorf("health %+v, %v", got.Health, err)
	}
}
