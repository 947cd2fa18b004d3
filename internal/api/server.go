package api

import (
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/posthorn/posthorn/internal/publish"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Names of limits, as errors and GET /v1/limits have them. Those of publishing
// are package publish's.
const (
	limitPatterns    webhook.Code = "endpoint_patterns"
	limitHeaders     webhook.Code = "endpoint_headers"
	limitHeaderBytes webhook.Code = "endpoint_header_bytes"
	limitMetadata    webhook.Code = "endpoint_metadata"
	limitFilterBytes webhook.Code = "filter_bytes"
	limitResend      webhook.Code = "resend_ids"
	limitRunTypes    webhook.Code = "run_types"
	limitContract    webhook.Code = "contract_bytes"
)

// readyTimeout bounds all checks of /readyz together.
const readyTimeout = 3 * time.Second

// Check is one condition of readiness. Its error is logged, never shown.
type Check struct {
	Name string
	Run  func(context.Context) error
}

type wireLimits struct {
	EventBytes       int `json:"event_bytes" doc:"Bytes of an event's data." example:"262144"`
	NDJSONLines      int `json:"ndjson_lines" doc:"Lines of an NDJSON body." example:"1000"`
	NDJSONBytes      int `json:"ndjson_bytes" doc:"Bytes of an NDJSON body." example:"16777216"`
	DeliverAtAhead   int `json:"deliver_at_ahead" doc:"How far deliver_at may lie ahead, in seconds." example:"2592000"`
	OrderingKeyBytes int `json:"ordering_key_bytes" doc:"Bytes of an ordering key." example:"256"`
	EndpointPatterns int `json:"endpoint_patterns" doc:"Patterns of an endpoint." example:"50"`
	EndpointHeaders  int `json:"endpoint_headers" doc:"Headers of an endpoint." example:"32"`
	EndpointHdrBytes int `json:"endpoint_header_bytes" doc:"Bytes of an endpoint's header names and values." example:"8192"`
	EndpointMetadata int `json:"endpoint_metadata" doc:"Entries of an endpoint's metadata; each value may have 500 characters." example:"50"`
	EndpointInFlight int `json:"endpoint_in_flight" doc:"Requests under way to one endpoint." example:"1000"`
	FilterBytes      int `json:"filter_bytes" doc:"Bytes of an endpoint's filter." example:"2048"`
	ResendIDs        int `json:"resend_ids" doc:"Deliveries that one request sends again; a contract may take fewer." example:"100"`
	RunTypes         int `json:"run_types" doc:"Types of a run's events. A request that adds to a run has the limits of NDJSON; a run has any number of events." example:"1000"`
	ContractBytes    int `json:"contract_bytes" doc:"Bytes of a contract's file." example:"262144"`
	ListItems        int `json:"list_items" doc:"Items of a page." example:"250"`
	BodyBytes        int `json:"body_bytes" doc:"Bytes of any other body." example:"262144"`
}

type wireStatus struct {
	Status string            `json:"status" example:"ok"`
	Checks map[string]string `json:"checks,omitempty" doc:"Each check of readiness: ok." example:"{\"store\":\"ok\"}"`
}

func (a *API) serverOperations() []*operation {
	status := a.schemas.of(reflect.TypeFor[wireStatus]())
	ops := []*operation{
		{
			id: "getLimits", method: http.MethodGet, path: "/v1/limits", tag: "server", scope: webhook.ScopeRead, summary: "Read the limits", handle: a.getLimits,
			description: "A request over a limit is refused with the limit's name as the code of the fault.",
			answers:     []answer{{status: 200, description: "The limits in force.", schema: a.schemas.of(reflect.TypeFor[wireLimits]())}},
		},
		{
			id: "getHealth", method: http.MethodGet, path: "/healthz", tag: "server", summary: "Is the server alive?", handle: a.getHealth,
			answers: []answer{{status: 200, description: "It is.", schema: status}},
		},
		{
			id: "getReadiness", method: http.MethodGet, path: "/readyz", tag: "server", summary: "Can the server take work?", handle: a.getReadiness,
			refusals: []webhook.Code{webhook.CodeNotReady},
			answers:  []answer{{status: 200, description: "It can.", schema: status}},
		},
		{
			id: "getOpenAPI", method: http.MethodGet, path: "/openapi.json", tag: "server", summary: "This description", handle: a.getOpenAPI,
			answers: []answer{{status: 200, description: "An OpenAPI 3.1 document.", schema: &schema{Type: types{typeObject}}}},
		},
	}
	if a.cfg.Metrics != nil {
		ops = append(ops, &operation{
			id: "getMetrics", method: http.MethodGet, path: "/metrics", tag: "server", scope: webhook.ScopeOperator, summary: "Metrics for Prometheus", handler: a.cfg.Metrics,
			answers: []answer{{status: 200, description: "Metrics in a text form of Prometheus.", schema: &schema{Type: types{typeString}}, mediaType: "text/plain"}},
		})
	}
	return ops
}

func (a *API) getLimits(*call) (reply, error) {
	event := a.cfg.Limits.EventBytes
	if event == 0 {
		event = publish.DefaultEventBytes
	}
	return reply{status: http.StatusOK, value: wireLimits{
		EventBytes: event, NDJSONLines: publish.MaxLines, NDJSONBytes: publish.MaxLinesBytes,
		DeliverAtAhead: int(webhook.DeliverAtAhead / time.Second), OrderingKeyBytes: webhook.MaxOrderingKeyLength,
		EndpointPatterns: webhook.MaxPatterns, EndpointHeaders: webhook.MaxHeaders, EndpointHdrBytes: webhook.MaxHeaderBytes,
		EndpointMetadata: 50, EndpointInFlight: 1000, FilterBytes: maxFilterBytes, ResendIDs: 100, RunTypes: maxRunTypes,
		ContractBytes: controlBodyLimit, ListItems: 250, BodyBytes: controlBodyLimit,
	}}, nil
}

func (*API) getHealth(*call) (reply, error) {
	return reply{status: http.StatusOK, value: wireStatus{Status: "ok"}}, nil
}

// getReadiness runs all checks at once. A load balancer asks often and decides
// by the status alone; people read which check failed.
func (a *API) getReadiness(c *call) (reply, error) {
	ctx, cancel := context.WithTimeout(c.r.Context(), readyTimeout)
	defer cancel()
	results := make([]error, len(a.cfg.Ready))
	var running sync.WaitGroup
	for i, check := range a.cfg.Ready {
		running.Go(func() { results[i] = check.Run(ctx) })
	}
	running.Wait()
	checks, failed := map[string]string{}, 0
	for i, check := range a.cfg.Ready {
		checks[check.Name] = "ok"
		if results[i] != nil {
			failed++
			checks[check.Name] = "failed"
			a.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "not ready", slog.String("check", check.Name), slog.Any("error", results[i]))
		}
	}
	if failed == 0 {
		return reply{status: http.StatusOK, value: wireStatus{Status: "ready", Checks: checks}}, nil
	}
	return reply{}, &notReady{webhook.NewProblem(webhook.CodeNotReady, strconv.Itoa(failed)+" of the checks failed"), checks}
}

// notReady carries the checks to the answer.
type notReady struct {
	problem *webhook.Problem
	checks  map[string]string
}

// Error implements error.
func (e *notReady) Error() string { return e.problem.Detail }

// Unwrap leads to the problem.
func (e *notReady) Unwrap() error { return e.problem }

func (a *API) getOpenAPI(*call) (reply, error) {
	return reply{status: http.StatusOK, raw: a.document, mediaType: "application/json"}, nil
}

// HTTPServer makes the server that an API is meant to run in: what a caller may
// send before its key is looked at is bounded in size and time (B95). The time
// for a body is the operation's, see readAll; ReadTimeout is the net under it.
func HTTPServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       90 * time.Second,
		WriteTimeout:      2 * time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
