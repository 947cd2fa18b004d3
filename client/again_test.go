package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/client"
)

// TestAgain_Requests: what each call asks for.
func TestAgain_Requests(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 5, 22, 0, 0, 0, 0, time.UTC)
	take := client.NewReplay{Selection: client.Selection{Statuses: []client.DeliveryStatus{client.StatusFailed}, Since: since, Events: client.EventsAttempted}, Rate: 5}
	for want, call := range map[string]func(*client.Client) error{
		`POST /v1/deliveries/dlv_1/resend  `:            func(c *client.Client) error { _, err := c.ResendDelivery(t.Context(), "dlv_1"); return err },
		`POST /v1/endpoints/ep_1/events/a%2Fb/replay  `: func(c *client.Client) error { _, err := c.ReplayEvent(t.Context(), "ep_1", "a/b"); return err },
		`POST /v1/deliveries/resend  {"ids":["dlv_1","dlv_2"]}`: func(c *client.Client) error {
			_, err := c.ResendDeliveries(t.Context(), []string{"dlv_1", "dlv_2"})
			return err
		},
		`GET /v1/deliveries/summary run=run_1&status=failed `: func(c *client.Client) error {
			_, err := c.SummarizeDeliveries(t.Context(), client.DeliveryFilter{Run: "run_1", Statuses: []client.DeliveryStatus{client.StatusFailed}})
			return err
		},
		`GET /v1/events/evt_1/trace limit=2 `: func(c *client.Client) error {
			_, err := c.TraceEvent(t.Context(), "evt_1", client.PageOptions{Limit: 2})
			return err
		},
		`POST /v1/endpoints/ep_1/replay  {"selection":{"status":["failed"],"since":"2026-05-22T00:00:00Z","events":"attempted"},"rate":5}`: func(c *client.Client) error {
			_, err := c.CreateReplay(t.Context(), "ep_1", take)
			return err
		},
		`POST /v1/endpoints/ep_1/replay  {"selection":{},"dry_run":true}`: func(c *client.Client) error {
			_, err := c.PreviewReplay(t.Context(), "ep_1", client.NewReplay{})
			return err
		},
		`GET /v1/replays endpoint=ep_1 `: func(c *client.Client) error {
			_, err := c.ListReplays(t.Context(), "ep_1", client.PageOptions{})
			return err
		},
		`POST /v1/replays/rpl_1/cancel  `: func(c *client.Client) error { _, err := c.CancelReplay(t.Context(), "rpl_1"); return err },
		`POST /v1/runs  {"project":"p"}`: func(c *client.Client) error {
			_, err := c.CreateRun(t.Context(), client.NewRun{Project: "p"})
			return err
		},
		`GET /v1/runs project=p `:      func(c *client.Client) error { _, err := c.ListRuns(t.Context(), "p", client.PageOptions{}); return err },
		`POST /v1/runs/run_1/finish  `: func(c *client.Client) error { _, err := c.FinishRun(t.Context(), "run_1"); return err },
		`GET /v1/runs/run_1/events cursor=c `: func(c *client.Client) error {
			_, err := c.ReadRunEvents(t.Context(), "run_1", client.PageOptions{Cursor: "c"})
			return err
		},
	} {
		c, requests := serve(t, http.StatusOK, nil, `{"id":"x","data":[],"count":3,"by_status":{}}`)
		if err := call(c); err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		if r := (*requests)[0]; r.method+" "+r.path+" "+r.query+" "+r.body != want {
			t.Errorf("got  %s %s %s %s\nwant %s", r.method, r.path, r.query, r.body, want)
		}
	}
	c, requests := serve(t, http.StatusNoContent, nil, "")
	if c.DeleteRun(t.Context(), "run_1") != nil || c.DeleteProject(t.Context(), "p") != nil || (*requests)[0].path != "/v1/runs/run_1" || (*requests)[1].path != "/v1/projects/p" {
		t.Errorf("deleted by %+v", *requests)
	}
}

