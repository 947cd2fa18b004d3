package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/posthorn/posthorn/internal/cli/receiver"
	"github.com/posthorn/posthorn/internal/config"
)

type listenCommand struct {
	Port      int      `name:"port" placeholder:"P" default:"8090" help:"Port on 127.0.0.1; 0 takes a free one and says which."`
	Scheme    string   `name:"scheme" placeholder:"NAME" help:"Check signatures: ${schemes}."`
	Variant   string   `name:"variant" placeholder:"V" help:"Which of several schemes that the provider has."`
	Secrets   []string `name:"secret" sep:"none" placeholder:"SECRET" help:"The signing secret; repeat it while a secret is being changed."`
	Tolerance span     `name:"tolerance" placeholder:"D" help:"How far a timestamp may be off; by default what the scheme says."`
	Forward   string   `name:"forward" placeholder:"URL" help:"Pass each request whose signature is good on to this URL, and its answer back."`
	Answer    string   `name:"answer" placeholder:"LIST" help:"What to answer, one after the other, the last for ever: statuses, timeout, 429:retry-after=120, 500*3."`
	JSON      bool     `name:"json" help:"Print one JSON object for each request, with headers and body."`
}

// Help implements kong.HelpProvider.
func (listenCommand) Help() string {
	return `A receiver on this machine, to see what would arrive. It prints a line for each request; a bad signature gets 401.

Let a running server deliver to it, failing three times first:

    posthorn listen --port 8090 --answer '500*3,200'
    posthorn serve --allow-network 127.0.0.1:8090
    posthorn endpoints create http://127.0.0.1:8090/hooks -e '*'

Check signatures, and pass what is genuine on to an application:

    posthorn listen --scheme standardwebhooks --secret "$SECRET" --forward http://127.0.0.1:3000/hooks`
}

// Run listens until it is interrupted.
func (c *listenCommand) Run(ctx context.Context, p *Process) error {
	l, err := c.newListener(p)
	if err != nil {
		return err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(c.Port))
	socket, err := listenAt(ctx, address, "--port")
	if err != nil {
		return err
	}
	p.warnf("listening at http://%s; Ctrl-C ends it", socket.Addr())
	return serveHTTP(ctx, socket, l.handler(ctx))
}

// listenAt opens a socket; a port in use is a clear line.
func listenAt(ctx context.Context, address, flag string) (net.Listener, error) {
	var lc net.ListenConfig
	socket, err := lc.Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, portInUse(err, address, flag)
	}
	if err != nil {
		return nil, config.NewFault(err, "Can't listen at %s: %v.", address, errors.Unwrap(err))
	}
	return socket, nil
}

func portInUse(err error, address, flag string) error {
	return config.NewFault(err, "The address %s is in use by another program; end that, or choose another with %s.", address, flag)
}

