package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// load publishes the events.
type load struct {
	cfg     Config
	target  Target
	sink    *sink
	started time.Time

	next      atomic.Int64
	accepted  atomic.Int64
	refused   atomic.Int64
	overloads atomic.Int64
}

func newLoad(cfg Config, target Target, s *sink) *load {
	return &load{cfg: cfg, target: target, sink: s}
}

// run publishes all events and returns when the last is answered.
func (l *load) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l.started = l.cfg.Now()
	l.sink.started = l.started
	var group sync.WaitGroup
	for range l.cfg.Publishers {
		group.Go(func() {
			if err := l.publish(ctx); err != nil {
				cancel(err)
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

func (l *load) fill(r *Result) {
	r.Accepted, r.Refused, r.Overloads = int(l.accepted.Load()), int(l.refused.Load()), int(l.overloads.Load())
}

// publish is one publisher: one connection, one request at a time.
func (l *load) publish(ctx context.Context) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", l.target.Addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	answers := bufio.NewReaderSize(conn, 16<<10)
	full := newRequest(l.target, l.cfg.Size, l.cfg.Batch)
	for ctx.Err() == nil {
		first := int(l.next.Add(int64(l.cfg.Batch))) - l.cfg.Batch
		if first >= l.cfg.Events {
			return nil
		}
		r := full
		if left := l.cfg.Events - first; left < l.cfg.Batch {
			r = newRequest(l.target, l.cfg.Size, left)
		}
		if err := l.pace(ctx, first); err != nil {
			return err
		}
		for i, at := range r.numbers {
			putNumber(r.bytes, at, first+i)
		}
		if err := l.send(ctx, conn, answers, r, first); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// pace waits until it is an event's turn, where there is a rate.
func (l *load) pace(ctx context.Context, n int) error {
	if l.cfg.Rate == 0 {
		return nil
	}
	turn := l.started.Add(time.Duration(n) * time.Second / time.Duration(l.cfg.Rate))
	return wait(ctx, turn.Sub(l.cfg.Now()))
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// send makes one request, again while the server is overloaded.
func (l *load) send(ctx context.Context, conn net.Conn, answers *bufio.Reader, r request, first int) error {
	now := l.cfg.Now()
	for i := range r.numbers {
		l.sink.sent[first+i].Store(int64(now.Sub(l.started)) + 1)
	}
	for {
		if _, err := conn.Write(r.bytes); err != nil {
			return err
		}
		a, err := readAnswer(answers)
		if err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		switch a.status {
		case http.StatusAccepted:
			l.accepted.Add(int64(len(r.numbers)))
			return nil
		case http.StatusOK: // NDJSON
			l.accepted.Add(int64(len(r.numbers) - a.refused))
			l.refused.Add(int64(a.refused))
			return nil
		case http.StatusServiceUnavailable:
			l.overloads.Add(1)
			if err := wait(ctx, max(a.retryAfter, 50*time.Millisecond)); err != nil {
				return err
			}
		default:
			return fmt.Errorf("the server answered %d: %s", a.status, a.body)
		}
	}
}

// answer is what is read of an answer. The body is kept only of failures.
type answer struct {
	status     int
	refused    int // the header Posthorn-Refused
	retryAfter time.Duration
	body       []byte
}

var errAnswer = errors.New("the answer is no HTTP/1.1")

// readAnswer reads one answer, lean: only the headers that matter here.
func readAnswer(r *bufio.Reader) (answer, error) {
	var a answer
	line, err := r.ReadSlice('\n')
	if err != nil {
		return a, err
	}
	// "HTTP/1.1 202 Accepted"
	if len(line) < len("HTTP/1.1 202") || !bytes.HasPrefix(line, []byte("HTTP/1.")) {
		return a, errAnswer
	}
	if a.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return a, errAnswer
	}
	length, chunked := 0, false
	for {
		if line, err = r.ReadSlice('\n'); err != nil {
			return a, err
		}
		name, value, ok := strings.Cut(strings.TrimSpace(string(line)), ":")
		if !ok {
			break
		}
		value = strings.TrimSpace(value)
		switch strings.ToLower(name) {
		case "content-length":
			length, err = strconv.Atoi(value)
		case "transfer-encoding":
			chunked = strings.EqualFold(value, "chunked")
		case "posthorn-refused":
			a.refused, err = strconv.Atoi(value)
		case "retry-after":
			seconds, _ := strconv.Atoi(value) // a date counts as none
			a.retryAfter = time.Duration(seconds) * time.Second
		}
		if err != nil {
			return a, errAnswer
		}
	}
	return a, a.readBody(r, length, chunked)
}

// readBody passes over the body, and keeps the beginning of a failure's.
func (a *answer) readBody(r *bufio.Reader, length int, chunked bool) error {
	body := io.LimitReader(r, int64(length))
	if chunked {
		body = httputil.NewChunkedReader(r)
	}
	if a.status >= 400 {
		kept, err := io.ReadAll(io.LimitReader(body, 1<<10))
		if err != nil {
			return err
		}
		a.body = kept
	}
	if _, err := io.Copy(io.Discard, body); err != nil {
		return err
	}
	if chunked { // the empty line behind the last chunk
		_, err := r.ReadSlice('\n')
		return err
	}
	return nil
}
