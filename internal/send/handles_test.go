package send

import (
	"context"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/posthorn/posthorn/internal/webhook"
)

// Idle connections must not hold the handles that a new one lacks: the attempt
// that finds none left gives theirs back.
func TestFault_B46_IdleConnectionsGiveHandlesBack(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	r := newReceiver(t, func(c *rawConn) {
		if _, ok := c.next(); ok {
			c.write("HTTP/1.1 204 No Content\r\n\r\n")
			c.untilClosed()
			close(closed)
		}
	})
	var none atomic.Bool
	connect := func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
		if none.Load() {
			return nil, os.NewSyscallError("socket", syscall.EMFILE)
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", "127.0.0.1:"+r.port())
	}
	s := hookedSender(t, Config{Resolver: answers("198.41.0.4")}, connect)
	want{status: 204}.check(t, "with a handle left", s.Send(t.Context(), post(t, "http://one.example/")))
	none.Store(true)
	want{fault: webhook.FaultHandles, phase: webhook.PhaseInternal, message: "file handle"}.check(t, "with none left", s.Send(t.Context(), post(t, "http://other.example/")))
	<-closed
}
