package app

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/posthorn/posthorn/client"
	"github.com/posthorn/posthorn/internal/store/sqlite"
)

// limitFiles keeps the running process from making files larger than size: what
// it writes beyond fails, as on a disk that is full or breaks.
func (p *process) limitFiles(size uint64) {
	p.t.Helper()
	limit := unix.Rlimit{Cur: size, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		p.t.Fatal(err)
	}
}

// A commit that fails is answered with no success; what was answered with one
// before is there after the restart that the failure asks for (N1).
func TestReceive_R2_FailedCommitIsNoSuccess(t *testing.T) {
	t.Parallel()
	p := launch(t, t.TempDir())
	p.endpoint("https://receiver.example/", events("never.sent"))
	acked := []string{p.send(`0`)}
	log, err := os.Stat(filepath.Join(p.dir, sqlite.FileName+"-wal"))
	if err != nil {
		t.Fatal(err)
	}
	p.limitFiles(uint64(log.Size()) + 200<<10)
	for len(acked) < 10_000 {
		code, header, answer := p.raw(http.MethodPost, "/v1/events", "application/json", []byte(`{"type":"thing.happened","data":{"n":1}}`))
		if code != http.StatusAccepted {
			if code != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || !strings.Contains(string(answer), "may have been accepted or not") {
				t.Errorf("%d %s", code, answer)
			}
			break
		}
		acked = append(acked, idOf(answer))
	}
	if code := p.exitCode(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if line := lastLine(p.stderr.String()); !strings.HasPrefix(line, "posthorn: the server stopped: the database failed: ") {
		t.Errorf("it says %q", line)
	}

	p = p.again()
	acked = append(acked, p.send(`1`))
	stored := map[string]bool{}
	for e, err := range p.AllEvents(t.Context(), client.EventFilter{}, client.PageOptions{Limit: 250}) {
		if err != nil {
			t.Fatal(err)
		}
		stored[e.ID] = true
	}
	for _, id := range acked {
		if !stored[id] {
			t.Errorf("%s was acknowledged and is lost", id)
		}
	}
	if n := len(stored) - len(acked); n < 0 || n > 1 {
		t.Errorf("%d events are stored, %d were acknowledged", len(stored), len(acked))
	}
}
