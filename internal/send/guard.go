package send

import (
	"net"
	"net/netip"
	"slices"

	"github.com/posthorn/posthorn/internal/webhook"
)

// guard judges every address that is about to be dialled (R12, N28).
type guard struct {
	blocks []block
	allow  Networks
	// own lists listeners and other addresses that are never called, whatever
	// allow says; may be nil.
	own func() []netip.AddrPort
	// local lists the addresses of this machine's interfaces.
	local func() ([]netip.Addr, error)
}

func newGuard(allow Networks, own func() []netip.AddrPort) *guard {
	return &guard{blocks: specialBlocks(), allow: allow, own: own, local: interfaceAddrs}
}

// check returns nil for an address that may be called, else a failure of kind
// unsafe_url whose text names the kind of address and not the address.
func (g *guard) check(target netip.AddrPort) *failure {
	if kind := g.judge(plain(target)); kind != "" {
		return &failure{
			kind: webhook.KindUnsafeURL, phase: webhook.PhaseGuard,
			text: "The URL leads to an address that may not be called (" + kind + ")." + remedy(kind),
		}
	}
	return nil
}

// remedy says what helps, where anything does.
func remedy(kind string) string {
	if kind == kindThisHost || kind == kindOwn {
		return ""
	}
	return " Whoever runs the server can open networks for it (--allow-network)."
}

// plain strips what makes one address look like another.
func plain(target netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(target.Addr().Unmap().WithZone(""), target.Port())
}

// judge returns "" or the kind of address that is refused. This host and our own
// listeners come before what is opened: nothing opens them.
func (g *guard) judge(target netip.AddrPort) string {
	addr := target.Addr()
	if !addr.IsValid() || isThisHost(addr) {
		return kindThisHost
	}
	if g.isOwn(target) {
		return kindOwn
	}
	if g.allow.Contains(target) {
		// An address that carries an IPv4 address inside leads there, so both
		// must be open.
		if inner, ok := embedded(addr); ok {
			return g.judge(netip.AddrPortFrom(inner, target.Port()))
		}
		return ""
	}
	for _, b := range g.blocks {
		if b.prefix.Contains(addr) {
			return b.kind
		}
	}
	if addr.Is6() && !inPrefix("2000::/3", addr) {
		return kindUnassigned
	}
	return ""
}

// isThisHost: Linux takes all of 0.0.0.0/8 and :: for the machine itself.
func isThisHost(addr netip.Addr) bool {
	return addr.IsUnspecified() || addr.Is4() && addr.As4()[0] == 0
}

func inPrefix(prefix string, addr netip.Addr) bool {
	return netip.MustParsePrefix(prefix).Contains(addr)
}

// embedded returns the IPv4 address that a NAT64, 6to4 or IPv4-compatible
// address leads to.
func embedded(addr netip.Addr) (netip.Addr, bool) {
	if !addr.Is6() {
		return netip.Addr{}, false
	}
	b := addr.As16()
	switch {
	case addr == netip.IPv6Loopback():
		return netip.Addr{}, false
	case inPrefix("64:ff9b::/96", addr), inPrefix("::/96", addr):
		return netip.AddrFrom4([4]byte(b[12:])), true
	case inPrefix("2002::/16", addr):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}

// isOwn tells whether target reaches one of our own listeners. One bound to the
// unspecified address is reached by every address of this machine, in either
// family.
func (g *guard) isOwn(target netip.AddrPort) bool {
	if g.own == nil {
		return false
	}
	for _, listener := range g.own() {
		if listener.Port() != target.Port() {
			continue
		}
		if l := plain(listener).Addr(); l == target.Addr() || l.IsUnspecified() && g.isLocal(target.Addr()) {
			return true
		}
	}
	return false
}

// isLocal takes the addresses as local when they can't be listed.
func (g *guard) isLocal(addr netip.Addr) bool {
	if addr.IsLoopback() {
		return true
	}
	local, err := g.local()
	return err != nil || slices.Contains(local, addr)
}

func interfaceAddrs() ([]netip.Addr, error) {
	nets, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	addrs := make([]netip.Addr, 0, len(nets))
	for _, n := range nets {
		if prefix, err := netip.ParsePrefix(n.String()); err == nil {
			addrs = append(addrs, prefix.Addr().Unmap().WithZone(""))
		}
	}
	return addrs, nil
}
