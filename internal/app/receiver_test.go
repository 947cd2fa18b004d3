package app

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// request is what came over a connection, byte for byte.
type request struct {
	head []byte // with the empty line at its end
	body []byte
	at   time.Time
	// conn numbers the connection it came on.
	conn int
}

func (q *request) line() string {
	line, _, _ := strings.Cut(string(q.head), "\r\n")
	return line
}

func (q *request) target() string {
	if words := strings.Split(q.line(), " "); len(words) == 3 {
		return words[1]
	}
	return ""
}

// path is the target without the query.
func (q *request) path() string {
	path, _, _ := strings.Cut(q.target(), "?")
	return path
}

// values lists all fields of a name, in whatever case.
func (q *request) values(name string) []string {
	var out []string
	for line := range strings.SplitSeq(string(q.head), "\r\n") {
		if field, value, found := strings.Cut(line, ":"); found && strings.EqualFold(field, name) {
			out = append(out, strings.TrimSpace(value))
		}
	}
	return out
}

// value is that of the only field of a name; "" for none and for several.
func (q *request) value(name string) string {
	if all := q.values(name); len(all) == 1 {
		return all[0]
	}
	return ""
}

// id is the message's ID.
func (q *request) id() string { return q.value("webhook-id") }

// data cuts the payload out of the envelope {"type":…,"timestamp":…,"data":…}.
func (q *request) data() []byte {
	_, rest, found := bytes.Cut(q.body, []byte(`,"data":`))
	if !found {
		return nil
	}
	return bytes.TrimSuffix(rest, []byte("}"))
}

// forged says what is wrong with a request's signature, nil for nothing. It is
// written after the text of Standard Webhooks and shares no line with the
// product: HMAC-SHA256 of id.timestamp.body in base64, under v1.
func (q *request) forged(secret string) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return err
	}
	id, stamp, signatures := q.value("webhook-id"), q.value("webhook-timestamp"), q.value("webhook-signature")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || id == "" {
		return fmt.Errorf("id %q, timestamp %q", id, stamp)
	}
	if age := q.at.Sub(time.Unix(seconds, 0)); age.Abs() > 5*time.Minute {
		return fmt.Errorf("the timestamp is %s old", age)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + stamp + "."))
	mac.Write(q.body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	if !slices.Contains(strings.Fields(signatures), want) {
		return fmt.Errorf("signature %q over %d bytes", signatures, len(q.body))
	}
	return nil
}

// exchange is a request that waits for its answer.
type exchange struct {
	net.Conn
	*request
	// quit is closed when the receiver ends.
	quit <-chan struct{}
}

// answer answers on the bare connection and says whether that stays open.
type answer func(x *exchange) (keep bool)

// write writes and keeps the connection. Who no longer listens has not failed.
func write(text string) answer {
	return func(x *exchange) bool {
		_, err := io.WriteString(x, text)
		return err == nil
	}
}

func status(code int, fields ...string) answer {
	text := "HTTP/1.1 " + strconv.Itoa(code) + " Some Text\r\n"
	for _, f := range fields {
		text += f + "\r\n"
	}
	return write(text + "Content-Length: 0\r\n\r\n")
}

// failing answers 500 to the first n tries of each message, then 200.
func failing(n int) answer {
	var mu sync.Mutex
	tries := map[string]int{}
	return func(x *exchange) bool {
		mu.Lock()
		tries[x.id()]++
		fails := tries[x.id()] <= n
		mu.Unlock()
		if fails {
			return status(500)(x)
		}
		return status(200)(x)
	}
}

// body answers 200 with n letters.
func body(n int) answer {
	return func(x *exchange) bool {
		_, err := fmt.Fprintf(x, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", n)
		block := bytes.Repeat([]byte("a"), 64<<10)
		for left := n; left > 0 && err == nil; left -= len(block) {
			_, err = x.Write(block[:min(left, len(block))])
		}
		return err == nil
	}
}

// thenClose and thenReset end the connection after a text.
func thenClose(text string) answer {
	return func(x *exchange) bool { return write(text)(x) && false }
}

func thenReset(text string) answer {
	return func(x *exchange) bool {
		_ = write(text)(x)
		if tcp, ok := x.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		return false
	}
}

// held answers once open is closed.
func held(open <-chan struct{}, then answer) answer {
	return func(x *exchange) bool {
		select {
		case <-open:
			return then(x)
		case <-x.quit:
			return false
		}
	}
}

// hang never answers.
func hang() answer { return held(nil, nil) }

// after answers later.
func after(wait time.Duration, then answer) answer {
	return func(x *exchange) bool {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
			return then(x)
		case <-x.quit:
			return false
		}
	}
}

// drip writes part every so often, for ever.
func drip(head, part string, every time.Duration) answer {
	return func(x *exchange) bool {
		text := head
		for keep := true; keep; text = part {
			keep = after(every, write(text))(x)
		}
		return false
	}
}

