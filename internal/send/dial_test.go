package send

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/posthorn/posthorn/internal/webhook"
)

// dnsServer is a name server on loopback whose answers a test decides.
type dnsServer struct {
	conn net.PacketConn
	// answer returns the addresses of a question for A records, or a code.
	answer  func(name string, n int) ([]string, dnsmessage.RCode)
	queries atomic.Int32
	wait    sync.WaitGroup
}

func newDNS(t *testing.T, answer func(name string, n int) ([]string, dnsmessage.RCode)) *dnsServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &dnsServer{conn: conn, answer: answer}
	d.wait.Go(d.serve)
	t.Cleanup(func() { _ = conn.Close(); d.wait.Wait() })
	return d
}

// resolver is Go's own, asking this server only. Its look-ups outlive the caller
// by some seconds, so their connections are closed at the end of the test.
func (d *dnsServer) resolver(t *testing.T) *net.Resolver {
	t.Helper()
	ended, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		if ended.Err() != nil {
			return nil, ended.Err()
		}
		conn, err := new(net.Dialer).DialContext(ctx, "udp", d.conn.LocalAddr().String())
		if err == nil {
			context.AfterFunc(ended, func() { _ = conn.Close() })
		}
		return conn, err
	}}
}

func (d *dnsServer) serve() {
	buf := make([]byte, 1500)
	for {
		n, from, err := d.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		var texts []string
		code := dnsmessage.RCodeSuccess
		if q.Type == dnsmessage.TypeA {
			texts, code = d.answer(q.Name.String(), int(d.queries.Add(1)))
		} else if _, c := d.answer(q.Name.String(), 0); c != dnsmessage.RCodeSuccess {
			code = c
		}
		if code == silent {
			continue
		}
		m.Response, m.RecursionAvailable, m.RCode, m.Additionals = true, true, code, nil
		for _, text := range texts {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET},
				Body:   &dnsmessage.AResource{A: netip.MustParseAddr(text).As4()},
			})
		}
		packed, err := m.Pack()
		if err == nil {
			_, _ = d.conn.WriteTo(packed, from)
		}
	}
}

const silent = dnsmessage.RCode(4000)

// A record of no lifetime flips between a public and an internal address. What
// is dialled is what was checked, on every dial, and TLS still uses the name.
func TestFault_B18_FlippingName(t *testing.T) {
	t.Parallel()
	for _, publicFirst := range []bool{true, false} {
		t.Run(fmt.Sprintf("public first %v", publicFirst), func(t *testing.T) {
			t.Parallel()
			canary := newReceiver(t, answering(answerOK))
			dns := newDNS(t, func(_ string, n int) ([]string, dnsmessage.RCode) {
				if n == 0 || (n == 1) == publicFirst {
					return []string{public}, dnsmessage.RCodeSuccess
				}
				return []string{"127.0.0.1"}, dnsmessage.RCodeSuccess
			})
			authority := newAuthority(t)
			server := newTLSServer(t, authority.issue(t, leaf("flip.example")), func(c *rawConn) {
				if _, ok := c.next(); ok {
					c.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
				}
			})
			var mu sync.Mutex
			var dials []netip.Addr
			s := hookedSender(t, Config{Resolver: dns.resolver(t), RootCAs: authority.pool()}, func(ctx context.Context, target netip.AddrPort) (net.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				dials = append(dials, target.Addr())
				return new(net.Dialer).DialContext(ctx, "tcp", server.listener.Addr().String())
			})
			sent := 0
			for range 20 {
				got := s.Send(t.Context(), post(t, "https://flip.example:"+canary.port()+"/"))
				if got.Delivered() {
					sent++
				} else {
					want{kind: webhook.KindUnsafeURL, phase: webhook.PhaseGuard, message: "loopback"}.check(t, "flipped", got)
				}
			}
			wantSent := 1
			if !publicFirst {
				wantSent = 19
			}
			if sent != wantSent || len(dials) != wantSent || slices.ContainsFunc(dials, func(a netip.Addr) bool { return a.String() != public }) {
				t.Errorf("sent %d, dialled %v", sent, dials)
			}
			if n := canary.connections(); n != 0 {
				t.Errorf("the canary saw %d connections", n)
			}
			for _, r := range server.got() {
				if h := r.header("Host"); len(h) != 1 || h[0] != "flip.example:"+canary.port() {
					t.Errorf("Host is %q", h)
				}
			}
		})
	}
}

func TestFault_B12_NameServersThatFail(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		code dnsmessage.RCode
		want want
	}{
		{"NXDOMAIN", dnsmessage.RCodeNameError, want{kind: webhook.KindNetwork, phase: webhook.PhaseResolve, message: "does not exist in DNS"}},
		{"no addresses", dnsmessage.RCodeSuccess, want{kind: webhook.KindNetwork, phase: webhook.PhaseResolve, message: "does not exist in DNS"}},
		{"SERVFAIL", dnsmessage.RCodeServerFailure, want{kind: webhook.KindNetwork, phase: webhook.PhaseResolve, message: "DNS servers answered with a failure"}},
		{"REFUSED", dnsmessage.RCodeRefused, want{kind: webhook.KindNetwork, phase: webhook.PhaseResolve, message: "DNS servers answered with a failure"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dns := newDNS(t, func(string, int) ([]string, dnsmessage.RCode) { return nil, tt.code })
			s := newSender(t, Config{Resolver: dns.resolver(t)})
			tt.want.check(t, tt.name, s.Send(t.Context(), post(t, "http://r.example/")))
		})
	}
}

