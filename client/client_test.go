package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthorn/posthorn/client"
)

// seen is a request as the server got it.
type seen struct {
	method, path, query, body string
	header                    http.Header
}

// serve answers every request with the given status and body and records it.
func serve(t *testing.T, status int, header map[string]string, body string) (*client.Client, *[]seen) {
	t.Helper()
	var requests []seen
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ := io.ReadAll(r.Body)
		requests = append(requests, seen{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, string(got), r.Header})
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	return &client.Client{BaseURL: srv.URL + "/", Key: "phk_1_secret", Tenant: "acme"}, &requests
}

func TestSendEvent_KeepsTheBytes(t *testing.T) {
	t.Parallel()
	c, requests := serve(t, http.StatusAccepted, map[string]string{"Posthorn-Replayed": "true"}, `{"id":"evt_1","deliveries":2}`)
	data := "{ \"a\" : 1.0, \"a\":\"<&>\",\n \"z\":null }"
	got, err := c.SendEvent(t.Context(), client.NewEvent{
		ID: "o:1", Type: "click", Data: []byte(data),
		CreatedAt: time.Date(2026, 5, 22, 16, 32, 18, 847_900_000, time.FixedZone("", 7200)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != "evt_1" || got.Deliveries != 2 || !got.Replayed {
		t.Errorf("got %+v", got)
	}
	r := (*requests)[0]
	want := `{"id":"o:1","type":"click","created_at":"2026-05-22T14:32:18.847Z","data":` + data + `}`
	if r.body != want {
		t.Errorf("body\n%s\nwant\n%s", r.body, want)
	}
	if r.method != "POST" || r.path != "/v1/events" || r.header.Get("Content-Type") != "application/json" ||
		r.header.Get("Authorization") != "Bearer phk_1_secret" || r.header.Get("Posthorn-Tenant") != "acme" {
		t.Errorf("request %+v", r)
	}
}

func TestSendEvent_RefusesWhatIsNoJSON(t *testing.T) {
	t.Parallel()
	c, requests := serve(t, http.StatusAccepted, nil, `{}`)
	for _, data := range []string{"", "{", `1},{"id":"x"`, "1 2"} {
		if _, err := c.SendEvent(t.Context(), client.NewEvent{Type: "click", Data: []byte(data)}); err == nil {
			t.Errorf("%q was sent", data)
		}
	}
	if len(*requests) != 0 {
		t.Errorf("%d requests", len(*requests))
	}
}

func TestSendEvents_OneLineEach(t *testing.T) {
	t.Parallel()
	answer := `{"line":1,"id":"evt_1","status":202,"deliveries":2}` + "\n" +
		`{"line":2,"status":422,"code":"invalid_field","errors":[{"pointer":"/type","code":"invalid_field","detail":"no","allowed":"a, b"}]}` + "\n"
	c, requests := serve(t, http.StatusOK, nil, answer)
	got, err := c.SendEvents(t.Context(), []client.NewEvent{
		{Type: "click", Data: []byte("{\r\n\"a\":\"x\\ny\"\n}")}, {Type: "cl ick", Data: []byte("1")},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"click","data":{  "a":"x\ny" }}` + "\n" + `{"type":"cl ick","data":1}` + "\n"
	if (*requests)[0].body != want {
		t.Errorf("body %q, want %q", (*requests)[0].body, want)
	}
	if len(got) != 2 || got[0].Err() != nil || got[0].ID != "evt_1" {
		t.Fatalf("got %+v", got)
	}
	if !errors.Is(got[1].Err(), client.CodeInvalidField) || got[1].Errors[0].Allowed != "a, b" {
		t.Errorf("line 2: %v", got[1].Err())
	}
}

func TestError_FromProblem(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, 422, map[string]string{"Content-Type": "application/problem+json; charset=utf-8"},
		`{"type":"about:blank","title":"Invalid","status":422,"detail":"One field is wrong.","code":"invalid_field",
		 "errors":[{"pointer":"/url","code":"invalid_field","detail":"must begin with https","allowed":"https"}]}`)
	_, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{URL: "ftp://x", Events: []string{"*"}})
	var refused *client.Error
	if !errors.As(err, &refused) || !errors.Is(err, client.CodeInvalidField) || errors.Is(err, client.CodeNotFound) {
		t.Fatalf("got %v", err)
	}
	if refused.Status != 422 || refused.Fields[0].Pointer != "/url" || refused.Fields[0].Allowed != "https" {
		t.Errorf("got %+v", refused)
	}
	if want := "One field is wrong. (422 invalid_field); /url: must begin with https"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

func TestError_FromSomethingElse(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, 502, map[string]string{"Content-Type": "text/html"}, `<h1>Bad gateway</h1>`)
	_, err := c.GetTenant(t.Context(), "a")
	var refused *client.Error
	if !errors.As(err, &refused) || refused.Status != 502 || refused.Code != "" {
		t.Fatalf("got %v", err)
	}
	if strings.Contains(err.Error(), "<h1>") || !strings.Contains(err.Error(), " a Posthorn server?") {
		t.Errorf("the page is quoted, or the server not named: %v", err)
	}
}

func TestAll_FollowsPages(t *testing.T) {
	t.Parallel()
	var queries []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		queries = append(queries, r.URL.RawQuery)
		pages := map[string]string{
			"":  `{"data":[{"id":"dlv_1","status":"pending"},{"id":"dlv_2","status":"quantum"}],"next":"c1","prev":null}`,
			"1": `{"data":[],"next":"c2","prev":"c0"}`, // a page may be empty
			"2": `{"data":[{"id":"dlv_3","next_attempt_at":null}],"next":null,"prev":"c1"}`,
		}
		_, _ = io.WriteString(w, pages[strings.TrimPrefix(r.URL.Query().Get("cursor"), "c")])
	}))
	defer srv.Close()
	c := &client.Client{BaseURL: srv.URL}
	var got []string
	f := client.DeliveryFilter{Endpoint: "ep_1", Statuses: []client.DeliveryStatus{"pending", "failed"}, Since: time.Unix(0, 0)}
	for d, err := range c.AllDeliveries(t.Context(), f, client.PageOptions{Limit: 2, Ascending: true}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, d.ID+":"+string(d.Status))
	}
	if want := "dlv_1:pending dlv_2:quantum dlv_3:"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	want := "endpoint=ep_1&limit=2&order=asc&since=1970-01-01T00%3A00%3A00.000Z&status=pending%2Cfailed"
	if len(queries) != 3 || queries[0] != want || queries[1] != "cursor=c1&"+want {
		t.Errorf("queries %q", queries)
	}
}

func TestAll_ErrorEnds(t *testing.T) {
	t.Parallel()
	c, requests := serve(t, 401, map[string]string{"Content-Type": "application/problem+json"}, `{"code":"unauthorized"}`)
	for _, err := range c.AllTenants(t.Context(), client.PageOptions{}) {
		if !errors.Is(err, client.CodeUnauthorized) {
			t.Errorf("got %v", err)
		}
	}
	if len(*requests) != 1 {
		t.Errorf("%d requests", len(*requests))
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	things, requests := serve(t, 200, nil, `{"id":"x","event_bytes":1}`)
	gone, deletions := serve(t, 204, nil, "")
	c, ctx := things, t.Context()
	calls := []struct {
		want string
		call func() error
	}{
		{"GET /v1/events/a%2Fb", func() error { _, err := c.GetEvent(ctx, "a/b"); return err }},
		{"DELETE /v1/events/e", func() error { return gone.CancelEvent(ctx, "e") }},
		{"DELETE /v1/events/e/data", func() error { return gone.EraseEventData(ctx, "e") }},
		{"PUT /v1/endpoints/x", func() error { _, err := c.PutEndpoint(ctx, "x", client.NewEndpoint{}); return err }},
		{"PATCH /v1/endpoints/x", func() error { _, err := c.UpdateEndpoint(ctx, "x", client.EndpointPatch{IfVersion: 7}); return err }},
		{"DELETE /v1/endpoints/x", func() error { return gone.DeleteEndpoint(ctx, "x") }},
		{"POST /v1/endpoints/x/pause", func() error { _, err := c.PauseEndpoint(ctx, "x"); return err }},
		{"POST /v1/endpoints/x/resume", func() error { _, err := c.ResumeEndpoint(ctx, "x"); return err }},
		{"POST /v1/endpoints/x/enable", func() error { _, err := c.EnableEndpoint(ctx, "x", client.ResumeNow); return err }},
		{"POST /v1/endpoints/x/disable", func() error { _, err := c.DisableEndpoint(ctx, "x", "why"); return err }},
		{"POST /v1/endpoints/x/rotate-secret", func() error { _, err := c.RotateSecret(ctx, "x", client.Rotation{}); return err }},
		{"POST /v1/deliveries/d/cancel", func() error { _, err := c.CancelDelivery(ctx, "d"); return err }},
		{"GET /v1/deliveries/d", func() error { _, err := c.GetDelivery(ctx, "d"); return err }},
		{"POST /v1/tenants", func() error { _, err := c.CreateTenant(ctx, client.NewTenant{ID: "t"}); return err }},
		{"PATCH /v1/tenants/x", func() error { _, err := c.UpdateTenant(ctx, "x", client.TenantPatch{}); return err }},
		{"DELETE /v1/tenants/t", func() error { return gone.DeleteTenant(ctx, "t") }},
		{"POST /v1/tenants/t/keys", func() error { _, err := c.CreateKey(ctx, "t", client.NewAPIKey{}); return err }},
		{"DELETE /v1/tenants/t/keys/k", func() error { return gone.RevokeKey(ctx, "t", "k") }},
		{"GET /v1/limits", func() error { _, err := c.GetLimits(ctx); return err }},
	}
	for _, call := range calls {
		if err := call.call(); err != nil {
			t.Errorf("%s: %v", call.want, err)
		}
		list := requests
		if strings.HasPrefix(call.want, "DELETE") {
			list = deletions
		}
		if r := (*list)[len(*list)-1]; r.method+" "+r.path != call.want {
			t.Errorf("got %s %s, want %s", r.method, r.path, call.want)
		}
	}
	if got := (*requests)[2].header.Get("If-Match"); got != "7" {
		t.Errorf("If-Match %q", got)
	}
	if r := (*requests)[3]; r.body != "" || r.header.Get("Content-Type") != "" {
		t.Errorf("pause had a body: %+v", r)
	}
	if got := (*requests)[5].body + (*requests)[6].body; got != `{"resume":"now"}{"reason":"why"}` {
		t.Errorf("enable and disable: %s", got)
	}
	if got := (*requests)[len(*requests)-2].body; got != `{"scopes":null}` {
		t.Errorf("key: %s", got)
	}
}

func TestRotateSecret(t *testing.T) {
	t.Parallel()
	c, requests := serve(t, 200, nil, `{"id":"x","secret":"whsec_2"}`)
	for _, r := range []client.Rotation{{}, {Secret: "whsec_2", Overlap: 24*time.Hour - 1}, {Revoke: true}} {
		got, err := c.RotateSecret(t.Context(), "x", r)
		if err != nil || got.Secret != "whsec_2" {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	for i, want := range []string{`{}`, `{"secret":"whsec_2","overlap":"86400s"}`, `{"revoke":true}`} {
		if got := (*requests)[i].body; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A success that is not of Posthorn's form comes from something else, whatever
// it is: an empty list would be a lie, and so would an event that was accepted.
func TestForm_SomethingElseIsNoSuccess(t *testing.T) {
	t.Parallel()
	lines := []byte("{}\n \n{}")
	calls := map[string]func(*client.Client) error{
		"list": func(c *client.Client) error {
			_, err := c.ListEvents(t.Context(), client.EventFilter{}, client.PageOptions{})
			return err
		},
		"get": func(c *client.Client) error { _, err := c.GetEndpoint(t.Context(), "x"); return err },
		"send": func(c *client.Client) error {
			_, err := c.SendEvent(t.Context(), client.NewEvent{Type: "a", Data: []byte("1")})
			return err
		},
		"lines":  func(c *client.Client) error { _, err := c.SendNDJSON(t.Context(), lines); return err },
		"limits": func(c *client.Client) error { _, err := c.GetLimits(t.Context()); return err },
		"delete": func(c *client.Client) error { return c.DeleteEndpoint(t.Context(), "x") },
	}
	for name, call := range calls {
		for _, answer := range []string{`{}`, `{"error":"no"}`, `[]`, ``, `<p>Hello</p>`, `{"data":null}`} {
			c, _ := serve(t, 200, nil, answer)
			err := call(c)
			if err == nil || !strings.Contains(err.Error(), "is not what Posthorn sends") || !strings.Contains(err.Error(), c.BaseURL[:len(c.BaseURL)-1]+" a Posthorn server?") {
				t.Errorf("%s, answered with %q: %v", name, answer, err)
			}
			if err != nil && strings.Contains(err.Error(), "Hello") {
				t.Errorf("%s: the answer is quoted: %v", name, err)
			}
		}
	}
	// One result for two events tells nobody which was accepted.
	c, _ := serve(t, 200, nil, `{"line":1,"id":"evt_1","status":202}`)
	if results, err := c.SendNDJSON(t.Context(), lines); err == nil || len(results) != 1 {
		t.Errorf("got %v, %v", results, err)
	}
}

func TestPatch_NilRemoves(t *testing.T) {
	t.Parallel()
	c, requests := serve(t, 200, nil, `{"id":"x"}`)
	off, empty := false, ""
	patch := client.EndpointPatch{Active: &off, Description: &empty, Metadata: map[string]*string{"a": nil}}
	if _, err := c.UpdateEndpoint(t.Context(), "x", patch); err != nil {
		t.Fatal(err)
	}
	if got, want := (*requests)[0].body, `{"active":false,"description":"","metadata":{"a":null}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// overloaded answers 503, or another status, for the first n requests, in
// virtual time.
type overloaded struct {
	n, calls, status int
	retryAfter       string
}

func (o *overloaded) RoundTrip(r *http.Request) (*http.Response, error) {
	o.calls++
	status, header := 200, http.Header{}
	if o.calls <= o.n {
		status = max(o.status, 503)
		if o.retryAfter != "" {
			header.Set("Retry-After", o.retryAfter)
		}
	}
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(`{"id":"a"}`)), Request: r}, nil
}

func TestRetry_OnlyWhatMayBeRepeated(t *testing.T) {
	t.Parallel()
	on := client.Retry{Attempts: 4, MaxWait: time.Minute}
	send := func(id string) func(*client.Client, *testing.T) error {
		return func(c *client.Client, t *testing.T) error {
			_, err := c.SendEvent(t.Context(), client.NewEvent{ID: id, Type: "a", Data: []byte("1")})
			return err
		}
	}
	read := func(c *client.Client, t *testing.T) error { _, err := c.GetEvent(t.Context(), "a"); return err }
	create := func(c *client.Client, t *testing.T) error {
		_, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{})
		return err
	}
	for name, test := range map[string]struct {
		retry client.Retry
		after string
		call  func(*client.Client, *testing.T) error
		calls int
		wait  time.Duration
		other int // a status in place of 503
	}{
		"a read":                  {on, "2", read, 3, 4 * time.Second, 0},
		"off by default":          {client.Retry{}, "2", read, 1, 0, 0},
		"an event with ID":        {on, "2", send("e1"), 3, 4 * time.Second, 0},
		"an event without":        {on, "2", send(""), 1, 0, 0},
		"a creation":              {on, "2", create, 1, 0, 0},
		"without Retry-After":     {on, "", read, 1, 0, 0},
		"longer than accepted":    {on, "61", read, 1, 0, 0},
		"no more than asked":      {client.Retry{Attempts: 2}, "2", read, 2, 2 * time.Second, 0},
		"an unreadable date form": {on, "soon", read, 1, 0, 0},
		"another failure":         {on, "2", read, 1, 0, 504},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := &overloaded{n: 2, retryAfter: test.after, status: test.other}
				c := &client.Client{HTTP: &http.Client{Transport: server}, Retry: test.retry}
				start := time.Now()
				err := test.call(c, t)
				if server.calls != test.calls || time.Since(start) != test.wait {
					t.Errorf("%d calls in %v, want %d in %v", server.calls, time.Since(start), test.calls, test.wait)
				}
				if (err == nil) != (test.calls == 3) {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}