// TestAgain_SomethingElse: an answer that only looks like one is an error.
func TestAgain_SomethingElse(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, http.StatusOK, nil, `{}`)
	_, one := c.PreviewReplay(t.Context(), "ep", client.NewReplay{})
	_, two := c.ResendDeliveries(t.Context(), []string{"x"})
	_, three := c.SummarizeDeliveries(t.Context(), client.DeliveryFilter{})
	_, four := c.CreateReplay(t.Context(), "ep", client.NewReplay{})
	_, five := c.FinishRun(t.Context(), "run")
	var six error
	for _, err := range c.ExportDeliveries(t.Context(), client.DeliveryFilter{}, false) {
		six = err
	}
	for i, err := range []error{one, two, three, four, five, six} {
		if err == nil || !strings.Contains(err.Error(), "a Posthorn server?") {
			t.Errorf("%d: %v", i, err)
		}
	}
	c, _ = serve(t, http.StatusOK, nil, `{"count":0,"complete":true}`)
	if p, err := c.PreviewReplay(t.Context(), "ep", client.NewReplay{}); err != nil || p.Count != 0 || !p.Complete {
		t.Errorf("nothing to replay: %+v, %v", p, err)
	}
}

// TestExportDeliveries: each line as it comes; a refusal, and a connection that
// breaks, are errors, an end is none.
func TestExportDeliveries(t *testing.T) {
	t.Parallel()
	all := func(c *client.Client) (ids []string, err error) {
		var d client.Delivery
		for d, err = range c.ExportDeliveries(t.Context(), client.DeliveryFilter{Endpoint: "ep"}, true) {
			if err == nil {
				ids = append(ids, d.ID)
			}
		}
		return ids, err
	}
	c, requests := serve(t, http.StatusOK, nil, `{"id":"dlv_1"}`+"\n"+`{"id":"dlv_2"}`+"\n")
	if ids, err := all(c); err != nil || strings.Join(ids, " ") != "dlv_1 dlv_2" || (*requests)[0].query != "endpoint=ep&order=asc" {
		t.Errorf("exported %v, %v by %s", ids, err, (*requests)[0].query)
	}
	c, _ = serve(t, http.StatusForbidden, map[string]string{"Content-Type": "application/problem+json"}, `{"code":"forbidden","status":403}`)
	if ids, err := all(c); !errors.Is(err, client.CodeForbidden) || len(ids) != 0 {
		t.Errorf("refused with %v, %v", ids, err)
	}
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"id":"dlv_1"}` + "\n"))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer broken.Close()
	if ids, err := all(&client.Client{BaseURL: broken.URL}); err == nil || errors.Is(err, context.Canceled) || len(ids) != 1 {
		t.Errorf("broken off with %v, %v", ids, err)
	}
}

// TestAddRunEvents: events of a run go out as lines, each with its result.
func TestAddRunEvents(t *testing.T) {
	t.Parallel()
	c, requests := serve(t, http.StatusOK, map[string]string{"Posthorn-Repeated": "1"}, `{"line":1,"id":"a","status":202}`+"\n"+`{"line":2,"status":422,"code":"invalid_field"}`+"\n")
	got, err := c.AddRunEvents(t.Context(), "run_1", []client.NewEvent{{ID: "a", Type: "x", Data: []byte("{\n}")}, {Type: "x", Data: []byte("1")}})
	if err != nil || len(got.Lines) != 2 || !got.Lines[0].Accepted() || got.Lines[1].Accepted() || got.Repeated != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	if r := (*requests)[0]; r.path != "/v1/runs/run_1/events" || r.header.Get("Content-Type") != "application/x-ndjson" || r.body != `{"id":"a","type":"x","data":{ }}`+"\n"+`{"type":"x","data":1}`+"\n" {
		t.Errorf("sent %+v", r)
	}
}
