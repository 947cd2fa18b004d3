package send

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/internal/webhook"
)

func TestContract_S1_TheStatusDecides(t *testing.T) {
	t.Parallel()
	server := newReceiver(t, func(c *rawConn) {
		c.next()
		c.write("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
		c.write("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"error\": \"no\"}")
	})
	got := loopbackSender(t).Send(t.Context(), post(t, server.url()))
	want{status: 200, phase: webhook.PhaseBody, response: `{"error": "no"}`, broken: true, message: "Delivered by its status"}.check(t, "2xx, cut", got)
	if !got.Delivered() || got.Address != server.listener.Addr().String() {
		t.Errorf("%+v", got)
	}
}

func TestContract_S1_AtMostFourKilobytesAreKept(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 4095, 4096, 4097, 5000} {
		body := strings.Repeat("\xff\x00é", size/4+1)[:size]
		server := newReceiver(t, answering(fmt.Sprintf("HTTP/1.1 500 No\r\nContent-Length: %d\r\n\r\n%s", size, body)))
		s := loopbackSender(t)
		for range 2 {
			got := s.Send(t.Context(), post(t, server.url()))
			want{kind: webhook.KindHTTPStatus, status: 500, response: body[:min(size, 4096)], truncated: size > 4096, message: "status 500 (Internal"}.
				check(t, fmt.Sprint(size), got)
		}
		// What was read to its end leaves the connection for the next request.
		if n := server.connections(); (n == 1) != (size <= 4097) {
			t.Errorf("%d bytes: %d connections", size, n)
		}
	}
	server := newReceiver(t, answering("HTTP/1.1 500 No\r\nContent-Length: 10\r\n\r\n0123456789"))
	r := post(t, server.url())
	r.Read, r.Keep = 10, 3
	got := loopbackSender(t).Send(t.Context(), r)
	want{kind: webhook.KindHTTPStatus, status: 500, response: "012", truncated: true, message: "500"}.check(t, "keeps less than it reads", got)
}

// 2xx with an answer that fits no column: one request, delivered, cut, and the
// memory stays flat.
func TestFault_B05_HugeAnswers(t *testing.T) { //nolint:paralleltest // because it measures memory
	for _, size := range []int{70_000, 5 << 20, 64 << 20} {
		server := newReceiver(t, func(c *rawConn) {
			c.next()
			c.write(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size))
			chunk := repeated("a", 64<<10)
			for sent := 0; sent < size; sent += len(chunk) {
				if _, err := c.Write(chunk[:min(len(chunk), size-sent)]); err != nil {
					return
				}
			}
		})
		s := loopbackSender(t)
		before := allocated()
		got := s.Send(t.Context(), post(t, server.url()))
		want{status: 200, response: strings.Repeat("a", 4096), truncated: true}.check(t, fmt.Sprint(size), got)
		if grown := allocated() - before; grown > 2<<20 {
			t.Errorf("%d bytes: %d bytes were allocated", size, grown)
		}
		if n := len(server.got()); n != 1 {
			t.Errorf("%d bytes: %d requests", size, n)
		}
	}
}

// allocated is what was ever allocated.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func TestFault_B12_EachEndHasItsOwnText(t *testing.T) {
	t.Parallel()
	failed := func(phase webhook.Phase, message string) want {
		return want{kind: webhook.KindNetwork, phase: phase, message: message}
	}
	tests := []struct {
		name   string
		script func(*rawConn)
		want   want
	}{
		{"reset after the request", func(c *rawConn) { c.next(); c.reset() }, failed(webhook.PhaseHeaders, "reset the connection")},
		{"EOF before the status line", func(c *rawConn) { c.next() }, failed(webhook.PhaseHeaders, "without an answer")},
		{"EOF in the headers", func(c *rawConn) { c.next(); c.write("HTTP/1.1 200 OK\r\nX-A: 1\r\n") }, failed(webhook.PhaseHeaders, "before it had sent complete")},
		{"no HTTP", func(c *rawConn) { c.next(); c.write("220 mail.example ESMTP\r\n\r\n") }, failed(webhook.PhaseHeaders, "no valid HTTP")},
		{"no status", func(c *rawConn) { c.next(); c.write("HTTP/1.1 abc\r\n\r\n") }, failed(webhook.PhaseHeaders, "no valid HTTP")},
		{"bad header line", func(c *rawConn) { c.next(); c.write("HTTP/1.1 200 OK\r\nnonsense\r\n\r\n") }, failed(webhook.PhaseHeaders, "no valid HTTP")},
	}
	s := loopbackSender(t)
	for _, tt := range tests {
		server := newReceiver(t, tt.script)
		got := s.Send(t.Context(), post(t, server.url()))
		tt.want.check(t, tt.name, got)
		if got.Address != server.listener.Addr().String() || len(server.got()) != 1 {
			t.Errorf("%s: address %q, %d requests", tt.name, got.Address, len(server.got()))
		}
	}
}

