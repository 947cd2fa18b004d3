package send

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthorn/posthorn/internal/webhook"
)

// A receiver that closes each connection right after its answer, without a word:
// the next request often goes out on a dying connection.
func TestFault_B28_ReceiverClosesAfterEachAnswer(t *testing.T) {
	t.Parallel()
	server := newReceiver(t, func(c *rawConn) {
		if _, ok := c.next(); ok {
			c.write(answerOK)
		}
	})
	s := loopbackSender(t)
	const lanes, each = 4, 75
	var all sync.WaitGroup
	for range lanes {
		all.Go(func() {
			for range each {
				delivered.check(t, "closing receiver", s.Send(t.Context(), post(t, server.url())))
			}
		})
	}
	all.Wait()
	// What it read was never sent again: it answered all that it read.
	if n := len(server.got()); n != lanes*each {
		t.Errorf("%d requests for %d attempts", n, lanes*each)
	}
}

// dying answers the first request of each connection and ends at the second in
// the way that the function says.
func dying(end func(*rawConn)) func(*rawConn) {
	return func(c *rawConn) {
		if _, ok := c.next(); !ok {
			return
		}
		c.write(answerOK)
		if _, ok := c.next(); ok {
			end(c)
		}
	}
}

func TestFault_B28_ReusedConnectionThatEndsIsRepeatedOnce(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*rawConn){
		"closed":        func(*rawConn) {},
		"reset":         (*rawConn).reset,
		"leftover":      func(c *rawConn) { c.write("leftover of the answer before\r\n") },
		"leftover JSON": func(c *rawConn) { c.write(`{"ok":true}`) },
	} {
		server := newReceiver(t, dying(end))
		s := loopbackSender(t)
		for range 2 {
			delivered.check(t, name, s.Send(t.Context(), post(t, server.url())))
		}
		requests := server.got()
		if len(requests) != 3 || requests[1].conn != 1 || requests[2].conn != 2 || requests[1].body != requests[2].body {
			t.Errorf("%s: %+v", name, requests)
		}
	}
}

// On the repeat's own connection nothing is repeated any more, and an answer that
// had begun is none to repeat after.
func TestFault_B28_AtMostOneRepeat(t *testing.T) {
	t.Parallel()
	first := true
	var mu sync.Mutex
	server := newReceiver(t, func(c *rawConn) {
		mu.Lock()
		answer := first
		first = false
		mu.Unlock()
		c.next()
		if answer {
			c.write(answerOK)
			c.next()
		}
	})
	s := loopbackSender(t)
	delivered.check(t, "first", s.Send(t.Context(), post(t, server.url())))
	got := s.Send(t.Context(), post(t, server.url()))
	want{kind: webhook.KindNetwork, phase: webhook.PhaseHeaders, message: "without an answer"}.check(t, "both end", got)
	if n := len(server.got()); n != 3 {
		t.Errorf("%d requests, want one and one repeated", n)
	}

	for _, start := range []string{"HTTP/1.1 200 OK\r\nX-A: 1", "HTTP/1.1 200 OK\r\nX-A", "HTTP/1.1 200 OK", "HTTP/1.1 103 Hints\r\n\r\n"} {
		begun := newReceiver(t, dying(func(c *rawConn) { c.write(start) }))
		delivered.check(t, "first", s.Send(t.Context(), post(t, begun.url())))
		got := s.Send(t.Context(), post(t, begun.url()))
		if got.Kind != webhook.KindNetwork || got.Phase != webhook.PhaseHeaders || len(begun.got()) != 2 {
			t.Errorf("%q had begun: %+v, %d requests", start, got, len(begun.got()))
		}
	}
}

// net/http repeats requests with these headers by itself, once for each dead
// connection of the pool; here they count as any other.
func TestFault_B28_IdempotencyKeysChangeNothing(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key", "idempotency-key"} {
		const lanes = 5
		var ready sync.WaitGroup
		ready.Add(lanes)
		var once [2 * lanes]sync.Once
		server := newReceiver(t, func(c *rawConn) {
			if _, ok := c.next(); !ok {
				return
			}
			if c.number <= lanes {
				once[c.number].Do(ready.Done)
				ready.Wait() // so that each lane gets a connection of its own
				c.write(answerOK)
				c.next()
			}
		})
		s := loopbackSender(t)
		r := post(t, server.url())
		r.Header[name] = []string{"k"}
		var all sync.WaitGroup
		for range lanes {
			all.Go(func() { delivered.check(t, name, s.Send(t.Context(), r)) })
		}
		all.Wait()
		if got := s.Send(t.Context(), r); got.Delivered() {
			t.Errorf("%s: %+v", name, got)
		}
		requests := server.got()
		if len(requests) != lanes+2 {
			t.Errorf("%s: %d requests, want %d", name, len(requests), lanes+2)
		}
		if h := requests[0].header("Idempotency-Key"); name[0] != 'X' && (len(h) != 1 || h[0] != "k") {
			t.Errorf("%s: sent as %q", name, h)
		}
		if r.Header[name] == nil {
			t.Errorf("%s: the caller's headers were changed", name)
		}
	}
}

