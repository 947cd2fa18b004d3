package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthorn/posthorn/client"
	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/send"
)

// names is a name server of this process: each look-up of a host takes the next
// of its answers, the last for ever. An empty answer is NXDOMAIN.
type names struct {
	mu      sync.Mutex
	answers map[string][]string
	asked   []string
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, host)
	list := n.answers[host]
	if len(list) == 0 || list[0] == "" {
		n.answers[host] = list[min(1, len(list)):]
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if len(list) > 1 {
		n.answers[host] = list[1:]
	}
	return []netip.Addr{netip.MustParseAddr(list[0])}, nil
}

var _ send.Resolver = (*names)(nil)

// named is a receiver's URL under a host name.
func (r *receiver) named(host, target string) string {
	return r.scheme + "://" + host + ":" + strconv.Itoa(int(r.port())) + target
}

func TestFault_B12_EveryKindOfFailureIsRetried(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	good, bad := certificate(t, true, "tls.example"), certificate(t, false, "tls.example")
	secure := newTLSReceiver(t, func(n int) *tls.Certificate {
		if n <= 2 {
			return bad
		}
		return good
	})
	// Nothing listens at the receiver's port of 127.0.0.2.
	dns := &names{answers: map[string][]string{
		"gone.example": {"", "", "127.0.0.1"}, "refused.example": {"127.0.0.2", "127.0.0.2", "127.0.0.1"}, "tls.example": {"127.0.0.1"},
	}}
	// Each has a receiver, so that no connection was used before: on such a one
	// an end without an answer says nothing (B28).
	scripted := func(path string, twice answer) string {
		own := newReceiver(t)
		own.on(path, twice, twice, status(200))
		return own.url(path)
	}
	s := start(t, options{lapse: 1_000_000, seams: seams{resolver: dns}})
	// This one's requests have no more than half a second.
	hasty := start(t, options{lapse: 1_000_000, timeout: 500 * time.Millisecond})
	classes := []struct{ name, url, kind, says string }{
		{"dns", r.named("gone.example", "/dns"), "network", "DNS"},
		{"refused", r.named("refused.example", "/refused"), "network", "refused the connection"},
		{"reset", scripted("/reset", thenReset("")), "network", "reset the connection"},
		{"tls", secure.named("tls.example", "/tls"), "network", "certificate"},
		{"timeout", scripted("/timeout", hang()), "timeout", "ran out"},
		{"eof", scripted("/eof", thenClose("")), "network", "closed the connection without an answer"},
	}
	by := func(class string) caller {
		if class == "timeout" {
			return hasty.caller
		}
		return s.caller
	}
	sent := map[string]string{}
	for _, class := range classes {
		by(class.name).endpoint(class.url, events("class."+class.name))
		accepted, err := by(class.name).SendEvent(t.Context(), client.NewEvent{Type: "class." + class.name, Data: []byte("1")})
		if err != nil {
			t.Fatal(err)
		}
		sent[class.name] = accepted.ID
	}
	texts := map[string]string{}
	for _, class := range classes {
		d := by(class.name).until(sent[class.name], client.StatusDelivered)
		if len(d.Attempts) != 3 || d.AttemptCount != 3 {
			t.Fatalf("%s: %d attempts", class.name, len(d.Attempts))
		}
		for _, a := range d.Attempts[:2] {
			if string(a.FailureKind) != class.kind || a.StatusCode != 0 || !strings.Contains(a.Error, class.says) {
				t.Errorf("%s: %s, %q", class.name, a.FailureKind, a.Error)
			}
			if strings.Contains(strings.ToLower(a.Error), "invalid url") {
				t.Errorf("%s: %q", class.name, a.Error)
			}
		}
		if other, taken := texts[d.Attempts[0].Error]; taken {
			t.Errorf("%s and %s have the same text: %s", class.name, other, d.Attempts[0].Error)
		}
		texts[d.Attempts[0].Error] = class.name
		if last := d.Attempts[2]; last.StatusCode != 200 || last.Error != "" || last.FailureKind != "" {
			t.Errorf("%s: the last attempt %+v", class.name, last)
		}
	}
}

