package app

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/client"
)

func TestFault_B05_HugeAnswersToASuccess(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	p := launch(t, t.TempDir())
	p.endpoint(r.url("/"))
	p.until(p.send(`{}`), client.StatusDelivered)
	before, _ := p.peak()
	for i, size := range []int{70_000, 5 << 20, 64 << 20} {
		r.on("/", body(size))
		d := p.until(p.send(`{}`), client.StatusDelivered)
		if len(d.Attempts) != 1 || len(r.at("/")) != i+2 {
			t.Fatalf("%d bytes: %d attempts, %d requests in all", size, len(d.Attempts), len(r.at("/")))
		}
		if a := d.Attempts[0]; a.Response != strings.Repeat("a", 4096) || !a.ResponseTruncated || a.StatusCode != 200 {
			t.Errorf("%d bytes: %d kept, cut %v, status %d", size, len(a.Response), a.ResponseTruncated, a.StatusCode)
		}
	}
	p.checkPeak(before, 24<<20)
}

// stranger opens a connection to a server's API and says something.
func stranger(t *testing.T, p *process, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.BaseURL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

// answered reads the status of the answer.
func answered(t *testing.T, conn net.Conn) int {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Errorf("no answer: %v", err)
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func TestFault_B95_StrangersAreRefusedEarly(t *testing.T) {
	t.Parallel()
	const head = "POST /v1/events HTTP/1.1\r\nHost: posthorn.example\r\nContent-Type: application/json\r\n"
	p := launch(t, t.TempDir())
	p.send(`{}`)
	before, _ := p.peak()

	// Two GiB in chunks: we write until nobody reads any more.
	endless := stranger(t, p, head+"Transfer-Encoding: chunked\r\n\r\n")
	chunk := []byte(fmt.Sprintf("%x\r\n%s\r\n", 64<<10, bytes.Repeat([]byte(" "), 64<<10)))
	sent := 0
	for sent < 2<<30 {
		n, err := endless.Write(chunk)
		if sent += n; err != nil {
			break
		}
	}
	if sent > 32<<20 {
		t.Errorf("%d MiB of a stranger's body went out", sent>>20)
	}

	slow := stranger(t, p, head+"Content-Length: 1000\r\n\r\n{")
	if code := answered(t, slow); code != http.StatusUnauthorized {
		t.Errorf("a slow body: %d", code)
	}

	var bomb bytes.Buffer
	packed := gzip.NewWriter(&bomb)
	for range 16 {
		if _, err := packed.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	code, _, _ := p.raw(http.MethodPost, "/v1/events", "application/json", bomb.Bytes(), "Content-Encoding", "gzip", "Authorization", "Bearer nobody")
	if code != http.StatusUnauthorized {
		t.Errorf("a stranger's gzip bomb: %d", code)
	}
	// With a key it is not unpacked either.
	if code, _, _ := p.raw(http.MethodPost, "/v1/events", "application/json", bomb.Bytes(), "Content-Encoding", "gzip"); code != http.StatusUnsupportedMediaType {
		t.Errorf("a gzip bomb: %d", code)
	}

	long := stranger(t, p, "GET /healthz HTTP/1.1\r\nHost: posthorn.example\r\n")
	go func() { _, _ = io.WriteString(long, "X-Long: "+strings.Repeat("x", 1<<20)+"\r\n\r\n") }()
	if code := answered(t, long); code != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 1 MiB: %d", code)
	}

	// Posts that stop in their head, and some in their body.
	for i := range 400 {
		stranger(t, p, head[:40+i%len(head[40:])])
	}
	for range 10 {
		begin := time.Now()
		p.send(`{}`)
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("others wait for %s", took)
		}
	}
	p.checkPeak(before, 48<<20)
}