// redirects has every redirect status and targets that a client might follow.
func redirects(canary string) []string {
	var answers []string
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, target := range []string{
			"http://127.0.0.1:" + canary + "/", "//127.0.0.1:" + canary + "/x", "/login", "file:///etc/hostname", "gopher://127.0.0.1:" + canary + "/_x",
		} {
			answers = append(answers, fmt.Sprintf("HTTP/1.1 %d Moved\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", status, target))
		}
	}
	return answers
}

func TestFault_B20_RedirectsReachNoCanary(t *testing.T) {
	t.Parallel()
	canary := newReceiver(t, answering(answerOK))
	s := loopbackSender(t)
	for _, answer := range redirects(canary.port()) {
		server := newReceiver(t, answering(answer))
		got := s.Send(t.Context(), post(t, server.url()))
		status := 300 + int(answer[11]-'0')
		want{kind: webhook.KindRedirect, status: status, message: "redirects are not followed"}.check(t, answer, got)
		if n := len(server.got()); n != 1 {
			t.Errorf("%q: %d requests", answer, n)
		}
	}
	if n := canary.connections(); n != 0 {
		t.Errorf("the canary saw %d connections", n)
	}
}

// A login page behind a redirect is no success, and no GET is made.
func TestFault_B27_LoginPageIsNoSuccess(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 303} {
		server := newReceiver(t, func(c *rawConn) {
			for {
				r, ok := c.next()
				if !ok {
					return
				}
				if strings.Contains(r.line, "/login") {
					c.write(answerOK)
				} else {
					c.write(fmt.Sprintf("HTTP/1.1 %d Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n", status))
				}
			}
		})
		got := loopbackSender(t).Send(t.Context(), post(t, server.url()))
		want{kind: webhook.KindRedirect, status: status, message: fmt.Sprint(status)}.check(t, "redirect", got)
		if requests := server.got(); len(requests) != 1 || !strings.HasPrefix(requests[0].line, "POST /hook ") {
			t.Errorf("%d: %+v", status, requests)
		}
	}
}

func TestFault_B75_StatusTable(t *testing.T) {
	t.Parallel()
	want := map[webhook.FailureKind][]int{
		webhook.KindNone:        {200, 201, 202, 203, 204, 205, 206, 207, 208, 226, 299},
		webhook.KindRedirect:    {300, 301, 304, 399},
		webhook.KindClientError: {400, 401, 403, 404, 405, 409, 425, 451, 499},
		webhook.KindGone:        {410},
		webhook.KindHTTPStatus:  {101, 199, 408, 413, 429, 500, 502, 503, 504, 599, 600, 999},
	}
	s := loopbackSender(t)
	for kind, statuses := range want {
		for _, status := range statuses {
			for _, body := range []string{"", "Content-Length: 4\r\n\r\nbody", "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"} {
				if status == 101 || status == 199 {
					body = "Connection: Upgrade\r\nUpgrade: x\r\n\r\n" // no body belongs to it
				}
				if body == "" {
					body = "Content-Length: 0\r\n\r\n"
				}
				server := newReceiver(t, answering(fmt.Sprintf("HTTP/1.1 %d Status\r\n%s", status, body)))
				r := post(t, server.url())
				if status == 199 {
					r.Timeout = 150 * time.Millisecond // an interim answer, and no final one
				}
				// Twice: what came after the first must not spoil the second.
				for range 2 {
					got := s.Send(t.Context(), r)
					if status == 199 {
						if got.Kind != webhook.KindTimeout || got.StatusCode != 0 {
							t.Errorf("199: %+v", got)
						}
						continue
					}
					if got.Kind != kind || got.StatusCode != status || got.ResponseBroken || got.Duration > patience/2 {
						t.Errorf("%d with %q: %+v, want %q", status, body, got, kind)
					}
					if (got.Message == "") != (kind == webhook.KindNone) {
						t.Errorf("%d: message %q", status, got.Message)
					}
				}
				server.close()
			}
		}
	}
}

