package config

import (
	"net/mail"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/posthorn/posthorn/internal/webhook"
)

const smtpSetting = "POSTHORN_SMTP_URL"

// SMTPSecurity says how a connection to the mail server is protected.
type SMTPSecurity string

// How mail goes out.
const (
	SMTPImplicit SMTPSecurity = "implicit" // TLS from the first byte (smtps)
	SMTPStartTLS SMTPSecurity = "starttls" // plain until STARTTLS, which must be there
	SMTPPlain    SMTPSecurity = "none"     // never encrypted
)

// SMTP is the mail server that tells owners. The zero value is none.
type SMTP struct {
	Host     string
	Port     int
	Security SMTPSecurity
	// User is "" where the server asks for none.
	User     string
	Password webhook.SecretText
	// From is the sender, an address with or without a name (RFC 5322).
	From string
}

// ParseSMTP reads smtp://user:password@host:port?from=address, or smtps://…; an
// empty text is no server. The error is a *Fault that holds no part of the text.
func ParseSMTP(text webhook.SecretText) (SMTP, error) {
	if text.IsZero() {
		return SMTP{}, nil
	}
	// The cause is left out, since it quotes the text.
	u, err := url.Parse(text.Reveal())
	if err != nil || u.Hostname() == "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return SMTP{}, fault(smtpSetting, "must have the form smtp://user:password@host:587?from=hooks@example.com, or smtps://…; "+
			"write reserved characters of user and password in percent-encoding, such as %40 for @")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return SMTP{}, fault(smtpSetting, "has a query that can't be read")
	}
	for name, values := range query {
		if name != "from" && name != "tls" || len(values) != 1 {
			return SMTP{}, fault(smtpSetting, "takes from and tls after the ?, each once and nothing else")
		}
	}
	s := SMTP{Host: u.Hostname(), User: u.User.Username()}
	password, _ := u.User.Password()
	s.Password = webhook.NewSecretText(password)
	if err := s.protect(u.Scheme, query.Get("tls")); err != nil {
		return SMTP{}, err
	}
	if err := s.reach(u.Port()); err != nil {
		return SMTP{}, err
	}
	from, err := mail.ParseAddress(query.Get("from"))
	if err != nil {
		return SMTP{}, fault(smtpSetting, "must say who sends, such as ?from=hooks@example.com (a + in it is written %2B)")
	}
	s.From = from.String()
	return s, nil
}

// protect settles encryption. Credentials go over a network only encrypted.
func (s *SMTP) protect(scheme, tls string) error {
	switch {
	case scheme == "smtps" && tls == "":
		s.Security = SMTPImplicit
	case scheme == "smtps":
		return fault(smtpSetting, "takes tls only with smtp://: smtps:// is encrypted from the beginning")
	case scheme == "smtp" && (tls == "" || tls == string(SMTPStartTLS)):
		s.Security = SMTPStartTLS
	case scheme == "smtp" && tls == string(SMTPPlain):
		s.Security = SMTPPlain
	case scheme == "smtp":
		return fault(smtpSetting, "takes tls=starttls or tls=none")
	default:
		return fault(smtpSetting, "must begin with smtp:// or smtps://")
	}
	if (s.User == "") != s.Password.IsZero() {
		return fault(smtpSetting, "must have both user and password, or neither")
	}
	if s.Security == SMTPPlain && s.User != "" && !onThisMachine(s.Host) {
		return fault(smtpSetting, "would send the password unencrypted: leave out tls=none, or user and password")
	}
	return nil
}

// reach settles the port: the registered ones of submission where none is given.
func (s *SMTP) reach(port string) error {
	switch {
	case port != "":
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return fault(smtpSetting, "has no port from 1 to 65535")
		}
		s.Port = int(n)
	case s.Security == SMTPImplicit:
		s.Port = 465
	default:
		s.Port = 587
	}
	return nil
}

func onThisMachine(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
