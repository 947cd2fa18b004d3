package send

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/posthorn/posthorn/internal/webhook"
)

// Resolver looks host names up; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

const (
	// stagger is how long one address may take before the next is tried beside
	// it (RFC 8305, section 5).
	stagger = 250 * time.Millisecond
	// maxAddresses bounds the addresses that one dial tries: a name with
	// thousands would make one attempt a flood.
	maxAddresses = 8
)

// dialler makes connections. Each address it connects to was judged by the guard
// in the same dial, after the look-up, and is judged once more by the socket's
// control hook, which sees what the kernel gets (B18).
type dialler struct {
	resolver Resolver
	guard    *guard
	tls      *tls.Config
	now      func() time.Time // monotonic
	connect  func(ctx context.Context, target netip.AddrPort) (net.Conn, error)
}

func (d *dialler) connectTCP(ctx context.Context, target netip.AddrPort) (net.Conn, error) {
	dialer := net.Dialer{ControlContext: d.control}
	return dialer.DialContext(ctx, "tcp", target.String())
}

func (d *dialler) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if f := d.guard.check(target); f != nil {
		return f
	}
	return nil
}

// dialPlain and dialTLS are http.Transport's hooks. The transport takes the
// request's deadline off their context, as a late connection may serve another
// request; a dial here never outlives the try that began it.
func (d *dialler) dialPlain(ctx context.Context, _, hostPort string) (net.Conn, error) {
	t := tryOf(ctx)
	ctx, cancel := context.WithDeadline(ctx, t.deadline)
	defer cancel()
	p, f := d.dial(ctx, t, hostPort)
	if f != nil {
		return nil, f
	}
	return p, nil
}

func (d *dialler) dialTLS(ctx context.Context, _, hostPort string) (net.Conn, error) {
	t := tryOf(ctx)
	ctx, cancel := context.WithDeadline(ctx, t.deadline)
	defer cancel()
	p, f := d.dial(ctx, t, hostPort)
	if f != nil {
		return nil, f
	}
	conn, f := d.handshake(ctx, t, p, hostPort)
	if f != nil {
		return nil, f
	}
	return conn, nil
}

func (d *dialler) handshake(ctx context.Context, t *try, p *peer, hostPort string) (*tls.Conn, *failure) {
	t.reach(webhook.PhaseTLS, p.address)
	config := d.tls.Clone()
	config.ServerName, _, _ = net.SplitHostPort(hostPort)
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		p.asks.Store(true)
		return new(tls.Certificate), nil
	}
	conn := tls.Client(p, config)
	err := conn.HandshakeContext(ctx)
	if err == nil {
		return conn, nil
	}
	_ = p.Close() // not conn: it would wait to send an alert
	f := tlsFailure(err, p.asks.Load())
	if ctx.Err() != nil {
		f = timedOut(webhook.PhaseTLS, t.timeout)
	}
	return nil, f.at(p.address)
}

// dial looks the host up, judges its addresses and connects to one.
func (d *dialler) dial(ctx context.Context, t *try, hostPort string) (*peer, *failure) {
	t.reach(webhook.PhaseResolve, "")
	targets, f := d.lookUp(ctx, t, hostPort)
	if f != nil {
		return nil, f
	}
	if targets, f = d.allowed(targets); f != nil {
		return nil, f
	}
	p, f := d.race(ctx, t, targets)
	if f != nil && ctx.Err() != nil {
		f = timedOut(webhook.PhaseConnect, t.timeout).at(f.address)
	}
	return p, f
}

