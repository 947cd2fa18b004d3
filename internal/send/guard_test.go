package send

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/posthorn/posthorn/internal/webhook"
)

// specialAddresses has one or more addresses of each range, and neighbours that
// are public.
func specialAddresses() map[string]string {
	return map[string]string{
		"0.0.0.0": "this host", "0.1.2.3": "this host", "0.255.255.255": "this host",
		"10.0.0.1": "private", "10.255.255.255": "private", "172.16.0.1": "private", "172.31.255.255": "private", "192.168.0.1": "private",
		"100.64.0.1": "carrier", "100.127.255.255": "carrier",
		"127.0.0.1": "loopback", "127.255.255.254": "loopback",
		"169.254.169.254": "link-local", "192.0.0.192": "protocol", "192.0.0.9": "protocol",
		"192.0.2.1": "documentation", "198.51.100.1": "documentation", "203.0.113.255": "documentation",
		"192.31.196.1": "AS112", "192.175.48.1": "AS112", "192.52.193.1": "tunnel", "192.88.99.1": "6to4",
		"198.18.0.1": "benchmarking", "198.19.255.255": "benchmarking",
		"224.0.0.1": "multicast", "239.255.255.255": "multicast", "240.0.0.1": "reserved", "255.255.255.255": "broadcast",

		"::": "this host", "::1": "loopback", "::127.0.0.1": "compatible", "::8.8.8.8": "compatible",
		"::ffff:127.0.0.1": "loopback", "::ffff:7f00:1": "loopback", "::ffff:10.0.0.1": "private", "::ffff:0.0.0.0": "this host",
		"64:ff9b::7f00:1": "NAT64", "64:ff9b::808:808": "NAT64", "64:ff9b:1::1": "NAT64",
		"100::1": "discard", "100:0:0:1::1": "dummy",
		"2001::1": "Teredo", "2001:2::1": "benchmarking", "2001:3::1": "tunnel", "2001:4:112::1": "AS112",
		"2001:10::1": "ORCHID", "2001:20::1": "ORCHID", "2001:30::1": "drone", "2001:1::1": "protocol", "2001:1ff::1": "protocol",
		"2001:db8::1": "documentation", "3fff::1": "documentation", "2002:7f00:1::": "6to4", "2620:4f:8000::1": "AS112", "3ffe::1": "6bone",
		"5f00::1": "routing", "fc00::1": "private", "fd12:3456::1": "private", "fe80::1": "link-local", "fec0::1": "site-local", "ff02::1": "multicast",
		"4000::1": "unassigned", "1::1": "unassigned", "fe00::1": "unassigned", "0:1::1": "unassigned", "8000::1": "unassigned",

		"1.0.0.0": "", "8.8.8.8": "", "9.255.255.255": "", "11.0.0.0": "", "100.63.255.255": "", "100.128.0.0": "", "126.255.255.255": "",
		"128.0.0.0": "", "169.253.255.255": "", "172.15.255.255": "", "172.32.0.0": "", "191.255.255.255": "", "192.0.1.0": "", "192.0.3.0": "",
		"192.167.255.255": "", "192.169.0.0": "", "198.17.255.255": "", "198.20.0.0": "", "223.255.255.255": "", "::ffff:8.8.8.8": "",
		"2000::1": "", "2001:200::1": "", "2001:4860:4860::8888": "", "2606:4700::1111": "", "2a00::1": "", "2003::1": "",
	}
}

func TestReceive_R12_SpecialAddressesAreRefused(t *testing.T) {
	t.Parallel()
	g := newGuard(Networks{}, nil)
	for text, kind := range specialAddresses() {
		got := g.judge(plain(netip.AddrPortFrom(netip.MustParseAddr(text), 443)))
		if (got == "") != (kind == "") || !strings.Contains(got, kind) {
			t.Errorf("%s is %q, want %q", text, got, kind)
		}
	}
	if got := g.judge(netip.AddrPort{}); got == "" {
		t.Error("no address at all passes")
	}
	// A zone must not hide an address.
	if got := g.judge(plain(netip.MustParseAddrPort("[::1%eth0]:80"))); got != "loopback" {
		t.Errorf("::1 with a zone is %q", got)
	}
}

