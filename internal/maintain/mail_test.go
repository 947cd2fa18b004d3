package maintain

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/posthorn/posthorn/internal/webhook"
)

// postbox is a real SMTP server on loopback that keeps what it takes.
type postbox struct {
	user, password string // "" asks for none
	// refuse answers the n-th RCPT, from 1; nil accepts.
	refuse func(n int) error

	mu     sync.Mutex
	rcpts  int
	logins int
	from   []string
	to     []string
	texts  [][]byte
}

type session struct {
	box    *postbox
	signed bool
	from   string
}

func (s *session) Reset()        {}
func (s *session) Logout() error { return nil }

func (s *session) AuthMechanisms() []string {
	if s.box.user == "" {
		return nil
	}
	return []string{sasl.Plain}
}

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != s.box.user || password != s.box.password {
			return smtp.ErrAuthFailed
		}
		s.signed = true
		s.box.mu.Lock()
		defer s.box.mu.Unlock()
		s.box.logins++
		return nil
	}), nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if s.box.user != "" && !s.signed {
		return smtp.ErrAuthRequired
	}
	s.from = from
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	s.box.rcpts++
	if s.box.refuse != nil {
		if err := s.box.refuse(s.box.rcpts); err != nil {
			return err
		}
	}
	s.box.from, s.box.to = append(s.box.from, s.from), append(s.box.to, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	s.box.texts = append(s.box.texts, text)
	return err
}

// silence is the server's log.
type silence struct{}

func (silence) Printf(string, ...any) {}
func (silence) Println(...any)        {}

// certificate is one for 127.0.0.1, and the pool that trusts it.
func certificate(t *testing.T) (server *tls.Config, roots *x509.CertPool) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	t.Cleanup(s.Close)
	roots = x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return &tls.Config{Certificates: s.TLS.Certificates, MinVersion: tls.VersionTLS12}, roots
}

// serve runs the box; with implicit every connection begins with TLS.
func (b *postbox) serve(t *testing.T, secured *tls.Config, implicit bool) MailServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().(*net.TCPAddr)
	if implicit {
		l = tls.NewListener(l, secured)
	}
	s := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &session{box: b}, nil }))
	s.Domain, s.TLSConfig, s.AllowInsecureAuth = "127.0.0.1", secured, true
	s.ErrorLog = silence{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // ends with Close
	}()
	t.Cleanup(func() { _ = s.Close(); <-done })
	return MailServer{Host: "127.0.0.1", Port: at.Port, From: `"Hooks, Inc." <hooks@posthorn.example>`}
}

func letter() Mail {
	return Mail{
		ID: "ntc_1", To: "owner@acme.example", Subject: "Webhook endpoint ep_1 (hooks.example.com): sending is paused",
		Body: "50 attempts in a row failed. Größe: 3 €.\n.\nEnd\n", At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}
}

// N19: mail goes out plain, by STARTTLS and by TLS from the first byte, signed in or
// not, and arrives as written, with the headers that mail has to have.
func TestEngine_N19_MailGoesOut(t *testing.T) {
	t.Parallel()
	secured, roots := certificate(t)
	for name, test := range map[string]struct {
		user               string
		implicit, startTLS bool
	}{
		"plain":             {},
		"plain, signed in":  {user: "posthorn"}, // allowed to this machine alone
		"STARTTLS":          {startTLS: true},
		"STARTTLS, sign in": {startTLS: true, user: "posthorn"},
		"TLS":               {implicit: true},
		"TLS, signed in":    {implicit: true, user: "posthorn"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box := &postbox{user: test.user, password: "hunter2"}
			server := box.serve(t, secured, test.implicit)
			server.Implicit, server.StartTLS, server.TLS = test.implicit, test.startTLS, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
			server.User, server.Password = test.user, webhook.NewSecretText("hunter2")
			if err := NewSMTP(server).Send(t.Context(), letter()); err != nil {
				t.Fatal(err)
			}
			box.check(t)
			if (box.logins == 1) != (test.user != "") {
				t.Errorf("%d logins", box.logins)
			}
		})
	}
}

// check looks at the one mail that came.
func (b *postbox) check(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.texts) != 1 || b.from[0] != "hooks@posthorn.example" || b.to[0] != "owner@acme.example" {
		t.Fatalf("%d mails from %v to %v", len(b.texts), b.from, b.to)
	}
	m, err := mail.ReadMessage(bytes.NewReader(b.texts[0]))
	if err != nil {
		t.Fatal(err)
	}
	for header, want := range map[string]string{
		"Message-Id": "<ntc_1@posthorn.example>", "Auto-Submitted": "auto-generated", "To": "<owner@acme.example>",
		"From": `"Hooks, Inc." <hooks@posthorn.example>`, "Subject": letter().Subject, "Content-Type": "text/plain; charset=UTF-8",
		"Date": "Sun, 01 Mar 2026 12:00:00 +0000", "Mime-Version": "1.0",
	} {
		if got := m.Header.Get(header); got != want {
			t.Errorf("%s is %q, want %q", header, got, want)
		}
	}
	body, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if got := strings.ReplaceAll(string(body), "\r\n", "\n"); err != nil || strings.TrimSpace(got) != strings.TrimSpace(letter().Body) {
		t.Errorf("body is %q, %v", got, err)
	}
}

