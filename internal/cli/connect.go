package cli

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/posthorn/posthorn/client"
	"github.com/posthorn/posthorn/internal/config"
)

// requestTimeout bounds one request of the API, its answer included.
const requestTimeout = time.Minute

// connection is the flags of every command that talks to a server.
type connection struct {
	Server string `name:"server" environ:"POSTHORN_SERVER" group:"connection" placeholder:"URL" default:"http://127.0.0.1:8080" help:"The server to talk to."`
	Key    string `name:"key" environ:"POSTHORN_KEY" group:"connection" placeholder:"KEY" help:"The API key. Better in the environment: other processes see flags. Without it $POSTHORN_ADMIN_KEY counts, then the admin key in the data folder."`
	Tenant string `name:"tenant" environ:"POSTHORN_TENANT" group:"connection" placeholder:"ID" help:"The tenant to act for, with an operator's key; * reads lists across tenants. Not needed while there is only the tenant default."`
	Data   string `name:"data" environ:"POSTHORN_DATA" group:"connection" placeholder:"DIR" help:"The server's data folder on this machine, where its admin key lies. Default ./posthorn-data, and then only for a server on this machine."`
	JSON   bool   `name:"json" group:"connection" help:"Print JSON: one object, or for lists one on each line."`
}

// client makes the client of the API.
func (c *connection) client(p *Process) (*client.Client, error) {
	u, err := url.Parse(c.Server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, usagef("--server: %q is no URL such as http://127.0.0.1:8080", c.Server)
	}
	key, err := c.findKey(p, u)
	if err != nil {
		return nil, err
	}
	transport := explained{inner: http.DefaultTransport, server: c.Server}
	if key == "" {
		transport.keyFile = c.keyFile()
	}
	return &client.Client{
		BaseURL: c.Server,
		Key:     key,
		Tenant:  c.Tenant,
		HTTP:    &http.Client{Timeout: requestTimeout, Transport: transport},
		Retry:   client.Retry{Attempts: 3, MaxWait: 5 * time.Second},
	}, nil
}

// folder is the data folder: the one that was named, else the usual one.
func (c *connection) folder() string {
	if c.Data == "" {
		return config.DefaultData
	}
	return c.Data
}

// keyFile is where the admin key lies, written as the folder was.
func (c *connection) keyFile() string {
	return strings.TrimSuffix(c.folder(), string(filepath.Separator)) + string(filepath.Separator) + config.AdminKeyFile
}

// findKey looks for the API key. Without any the request goes out all the same:
// whether the server is there is worth saying first.
func (c *connection) findKey(p *Process, server *url.URL) (string, error) {
	if c.Key != "" {
		return c.Key, nil
	}
	if key, ok := p.Env.Get("POSTHORN_ADMIN_KEY"); ok {
		return key, nil
	}
	text, err := os.ReadFile(c.keyFile())
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", nil
	case err != nil:
		return "", config.NewFault(err, "The admin key in %s can't be read; give a key with --key or $POSTHORN_KEY.", c.keyFile())
	case c.Data == "" && !onThisMachine(server):
		// The folder happens to lie here; its key is that of another server.
		return "", usagef("the admin key in %s is not sent to %s, which is no server on this machine: give a key with --key or $POSTHORN_KEY, or say with --data that the folder is that server's", c.keyFile(), c.Server)
	default:
		return strings.TrimSpace(string(text)), nil
	}
}

// onThisMachine tells whether a server's URL leads to loopback.
func onThisMachine(server *url.URL) bool {
	if server.Hostname() == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(server.Hostname())
	return err == nil && address.Unmap().IsLoopback()
}

// explained is a transport that says what to do when nothing answers, or when
// what answers asks for a key that nobody gave.
type explained struct {
	inner  http.RoundTripper
	server string
	// keyFile is where a key was looked for in vain; "" when there is one.
	keyFile string
}

// RoundTrip implements http.RoundTripper.
func (t explained) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.inner.RoundTrip(r)
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" && r.Context().Err() == nil {
		return nil, config.NewFault(err, "No Posthorn server answers at %s; start one with `posthorn serve`, or name another with --server.", t.server)
	}
	if err == nil && resp.StatusCode == http.StatusUnauthorized && t.keyFile != "" && isProblem(resp) {
		_ = resp.Body.Close()
		return nil, t.noKey()
	}
	return resp, err
}

// isProblem tells whether an answer is one of Posthorn's refusals.
func isProblem(resp *http.Response) bool {
	return strings.HasPrefix(resp.Header.Get("Content-Type"), "application/problem+json")
}

// noKey says where a key was looked for, and what to do.
func (t explained) noKey() error {
	if filepath.IsAbs(t.keyFile) {
		return config.NewFault(nil, "No key: %s does not exist. Set POSTHORN_DATA to the server's data folder, or POSTHORN_KEY to a key.", t.keyFile)
	}
	return config.NewFault(nil, "No key: %s does not exist here. Run this in the server's folder, or set POSTHORN_DATA or POSTHORN_KEY.", t.keyFile)
}