func TestFault_B76_RequestLineByteForByte(t *testing.T) {
	t.Parallel()
	server := newReceiver(t, answering(answerOK))
	s := loopbackSender(t)
	host := "r.example:" + server.port()
	lines := map[string]string{
		"/a/b;v=1/?foo=123&bar=XYZ&foo=9&empty=&flag&q=a+b%20c#frag": "/a/b;v=1/?foo=123&bar=XYZ&foo=9&empty=&flag&q=a+b%20c",
		"":                           "/",
		"?":                          "/?",
		"?a=1":                       "/?a=1",
		"/%7e%2F%2f%c3%a9%41":        "/%7e%2F%2f%c3%a9%41",
		"/a/../b/./c//d/":            "/a/../b/./c//d/",
		"/{id}|^`\"<>'!$&()*+,;=:@":  "/{id}|^`\"<>'!$&()*+,;=:@",
		"/?{id}|^`\"<>'!$&()*+?/:@%": "/?{id}|^`\"<>'!$&()*+?/:@%",
		"//double":                   "//double",
		"//double%2f?":               "//double%2f?",
		"//double/?a=%zz":            "//double/?a=%zz",
		"//odd|<>?a":                 "http://" + host + "//odd|<>?a", // the absolute form, which keeps the bytes
		"/http://x.example/":         "/http://x.example/",
	}
	var want []string
	for given, line := range lines {
		url, err := webhook.ParseEndpointURL("http://"+host+given, []string{"http"}, false)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, "POST "+line+" HTTP/1.1")
		for range 2 { // the same again on a retry
			delivered.check(t, given, s.Send(t.Context(), post(t, url)))
		}
		want = append(want, want[len(want)-1])
	}
	for i, r := range server.got() {
		if r.line != want[i] {
			t.Errorf("got  %s\nwant %s", r.line, want[i])
		}
		if h := r.header("Host"); len(h) != 1 || h[0] != host {
			t.Errorf("Host is %q", h)
		}
	}
}

func TestFault_B76_HostOfAnIPv6Literal(t *testing.T) {
	t.Parallel()
	for url, hostHeader := range map[string]string{"http://[::1]:8081/x": "[::1]:8081", "http://[::1]/x": "[::1]"} {
		hosts := make(chan []string, 1)
		net := pipes{serve: func(conn net.Conn, br *bufio.Reader) {
			r, _ := readRequest(br)
			hosts <- r.header("Host")
			_, _ = conn.Write([]byte(answerOK))
		}}
		s := hookedSender(t, Config{Allow: networks(t, "::1")}, net.connect)
		got := s.Send(t.Context(), post(t, url))
		delivered.check(t, url, got)
		if h := <-hosts; len(h) != 1 || h[0] != hostHeader {
			t.Errorf("%s: Host is %q", url, h)
		}
		if target := net.targets()[0]; target.Addr().String() != "::1" || got.Address != target.String() {
			t.Errorf("%s: dialled %s, address %q", url, target, got.Address)
		}
	}
}

