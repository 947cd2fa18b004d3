package send

import (
	"bufio"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthorn/posthorn/internal/webhook"
)

func TestFault_B72_TimeOutsAreNoSuccess(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		serve  func(conn net.Conn, br *bufio.Reader)
		want   want
		lasted time.Duration
	}{
		{"a: never answers", func(_ net.Conn, br *bufio.Reader) { _, _ = br.ReadByte(); drain(br) },
			want{kind: webhook.KindTimeout, phase: webhook.PhaseHeaders, message: "time of 15s ran out before the server"}, 15 * time.Second},
		{"b: stops in the body", func(c net.Conn, br *bufio.Reader) {
			_, _ = readRequest(br)
			_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"))
			drain(br)
		}, want{status: 200, phase: webhook.PhaseBody, response: "abc", broken: true, message: "did not end in time"}, 15 * time.Second},
		{"c: closes in the body", func(c net.Conn, br *bufio.Reader) {
			_, _ = readRequest(br)
			_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"))
		}, want{status: 200, phase: webhook.PhaseBody, response: "abc", broken: true, message: "cut off"}, time.Microsecond},
		{"d: headers after the time", func(c net.Conn, br *bufio.Reader) {
			_, _ = readRequest(br)
			time.Sleep(16 * time.Second)
			_, _ = c.Write([]byte(answerOK))
		}, want{kind: webhook.KindTimeout, phase: webhook.PhaseHeaders, message: "ran out"}, 15 * time.Second},
		{"f: a redirect whose body stops", func(c net.Conn, br *bufio.Reader) {
			_, _ = readRequest(br)
			_, _ = c.Write([]byte("HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 10\r\n\r\n"))
			drain(br)
		}, want{kind: webhook.KindRedirect, status: 302, phase: webhook.PhaseBody, broken: true, message: "302"}, 15 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, tt.serve, func(t *testing.T, got webhook.Outcome) {
				tt.want.check(t, tt.name, got)
				if got.Duration != tt.lasted {
					t.Errorf("it lasted %v, want %v", got.Duration, tt.lasted)
				}
			})
		})
	}
	server := newReceiver(t, func(c *rawConn) { c.next(); c.write("HTTP/1.1 200 OK"); c.reset() })
	want{kind: webhook.KindNetwork, phase: webhook.PhaseHeaders, message: "before it had sent complete answer headers"}.
		check(t, "e: reset after the status line", loopbackSender(t).Send(t.Context(), post(t, server.url())))
}

func drain(br *bufio.Reader) { _, _ = br.WriteTo(discard{}) }

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// inBubble sends one request over a pipe in virtual time.
func inBubble(t *testing.T, serve func(net.Conn, *bufio.Reader), check func(*testing.T, webhook.Outcome)) {
	t.Helper()
	r := post(t, "http://r.example/")
	r.Timeout = 15 * time.Second
	r.Body = repeated("x", 100<<10)
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Resolver: answers(public)})
		net := pipes{serve: serve}
		s.dialler.connect = net.connect
		check(t, s.Send(t.Context(), r))
		s.Close()
		net.wait.Wait()
	})
}

// The time bounds every phase: nothing that a receiver does takes longer.
func TestFault_B34_AnswersWithoutEnd(t *testing.T) {
	t.Parallel()
	trickle := func(c net.Conn, text string) {
		for {
			if _, err := c.Write([]byte(text)); err != nil {
				return
			}
			time.Sleep(2 * time.Second)
		}
	}
	tests := []struct {
		name  string
		serve func(c net.Conn, br *bufio.Reader)
		want  want
	}{
		{"a: a byte now and then", func(c net.Conn, br *bufio.Reader) {
			_, _ = readRequest(br)
			_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"))
			trickle(c, "1\r\na\r\n")
		}, want{status: 200, phase: webhook.PhaseBody, response: strings.Repeat("a", 8), broken: true, message: "did not end in time"}},
		{"c: headers, then silence", func(c net.Conn, br *bufio.Reader) {
			_, _ = readRequest(br)
			_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"))
			drain(br)
		}, want{status: 200, phase: webhook.PhaseBody, broken: true, message: "did not end in time"}},
		{"d: a header line now and then", func(c net.Conn, br *bufio.Reader) {
			_, _ = readRequest(br)
			_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\n"))
			trickle(c, "X-A: 1\r\n")
		}, want{kind: webhook.KindTimeout, phase: webhook.PhaseHeaders, message: "complete answer headers"}},
		{"interim answers for ever", func(c net.Conn, br *bufio.Reader) {
			_, _ = readRequest(br)
			trickle(c, "HTTP/1.1 103 Early Hints\r\n\r\n")
		}, want{kind: webhook.KindTimeout, phase: webhook.PhaseHeaders, message: "complete answer headers"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, tt.serve, func(t *testing.T, got webhook.Outcome) {
				tt.want.check(t, tt.name, got)
				if got.Duration != 15*time.Second {
					t.Errorf("it lasted %v", got.Duration)
				}
			})
		})
	}
}

