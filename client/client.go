package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// DefaultBaseURL is where a server listens unless it was told otherwise.
const DefaultBaseURL = "http://127.0.0.1:8080"

// EveryTenant as [Client].Tenant makes lists go across tenants; only an
// operator's key may, and only to read.
const EveryTenant = "*"

// maxAnswer bounds what is read of one answer, in bytes: a page of deliveries
// or one event of the largest size fit well.
const maxAnswer = 64 << 20

// Client calls one server. Fill in the fields before the first call and leave
// them alone afterwards; then it is safe for concurrent use. The zero value
// calls [DefaultBaseURL] without a key.
type Client struct {
	// BaseURL of the server, without a path of the API: "https://hooks.example.com".
	BaseURL string
	// Key is sent as bearer token. It is never part of an error.
	Key string
	// Tenant is sent as Posthorn-Tenant if it is not empty. Keys of a tenant
	// need none; an operator's key needs one as soon as there are several.
	Tenant string
	// HTTP makes the requests; nil is [http.DefaultClient].
	HTTP *http.Client
	// Retry is off unless it is filled in.
	Retry Retry
}

// Retry says how often a call is made again when the server is overloaded: only
// after 503 with Retry-After, and only calls that can be repeated without doing
// a thing twice: reads, PUT, DELETE, and publishing where every event has an ID.
type Retry struct {
	// Attempts is the most calls in all; 0 and 1 mean a single one.
	Attempts int
	// MaxWait ends the retrying when Retry-After asks for more than this; 0
	// accepts any wait that the context allows.
	MaxWait time.Duration
}

// call is one request of the API.
type call struct {
	method     string
	path       string
	query      url.Values
	body       []byte
	mediaType  string
	repeatable bool
	ifMatch    int64
}

// get, put and so on make calls; segments of the path are escaped.
func newCall(method string, segments ...string) call {
	escaped := make([]string, len(segments))
	for i, s := range segments {
		escaped[i] = url.PathEscape(s)
	}
	return call{
		method:     method,
		path:       "/v1/" + strings.Join(escaped, "/"),
		repeatable: method != http.MethodPost && method != http.MethodPatch,
	}
}

// withJSON gives the call a body.
func (c call) withJSON(v any) (call, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return c, fmt.Errorf("encode the request: %w", err)
	}
	c.body, c.mediaType = body, "application/json"
	return c, nil
}

// invoke makes the call and decodes its answer into a T.
func invoke[T any](ctx context.Context, c *Client, req call) (T, error) {
	var out T
	_, err := c.do(ctx, req, &out)
	return out, err
}

// invokeJSON makes the call with a body and decodes its answer.
func invokeJSON[T any](ctx context.Context, c *Client, req call, body any) (T, error) {
	req, err := req.withJSON(body)
	if err != nil {
		var none T
		return none, err
	}
	return invoke[T](ctx, c, req)
}

// do makes the call, again where [Retry] allows, and decodes the answer into
// out; nil is for calls whose answer has no body.
func (c *Client) do(ctx context.Context, req call, out any) (http.Header, error) {
	for attempt := 1; ; attempt++ {
		header, err := c.once(ctx, req, out)
		wait, again := c.mayRepeat(req, attempt, err)
		if !again {
			return header, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return header, err
		case <-timer.C:
		}
	}
}

// mayRepeat tells whether a failed call is made again, and after how long.
func (c *Client) mayRepeat(req call, attempt int, err error) (time.Duration, bool) {
	var refused *Error
	if !errors.As(err, &refused) || !req.repeatable || attempt >= c.Retry.Attempts {
		return 0, false
	}
	if refused.Status != http.StatusServiceUnavailable || refused.RetryAfter <= 0 {
		return 0, false
	}
	if c.Retry.MaxWait > 0 && refused.RetryAfter > c.Retry.MaxWait {
		return 0, false
	}
	return refused.RetryAfter, true
}

// send makes the request; the caller closes the answer's body.
func (c *Client) send(ctx context.Context, req call) (*http.Response, error) {
	r, err := c.newRequest(ctx, req)
	if err != nil {
		return nil, err
	}
	hc := c.HTTP
	if hc == nil {
		hc = http.DefaultClient
	}
	return hc.Do(r) // its error is a *url.Error, which names the operation
}

// open makes a call whose answer is read as it comes.
func (c *Client) open(ctx context.Context, req call) (io.ReadCloser, error) {
	resp, err := c.send(ctx, req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		return resp.Body, nil
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer to %s %s: %w", req.method, req.path, err)
	}
	return nil, c.readError(resp, body)
}

func (c *Client) once(ctx context.Context, req call, out any) (http.Header, error) {
	resp, err := c.send(ctx, req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer to %s %s: %w", req.method, req.path, err)
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("the answer to %s %s is over %d MiB", req.method, req.path, maxAnswer>>20)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return resp.Header, c.readError(resp, body)
	}
	return resp.Header, c.decode(req, resp.StatusCode, body, out)
}

// base is the server's URL without a slash at the end.
func (c *Client) base() string {
	if c.BaseURL == "" {
		return DefaultBaseURL
	}
	return strings.TrimSuffix(c.BaseURL, "/")
}

func (c *Client) newRequest(ctx context.Context, req call) (*http.Request, error) {
	target := c.base() + req.path
	if len(req.query) > 0 {
		target += "?" + req.query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, req.method, target, bytes.NewReader(req.body))
	if err != nil {
		return nil, fmt.Errorf("the server's URL: %w", err)
	}
	if req.mediaType != "" {
		r.Header.Set("Content-Type", req.mediaType)
	}
	if c.Key != "" {
		r.Header.Set("Authorization", "Bearer "+c.Key)
	}
	if c.Tenant != "" {
		r.Header.Set("Posthorn-Tenant", c.Tenant)
	}
	if req.ifMatch > 0 {
		r.Header.Set("If-Match", strconv.FormatInt(req.ifMatch, 10))
	}
	r.Header.Set("Accept", "application/json")
	return r, nil
}
