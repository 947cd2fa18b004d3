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
	s, err := d.Run(t.Context())
	if err != nil {
		t.Fatal(err)
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

func TestViews(t *testing.T) {
	t.Parallel()
	r := demo.Request{At: time.Unix(0, 0), Station: "flaky", Type: "click", Event: "evt_1", Try: 2, Answer: "500"}
	var lines bytes.Buffer
	demo.Lines{W: &lines}.Request(r)
	if want := "00:00:00.000  flaky    click         try 2  → 500                    signature valid  evt_1\n"; lines.String() != want {
		t.Errorf("got %q, want %q", lines.String(), want)
	}
	lines.Reset()
	r.Refused = errors.New("no")
	demo.Lines{W: &lines}.Request(r)
	if !strings.Contains(lines.String(), "signature BAD: no") {
		t.Errorf("got %q", lines.String())
	}

	var screen bytes.Buffer
	live := &demo.Live{W: &screen, Width: 20}
	for range 20 {
		live.Request(r)
	}
	rows := []demo.Row{{Station: "flaky", About: "500, 500, then 200", Requests: 4, Delivered: 1}}
	live.Table(rows)
	first := screen.String()
	screen.Reset()
	live.Table(rows)
	// A head, one row, an empty line, eight requests; drawn over itself.
	if n := strings.Count(first, "\n"); n != 11 || !strings.HasPrefix(screen.String(), "\x1b[11A\r\x1b[K") {
		t.Errorf("%d lines, then %q", n, screen.String())
	}
	for line := range strings.Lines(first) {
		if text := strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "\r\x1b[K"); len([]rune(text)) > 20 {
			t.Errorf("%q is wider than the terminal", text)
		}
	}
}