func TestFault_B73_DNSThatNeverAnswers(t *testing.T) {
	t.Parallel()
	dns := newDNS(t, func(string, int) ([]string, dnsmessage.RCode) { return nil, silent })
	s := newSender(t, Config{Resolver: dns.resolver(t)})
	r := post(t, "http://r.example/")
	r.Timeout = 150 * time.Millisecond
	got := s.Send(t.Context(), r)
	want{kind: webhook.KindTimeout, phase: webhook.PhaseResolve, message: "time of 150ms ran out while the host name was looked up"}.check(t, "silent DNS", got)
	if got.Duration > patience {
		t.Errorf("it took %v", got.Duration)
	}
}

// A resolver may give up before the attempt's time is over.
func TestFault_B73_ResolverGivesUp(t *testing.T) {
	t.Parallel()
	s := newSender(t, Config{Resolver: resolverFunc(func(context.Context, string) ([]netip.Addr, error) {
		return nil, &net.DNSError{Err: "i/o timeout", IsTimeout: true}
	})})
	got := s.Send(t.Context(), post(t, "http://r.example/"))
	want{kind: webhook.KindTimeout, phase: webhook.PhaseResolve, message: "looked up in DNS"}.check(t, "a resolver's time-out", got)
}

func TestEngine_N28_MixedAnswers(t *testing.T) {
	t.Parallel()
	net := pipes{serve: onePipedAnswer}
	s := hookedSender(t, Config{Resolver: answers("10.0.0.1", "::ffff:127.0.0.1", public, "fd00::1")}, net.connect)
	got := s.Send(t.Context(), post(t, "http://r.example/"))
	delivered.check(t, "mixed", got)
	if got.Address != public+":80" || !slices.Equal(net.targets(), []netip.AddrPort{netip.MustParseAddrPort(public + ":80")}) {
		t.Errorf("address %q, dialled %v", got.Address, net.targets())
	}
}

func onePipedAnswer(conn net.Conn, br *bufio.Reader) {
	if _, err := readRequest(br); err == nil {
		_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"))
	}
}

// One dead address does not cost the attempt: the next is tried beside it.
func TestSend_DeadAddressIsPassedBy(t *testing.T) {
	t.Parallel()
	dead := netip.MustParseAddr("2a00::1")
	refusing := netip.MustParseAddr("2a00::2")
	addrs := answers(dead.String(), refusing.String(), "2a00::3", public)
	synctest.Test(t, func(t *testing.T) {
		live := pipes{serve: onePipedAnswer}
		s := New(Config{Resolver: addrs})
		defer s.Close()
		s.dialler.connect = func(ctx context.Context, target netip.AddrPort) (net.Conn, error) {
			switch target.Addr() {
			case dead:
				<-ctx.Done()
				return nil, ctx.Err()
			case refusing:
				return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
			}
			return live.connect(ctx, target)
		}
		r := post(t, "http://r.example/")
		got := s.Send(t.Context(), r)
		delivered.check(t, "one dead address", got)
		if got.Address != public+":80" || got.Duration != stagger {
			t.Errorf("address %q after %v, want the other family's after %v", got.Address, got.Duration, stagger)
		}
		live.wait.Wait()
	})
}

// The connection that comes too late is closed.
func TestSend_LoserOfTheRaceIsClosed(t *testing.T) {
	t.Parallel()
	addrs := answers("2a00::1", public)
	r := post(t, "http://r.example/")
	synctest.Test(t, func(t *testing.T) {
		network := pipes{serve: func(conn net.Conn, br *bufio.Reader) { onePipedAnswer(conn, br); drain(br) }}
		s := New(Config{Resolver: addrs})
		s.dialler.connect = func(ctx context.Context, target netip.AddrPort) (net.Conn, error) {
			if target.Addr().Is6() {
				time.Sleep(2 * stagger)
			}
			return network.connect(ctx, target)
		}
		got := s.Send(t.Context(), r)
		delivered.check(t, "race", got)
		if got.Address != public+":80" {
			t.Errorf("address %q", got.Address)
		}
		time.Sleep(2 * stagger)
		network.wait.Wait()
		if n := len(network.targets()); n != 2 {
			t.Errorf("%d connections", n)
		}
		s.Close()
	})
}