func TestFault_B27_RedirectToALoginPage(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	s := start(t, options{lapse: 1_000_000})
	sent := map[int]string{}
	codes := []int{301, 302, 303, 307, 308}
	for _, code := range codes {
		path := "/" + strconv.Itoa(code)
		r.on(path, status(code, "Location: /login"))
		s.endpoint(r.url(path), events("code"+path[1:]))
		accepted, err := s.SendEvent(t.Context(), client.NewEvent{Type: "code" + path[1:], Data: []byte(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		sent[code] = accepted.ID
	}
	for _, code := range codes {
		d := s.until(sent[code], client.StatusFailed)
		if len(d.Attempts) != 10 || d.FailureKind != client.KindRedirect || d.StatusCode != code {
			t.Errorf("%d: %d attempts, %s, status %d", code, len(d.Attempts), d.FailureKind, d.StatusCode)
		}
		for _, a := range d.Attempts {
			if a.StatusCode != code || a.FailureKind != client.KindRedirect {
				t.Errorf("%d: attempt %d is %d, %s", code, a.Number, a.StatusCode, a.FailureKind)
			}
		}
	}
	s.quiet()
	if n := len(r.at("/login")); n != 0 {
		t.Errorf("%d requests to the login page", n)
	}
	for _, q := range r.at("") {
		if !strings.HasPrefix(q.line(), "POST ") || len(q.body) == 0 {
			t.Errorf("%s with %d bytes", q.line(), len(q.body))
		}
	}
}

func TestFault_B34_AnswersWithoutEndHinderNobody(t *testing.T) {
	t.Parallel()
	const each = 10
	const limit = 4 * time.Second
	const ok, chunked = "HTTP/1.1 200 OK\r\n", "Transfer-Encoding: chunked\r\n\r\n"
	r := newReceiver(t)
	r.on("/drip", drip(ok+chunked, "1\r\na\r\n", 100*time.Millisecond))
	r.on("/flood", body(1<<30))
	r.on("/silent", func(x *exchange) bool { return write(ok+chunked)(x) && hang()(x) })
	r.on("/heads", drip(ok, "X-A: b\r\n", 100*time.Millisecond))
	r.on("/head", func(x *exchange) bool {
		for keep := write(ok)(x); keep; keep = write("X-A: " + strings.Repeat("b", 64<<10) + "\r\n")(x) {
			select {
			case <-x.quit:
				return false
			default:
			}
		}
		return false
	})
	s := start(t, options{timeout: limit})
	e := s.endpoint(r.url("/fine"), events("fine"))
	delivered := map[string]bool{"drip": true, "flood": true, "silent": true, "heads": false, "head": false}
	var lines []client.NewEvent
	for name := range delivered {
		s.endpoint(r.url("/"+name), events(name))
		for range each {
			lines = append(lines, client.NewEvent{Type: name, Data: []byte(`{}`)})
		}
	}
	results, err := s.SendEvents(t.Context(), lines)
	if err != nil {
		t.Fatal(err)
	}
	// The others go on meanwhile: the slow ones are under way for all of it.
	var waits []time.Duration
	for range 20 {
		begin := time.Now()
		accepted, err := s.SendEvent(t.Context(), client.NewEvent{Type: "fine", Data: []byte(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		got := r.await("/fine", len(waits)+1)
		if got[len(waits)].id() != accepted.ID {
			t.Fatal("out of turn")
		}
		waits = append(waits, time.Since(begin))
	}
	slices.Sort(waits)
	if waits[len(waits)/2] > 2*time.Second {
		t.Errorf("half of the others took over %s", waits[len(waits)/2])
	}
	checkAll(t, e.Secret, r.at("/fine"))
	for i, result := range results {
		name := lines[i].Type
		d := s.tried(result.ID, 1)
		a := d.Attempts[0]
		if took := time.Duration(a.DurationMS * float64(time.Millisecond)); took <= 0 || took > limit+2*time.Second {
			t.Errorf("%s took %s", name, took)
		}
		if (d.Status == client.StatusDelivered) != delivered[name] || (a.StatusCode == 200) != delivered[name] {
			t.Errorf("%s: %s, status %d, %q", name, d.Status, a.StatusCode, a.Error)
		}
		if delivered[name] && (!a.ResponseTruncated || len(a.Response) > 4096) {
			t.Errorf("%s: %d bytes kept, cut: %v", name, len(a.Response), a.ResponseTruncated)
		}
	}
}

func TestFault_B72_TimeOutsAreNoSuccess(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	const begun = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"
	r := newReceiver(t)
	r.on("/a", hang())
	r.on("/b", func(x *exchange) bool { return write(begun)(x) && hang()(x) })
	r.on("/c", thenClose(begun))
	r.on("/d", after(limit+500*time.Millisecond, status(200)))
	r.on("/e", thenReset("HTTP/1.1 200 OK"))
	s := start(t, options{timeout: limit})
	for _, want := range []struct {
		name      string
		kind      client.FailureKind
		code      int
		delivered bool
		least     time.Duration
	}{
		{"a", client.KindTimeout, 0, false, limit},
		{"b", "", 200, true, limit},
		{"c", "", 200, true, 0},
		{"d", client.KindTimeout, 0, false, limit},
		{"e", client.KindNetwork, 0, false, 0},
	} {
		s.endpoint(r.url("/"+want.name), events(want.name))
		accepted, err := s.SendEvent(t.Context(), client.NewEvent{Type: want.name, Data: []byte(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		d := s.tried(accepted.ID, 1)
		a := d.Attempts[0]
		if a.FailureKind != want.kind || a.StatusCode != want.code || (d.Status == client.StatusDelivered) != want.delivered {
			t.Errorf("%s: %s, kind %q, status %d", want.name, d.Status, a.FailureKind, a.StatusCode)
		}
		if want.delivered && (a.Response != "abc" || !a.ResponseTruncated) || a.Error == "" {
			t.Errorf("%s: answer %q, cut %v, error %q", want.name, a.Response, a.ResponseTruncated, a.Error)
		}
		if took := time.Duration(a.DurationMS * float64(time.Millisecond)); took < want.least || took <= 0 || took > limit+2*time.Second {
			t.Errorf("%s took %s", want.name, took)
		}
	}
}

func TestFault_B75_EveryStatus(t *testing.T) {
	t.Parallel()
	kinds := map[int]client.FailureKind{
		300: "redirect", 304: "redirect", 400: "client_error", 404: "client_error", 408: "http_status", 409: "client_error", 410: "gone",
		425: "client_error", 451: "client_error", 429: "http_status", 413: "http_status", 500: "http_status", 599: "http_status", 600: "http_status",
	}
	for _, code := range []int{200, 201, 202, 203, 204, 205, 206, 207, 208, 226, 299} {
		kinds[code] = ""
	}
	r := newReceiver(t)
	// Each event says what it wants to be answered.
	r.on("/", func(x *exchange) bool {
		code, text, _ := strings.Cut(strings.Trim(string(x.data()), `"`), " ")
		return write("HTTP/1.1 " + code + " Words\r\nContent-Length: " + strconv.Itoa(len(text)) + "\r\n\r\n" + text)(x)
	})
	s := start(t, options{change: func(c *contract.Contract) { c.Gate = contract.Gate{} }}) // which some statuses close
	s.endpoint(r.url("/"))
	type asked struct {
		id   string
		code int
	}
	var sent []asked
	for code := range kinds {
		if code != 410 {
			sent = append(sent, asked{s.send(fmt.Sprintf(`"%d"`, code)), code}, asked{s.send(fmt.Sprintf(`"%d hello"`, code)), code})
		}
	}
	for _, want := range sent {
		s.tried(want.id, 1)
	}
	// This one ends the endpoint too.
	sent = append(sent, asked{s.send(`"410"`), 410})
	for _, want := range sent {
		d := s.tried(want.id, 1)
		a := d.Attempts[0]
		if kind := kinds[want.code]; (d.Status == client.StatusDelivered) != (kind == "") || a.FailureKind != kind || a.StatusCode != want.code {
			t.Errorf("%d: %s, kind %q, status %d, %q", want.code, d.Status, a.FailureKind, a.StatusCode, a.Error)
		}
		if a.DurationMS > 5000 {
			t.Errorf("%d took %v ms", want.code, a.DurationMS)
		}
	}
}

// A body after 204 is none: it stands before the next answer on the connection.
func TestFault_B75_BodyAfter204SpoilsNothing(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.on("/", write("HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 500 Not This\r\nContent-Length: 0\r\n\r\n"))
	s := start(t, options{})
	s.endpoint(r.url("/"))
	for range 20 {
		d := s.until(s.send(`{}`), client.StatusDelivered)
		if len(d.Attempts) != 1 || d.StatusCode != 204 {
			t.Fatalf("%d attempts, status %d", len(d.Attempts), d.StatusCode)
		}
	}
}