// The dialler refuses each of them too, as a literal and from a name, and no
// connection is tried.
func TestReceive_R12_RefusedBeforeAnyConnection(t *testing.T) {
	t.Parallel()
	for text, kind := range specialAddresses() {
		if kind == "" {
			continue
		}
		addr := netip.MustParseAddr(text)
		s := hookedSender(t, Config{Resolver: answers(text)}, func(context.Context, netip.AddrPort) (net.Conn, error) {
			t.Errorf("%s is dialled", text)
			return nil, errTest
		})
		host := text
		if addr.Is6() {
			host = "[" + text + "]"
		}
		for _, url := range []string{"http://" + host + ":8081/", "https://" + host + "/", "http://r.example/"} {
			got := s.Send(t.Context(), post(t, url))
			want{kind: webhook.KindUnsafeURL, phase: webhook.PhaseGuard, message: kind}.check(t, url, got)
			if got.Address != "" {
				t.Errorf("%s: the address %q was not dialled", url, got.Address)
			}
		}
	}
}

func TestFault_B15_BracketedFormsReachNoCanary(t *testing.T) {
	t.Parallel()
	canary := newReceiver(t, answering(answerOK))
	s := newSender(t, Config{})
	for _, host := range []string{
		"[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[0:0:0:0:0:ffff:7f00:1]", "[::1%25lo]", "[::1%lo]",
	} {
		got := s.Send(t.Context(), post(t, "http://"+host+":"+canary.port()+"/"))
		if got.Delivered() || got.StatusCode != 0 {
			t.Errorf("%s: %+v", host, got)
		}
	}
	if n := canary.connections(); n != 0 {
		t.Errorf("the canary saw %d connections", n)
	}
}

// A stored URL may come from somewhere else than the check at creation. A system
// resolver reads these forms as inet_aton does.
func TestFault_B17_OddFormsReachNoCanary(t *testing.T) {
	t.Parallel()
	canary := newReceiver(t, answering(answerOK))
	s := newSender(t, Config{Resolver: answers("127.0.0.1")})
	for _, host := range []string{
		"0.0.0.0", "0.1.2.3", "0", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "100.64.0.1",
		"169.254.169.254", "192.0.0.192", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "127.0.0.1", "１２７．０．０．１", "localhost",
	} {
		got := s.Send(t.Context(), post(t, "http://"+host+":"+canary.port()+"/"))
		if got.Delivered() || got.StatusCode != 0 || got.Kind == webhook.KindNetwork {
			t.Errorf("%s: %+v", host, got)
		}
	}
	if n := canary.connections(); n != 0 {
		t.Errorf("the canary saw %d connections", n)
	}
}

// The socket's control hook is a second lock: it holds whatever connect is given.
func TestReceive_R12_ControlHookRefuses(t *testing.T) {
	t.Parallel()
	canary := newReceiver(t, answering(answerOK))
	s := newSender(t, Config{})
	target := netip.MustParseAddrPort("127.0.0.1:" + canary.port())
	conn, err := s.dialler.connectTCP(t.Context(), target)
	var f *failure
	if conn != nil || !errors.As(err, &f) || f.kind != webhook.KindUnsafeURL {
		t.Errorf("connect: %v, %v", conn, err)
	}
	if got := connectFailure(t.Context(), err, target); got.kind != webhook.KindUnsafeURL {
		t.Errorf("connectFailure: %+v", got)
	}
	if n := canary.connections(); n != 0 {
		t.Errorf("the canary saw %d connections", n)
	}
}

func ownAddrs(texts ...string) func() []netip.AddrPort {
	return func() []netip.AddrPort {
		var list []netip.AddrPort
		for _, t := range texts {
			list = append(list, netip.MustParseAddrPort(t))
		}
		return list
	}
}

