package send

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/posthorn/posthorn/internal/webhook"
)

// tlsFailure puts the end of a TLS handshake into words. asked tells that the
// server wanted a client certificate.
func tlsFailure(err error, asked bool) *failure {
	return network(webhook.PhaseTLS, tlsText(err, asked))
}

const textClientCertificate = "The server asks for a client certificate, which this service does not send."

func tlsText(err error, asked bool) string {
	if text := certificateText(err); text != "" {
		return text
	}
	var plainText tls.RecordHeaderError
	switch {
	case asked:
		return textClientCertificate
	case errors.As(err, &plainText), errors.Is(err, http.ErrSchemeMismatch):
		return "The server does not speak TLS on this port."
	// Alerts have no exported type and no codes; their texts are the names of
	// RFC 8446.
	case strings.Contains(err.Error(), "protocol version"):
		return "The server speaks only TLS versions that are no longer safe; TLS 1.2 is the least."
	case strings.Contains(err.Error(), "unrecognized name"):
		return "The server does not know the URL's host name (TLS alert unrecognized_name)."
	case isRemoteAlert(err):
		return "The server broke the TLS handshake off with an alert."
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "The server reset the connection during the TLS handshake."
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "The server closed the connection during the TLS handshake."
	}
	return "The TLS handshake with the server failed."
}

// isRemoteAlert tells whether err is a TLS alert that the server sent. Under
// TLS 1.3 it may come after the client's side of the handshake is complete.
func isRemoteAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// certificateText says why the server's certificate was not accepted, "" if that
// is not the reason (B86).
func certificateText(err error) string {
	var (
		verification *tls.CertificateVerificationError
		invalid      x509.CertificateInvalidError
		host         x509.HostnameError
		authority    x509.UnknownAuthorityError
	)
	switch {
	case errors.As(err, &invalid):
		return invalidText(invalid)
	case errors.As(err, &host):
		if c := host.Certificate; len(c.DNSNames)+len(c.IPAddresses) == 0 {
			return "The server's certificate lists no host names (subject alternative names); a common name alone does not count."
		}
		return "The server's certificate is for another host name."
	case errors.As(err, &authority):
		if selfIssued(authority.Cert) {
			return "The server's certificate is self-signed."
		}
		return "The server's certificate comes from an authority that is not trusted here, or the server leaves intermediate certificates out."
	case errors.As(err, &verification):
		return "The server's certificate could not be verified."
	}
	return ""
}

func selfIssued(c *x509.Certificate) bool {
	return c != nil && string(c.RawIssuer) == string(c.RawSubject)
}

func invalidText(e x509.CertificateInvalidError) string {
	if e.Reason != x509.Expired {
		return "The server's certificate chain may not be used for this server."
	}
	// One reason stands for both ends of the validity.
	if strings.Contains(e.Detail, "is before") {
		return "The server's certificate is not valid yet."
	}
	return "The server's certificate has expired."
}