// serveHTTP serves until ctx ends, which is no error.
func serveHTTP(ctx context.Context, socket net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(socket); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// listener is the state of a running listen command.
type listener struct {
	command  *listenCommand
	p        *Process
	verifier *receiver.Verifier
	answers  *receiver.Sequence
	forward  *url.URL
	http     *http.Client
	mu       sync.Mutex // one line at a time
}

// newListener checks the flags.
func (c *listenCommand) newListener(p *Process) (*listener, error) {
	l := &listener{command: c, p: p}
	if c.Port < 0 || c.Port > 65535 {
		return nil, usagef("--port: must lie between 0 and 65535")
	}
	if (c.Scheme == "") != (len(c.Secrets) == 0) {
		return nil, usagef("--scheme and --secret belong together")
	}
	if c.Scheme != "" {
		scheme, err := findScheme(c.Scheme, c.Variant)
		if err != nil {
			return nil, err
		}
		keys, err := parseKeys(scheme, c.Secrets)
		if err != nil {
			return nil, usagef("--secret: %w", err)
		}
		l.verifier = &receiver.Verifier{Scheme: scheme, Keys: keys, Tolerance: scheme.Tolerance}
		if c.Tolerance > 0 {
			l.verifier.Tolerance = c.Tolerance.std()
		}
	}
	if c.Answer != "" {
		answers, err := receiver.ParseAnswers(c.Answer)
		if err == nil {
			err = receiver.CheckGivable(answers)
		}
		if err != nil {
			return nil, usagef("--answer: %w", err)
		}
		l.answers = receiver.NewSequence(answers)
	}
	if c.Forward != "" {
		u, err := url.Parse(c.Forward)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, usagef("--forward: it must be a URL such as http://127.0.0.1:3000/hooks")
		}
		l.forward = u
		l.http = &http.Client{
			Timeout:       30 * time.Second,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return l, nil
}

func (l *listener) handler(ctx context.Context) http.Handler {
	return &receiver.Receiver{
		Now:      l.p.Clock.Wall,
		Verifier: func(*http.Request) *receiver.Verifier { return l.verifier },
		Decide:   l.decide,
		Report:   l.report,
		Done:     ctx.Done(),
	}
}

// decide refuses a bad signature; what is genuine it forwards and answers: with
// the list if there is one, else with the answer of the other side, else 200.
func (l *listener) decide(r *http.Request, got *receiver.Request) receiver.Reply {
	reply := receiver.Reply{Answer: receiver.Answer{Kind: receiver.KindStatus, Status: http.StatusOK}}
	if got.Refused != nil {
		reply.Answer.Status = http.StatusUnauthorized
		return reply
	}
	if l.forward != nil {
		reply = l.pass(r.Context(), got)
	}
	if l.answers != nil {
		return receiver.Reply{Answer: l.answers.Next()}
	}
	return reply
}

// hopHeaders belong to a connection, not to the message (RFC 9110, 7.6.1).
func hopHeaders() []string {
	return []string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Host"}
}

// pass forwards a request byte for byte.
func (l *listener) pass(ctx context.Context, got *receiver.Request) receiver.Reply {
	failed := receiver.Reply{Answer: receiver.Answer{Kind: receiver.KindStatus, Status: http.StatusBadGateway}}
	req, err := http.NewRequestWithContext(ctx, got.Method, l.forward.String(), bytes.NewReader(got.Body))
	if err != nil {
		return failed
	}
	req.Header = got.Header.Clone()
	for _, name := range hopHeaders() {
		req.Header.Del(name)
	}
	resp, err := l.http.Do(req)
	if err != nil {
		l.p.warnf("forwarding failed: %s", clean(err.Error()))
		return failed
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, receiver.MaxBody))
	if err != nil {
		l.p.warnf("forwarding failed while the answer was read: %s", clean(err.Error()))
		return failed
	}
	header := resp.Header.Clone()
	for _, name := range hopHeaders() {
		header.Del(name)
	}
	return receiver.Reply{
		Answer: receiver.Answer{Kind: receiver.KindStatus, Status: resp.StatusCode},
		Header: header, Body: body,
	}
}

// received is the JSON form of a request.
type received struct {
	At           time.Time   `json:"at"`
	Method       string      `json:"method"`
	Path         string      `json:"path"`
	Headers      http.Header `json:"headers"`
	Body         string      `json:"body"`
	BodyEncoding string      `json:"body_encoding"`
	Signature    string      `json:"signature"` // valid, invalid or unchecked
	Reason       string      `json:"reason,omitempty"`
	Answer       string      `json:"answer"`
}

// report prints a request.
func (l *listener) report(got *receiver.Request, reply receiver.Reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	state, why := "unchecked", ""
	if got.Checked {
		state = "valid"
	}
	if got.Refused != nil {
		state, why = "invalid", got.Refused.Error()
	}
	if l.command.JSON {
		text, encoding := encodeBody(got.Body)
		_ = l.p.printJSON(received{
			At: got.At.UTC(), Method: got.Method, Path: got.Path, Headers: got.Header, Body: text, BodyEncoding: encoding,
			Signature: state, Reason: why, Answer: reply.Answer.String(),
		})
		return
	}
	if why != "" {
		state += " (" + why + ")"
	}
	l.p.printf("%s  %s %s  %s  %s  signature %s  → %s\n",
		got.At.UTC().Format("15:04:05.000"), clean(got.Method), clean(got.Path), clean(describeEvent(got)),
		count(len(got.Body), "byte", "bytes"), clean(state), reply.Answer)
}

// encodeBody shows bytes as text where they are UTF-8, else in base64.
func encodeBody(body []byte) (text, encoding string) {
	if utf8.Valid(body) {
		return string(body), "utf8"
	}
	return base64.StdEncoding.EncodeToString(body), "base64"
}

// describeEvent names the event's type and ID where the request tells them.
func describeEvent(got *receiver.Request) string {
	var envelope struct {
		ID   string `json:"id"`
		Type string `json:"type"`
	}
	if json.Unmarshal(got.Body, &envelope) != nil {
		envelope.Type = "" // not every provider's body is an object with these members
	}
	id := got.Header.Get("Webhook-Id")
	if id == "" {
		id = envelope.ID
	}
	if envelope.Type == "" && id == "" {
		return "-"
	}
	if id == "" {
		return envelope.Type
	}
	return envelope.Type + " " + id
}
