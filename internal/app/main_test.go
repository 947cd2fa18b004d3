package app

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// world is what all tests of the package share: an authority that the servers
// trust, a proxy that they must not use, and the program itself.
type world struct {
	dir   string
	ca    *x509.Certificate
	caKey *ecdsa.PrivateKey
	// proxy stands in the environment's proxy variables. Nobody accepts its
	// connections: whoever comes waits in its queue.
	proxy *net.TCPListener
}

var shared world

// together is how many tests run at a time at least.
const together = 4

func TestMain(m *testing.M) {
	if err := shared.prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// Most tests here wait for time to pass: more of them than there are
	// processors get on together.
	flag.Parse()
	if n, err := strconv.Atoi(flag.Lookup("test.parallel").Value.String()); err == nil && n < together {
		_ = flag.Set("test.parallel", strconv.Itoa(together)) // a number it takes
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(shared.dir)
		os.Exit(code)
	}))
}

func (w *world) prepare() (err error) {
	if w.dir, err = os.MkdirTemp("", "posthorn-app-"); err != nil {
		return err
	}
	if err := w.makeAuthority(); err != nil {
		return err
	}
	if w.proxy, err = net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
		return err
	}
	at := "http://" + w.proxy.Addr().String()
	for _, name := range proxyVariables() {
		if err := os.Setenv(name, at); err != nil {
			return err
		}
	}
	// Neither a caller's own settings nor its exceptions may decide anything.
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, "POSTHORN_") || strings.EqualFold(name, "NO_PROXY") {
			if err := os.Unsetenv(name); err != nil {
				return err
			}
		}
	}
	return nil
}

func proxyVariables() []string {
	return []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"}
}

// makeAuthority makes a certificate authority and has the process trust it, as
// an operator would: by the file of trusted ones.
func (w *world) makeAuthority() (err error) {
	if w.caKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return err
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &w.caKey.PublicKey, w.caKey)
	if err != nil {
		return err
	}
	if w.ca, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	file := filepath.Join(w.dir, "trusted.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		return err
	}
	return os.Setenv("SSL_CERT_FILE", file)
}

// certificate is one for these names, by the trusted authority or by itself.
func certificate(t *testing.T, trusted bool, names ...string) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "receiver"}, DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
	}
	parent, signer := form, key
	if trusted {
		parent, signer = shared.ca, shared.caKey
	}
	der, err := x509.CreateCertificate(rand.Reader, form, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// program builds the real binary, once, and returns its path.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(shared.dir, "posthorn")
	cmd := exec.Command("go", "build", "-o", path, "github.com/posthorn/posthorn/cmd/posthorn")
	cmd.Env = withoutProxies(os.Environ())
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return path, nil
})

func withoutProxies(env []string) []string {
	var kept []string
	for _, pair := range env {
		if name, _, _ := strings.Cut(pair, "="); !strings.HasSuffix(strings.ToUpper(name), "_PROXY") {
			kept = append(kept, pair)
		}
	}
	return kept
}
