package send

import (
	"math"
	"net"
	"sync/atomic"
	"time"

	"github.com/posthorn/posthorn/contract"
)

// leash is how long a connection may go without a request before it is closed
// whatever the transport thinks of it. An attempt never takes longer than
// contract.MaxTimeout, so nothing is under way on it then. The transport closes
// idle connections itself, except that a receiver can make it forget HTTP/2 ones
// by refusing streams, and could so use up our file handles.
const leash = contract.MaxTimeout + idleTimeout

// peer is a connection that knows whom it leads to.
type peer struct {
	net.Conn
	address string
	// asks is set when the server wanted a client certificate.
	asks atomic.Bool

	now   func() time.Time // monotonic
	made  time.Time
	used  atomic.Int64 // since made, when the last request got it
	watch *time.Timer
}

func newPeer(conn net.Conn, address string, now func() time.Time) *peer {
	p := &peer{Conn: conn, address: address, now: now, made: now()}
	// Started only once the field is set, since expire reads it.
	p.watch = time.AfterFunc(math.MaxInt64, p.expire)
	p.watch.Reset(leash)
	return p
}

// touch notes that a request has got the connection.
func (p *peer) touch() { p.used.Store(int64(p.now().Sub(p.made))) }

func (p *peer) expire() {
	unused := p.now().Sub(p.made) - time.Duration(p.used.Load())
	if unused >= leash {
		_ = p.Conn.Close()
		return
	}
	p.watch.Reset(leash - unused)
}

// Close implements net.Conn.
func (p *peer) Close() error {
	p.watch.Stop()
	return p.Conn.Close()
}
