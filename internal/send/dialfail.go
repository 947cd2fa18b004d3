package send

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"github.com/posthorn/posthorn/internal/webhook"
)

// resolveFailure puts a failed look-up into words; timeouts are the caller's.
func resolveFailure(err error) *failure {
	var dns *net.DNSError
	if outOfHandles(err) || errors.As(err, &dns) && strings.Contains(dns.Err, syscall.EMFILE.Error()) {
		return ours(webhook.FaultHandles) // DNSError keeps the text of its cause only
	}
	if dns != nil && dns.IsNotFound {
		return network(webhook.PhaseResolve, "The URL's host name does not exist in DNS.")
	}
	return network(webhook.PhaseResolve, "The URL's host name could not be looked up: its DNS servers answered with a failure.")
}

// isTimeout also holds for a resolver that gave up before our own time was over.
func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

func outOfHandles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) ||
		errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM)
}

// connectFailure puts a failed connect into words.
func connectFailure(ctx context.Context, err error, target netip.AddrPort) *failure {
	f := network(webhook.PhaseConnect, "No connection to the server could be established.")
	var refused *failure
	switch {
	case errors.As(err, &refused): // by the guard, in the dialler's last check
		return refused
	case outOfHandles(err), errors.Is(err, syscall.EADDRNOTAVAIL) && hasSource(ctx, target):
		f = ours(webhook.FaultHandles)
	case errors.Is(err, syscall.ECONNREFUSED):
		f.text = "The server refused the connection: nothing listens on the URL's port."
	case errors.Is(err, syscall.ECONNRESET):
		f.text = "The server reset the connection while it was being established."
	case unreachable(err):
		f.unreachable = true
		f.text = "The server's network could not be reached."
	}
	return f.at(target.String())
}

func unreachable(err error) bool {
	return errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.EADDRNOTAVAIL)
}

// hasSource tells whether this machine has an address to reach target from.
// EADDRNOTAVAIL stands for two things: no local port is left, which is our fault,
// or no such address, as for IPv6 on a machine without it. Connecting a UDP
// socket asks the same question and sends nothing.
func hasSource(ctx context.Context, target netip.AddrPort) bool {
	conn, err := new(net.Dialer).DialContext(ctx, "udp", target.String())
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