// Without time left nothing is repeated, and the time-out is the first request's.
func TestFault_B28_NoRepeatAfterTheTime(t *testing.T) {
	t.Parallel()
	r := post(t, "http://r.example/")
	r.Timeout = 15 * time.Second
	synctest.Test(t, func(t *testing.T) {
		network := pipes{serve: func(conn net.Conn, br *bufio.Reader) {
			_, _ = readRequest(br)
			_, _ = conn.Write([]byte(answerOK))
			drain(br)
		}}
		s := New(Config{Resolver: answers(public)})
		s.dialler.connect = network.connect
		delivered.check(t, "first", s.Send(t.Context(), r))
		want{kind: webhook.KindTimeout, phase: webhook.PhaseHeaders, message: "ran out"}.check(t, "second", s.Send(t.Context(), r))
		if n := len(network.targets()); n != 1 {
			t.Errorf("%d connections", n)
		}
		s.Close()
		network.wait.Wait()
	})
}

// The repeat's connection is no part of the pool and closes with the attempt.
func TestFault_B28_RepeatLeavesNoConnection(t *testing.T) {
	t.Parallel()
	ended := make(chan int, 2)
	server := newReceiver(t, func(c *rawConn) {
		defer func() { ended <- c.number }()
		c.next()
		c.write(answerOK)
		if c.next(); c.number == 2 {
			c.untilClosed()
		}
	})
	s := loopbackSender(t)
	for range 2 {
		delivered.check(t, "repeated", s.Send(t.Context(), post(t, server.url())))
	}
	for range 2 {
		select {
		case <-ended:
		case <-time.After(idleTimeout / 2):
			t.Fatal("the repeat's connection is still open")
		}
	}
}

// A wrong body after a 204 belongs to nobody, under load neither.
func TestFault_B75_WrongBodyAfter204(t *testing.T) {
	t.Parallel()
	for _, framing := range []string{"Content-Length: 5\r\n\r\nwrong", "Transfer-Encoding: chunked\r\n\r\n5\r\nwrong\r\n0\r\n\r\n", "\r\nHTTP/1.1 nonsense"} {
		server := newReceiver(t, answering("HTTP/1.1 204 No Content\r\n"+framing))
		s := loopbackSender(t)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 20 {
					want{status: 204}.check(t, framing, s.Send(t.Context(), post(t, server.url())))
				}
			})
		}
		all.Wait()
		server.close()
	}
}

func TestSend_ConnectionsArePooledAndIdleOnesClosed(t *testing.T) {
	t.Parallel()
	r := post(t, "http://r.example/")
	synctest.Test(t, func(t *testing.T) {
		ended := 0
		network := pipes{serve: func(conn net.Conn, br *bufio.Reader) {
			for {
				if _, err := readRequest(br); err != nil {
					ended++
					return
				}
				_, _ = conn.Write([]byte(answerOK))
			}
		}}
		s := New(Config{Resolver: answers(public)})
		s.dialler.connect = network.connect
		for range 8 { // longer than the leash of a connection without requests
			delivered.check(t, "pooled", s.Send(t.Context(), r))
			time.Sleep(idleTimeout - time.Second)
		}
		if n := len(network.targets()); n != 1 {
			t.Errorf("%d connections", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if ended != 1 {
			t.Error("the idle connection is still open")
		}
		delivered.check(t, "after the idle time", s.Send(t.Context(), r))
		s.Close()
		synctest.Wait()
		if n := len(network.targets()); n != 2 || ended != 2 {
			t.Errorf("%d connections, %d ended by Close", n, ended)
		}
		network.wait.Wait()
	})
}

// Many attempts at once each get their own answer.
func TestSend_ConcurrentAttempts(t *testing.T) {
	t.Parallel()
	server := newReceiver(t, func(c *rawConn) {
		for {
			r, ok := c.next()
			if !ok {
				return
			}
			c.write(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(r.body), r.body))
		}
	})
	s := loopbackSender(t)
	var all sync.WaitGroup
	for lane := range 16 {
		all.Go(func() {
			for i := range 50 {
				r := post(t, server.url())
				r.Body = fmt.Appendf(nil, "%d of %d", i, lane)
				want{status: 200, response: string(r.Body)}.check(t, "echo", s.Send(t.Context(), r))
			}
		})
	}
	all.Wait()
}

// Headers and body leave in one write, which is one system call and one packet.
func TestSend_RequestLeavesInOneWrite(t *testing.T) {
	t.Parallel()
	first := make(chan string, 1)
	network := pipes{serve: func(conn net.Conn, _ *bufio.Reader) {
		buf := make([]byte, 64<<10)
		n, _ := conn.Read(buf) // a pipe gives what one write wrote
		first <- string(buf[:n])
		_, _ = conn.Write([]byte(answerOK))
		_, _ = conn.Read(buf)
	}}
	s := hookedSender(t, Config{}, network.connect)
	delivered.check(t, "piped", s.Send(t.Context(), post(t, "http://r.example/")))
	if text := <-first; !strings.HasPrefix(text, "POST / HTTP/1.1\r\n") || !strings.HasSuffix(text, "\r\n\r\n{\"a\":1}") {
		t.Errorf("the first write was %q", text)
	}
}
