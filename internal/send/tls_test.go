package send

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthorn/posthorn/internal/webhook"
)

// authority signs certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	template := leaf()
	template.Subject.CommonName = "Test Authority"
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	key := newKey(t)
	return &authority{sign(t, template, template, key, key), key}
}

func sign(t testing.TB, template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// leaf is a certificate for names and IP addresses that is valid now.
func leaf(names ...string) *x509.Certificate {
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, n)
		}
	}
	return c
}

func (a *authority) issue(t testing.TB, template *x509.Certificate) tls.Certificate {
	t.Helper()
	key := newKey(t)
	return tls.Certificate{Certificate: [][]byte{sign(t, template, a.cert, key, a.key).Raw}, PrivateKey: key}
}

func selfSigned(t testing.TB, template *x509.Certificate) tls.Certificate {
	t.Helper()
	key := newKey(t)
	return tls.Certificate{Certificate: [][]byte{sign(t, template, template, key, key).Raw}, PrivateKey: key}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func newTLSServer(t testing.TB, cert tls.Certificate, script func(*rawConn)) *receiver {
	t.Helper()
	return newTLSServerWith(t, &tls.Config{Certificates: []tls.Certificate{cert}}, script) //nolint:gosec // because what the server offers is the test
}

func newTLSServerWith(t testing.TB, config *tls.Config, script func(*rawConn)) *receiver {
	t.Helper()
	return serveOn(t, tls.NewListener(listen(t), config), script)
}

func (r *receiver) tlsURL(host string) string { return "https://" + host + ":" + r.port() + "/hook" }

func TestFault_B86_CertificateTable(t *testing.T) {
	t.Parallel()
	trusted, unknown := newAuthority(t), newAuthority(t)
	edit := func(c *x509.Certificate, change func(c *x509.Certificate)) *x509.Certificate {
		change(c)
		return c
	}
	tests := []struct {
		name    string
		cert    tls.Certificate
		host    string // default r.example
		message string // "" for one that is accepted
	}{
		{name: "good", cert: trusted.issue(t, leaf("r.example"))},
		{name: "wildcard", cert: trusted.issue(t, leaf("*.example"))},
		{name: "IP in SAN", cert: trusted.issue(t, leaf("127.0.0.1")), host: "127.0.0.1"},
		{name: "IP not in SAN", cert: trusted.issue(t, leaf("r.example")), host: "127.0.0.1", message: "another host name"},
		{name: "expired", cert: trusted.issue(t, edit(leaf("r.example"), func(c *x509.Certificate) {
			c.NotAfter = time.Now().Add(-time.Minute)
		})), message: "has expired"},
		{name: "not yet valid", cert: trusted.issue(t, edit(leaf("r.example"), func(c *x509.Certificate) {
			c.NotBefore = time.Now().Add(time.Minute)
		})), message: "not valid yet"},
		{name: "self-signed", cert: selfSigned(t, edit(leaf("r.example"), func(c *x509.Certificate) { c.Subject.CommonName = "me" })), message: "self-signed"},
		{name: "wrong name", cert: trusted.issue(t, leaf("other.example")), message: "another host name"},
		{name: "name only in CN", cert: trusted.issue(t, edit(leaf(), func(c *x509.Certificate) {
			c.Subject = pkix.Name{CommonName: "r.example"}
		})), message: "common name alone"},
		{name: "unknown CA", cert: unknown.issue(t, leaf("r.example")), message: "not trusted here"},
		{name: "for clients only", cert: trusted.issue(t, edit(leaf("r.example"), func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		})), message: "may not be used for this server"},
	}
	s := newSender(t, Config{Allow: networks(t, "127.0.0.1"), Resolver: answers("127.0.0.1"), RootCAs: trusted.pool()})
	for _, tt := range tests {
		server := newTLSServer(t, tt.cert, answering(answerOK))
		if tt.host == "" {
			tt.host = "r.example"
		}
		got := s.Send(t.Context(), post(t, server.tlsURL(tt.host)))
		if tt.message == "" {
			delivered.check(t, tt.name, got)
			continue
		}
		want{kind: webhook.KindNetwork, phase: webhook.PhaseTLS, message: tt.message}.check(t, tt.name, got)
		if len(server.got()) != 0 || got.Address != server.listener.Addr().String() {
			t.Errorf("%s: %d requests came, address %q", tt.name, len(server.got()), got.Address)
		}
	}
}

// With the authority added it works; without any setting, verification is on.
func TestFault_B86_OwnAuthority(t *testing.T) {
	t.Parallel()
	own := newAuthority(t)
	server := newTLSServer(t, own.issue(t, leaf("r.example")), answering(answerOK))
	config := Config{Allow: networks(t, "127.0.0.1"), Resolver: answers("127.0.0.1")}
	want{kind: webhook.KindNetwork, phase: webhook.PhaseTLS, message: "not trusted here"}.
		check(t, "by default", newSender(t, config).Send(t.Context(), post(t, server.tlsURL("r.example"))))
	config.RootCAs = own.pool()
	delivered.check(t, "with the authority", newSender(t, config).Send(t.Context(), post(t, server.tlsURL("r.example"))))
}

