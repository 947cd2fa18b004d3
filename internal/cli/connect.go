package cli

import (
	"errors"
	"net"
	"net/http"
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
	Data   string `name:"data" environ:"POSTHORN_DATA" group:"connection" placeholder:"DIR" default:"./posthorn-data" help:"The server's data folder on this machine, where its admin key lies."`
	JSON   bool   `name:"json" group:"connection" help:"Print JSON: one object, or for lists one on each line."`
}

// client makes the client of the API.
func (c *connection) client(p *Process) (*client.Client, error) {
	u, err := url.Parse(c.Server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, usagef("--server: %q is no URL such as http://127.0.0.1:8080", c.Server)
	}
	key, err := c.findKey(p)
	if err != nil {
		return nil, err
	}
	return &client.Client{
		BaseURL: c.Server,
		Key:     key,
		Tenant:  c.Tenant,
		HTTP:    &http.Client{Timeout: requestTimeout, Transport: explained{http.DefaultTransport, c.Server}},
		Retry:   client.Retry{Attempts: 3, MaxWait: 5 * time.Second},
	}, nil
}

// findKey looks for the API key. Without any the request goes out all the same:
// whether the server is there is worth saying first.
func (c *connection) findKey(p *Process) (string, error) {
	if c.Key != "" {
		return c.Key, nil
	}
	if key, ok := p.Env.Get("POSTHORN_ADMIN_KEY"); ok {
		return key, nil
	}
	path := filepath.Join(c.Data, config.AdminKeyFile)
	text, err := os.ReadFile(path)
	if err == nil {
		return strings.TrimSpace(string(text)), nil
	}
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return "", config.NewFault(err, "The admin key in %s can't be read; give a key with --key or $POSTHORN_KEY.", path)
}

// explained is a transport that says what to do when nothing answers.
type explained struct {
	inner  http.RoundTripper
	server string
}

// RoundTrip implements http.RoundTripper.
func (t explained) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.inner.RoundTrip(r)
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" && r.Context().Err() == nil {
		return nil, config.NewFault(err, "No Posthorn server answers at %s; start one with `posthorn serve`, or name another with --server.", t.server)
	}
	return resp, err
}
