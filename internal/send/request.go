package send

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
)

var errBadURL = errors.New("send: the stored URL is not in its uniform form")

// parseURL takes a stored URL apart. It trusts the URL's form no further than
// that its parts can't leave their place in the request.
func parseURL(stored string) (*url.URL, error) {
	scheme, rest, _ := strings.Cut(stored, "://")
	end := strings.IndexByte(rest, '/')
	if scheme != "https" && scheme != "http" || end <= 0 {
		return nil, errBadURL
	}
	host, target := rest[:end], rest[end:]
	if strings.ContainsAny(host, "@?#\\") || !isVisibleASCII(rest) {
		return nil, errBadURL
	}
	return requestURL(scheme, host, target), nil
}

// newRequest makes the request as one transport gets it.
func newRequest(ctx context.Context, u *url.URL, r Request) *http.Request {
	req := (&http.Request{
		Method: http.MethodPost,
		URL:    u,
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        guardHeader(r.Header),
		Body:          http.NoBody,
		ContentLength: int64(len(r.Body)),
		Host:          u.Host,
	}).WithContext(ctx)
	if len(r.Body) > 0 {
		req.Body = memory(r.Body)
		req.GetBody = (&payload{data: r.Body}).rewind
	}
	return req
}

// memory makes a body of a type that net/http knows to lie in memory, which saves
// a system call: headers and body then leave together.
func memory(data []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(data)) }

// payload is a body that can start again, once.
type payload struct {
	data    []byte
	started bool
}

// rewind is the request's GetBody. The transport calls it to repeat a request of
// which nothing was processed: at once, then after 1 s, 2 s, 4 s and so on. A new
// connection helps sooner, so it gets errUnprocessed the second time.
func (p *payload) rewind() (io.ReadCloser, error) {
	if p.started {
		return nil, errUnprocessed
	}
	p.started = true
	return memory(p.data), nil
}

// requestURL makes a URL whose request target is target, byte for byte (B76): the
// usual parsing and printing would encode some characters anew. A target that
// begins with two slashes can't be given as Opaque, which takes it for a host.
func requestURL(scheme, host, target string) *url.URL {
	u := &url.URL{Scheme: scheme, Host: host, Opaque: target}
	if !strings.HasPrefix(target, "//") {
		return u
	}
	path, query, hasQuery := strings.Cut(target, "?")
	if plain, err := url.PathUnescape(path); err == nil {
		u.Opaque, u.Path, u.RawPath, u.RawQuery, u.ForceQuery = "", plain, path, query, hasQuery && query == ""
	}
	if u.RequestURI() != target { // sent in absolute form (RFC 9112, section 3.2.2)
		return &url.URL{Scheme: scheme, Host: host, Opaque: "//" + host + target}
	}
	return u
}

func isVisibleASCII(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// guardHeader keeps the transport from taking the request for one that it may
// repeat as often as it likes: it looks for two names in their usual case only.
func guardHeader(h http.Header) http.Header {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := h[name]; ok {
			h = maps.Clone(h)
			delete(h, name)
			h[strings.ToLower(name)] = values
		}
	}
	return h
}