func TestFault_B86_ServersThatNeedSNI(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	certs := map[string]tls.Certificate{"a.example": ca.issue(t, leaf("a.example")), "b.example": ca.issue(t, leaf("b.example"))}
	server := newTLSServerWith(t, &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) { //nolint:gosec // because what the server offers is the test
		if cert, ok := certs[hello.ServerName]; ok {
			return &cert, nil
		}
		return nil, errTest
	}}, answering(answerOK))
	s := newSender(t, Config{Allow: networks(t, "127.0.0.1"), Resolver: answers("127.0.0.1"), RootCAs: ca.pool()})
	for name := range certs {
		delivered.check(t, name, s.Send(t.Context(), post(t, server.tlsURL(name))))
	}
	want{kind: webhook.KindNetwork, phase: webhook.PhaseTLS, message: "alert"}.
		check(t, "a name it does not know", s.Send(t.Context(), post(t, server.tlsURL("c.example"))))
}

func TestFault_B86_Handshakes(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert := []tls.Certificate{ca.issue(t, leaf("r.example"))}
	script := answering(answerOK)
	servers := map[string]struct {
		server  *receiver
		message string
	}{
		"TLS 1.0":                     {newTLSServerWith(t, &tls.Config{Certificates: cert, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10}, script), "no longer safe"},
		"TLS 1.1":                     {newTLSServerWith(t, &tls.Config{Certificates: cert, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, script), "no longer safe"},
		"client certificate, TLS 1.2": {newTLSServerWith(t, &tls.Config{Certificates: cert, MaxVersion: tls.VersionTLS12, ClientAuth: tls.RequireAnyClientCert}, script), "client certificate"},
		"client certificate, TLS 1.3": {newTLSServerWith(t, &tls.Config{Certificates: cert, MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAnyClientCert}, script), "client certificate"},
		"no TLS":                      {newReceiver(t, func(c *rawConn) { c.write("HTTP/1.1 400 Bad Request\r\n\r\n"); c.untilClosed() }), "does not speak TLS"},
		"closes":                      {newReceiver(t, func(c *rawConn) { _, _ = c.Read(make([]byte, 1024)) }), "during the TLS handshake"},
		"resets":                      {newReceiver(t, func(c *rawConn) { _, _ = c.Read(make([]byte, 1)); c.reset() }), "during the TLS handshake"},
		"alert at once":               {newReceiver(t, func(c *rawConn) { c.write("\x15\x03\x03\x00\x02\x02\x70"); c.untilClosed() }), "unrecognized_name"},
	}
	s := newSender(t, Config{Allow: networks(t, "127.0.0.1"), Resolver: answers("127.0.0.1"), RootCAs: ca.pool()})
	for name, tt := range servers {
		got := s.Send(t.Context(), post(t, tt.server.tlsURL("r.example")))
		want{kind: webhook.KindNetwork, phase: webhook.PhaseTLS, message: tt.message}.check(t, name, got)
	}
	// Asked for and not needed.
	optional := newTLSServerWith(t, &tls.Config{Certificates: cert, ClientAuth: tls.RequestClientCert}, script) //nolint:gosec // because what the server offers is the test
	delivered.check(t, "client certificate asked for", s.Send(t.Context(), post(t, optional.tlsURL("r.example"))))
}

func TestFault_B73_TLSThatNeverCompletes(t *testing.T) {
	t.Parallel()
	r := post(t, "https://r.example/")
	r.Timeout = 15 * time.Second
	synctest.Test(t, func(t *testing.T) {
		network := pipes{serve: func(_ net.Conn, br *bufio.Reader) { drain(br) }}
		s := New(Config{Resolver: answers(public)})
		s.dialler.connect = network.connect
		got := s.Send(t.Context(), r)
		want{kind: webhook.KindTimeout, phase: webhook.PhaseTLS, message: "time of 15s ran out during the TLS handshake"}.check(t, "silent TLS", got)
		if got.Duration != r.Timeout || got.Address != public+":443" {
			t.Errorf("it took %v, address %q", got.Duration, got.Address)
		}
		network.wait.Wait() // the connection does not outlive the attempt
		if lasted := time.Since(got.StartedAt); lasted != r.Timeout {
			t.Errorf("the connection lasted %v", lasted)
		}
		s.Close()
	})
}

// The certificate is checked against the name, not against the address that was
// dialled, and internationalised names by their ASCII form (B79).
func TestFault_B79_NameOnTheWire(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	server := newTLSServer(t, ca.issue(t, leaf("xn--bcher-kva.example")), answering(answerOK))
	var asked string
	s := newSender(t, Config{Allow: networks(t, "127.0.0.1"), RootCAs: ca.pool(), Resolver: resolverFunc(func(_ context.Context, host string) ([]netip.Addr, error) {
		asked = host
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	})})
	url, err := webhook.ParseEndpointURL("https://BÜCHER.example:"+server.port()+"/", []string{"https"}, false)
	if err != nil {
		t.Fatal(err)
	}
	delivered.check(t, "an international name", s.Send(t.Context(), post(t, url)))
	if h := server.got()[0].header("Host"); asked != "xn--bcher-kva.example" || len(h) != 1 || h[0] != "xn--bcher-kva.example:"+server.port() {
		t.Errorf("asked DNS for %q, Host %q", asked, h)
	}
}