func TestEngine_N28_OwnListenersAreNeverOpened(t *testing.T) {
	t.Parallel()
	g := newGuard(networks(t, "0.0.0.0/0", "::/0"), ownAddrs("127.0.0.1:8080", "[::1]:8081", "0.0.0.0:9090", "[::]:9091", "[::ffff:10.9.9.9]:5432"))
	g.local = func() ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("2a00::5"), netip.MustParseAddr("fe80::7")}, nil
	}
	tests := []struct {
		target string
		own    bool
	}{
		{"127.0.0.1:8080", true},
		{"[::ffff:127.0.0.1]:8080", true},
		{"127.0.0.1:8081", false},
		{"127.0.0.2:8080", false}, // bound to 127.0.0.1 only
		{"[::1]:8080", false},
		{"[::1]:8081", true},
		{"10.9.9.9:5432", true},
		{"10.9.9.8:5432", false},
		// Bound to all addresses: reached by each of this machine's, in either family.
		{"127.0.0.1:9090", true},
		{"127.5.5.5:9090", true},
		{"[::1]:9090", true},
		{"10.1.2.3:9090", true},
		{"10.1.2.4:9090", false},
		{"[2a00::5]:9090", true},
		{"127.0.0.1:9091", true},
		{"10.1.2.3:9091", true},
		{"[fe80::7%eth0]:9091", true},
		{"[2a00::6]:9091", false},
		{"[64:ff9b::7f00:1]:8080", true}, // NAT64 of 127.0.0.1
		{"[2002:7f00:1::]:8080", true},   // 6to4 of 127.0.0.1
	}
	for _, tt := range tests {
		got := g.judge(plain(netip.MustParseAddrPort(tt.target)))
		if (got == kindOwn) != tt.own || !tt.own && got != "" {
			t.Errorf("%s: %q, own %v", tt.target, got, tt.own)
		}
	}
	if got := g.judge(netip.MustParseAddrPort("0.0.0.0:80")); got != kindThisHost {
		t.Errorf("0.0.0.0 is opened: %q", got)
	}
	g.local = func() ([]netip.Addr, error) { return nil, errTest }
	if got := g.judge(netip.MustParseAddrPort("10.1.2.4:9090")); got != kindOwn {
		t.Errorf("the interfaces can't be listed, and %q", got)
	}
}

// With the real interfaces, and over a real socket.
func TestEngine_N28_OwnListenerOverTheWire(t *testing.T) {
	t.Parallel()
	canary := newReceiver(t, answering(answerOK))
	other := newReceiver(t, answering(answerOK))
	s := newSender(t, Config{
		Allow: networks(t, "127.0.0.0/8"), Resolver: answers("127.0.0.1"), Own: ownAddrs("0.0.0.0:" + canary.port()),
	})
	for _, host := range []string{"127.0.0.1", "r.example", "127.0.0.2"} {
		got := s.Send(t.Context(), post(t, "http://"+host+":"+canary.port()+"/"))
		want{kind: webhook.KindUnsafeURL, phase: webhook.PhaseGuard, message: "this service itself"}.check(t, host, got)
	}
	delivered.check(t, "another port", s.Send(t.Context(), post(t, other.url())))
	if n := canary.connections(); n != 0 {
		t.Errorf("the canary saw %d connections", n)
	}
}

func TestEngine_N28_AllowedByNetworkAndPort(t *testing.T) {
	t.Parallel()
	g := newGuard(networks(t, "10.0.0.0/8:443", "192.168.3.207", "[fd00::]/8:8443", "64:ff9b::/96", "2002::/16"), nil)
	for text, want := range map[string]string{
		"10.1.2.3:443":             "",
		"10.1.2.3:80":              "private network",
		"192.168.3.207:1":          "",
		"[::ffff:192.168.3.207]:1": "",
		"192.168.3.208:1":          "private network",
		"[fd00::1]:8443":           "",
		"[fd00::1]:443":            "private network",
		"127.0.0.1:443":            "loopback",
		"[64:ff9b::8.8.8.8]:443":   "", // an opened NAT64 leads to public addresses
		"[64:ff9b::127.0.0.1]:443": "loopback",
		"[64:ff9b::10.0.0.1]:443":  "", // both are open
		"[64:ff9b::10.0.0.1]:80":   "private network",
		"[2002:a00:1::]:80":        "private network",
		"[2002:808:808::]:80":      "",
	} {
		if got := g.judge(plain(netip.MustParseAddrPort(text))); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