// What a row of the database may hold after somebody's hand was in it.
func TestFault_B84_BadRowsAreNoAttempt(t *testing.T) {
	t.Parallel()
	server := newReceiver(t, answering(answerOK))
	s := loopbackSender(t)
	bad := want{fault: webhook.FaultPrepare, phase: webhook.PhaseInternal, message: "could not be put together"}
	port := server.port()
	for _, url := range []string{
		"", "r.example", "ftp://r.example/", "http://r.example:" + port, "http:///x", "http://u:p@r.example:" + port + "/", "http://r.example:" + port + "/a b",
		"http://r.example:" + port + "/\r\nX-Injected: 1", "http://r.example:" + port + "?a", "javascript:alert(1)", "http://r.exa\nmple/", "http://r.example:99999/",
	} {
		bad.check(t, url, s.Send(t.Context(), post(t, url)))
	}
	for name, value := range map[string]string{"X-A": "a\r\nX-Injected: 1", "X-B": "\x00", "X C": "1", "X:D": "1", "": "1"} {
		r := post(t, server.url())
		r.Header[name] = []string{value}
		bad.check(t, name, s.Send(t.Context(), r))
	}
	r := post(t, server.url())
	r.Timeout = 0
	bad.check(t, "no time-out", s.Send(t.Context(), r))
	if n := len(server.got()); n != 0 {
		t.Errorf("%d requests came", n)
	}
}

func TestFault_B84_OneLengthAndNothingInjected(t *testing.T) {
	t.Parallel()
	server := newReceiver(t, answering(answerOK))
	s := loopbackSender(t)
	for _, body := range []string{"", "{}", strings.Repeat("x", 100_000)} {
		r := post(t, server.url())
		r.Body = []byte(body)
		delivered.check(t, "", s.Send(t.Context(), r))
	}
	for _, r := range server.got() {
		if l := r.header("Content-Length"); len(l) != 1 || l[0] != fmt.Sprint(len(r.body)) {
			t.Errorf("Content-Length %q for %d bytes", l, len(r.body))
		}
		for _, name := range []string{"Transfer-Encoding", "Expect", "Accept-Encoding", "Connection"} {
			if h := r.header(name); h != nil {
				t.Errorf("%s: %q", name, h)
			}
		}
	}
}

func TestFault_B85_EnvironmentProxiesAreIgnored(t *testing.T) { //nolint:paralleltest // because it sets the environment
	proxy := newReceiver(t, answering("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"))
	address := "http://" + proxy.listener.Addr().String()
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, address)
	}
	t.Setenv("NO_PROXY", "r2.example")
	ca := newAuthority(t)
	plainText := newReceiver(t, answering(answerOK))
	secure := newTLSServer(t, ca.issue(t, leaf("r.example")), answering(answerOK))
	s := newSender(t, Config{Allow: networks(t, "127.0.0.1"), Resolver: answers("127.0.0.1"), RootCAs: ca.pool()})
	for _, url := range []string{plainText.url(), secure.tlsURL("r.example"), "http://r2.example:" + plainText.port() + "/"} {
		delivered.check(t, url, s.Send(t.Context(), post(t, url)))
	}
	if n := proxy.connections(); n != 0 {
		t.Errorf("the proxy saw %d connections", n)
	}
	// net/http reads the environment once in a process, perhaps before this test.
	if s.newTransport().Proxy != nil {
		t.Error("the transport has a proxy")
	}
	if got := ProxyVariables(os.LookupEnv); !slices.Equal(got, []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"}) {
		t.Errorf("the variables are %q", got)
	}
	if got := ProxyVariables(func(string) (string, bool) { return "", true }); got != nil {
		t.Errorf("empty variables count: %q", got)
	}
}

// The end of the caller's context is a shutdown: no attempt, unless a status had
// come.
func TestSend_ShutdownIsNoAttempt(t *testing.T) {
	t.Parallel()
	reached := make(chan struct{}, 1)
	silentServer := newReceiver(t, func(c *rawConn) { c.next(); reached <- struct{}{}; c.untilClosed() })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-reached; cancel() }()
	want{fault: webhook.FaultShutdown, phase: webhook.PhaseInternal, message: "was stopped"}.
		check(t, "while it waits", loopbackSender(t).Send(ctx, post(t, silentServer.url())))

	slow := newReceiver(t, func(c *rawConn) {
		c.next()
		c.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
		reached <- struct{}{}
		c.untilClosed()
	})
	synced := loopbackSender(t)
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	go func() { <-reached; cancel() }()
	got := synced.Send(ctx, post(t, slow.url()))
	if got.StatusCode == 200 { // else the shutdown was first
		want{status: 200, phase: webhook.PhaseBody, response: "abc", broken: true, message: "Delivered"}.check(t, "while it reads the body", got)
	} else {
		want{fault: webhook.FaultShutdown, phase: webhook.PhaseInternal, message: "was stopped"}.check(t, "before the status", got)
	}
}

