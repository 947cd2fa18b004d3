package demo_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthorn/posthorn/client"
	"github.com/posthorn/posthorn/internal/cli/demo"
)

// recorder keeps what a view is told.
type recorder struct {
	mu       sync.Mutex
	requests []demo.Request
	rows     []demo.Row
}

func (v *recorder) Request(r demo.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.requests = append(v.requests, r)
}

func (v *recorder) Table(rows []demo.Row) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.rows = rows
}

// run shows the demo against a fake for a moment.
func run(t *testing.T, f *fake) (demo.Summary, *recorder) {
	t.Helper()
	v := &recorder{}
	receiver := httptest.NewUnstartedServer(nil)
	d := demo.New(demo.Config{
		API: &client.Client{BaseURL: f.URL}, Receiver: "http://" + receiver.Listener.Addr().String(),
		For: 1600 * time.Millisecond, Patience: 300 * time.Millisecond, Now: time.Now, View: v, Random: rand.New(rand.NewPCG(1, 2)),
	})
	receiver.Config.Handler = d.Handler()
	receiver.Start()
	defer receiver.Close()
	defer d.Release()
	start := time.Now()
	s, err := d.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 1600*time.Millisecond {
		t.Errorf("it ended after %v, before its time", took)
	}
	return s, v
}

func TestDemo_AllArrives(t *testing.T) {
	t.Parallel()
	s, v := run(t, newFake(t))
	if !s.OK() || s.Accepted < 3 || s.Missing != 0 || s.Duplicates != 0 || s.Refused != 0 || s.Retrying == 0 {
		t.Errorf("got %+v", s)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	answers := map[string]string{}
	for _, r := range v.requests {
		answers[r.Station] += r.Answer + " "
	}
	if !strings.Contains(answers["flaky"], "500 500 200") || !strings.Contains(answers["moved"], "302") || !strings.Contains(answers["silent"], "timeout") {
		t.Errorf("answers %v", answers)
	}
	if len(v.rows) != 5 || v.rows[0].Delivered != s.Accepted || v.rows[0].Waiting != 3 {
		t.Errorf("rows %+v", v.rows)
	}
}

func TestDemo_NoticesWhatIsMissing(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.forget = "flaky"
	if s, _ := run(t, f); s.OK() || s.Missing == 0 || !strings.Contains(s.Text(), "that should have arrived did not") {
		t.Errorf("got %+v", s)
	}
}

func TestDemo_NoticesBadSignatures(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.forge = true
	s, v := run(t, f)
	if s.OK() || s.Verified != 0 || s.Refused == 0 || s.Missing == 0 {
		t.Errorf("got %+v", s)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.requests[0].Refused == nil || v.requests[0].Answer != "401" {
		t.Errorf("got %+v", v.requests[0])
	}
}

func TestDemo_CountsDuplicates(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.twice = true
	if s, _ := run(t, f); s.Duplicates == 0 || !s.OK() { // at least once is what is promised
		t.Errorf("got %+v", s)
	}
}

func TestDemo_EndsWithTheServersError(t *testing.T) {
	t.Parallel()
	d := demo.New(demo.Config{API: &client.Client{BaseURL: "http://127.0.0.1:1"}, Now: time.Now, View: &recorder{}})
	if _, err := d.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "create the endpoint healthy") {
		t.Errorf("got %v", err)
	}
}

// The whole of a view fits a terminal of the usual size.
func TestLive_Fits(t *testing.T) {
	t.Parallel()
	var screen bytes.Buffer
	height := 24
	live := &demo.Live{W: &screen, Note: []string{"a note"}, Size: func() (int, int) { return 80, height }}
	id := "evt_01k8x3m5t2f4v9z7q1c6b8n0da"
	var rows []demo.Row
	for _, s := range []string{"healthy", "silent"} {
		for range 40 {
			live.Request(demo.Request{Station: s, Type: "link.created", Event: id, Try: 12, Answer: "timeout"})
		}
		rows = append(rows, demo.Row{Station: s, About: "429 Retry-After, 200", Requests: 12345678, Failures: 123456, Delivered: 123456789, Waiting: 1234567, Last: "timeout"})
	}
	draw := func() []string {
		screen.Reset()
		live.Table(rows)
		return strings.Split(strings.TrimSuffix(screen.String(), "\n\x1b[J"), "\n")
	}
	lines := draw()
	if len(lines) != height-1 {
		t.Errorf("%d lines on a screen of %d", len(lines), height)
	}
	valid := 0
	for _, l := range lines {
		text := strings.TrimPrefix(l, "\r\x1b[K")
		if n := len([]rune(text)); n > 80 {
			t.Errorf("%d columns: %q", n, text)
		}
		if strings.HasSuffix(text, "signature valid") {
			valid++
		}
	}
	if valid != 17 { // a head, two rows, the note and two empty lines are above
		t.Errorf("%d requests in\n%s", valid, strings.Join(lines, "\n"))
	}
	if !strings.Contains(lines[0], "DELIVERED  WAITING  LAST") || !strings.HasSuffix(lines[4], "a note") {
		t.Errorf("got\n%s", strings.Join(lines, "\n"))
	}
	// It is drawn over itself, whatever the size is by then.
	height = 9
	if smaller := draw(); len(smaller) != 8 || !strings.HasPrefix(smaller[0], "\x1b[23A\r\x1b[K") {
		t.Errorf("%d lines, beginning with %q", len(smaller), smaller[0])
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	r := demo.Request{At: time.Unix(0, 0), Station: "flaky", Type: "click", Event: "evt_1", Try: 2, Answer: "500"}
	var lines bytes.Buffer
	demo.Lines{W: &lines}.Request(r)
	if want := "00:00:00  flaky    click         try 2  → 500      signature valid  evt_1\n"; lines.String() != want {
		t.Errorf("got %q, want %q", lines.String(), want)
	}
	lines.Reset()
	r.Refused = errors.New("no")
	demo.Lines{W: &lines}.Request(r)
	if !strings.Contains(lines.String(), "signature BAD: no") {
		t.Errorf("got %q", lines.String())
	}
}

func TestSummary_Text(t *testing.T) {
	t.Parallel()
	s := demo.Summary{Accepted: 100, Deliveries: 200, Delivered: 123456, Retrying: 123456, UnderWay: 1234, Failed: 12345, Verified: 123456}
	if !strings.Contains(s.Text(), "moved and silent never take a delivery, on purpose") {
		t.Errorf("got %s", s.Text())
	}
	for line := range strings.Lines(s.Text()) {
		if len(line) > 81 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
}