func TestSend_AllAddressesFail(t *testing.T) {
	t.Parallel()
	errs := map[string]error{
		"2a00::1": syscall.ENETUNREACH,
		public:    syscall.ECONNREFUSED,
		"2a00::2": syscall.EHOSTUNREACH,
	}
	var dials atomic.Int32
	connect := func(_ context.Context, target netip.AddrPort) (net.Conn, error) {
		dials.Add(1)
		return nil, os.NewSyscallError("connect", errs[target.Addr().String()])
	}
	s := hookedSender(t, Config{Resolver: answers("2a00::1", "2a00::2", public)}, connect)
	got := s.Send(t.Context(), post(t, "http://r.example/"))
	want{kind: webhook.KindNetwork, phase: webhook.PhaseConnect, message: "refused the connection"}.check(t, "all fail", got)
	if dials.Load() != 3 || got.Address != public+":80" {
		t.Errorf("%d dials, address %q", dials.Load(), got.Address)
	}
	errs[public] = syscall.EMFILE
	want{fault: webhook.FaultHandles, phase: webhook.PhaseInternal, message: "file handle"}.check(t, "no handle for one", s.Send(t.Context(), post(t, "http://r.example/")))
}

// A name with very many addresses must not make one attempt a flood.
func TestSend_AddressesAreBounded(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf("2a00::%x", i+1))
	}
	var dials atomic.Int32
	s := hookedSender(t, Config{Resolver: answers(append(many, public)...)}, func(context.Context, netip.AddrPort) (net.Conn, error) {
		dials.Add(1)
		return nil, os.NewSyscallError("connect", syscall.ENETUNREACH)
	})
	want{kind: webhook.KindNetwork, phase: webhook.PhaseConnect, message: "could not be reached"}.check(t, "1001 addresses", s.Send(t.Context(), post(t, "http://r.example/")))
	if dials.Load() != maxAddresses {
		t.Errorf("%d dials", dials.Load())
	}
}

func TestFault_B12_ConnectErrors(t *testing.T) {
	t.Parallel()
	handles := want{fault: webhook.FaultHandles, phase: webhook.PhaseInternal, message: "file handle"}
	failed := func(message string) want {
		return want{kind: webhook.KindNetwork, phase: webhook.PhaseConnect, message: message}
	}
	for errno, want := range map[syscall.Errno]want{
		syscall.ECONNREFUSED: failed("refused the connection"),
		syscall.ECONNRESET:   failed("reset the connection"),
		syscall.EHOSTUNREACH: failed("could not be reached"),
		syscall.ENETUNREACH:  failed("could not be reached"),
		syscall.EPERM:        failed("No connection"),
		syscall.EMFILE:       handles,
		syscall.ENFILE:       handles,
		syscall.ENOBUFS:      handles,
	} {
		s := hookedSender(t, Config{}, func(context.Context, netip.AddrPort) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", errno)}
		})
		want.check(t, errno.Error(), s.Send(t.Context(), post(t, "http://r.example/")))
	}
	s := newSender(t, Config{Resolver: resolverFunc(func(context.Context, string) ([]netip.Addr, error) {
		return nil, &net.DNSError{Err: "dial udp 127.0.0.1:53: socket: too many open files", Name: "r.example"}
	})})
	handles.check(t, "no handle for DNS", s.Send(t.Context(), post(t, "http://r.example/")))
}

// EADDRNOTAVAIL: no port left where there is a way to the target, no such address
// on this machine where there is none.
func TestFault_B12_NoLocalPort(t *testing.T) {
	t.Parallel()
	errno := os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)
	if f := connectFailure(t.Context(), errno, netip.MustParseAddrPort("127.0.0.1:9")); f.fault != webhook.FaultHandles {
		t.Errorf("loopback is there, so the ports are gone: %+v", f)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing can be reached
	if f := connectFailure(ctx, errno, netip.MustParseAddrPort("127.0.0.1:9")); f.fault != webhook.FaultNone || f.kind != webhook.KindNetwork {
		t.Errorf("no way to the target: %+v", f)
	}
}

func TestFault_B12_RefusedPort(t *testing.T) {
	t.Parallel()
	l := listen(t)
	url := "http://r.example:" + netip.MustParseAddrPort(l.Addr().String()).String()[len("127.0.0.1:"):] + "/"
	_ = l.Close()
	got := loopbackSender(t).Send(t.Context(), post(t, url))
	want{kind: webhook.KindNetwork, phase: webhook.PhaseConnect, message: "refused the connection"}.check(t, "refused", got)
	if got.Address != l.Addr().String() {
		t.Errorf("address %q", got.Address)
	}
}

// A connect that is never answered, as with a firewall that drops packets.
func TestFault_B73_ConnectThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Resolver: answers(public, "2a00::1")})
		defer s.Close()
		s.dialler.connect = func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		r := post(t, "http://r.example/")
		r.Timeout = 15 * time.Second
		got := s.Send(t.Context(), r)
		want{kind: webhook.KindTimeout, phase: webhook.PhaseConnect, message: "time of 15s ran out before a connection"}.check(t, "dropped", got)
		if got.Duration != r.Timeout {
			t.Errorf("it took %v", got.Duration)
		}
		synctest.Wait()
	})
}