// What can't be sent safely is not sent: no STARTTLS where it is demanded, a
// certificate that nobody vouches for.
func TestEngine_N19_MailIsNotSentUnsafely(t *testing.T) {
	t.Parallel()
	secured, roots := certificate(t)
	for name, test := range map[string]struct {
		offered  *tls.Config
		implicit bool
		roots    *x509.CertPool
	}{
		"no STARTTLS":       {nil, false, roots},
		"unknown authority": {secured, false, x509.NewCertPool()},
		"the same, TLS":     {secured, true, x509.NewCertPool()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box := &postbox{user: "posthorn", password: "hunter2"}
			server := box.serve(t, test.offered, test.implicit)
			server.Implicit, server.StartTLS, server.TLS = test.implicit, !test.implicit, &tls.Config{RootCAs: test.roots, MinVersion: tls.VersionTLS12}
			server.User, server.Password = "posthorn", webhook.NewSecretText("hunter2")
			err := NewSMTP(server).Send(t.Context(), letter())
			if err == nil || strings.Contains(err.Error(), "hunter2") || box.logins+box.rcpts > 0 {
				t.Errorf("got %v with %d logins", err, box.logins)
			}
		})
	}
}

// N19: a server that defers (4xx) is a failure like any other and takes the mail
// later; one that refuses the mailbox (5xx) is final; a wrong password is not,
// since the operator can mend it.
func TestEngine_N19_MailServerAnswers(t *testing.T) {
	t.Parallel()
	box := &postbox{refuse: func(n int) error {
		switch n {
		case 1:
			return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 7, 1}, Message: "greylisted hunter2"}
		case 2:
			return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such user hunter2"}
		default:
			return nil
		}
	}}
	s := NewSMTP(box.serve(t, nil, false))
	deferred, refused := s.Send(t.Context(), letter()), s.Send(t.Context(), letter())
	if deferred == nil || errors.Is(deferred, ErrMailRefused) || !strings.Contains(deferred.Error(), "451") {
		t.Errorf("deferred: %v", deferred)
	}
	if !errors.Is(refused, ErrMailRefused) {
		t.Errorf("refused: %v", refused)
	}
	if err := s.Send(t.Context(), letter()); err != nil {
		t.Errorf("accepted: %v", err)
	}
	box.check(t)

	locked := &postbox{user: "posthorn", password: "hunter2"}
	server := locked.serve(t, nil, false)
	server.User, server.Password = "posthorn", webhook.NewSecretText("hunter3")
	denied := NewSMTP(server).Send(t.Context(), letter())
	if denied == nil || errors.Is(denied, ErrMailRefused) || !strings.Contains(denied.Error(), "535") {
		t.Errorf("denied: %v", denied)
	}
	broken := letter()
	broken.To = "owner@acme.example\r\nBcc: all@acme.example"
	if err := s.Send(t.Context(), broken); !errors.Is(err, ErrMailRefused) {
		t.Errorf("an address with a line break: %v", err)
	}
	for _, err := range []error{deferred, refused, denied} {
		if strings.Contains(err.Error(), "hunter") {
			t.Errorf("the server's words or a secret are in %q", err)
		}
	}
}

// A server that says nothing, or stops in the middle, holds nobody longer than the
// caller's time; nor does one that is not there.
func TestEngine_N19_AHangingMailServerIsCut(t *testing.T) {
	t.Parallel()
	for name, script := range map[string][]string{
		"no greeting":    nil,
		"after greeting": {"220 here"},
		"after EHLO":     {"220 here", "250 here"},
		"after RCPT":     {"220 here", "250 here", "250 ok", "250 ok", "250 ok"},
		"after DATA":     {"220 here", "250 here", "250 ok", "250 ok", "250 ok", "354 go on"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			cut := make(chan struct{})
			go func() {
				defer close(cut)
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				lines := bufio.NewReader(c)
				for i, answer := range script {
					if i > 0 {
						if _, err := lines.ReadString('\n'); err != nil {
							return
						}
					}
					if _, err := io.WriteString(c, answer+"\r\n"); err != nil {
						return
					}
				}
				_, _ = io.Copy(io.Discard, lines) // until the other side closes
			}()
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			at := l.Addr().(*net.TCPAddr)
			err = NewSMTP(MailServer{Host: "127.0.0.1", Port: at.Port, From: "hooks@posthorn.example"}).Send(ctx, letter())
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			<-cut // the connection is not left open
		})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().(*net.TCPAddr)
	_ = l.Close()
	if err := NewSMTP(MailServer{Host: "127.0.0.1", Port: at.Port, From: "hooks@posthorn.example"}).Send(t.Context(), letter()); err == nil {
		t.Error("sent to nobody")
	}
}
