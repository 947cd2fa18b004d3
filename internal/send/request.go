package send

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
)

var errBadURL = errors.New("send: the stored URL is not in its uniform form") //nolint:gochecknoglobals // because a sentinel error is a constant in all but type

// buildRequest makes the request without its body. It trusts the stored URL's
// form no further than that its parts can't leave their place in the request.
func buildRequest(r Request) (*http.Request, error) {
	scheme, rest, _ := strings.Cut(r.URL, "://")
	end := strings.IndexByte(rest, '/')
	if scheme != "https" && scheme != "http" || end <= 0 || r.Timeout <= 0 {
		return nil, errBadURL
	}
	host, target := rest[:end], rest[end:]
	if strings.ContainsAny(host, "@?#\\") || !isVisibleASCII(rest) {
		return nil, errBadURL
	}
	body := r.Body
	return &http.Request{
		Method: http.MethodPost,
		URL:    requestURL(scheme, host, target),
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        guardHeader(r.Header),
		ContentLength: int64(len(body)),
		GetBody:       func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
		Host:          host,
	}, nil
}

// setBody gives the request a fresh body. GetBody then works so many times, any
// number if negative, and gives errUnprocessed after that.
func setBody(req *http.Request, rewinds int) {
	open := req.GetBody
	if req.ContentLength == 0 {
		req.Body, req.GetBody = http.NoBody, nil
		return
	}
	req.Body, _ = open() // of bytes in memory: never fails
	if rewinds < 0 {
		return
	}
	left := rewinds
	req.GetBody = func() (io.ReadCloser, error) {
		if left--; left < 0 {
			return nil, errUnprocessed
		}
		return open()
	}
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