func TestFault_B34_FloodsAreBounded(t *testing.T) { //nolint:paralleltest // because it measures memory
	flood := func(start, text string, size int) func(*rawConn) {
		chunk := []byte(text)
		return func(c *rawConn) {
			if tcp, ok := c.Conn.(*net.TCPConn); ok {
				_ = tcp.SetWriteBuffer(len(chunk))
			}
			c.next()
			c.write(start)
			for sent := 0; sent < size; sent += len(chunk) {
				if _, err := c.Write(chunk); err != nil {
					return
				}
			}
		}
	}
	const each = 100
	tests := []struct {
		name   string
		script func(*rawConn)
		want   want
	}{
		{"b: 1 GiB of body", flood("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "10000\r\n"+strings.Repeat("a", 64<<10)+"\r\n", 1<<30),
			want{status: 200, response: strings.Repeat("a", 4096), truncated: true}},
		{"e: 20 MiB of header", flood("HTTP/1.1 200 OK\r\nX-A: ", strings.Repeat("a", 64<<10), 20<<20),
			want{kind: webhook.KindNetwork, phase: webhook.PhaseHeaders, message: "headers of the server's answer are too long"}},
		{"e: many headers", flood("HTTP/1.1 200 OK\r\n", strings.Repeat("X-A: a\r\n", 8<<10), 20<<20),
			want{kind: webhook.KindNetwork, phase: webhook.PhaseHeaders, message: "headers of the server's answer are too long"}},
	}
	for _, tt := range tests {
		server := newReceiver(t, tt.script)
		s := loopbackSender(t)
		r := post(t, server.url())
		before := allocated()
		var all sync.WaitGroup
		for range each {
			all.Go(func() {
				got := s.Send(t.Context(), r)
				tt.want.check(t, tt.name, got)
				if got.Duration > r.Timeout {
					t.Errorf("%s: it lasted %v", tt.name, got.Duration)
				}
			})
		}
		all.Wait()
		if grown := allocated() - before; grown > each*(1<<20) {
			t.Errorf("%s: %d bytes were allocated", tt.name, grown)
		}
		server.close()
	}
}

// A receiver that reads slowly: the time also bounds the writing.
func TestFault_B73_SlowReader(t *testing.T) {
	t.Parallel()
	inBubble(t, func(c net.Conn, _ *bufio.Reader) {
		for {
			if _, err := c.Read(make([]byte, 1)); err != nil {
				return
			}
			time.Sleep(time.Second)
		}
	}, func(t *testing.T, got webhook.Outcome) {
		want{kind: webhook.KindTimeout, phase: webhook.PhaseWrite, message: "while the request was being sent"}.check(t, "slow reader", got)
		if got.Duration != 15*time.Second {
			t.Errorf("it lasted %v", got.Duration)
		}
	})
}

// One that takes the connection and nothing else.
func TestFault_B73_OnlyAccepts(t *testing.T) {
	t.Parallel()
	server := newReceiver(t, func(c *rawConn) { c.untilClosed() })
	r := post(t, server.url())
	r.Timeout = 150 * time.Millisecond
	got := loopbackSender(t).Send(t.Context(), r)
	if got.Kind != webhook.KindTimeout || got.Duration < r.Timeout || got.Duration > patience {
		t.Errorf("%+v", got)
	}
}