func TestSend_RetryAfterAsItStood(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("1", maxRetryAfter+1)
	for headers, want := range map[string]string{
		"":                     "",
		"Retry-After: 120\r\n": "120",
		"retry-after: Wed, 21 Oct 2026 07:28:00 GMT\r\n": "Wed, 21 Oct 2026 07:28:00 GMT",
		"Retry-After: 1\r\nRetry-After: 2\r\n":           "",
		"Retry-After: " + long + "\r\n":                  "",
	} {
		server := newReceiver(t, answering("HTTP/1.1 503 No\r\n"+headers+"Content-Length: 0\r\n\r\n"))
		if got := loopbackSender(t).Send(t.Context(), post(t, server.url())); got.RetryAfter != want {
			t.Errorf("%q: %q, want %q", headers, got.RetryAfter, want)
		}
	}
}

// All texts of all outcomes of a URL and headers full of secrets.
func TestFault_B81_NoOutcomeShowsASecret(t *testing.T) {
	t.Parallel()
	const secrets = "S3CRET"
	ca := newAuthority(t)
	self := newTLSServer(t, selfSigned(t, leaf("r.example")), answering(answerOK))
	ok, failing := newReceiver(t, answering(answerOK)), newReceiver(t, answering("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"))
	broken := newReceiver(t, func(c *rawConn) { c.next(); c.write("nonsense\r\n") })
	closed := listen(t)
	_ = closed.Close()
	_, closedPort, _ := net.SplitHostPort(closed.Addr().String())
	s := newSender(t, Config{Allow: networks(t, "127.0.0.1"), RootCAs: ca.pool(), Resolver: resolverFunc(func(_ context.Context, host string) ([]netip.Addr, error) {
		switch host {
		case "r.example":
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		case "unsafe.example":
			return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
		}
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	})})
	path := "/hook/S3CRET-2?token=S3CRET-3"
	for _, url := range []string{
		"http://r.example:" + ok.port() + path, "http://r.example:" + failing.port() + path, "http://r.example:" + broken.port() + path,
		"http://r.example:" + closedPort + path, self.tlsURL("r.example") + path, "http://unsafe.example" + path, "http://s3cret.example" + path,
		"https://bob:S3CRET-1@r.example:" + ok.port() + path, "http://r.example:" + ok.port() + "/S3CRET \n",
	} {
		r := post(t, url)
		r.Header["Authorization"] = []string{"Bearer S3CRET-4"}
		for _, timeout := range []time.Duration{patience, time.Nanosecond} {
			r.Timeout = timeout
			got := s.Send(t.Context(), r)
			if text := fmt.Sprintf("%+v", got); strings.Contains(strings.ToUpper(text), secrets) || strings.Contains(text, "bob") {
				t.Errorf("%s: %s", url, text)
			}
		}
	}
	for _, r := range ok.got() {
		if r.header("Authorization")[0] != "Bearer S3CRET-4" {
			t.Errorf("Authorization is %q", r.header("Authorization"))
		}
	}
}

// Every text literal of the package that a customer may see is a sentence.
func TestSend_TextsAreSentences(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*fail*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, name := range append(files, "try.go") {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(string(source), "\n") {
			_, text, found := strings.Cut(line, `return "The `)
			if found && !strings.HasSuffix(text, `."`) {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

// A 413 that comes while the body is still being written counts as what it is.
func TestSend_EarlyAnswer(t *testing.T) {
	t.Parallel()
	server := newReceiver(t, func(c *rawConn) {
		_, _ = c.reader.ReadString('\n')
		c.write("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		c.untilClosed()
	})
	r := post(t, server.url())
	r.Body = repeated("x", 5<<20)
	want{kind: webhook.KindHTTPStatus, status: http.StatusRequestEntityTooLarge, message: "413"}.
		check(t, "early", loopbackSender(t).Send(t.Context(), r))
}
