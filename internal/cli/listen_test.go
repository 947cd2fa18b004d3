package cli_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/posthorn/posthorn/internal/cli"
)

// listening is a running listen command.
type listening struct {
	url  string
	out  *safeBuffer
	stop func() int
}

// listen starts the command on a free port and waits for its first line.
func listen(t *testing.T, args ...string) listening {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out := &safeBuffer{}
	complaints, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- cli.Run(ctx, &cli.Process{Args: append([]string{"listen", "--port", "0"}, args...), Stdout: out, Stderr: w})
		_ = w.Close()
	}()
	first := make([]byte, 200)
	n, err := complaints.Read(first)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, complaints) }()
	_, rest, _ := strings.Cut(string(first[:n]), "listening at ")
	url, _, ok := strings.Cut(rest, ";")
	if !ok {
		t.Fatalf("no address in %q", first[:n])
	}
	return listening{url: url, out: out, stop: func() int { cancel(); return <-code }}
}

// status posts a body with headers, name and value by turns.
func (l listening) status(t *testing.T, body string, headers ...string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, l.url+"/hook", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func TestListen_AnswersByTheList(t *testing.T) {
	t.Parallel()
	l := listen(t, "--answer", "500*2,302,201")
	for i, want := range []int{500, 500, 302, 201, 201} {
		if got := l.status(t, `{"type":"click"}`, "Webhook-Id", "evt_1"); got != want {
			t.Errorf("request %d: %d, want %d", i+1, got, want)
		}
	}
	if code := l.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	lines := strings.Split(strings.TrimSpace(l.out.String()), "\n")
	if len(lines) != 5 || !strings.Contains(lines[0], "POST /hook  click evt_1  16 bytes  signature unchecked  → 500") {
		t.Errorf("got %q", lines)
	}
}

// A list of answers is for what is genuine: a bad signature gets 401 all the same.
func TestListen_RefusesInSpiteOfTheList(t *testing.T) {
	t.Parallel()
	l := listen(t, "--scheme", "stripe", "--variant", "hmac-hex", "--secret", "k", "--answer", "503,204")
	const good = "add853b103fbcc936a194f9eb15e29c4ff08af6e47d5d1bca4f20218e31e4fff"
	for i, want := range []int{401, 503, 401, 204} {
		signature := good
		if want == 401 {
			signature = strings.Repeat("0", 64)
		}
		if got := l.status(t, "{}", "X-Raw-Hmac-Sha256-Hex", signature); got != want {
			t.Errorf("request %d: %d, want %d", i+1, got, want)
		}
	}
	l.stop()
}

func TestListen_ChecksAndForwards(t *testing.T) {
	t.Parallel()
	var forwarded []string
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		forwarded = append(forwarded, r.URL.Path+" "+r.Header.Get("X-Own")+" "+string(body))
		w.WriteHeader(http.StatusAccepted)
	}))
	defer app.Close()
	l := listen(t, "--json", "--scheme", "stripe", "--variant", "hmac-hex", "--secret", "k", "--forward", app.URL+"/app")
	// HMAC-SHA256 of "{}" with the key "k".
	const good = "add853b103fbcc936a194f9eb15e29c4ff08af6e47d5d1bca4f20218e31e4fff"
	if got := l.status(t, "{}", "X-Raw-Hmac-Sha256-Hex", strings.Repeat("0", 64)); got != http.StatusUnauthorized {
		t.Errorf("bad signature: %d", got)
	}
	if got := l.status(t, "{}", "X-Raw-Hmac-Sha256-Hex", good, "X-Own", "yes"); got != http.StatusAccepted {
		t.Errorf("good signature: %d", got)
	}
	l.stop()
	if len(forwarded) != 1 || forwarded[0] != "/app yes {}" {
		t.Errorf("forwarded %q", forwarded)
	}
	out := l.out.String()
	if !strings.Contains(out, `"signature":"invalid","reason":"X-Raw-Hmac`) || !strings.Contains(out, `"body":"{}","body_encoding":"utf8","signature":"valid","answer":"202"`) {
		t.Errorf("got %s", out)
	}
}

func TestListen_PortInUse(t *testing.T) {
	t.Parallel()
	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	address := strings.TrimPrefix(taken.URL, "http://")
	_, port, _ := strings.Cut(address, ":")
	program{}.run(t.Context(), "listen", "--port", port).want(t, 1, "",
		"posthorn: The address "+address+" is in use by another program; end that, or choose another with --port.\n")
}