// receiver is a server of raw sockets: each path has a script of answers, of
// which the last is repeated; a path without one answers 200.
type receiver struct {
	t        testing.TB
	listener net.Listener
	scheme   string
	quit     chan struct{}
	running  sync.WaitGroup

	mu      sync.Mutex
	scripts map[string][]answer
	got     []*request
	conns   map[net.Conn]bool
	count   int // connections so far
	open    int // requests without an answer
	// keep is false where only numbers are wanted: seen hears of each request.
	seen func(*request)
}

func newReceiver(t testing.TB) *receiver {
	t.Helper()
	return receiverAt(t, "127.0.0.1:0", nil)
}

// newTLSReceiver answers over TLS with the certificate that pick returns for the
// connection of this number, from 1.
func newTLSReceiver(t testing.TB, pick func(n int) *tls.Certificate) *receiver {
	t.Helper()
	return receiverAt(t, "127.0.0.1:0", pick)
}

func receiverAt(t testing.TB, address string, pick func(n int) *tls.Certificate) *receiver {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{t: t, listener: l, scheme: "http", quit: make(chan struct{}), scripts: map[string][]answer{}, conns: map[net.Conn]bool{}}
	if pick != nil {
		r.scheme = "https"
		n := 0
		r.listener = tls.NewListener(l, &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			n++
			return pick(n), nil
		}})
	}
	r.running.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

func (r *receiver) close() {
	_ = r.listener.Close()
	r.mu.Lock()
	close(r.quit)
	for conn := range r.conns {
		_ = conn.Close()
	}
	r.mu.Unlock()
	r.running.Wait()
}

func (r *receiver) accept() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		select {
		case <-r.quit:
			_ = conn.Close()
		default:
			r.count++
			r.conns[conn] = true
			n := r.count
			r.running.Go(func() { r.serve(conn, n) })
		}
		r.mu.Unlock()
	}
}

func (r *receiver) serve(conn net.Conn, n int) {
	defer func() {
		r.mu.Lock()
		delete(r.conns, conn)
		r.mu.Unlock()
		_ = conn.Close()
	}()
	from := bufio.NewReader(conn)
	for {
		q, err := readRequest(from)
		if err != nil {
			if !errors.Is(err, io.EOF) && !isGone(err) {
				r.t.Errorf("what came is no request: %v", err)
			}
			return
		}
		q.conn = n
		act := r.take(q)
		keep := act(&exchange{conn, q, r.quit})
		r.mu.Lock()
		r.open--
		r.mu.Unlock()
		if !keep {
			return
		}
	}
}

// isGone tells an end of the connection, which is the caller's right, from
// something that was said wrong.
func isGone(err error) bool {
	var network net.Error
	var record tls.RecordHeaderError
	return errors.As(err, &network) || errors.As(err, &record) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrUnexpectedEOF) ||
		strings.Contains(err.Error(), "tls:")
}

// readRequest reads one request as it stands.
func readRequest(from *bufio.Reader) (*request, error) {
	q := &request{}
	for !bytes.HasSuffix(q.head, []byte("\r\n\r\n")) {
		line, err := from.ReadBytes('\n')
		q.head = append(q.head, line...)
		if err != nil {
			return nil, err
		}
	}
	length := q.values("Content-Length")
	if len(length) != 1 || len(q.values("Transfer-Encoding")) != 0 {
		return nil, fmt.Errorf("%q", q.head)
	}
	size, err := strconv.Atoi(length[0])
	if err != nil {
		return nil, fmt.Errorf("length %q", length[0])
	}
	q.body = make([]byte, size)
	_, err = io.ReadFull(from, q.body)
	q.at = time.Now()
	return q, err
}

// take notes a request and returns its answer.
func (r *receiver) take(q *request) answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open++
	if r.seen != nil {
		r.seen(q)
	} else {
		r.got = append(r.got, q)
	}
	script := r.scripts[q.path()]
	if len(script) == 0 {
		return status(200)
	}
	if len(script) > 1 {
		r.scripts[q.path()] = script[1:]
	}
	return script[0]
}

// on gives a path its script.
func (r *receiver) on(path string, script ...answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.scripts[path] = script
}

func (r *receiver) url(target string) string {
	return r.scheme + "://" + r.listener.Addr().String() + target
}

func (r *receiver) port() uint16 { return netip.MustParseAddrPort(r.listener.Addr().String()).Port() }

// at lists the requests of a path, of all paths for "".
func (r *receiver) at(path string) []*request {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*request
	for _, q := range r.got {
		if path == "" || q.path() == path {
			out = append(out, q)
		}
	}
	return out
}

// waiting counts requests that have no answer yet.
func (r *receiver) waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open
}

// connected counts connections that are open.
func (r *receiver) connected() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.conns)
}

// await waits until a path has had n requests, and returns them.
func (r *receiver) await(path string, n int) []*request {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%d requests at %q", n, path), func() bool { return len(r.at(path)) >= n })
	return r.at(path)
}
