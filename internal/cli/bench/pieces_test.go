package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestRequest_IsATemplate(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{1, 3} {
		r := newRequest(Target{Addr: "h:1", Key: "k"}, 200, batch)
		for i, at := range r.numbers {
			putNumber(r.bytes, at, 12_345_670+i)
		}
		head, body, _ := strings.Cut(string(r.bytes), "\r\n\r\n")
		if !strings.Contains(head, fmt.Sprintf("Content-Length: %d", len(body))) {
			t.Errorf("%s for a body of %d bytes", head, len(body))
		}
		lines := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
		if len(lines) != batch {
			t.Fatalf("%d lines", len(lines))
		}
		for i, line := range lines {
			var e struct {
				Type string
				Data json.RawMessage
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			if n, ok := findNumber([]byte(line)); !ok || n != 12_345_670+i || len(e.Data) != 200 || e.Type != eventType {
				t.Errorf("%s: %d, %t, %d bytes", line, n, ok, len(e.Data))
			}
		}
	}
	for _, body := range []string{"", `{"n":"1234"}`, `{"n":"x2345678"}`, `{"m":"12345678"}`} {
		if n, ok := findNumber([]byte(body)); ok {
			t.Errorf("%s has the number %d", body, n)
		}
	}
}

func TestReadAnswer(t *testing.T) {
	t.Parallel()
	// Two on one connection: each ends where the next begins.
	text := "HTTP/1.1 200 OK\r\nPosthorn-Refused: 2\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" +
		"HTTP/1.1 503 Busy\r\nRetry-After: 2\r\ncontent-length: 4\r\n\r\nbusy" +
		"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\n{}"
	r := bufio.NewReader(strings.NewReader(text))
	for _, want := range []string{"200 2 0s ", "503 0 2s busy", "202 0 0s "} {
		a, err := readAnswer(r)
		if got := fmt.Sprintf("%d %d %s %s", a.status, a.refused, a.retryAfter, a.body); err != nil || got != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
	for _, text := range []string{"", "SMTP 220 hello there\r\n", "HTTP/1.1 abc\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "HTTP/1.1 200 OK\r\n"} {
		if _, err := readAnswer(bufio.NewReader(strings.NewReader(text))); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

func TestSpread_NearestRank(t *testing.T) {
	t.Parallel()
	var values []time.Duration
	for i := 200; i >= 1; i-- {
		values = append(values, time.Duration(i)*time.Millisecond)
	}
	if got, want := spread(values), (Spread{P50: 100, P90: 180, P99: 198, Max: 200}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := spread(values[:1]), (Spread{1, 1, 1, 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := spread(nil); got != (Spread{}) {
		t.Errorf("got %+v", got)
	}
}

func TestUsage_ReadsProc(t *testing.T) {
	t.Parallel()
	stat := "42 (post (horn) 1) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 9 0"
	if got := parseCPU([]byte(stat)); got != 3*time.Second {
		t.Errorf("got %s", got)
	}
	if got := parsePeak("Name:\tx\nVmPeak:\t  9 kB\nVmHWM:\t  2048 kB\nVmRSS:\t 1 kB\n"); got != 2<<20 {
		t.Errorf("got %d", got)
	}
	if parseCPU([]byte("42 (x) S 1")) != 0 || parsePeak("VmHWM: many\n") != 0 || readUsage(0) != (usage{}) {
		t.Error("what can't be read is something")
	}
	var r Result
	r.Delivered = 100
	usage{cpu: 3 * time.Second, peak: 3 << 20}.since(usage{cpu: time.Second}).fill(&r)
	if *r.CPUPerDelivery != 20_000 || *r.PeakMemory != 3 {
		t.Errorf("got %f µs, %f MiB", *r.CPUPerDelivery, *r.PeakMemory)
	}
}