// lookUp returns what the host stands for, each with the port. An address stands
// for itself.
func (d *dialler) lookUp(ctx context.Context, t *try, hostPort string) ([]netip.AddrPort, *failure) {
	host, service, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, ours(webhook.FaultPrepare)
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return nil, ours(webhook.FaultPrepare)
	}
	addrs := make([]netip.Addr, 1)
	if addrs[0], err = netip.ParseAddr(host); err != nil {
		addrs, err = d.resolver.LookupNetIP(ctx, "ip", host)
	}
	if err != nil && (ctx.Err() != nil || isTimeout(err)) {
		return nil, timedOut(webhook.PhaseResolve, t.timeout)
	}
	if err != nil {
		return nil, resolveFailure(err)
	}
	if len(addrs) == 0 {
		return nil, resolveFailure(&net.DNSError{IsNotFound: true})
	}
	targets := make([]netip.AddrPort, len(addrs))
	for i, a := range addrs {
		targets[i] = plain(netip.AddrPortFrom(a, uint16(port)))
	}
	return targets, nil
}

// allowed drops what may not be called (N28). If nothing is left the failure is
// that of the first address.
func (d *dialler) allowed(targets []netip.AddrPort) ([]netip.AddrPort, *failure) {
	var first *failure
	kept := targets[:0]
	for _, target := range targets {
		if f := d.guard.check(target); f == nil {
			kept = append(kept, target)
		} else if first == nil {
			first = f
		}
	}
	if len(kept) == 0 {
		return nil, first
	}
	return kept, nil
}

// alternate orders targets so that the families take turns, the first one's
// first, and cuts the list (RFC 8305, section 4).
func alternate(targets []netip.AddrPort) []netip.AddrPort {
	var families [2][]netip.AddrPort
	for _, t := range targets {
		other := 0
		if t.Addr().Is4() != targets[0].Addr().Is4() {
			other = 1
		}
		families[other] = append(families[other], t)
	}
	var order []netip.AddrPort
	for i := range targets {
		for _, family := range families {
			if i < len(family) {
				order = append(order, family[i])
			}
		}
	}
	return order[:min(len(order), maxAddresses)]
}

// dialled is how one connect of a race ended.
type dialled struct {
	peer    *peer
	failure *failure
}

// race connects to the targets in order, each given a head start before the
// next; the first connection wins and the others are closed.
func (d *dialler) race(ctx context.Context, t *try, targets []netip.AddrPort) (*peer, *failure) {
	if len(targets) == 1 {
		t.reach(webhook.PhaseConnect, targets[0].String())
		end := d.connectTo(ctx, targets[0])
		return end.peer, end.failure
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	targets = alternate(targets)
	ends := make(chan dialled, len(targets))
	started, running := 0, 0
	next := func() {
		target := targets[started]
		started, running = started+1, running+1
		t.reach(webhook.PhaseConnect, target.String())
		go func() { ends <- d.connectTo(ctx, target) }()
	}
	next()
	timer := time.NewTicker(stagger)
	defer timer.Stop()
	var worst *failure
	for {
		select {
		case end := <-ends:
			running--
			if end.peer != nil {
				go closeLate(ends, running)
				return end.peer, nil
			}
			worst = telling(worst, end.failure)
			if started == len(targets) && running == 0 {
				return nil, worst
			}
		case <-timer.C:
		}
		if started < len(targets) {
			next()
			timer.Reset(stagger)
		}
	}
}

func closeLate(ends <-chan dialled, running int) {
	for range running {
		if end := <-ends; end.peer != nil {
			_ = end.peer.Close()
		}
	}
}

// telling picks the failure to report of two: our own first, since the try was
// not a fair one, then any that came from the server, then the earlier.
func telling(a, b *failure) *failure {
	switch {
	case a == nil:
		return b
	case b.fault != webhook.FaultNone && a.fault == webhook.FaultNone:
		return b
	case a.fault == webhook.FaultNone && a.unreachable && !b.unreachable:
		return b
	}
	return a
}

func (d *dialler) connectTo(ctx context.Context, target netip.AddrPort) dialled {
	conn, err := d.connect(ctx, target)
	if err != nil {
		return dialled{failure: connectFailure(ctx, err, target)}
	}
	return dialled{peer: newPeer(conn, target.String(), d.now)}
}
