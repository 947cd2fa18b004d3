package maintain

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"github.com/posthorn/posthorn/internal/webhook"
)

// ErrMailRefused says that the server will never take mail for this address.
var ErrMailRefused = errors.New("the mail server refuses the address")

// mailTimeout bounds one answer of the mail server; the caller's context bounds
// the whole.
const mailTimeout = 15 * time.Second

// MailServer is the operator's own server: no address is refused, unlike those
// that tenants give.
type MailServer struct {
	Host string
	Port int
	// Implicit is TLS from the first byte; StartTLS demands the upgrade. Without
	// both nothing is encrypted.
	Implicit, StartTLS bool
	// User is "" for none.
	User     string
	Password webhook.SecretText
	// From is the sender's address (RFC 5322).
	From string
	// TLS is nil for the system's roots.
	TLS *tls.Config
}

// SMTP sends mail through a server, over a connection of its own each time, since
// there is little to send.
type SMTP struct {
	server MailServer
}

// NewSMTP makes a mailer.
func NewSMTP(s MailServer) *SMTP { return &SMTP{server: s} }

// Send implements Mailer. It returns nil once the server has taken the mail.
func (s *SMTP) Send(ctx context.Context, m Mail) error {
	msg, err := s.write(m)
	if err != nil {
		return err
	}
	// The library's time-outs are for single answers; closing the connection ends
	// everything with the context.
	cut, stop := context.WithCancel(ctx)
	defer stop()
	client, err := s.client(cut)
	if err != nil {
		return fmt.Errorf("setting up mail: %w", err)
	}
	err = client.DialAndSendWithContext(ctx, msg)
	switch {
	case msg.IsDelivered(): // what went wrong in parting is nothing
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("sending mail: %w", ctx.Err())
	default:
		return mailFault(err)
	}
}

// write makes the message: plain text, UTF-8, and the headers of RFC 5322 and
// RFC 3834.
func (s *SMTP) write(m Mail) (*mail.Msg, error) {
	msg := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if err := msg.From(s.server.From); err != nil {
		return nil, errors.New("setting up mail: the sender's address can't be read")
	}
	if err := msg.To(m.To); err != nil {
		return nil, fmt.Errorf("%w: it can't be read", ErrMailRefused)
	}
	domain := s.server.From[strings.LastIndexByte(s.server.From, '@')+1:]
	msg.SetMessageIDWithValue(m.ID + "@" + strings.TrimRight(domain, "> "))
	msg.SetDateWithValue(m.At)
	msg.Subject(m.Subject)
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetBodyString(mail.TypeTextPlain, m.Body)
	return msg, nil
}

func (s *SMTP) client(ctx context.Context) (*mail.Client, error) {
	opts := []mail.Option{
		mail.WithPort(s.server.Port), mail.WithTimeout(mailTimeout), mail.WithTLSConfig(s.tls()),
		mail.WithDialContextFunc(s.dial(ctx)), mail.WithTLSPolicy(mail.NoTLS),
	}
	switch {
	case s.server.Implicit:
		opts = append(opts, mail.WithSSL())
	case s.server.StartTLS:
		opts = append(opts, mail.WithTLSPolicy(mail.TLSMandatory))
	}
	if s.server.User != "" {
		opts = append(opts, mail.WithUsername(s.server.User), mail.WithPassword(s.server.Password.Reveal()),
			// The plain ones are refused by the library without TLS, but to this machine.
			mail.WithOpportunisticSMTPAuth(mail.SMTPAuthSCRAMSHA256PLUS, mail.SMTPAuthSCRAMSHA256, mail.SMTPAuthPlain, mail.SMTPAuthLogin))
	}
	return mail.NewClient(s.server.Host, opts...)
}

// dial opens a connection that is closed when ctx ends.
func (s *SMTP) dial(ctx context.Context) mail.DialContextFunc {
	return func(dialing context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		raw, err := d.DialContext(dialing, network, address)
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { _ = raw.Close() })
		if !s.server.Implicit {
			return raw, nil
		}
		secured := tls.Client(raw, s.tls())
		if err := secured.HandshakeContext(dialing); err != nil {
			_ = raw.Close() // the handshake's error says more
			return nil, err
		}
		return secured, nil
	}
}

func (s *SMTP) tls() *tls.Config {
	c := s.server.TLS.Clone()
	if c == nil {
		c = &tls.Config{}
	}
	if c.ServerName == "" {
		c.ServerName = s.server.Host
	}
	c.MinVersion = tls.VersionTLS12
	return c
}

// mailFault says what went wrong without the server's own words, which may repeat
// what was sent.
func mailFault(err error) error {
	if sent, ok := errors.AsType[*mail.SendError](err); ok {
		if sent.Reason == mail.ErrSMTPRcptTo && sent.ErrorCode() >= 500 {
			return fmt.Errorf("%w: answer %d", ErrMailRefused, sent.ErrorCode())
		}
		return fmt.Errorf("sending mail: %s: answer %d", sent.Reason, sent.ErrorCode())
	}
	if answer, ok := errors.AsType[*textproto.Error](err); ok {
		return fmt.Errorf("sending mail: the server answered %d before the mail was offered (sign-in, or refusal)", answer.Code)
	}
	return fmt.Errorf("sending mail: %w", err)
}
