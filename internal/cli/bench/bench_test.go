package bench_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthorn/posthorn/internal/cli/bench"
	"github.com/posthorn/posthorn/signature"
)

const secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

// fake is a server that delivers in place, honestly unless told otherwise.
type fake struct {
	*httptest.Server
	// drop loses every n-th event, double delivers it twice, forge signs it
	// wrongly, same gives all the same ID, refuse refuses it; 0 is never.
	drop, double, forge, refuse int
	same                        bool
	// overload answers 503 to so many requests first.
	overload int

	mu     sync.Mutex
	urls   []string
	events int
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/endpoints", func(w http.ResponseWriter, r *http.Request) {
		var e struct{ URL string }
		_ = json.NewDecoder(r.Body).Decode(&e)
		f.mu.Lock()
		f.urls = append(f.urls, e.URL)
		f.mu.Unlock()
		_ = json.NewEncoder(w).Encode(map[string]string{"id": "ep", "secret": secret})
	})
	mux.HandleFunc("POST /v1/events", f.publish)
	f.Server = httptest.NewServer(mux)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) publish(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	if f.overload > 0 {
		f.overload--
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	many := r.Header.Get("Content-Type") == "application/x-ndjson"
	refused := 0
	for line := range bytes.Lines(body) {
		f.events++
		if every(f.events, f.refuse) {
			refused++
			continue
		}
		for _, url := range f.urls {
			f.deliver(url, line)
		}
	}
	if !many {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Posthorn-Refused", fmt.Sprint(refused))
	// Long enough to be sent in chunks.
	_, _ = io.WriteString(w, strings.Repeat(`{"line":1,"status":202}`+"\n", 1000))
}

func every(n, nth int) bool { return nth > 0 && n%nth == 0 }

func (f *fake) deliver(url string, body []byte) {
	scheme, _ := signature.Lookup("standardwebhooks", "")
	key, err := scheme.ParseKey(secret)
	if err != nil || every(f.events, f.drop) {
		return
	}
	msg := signature.Message{ID: fmt.Sprintf("evt_%d", f.events), Timestamp: time.Now().Unix(), Body: body}
	if f.same {
		msg.ID = "evt_same"
	}
	times := 1
	if every(f.events, f.double) {
		times = 2
	}
	for range times {
		req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return
		}
		if every(f.events, f.forge) {
			msg.Body = []byte("other")
		}
		if scheme.SetHeaders(req.Header, msg, key) != nil {
			return
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return
		}
		_ = resp.Body.Close()
	}
}

func config() bench.Config {
	return bench.Config{Events: 230, Publishers: 4, Size: 300, Batch: 1, Fanout: 1, Plain: 50, Patience: 200 * time.Millisecond, Now: time.Now}
}

func run(t *testing.T, f *fake, cfg bench.Config) bench.Result {
	t.Helper()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	r, err := bench.NewReceiver(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	result, err := r.Run(t.Context(), bench.Target{Addr: f.Listener.Addr().String(), Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return result
}

func TestBench_Honest(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*bench.Config){
		"one a request": func(*bench.Config) {},
		"NDJSON":        func(c *bench.Config) { c.Batch = 100 },
		"fan-out":       func(c *bench.Config) { c.Fanout = 3 },
		"at a rate":     func(c *bench.Config) { c.Rate, c.Events = 1000, 100 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config()
			change(&cfg)
			r := run(t, newFake(t), cfg)
			want := cfg.Events * cfg.Fanout
			if !r.OK() || r.Accepted != cfg.Events || r.Delivered != want || r.UniqueIDs != want || r.Lost != 0 || r.Duplicates != 0 {
				t.Errorf("got %+v", r)
			}
			if r.Verified == 0 || r.CeilingPerSecond <= 0 || r.DeliveredPerSecond <= 0 || r.Latency.P50 <= 0 || r.Latency.Max < r.Latency.P99 {
				t.Errorf("got %+v", r)
			}
			if cfg.Rate > 0 && r.Seconds < 0.095 {
				t.Errorf("%d events at %d a second took %f s", cfg.Events, cfg.Rate, r.Seconds)
			}
			if r.CPUPerDelivery != nil || !strings.Contains(r.Text(), "not known") {
				t.Error("the CPU of this process is taken for the server's")
			}
		})
	}
}

func TestBench_NoticesWhatGoesWrong(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fake func(*fake)
		want func(bench.Result) bool
	}{
		"lost":         {func(f *fake) { f.drop = 100 }, func(r bench.Result) bool { return !r.OK() && r.Lost == 2 && r.Delivered == 228 }},
		"doubled":      {func(f *fake) { f.double = 100 }, func(r bench.Result) bool { return r.OK() && r.Duplicates == 2 && r.Delivered == 230 }},
		"forged":       {func(f *fake) { f.forge = 1 }, func(r bench.Result) bool { return !r.OK() && r.BadSignatures > 0 && r.Verified == 0 }},
		"one ID":       {func(f *fake) { f.same = true }, func(r bench.Result) bool { return !r.OK() && r.UniqueIDs == 1 }},
		"overloaded":   {func(f *fake) { f.overload = 3 }, func(r bench.Result) bool { return r.OK() && r.Overloads == 3 }},
		"all overload": {func(f *fake) { f.overload = 1 }, func(r bench.Result) bool { return r.OK() && r.Accepted == 230 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			test.fake(f)
			if r := run(t, f, config()); !test.want(r) {
				t.Errorf("got %+v", r)
			}
		})
	}
}

func TestBench_CountsRefusedLines(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.refuse = 23
	cfg := config()
	cfg.Batch = 50
	if r := run(t, f, cfg); r.Refused != 10 || r.Accepted != 220 || r.Delivered != 220 || !r.OK() {
		t.Errorf("got %+v", r)
	}
}

func TestBench_EndsWithTheServersError(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/endpoints", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"id":"ep","secret":"`+secret+`"}`)
	})
	srv := httptest.NewServer(mux) // it does not know POST /v1/events
	defer srv.Close()
	r, err := bench.NewReceiver(t.Context(), config())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	_, err = r.Run(t.Context(), bench.Target{Addr: srv.Listener.Addr().String()})
	if err == nil || !strings.Contains(err.Error(), "the server answered 404: 404 page not found") {
		t.Errorf("got %v", err)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for flag, change := range map[string]func(*bench.Config){
		"":             func(*bench.Config) {},
		"--events":     func(c *bench.Config) { c.Events = 0 },
		"--publishers": func(c *bench.Config) { c.Publishers = 5000 },
		"--size":       func(c *bench.Config) { c.Size = 10 },
		"--batch":      func(c *bench.Config) { c.Batch = 1001 },
		"--fanout":     func(c *bench.Config) { c.Fanout = 0 },
		"--rate":       func(c *bench.Config) { c.Rate = -1 },
		"times":        func(c *bench.Config) { c.Events, c.Fanout = 50_000_000, 2 },
	} {
		cfg := config()
		change(&cfg)
		if err := cfg.Validate(); (flag == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), flag) {
			t.Errorf("%q: %v", flag, err)
		}
	}
}
