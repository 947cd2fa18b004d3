package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/again"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// previewTime bounds the counting for a dry run.
const previewTime = 20 * time.Second

// selectionInput says what a replay takes.
type selectionInput struct {
	Status []contract.Status `json:"status,omitempty" doc:"Statuses as the endpoint's contract shows them. Absent: what was given up, or any that ended, where runs are named. What still waits, what was redelivered and tests are never taken." min:"1" max:"5" items:"enum=delivered,failed,dead,skipped,canceled" example:"[\"failed\"]"`
	Types  []string          `json:"types,omitempty" doc:"Only events of these types." min:"1" max:"50" items:"pattern=^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$;max=128;form=an event type such as link.created" example:"[\"link.created\"]"`
	Runs   []string          `json:"runs,omitempty" doc:"Only deliveries of these runs." min:"1" max:"100" items:"min=1;max=128" example:"[\"run_01k8x3m5t2f4v9z7q1c6b8n0da\"]"`
	Since  *stamp            `json:"since,omitempty" doc:"Only what was accepted at this time or later." example:"2026-05-22T00:00:00.000Z"`
	Until  *stamp            `json:"until,omitempty" doc:"Only what was accepted before this time." example:"2026-05-23T00:00:00.000Z"`
	Events string            `json:"events,omitempty" doc:"attempted: events that the endpoint has deliveries of. missing: events that it would take now and has none of." enum:"attempted,missing" default:"attempted" example:"attempted"`
}

// replayInput is what a replay is made of.
type replayInput struct {
	Selection *selectionInput `json:"selection,omitempty" doc:"What it takes. Absent: what was given up."`
	Rate      int             `json:"rate,omitempty" doc:"How many deliveries a second it queues at most. Absent: as many as the endpoint takes." min:"1" max:"10000" example:"50"`
	DryRun    bool            `json:"dry_run,omitempty" doc:"true: only count what it would take." default:"false" example:"false"`
}

// wireSelection shows what a replay takes.
type wireSelection struct {
	Status []contract.Status `json:"status" example:"[\"dead\"]"`
	Types  []string          `json:"types" example:"[]"`
	Runs   []string          `json:"runs" example:"[]"`
	Since  *stamp            `json:"since" example:"null"`
	Until  *stamp            `json:"until" example:"null"`
	Events string            `json:"events" example:"attempted"`
}

// wireReplay is a replay as callers see it.
type wireReplay struct {
	ID         string              `json:"id" example:"rpl_01k8x3m5t2f4v9z7q1c6b8n0da"`
	Tenant     string              `json:"tenant" example:"default"`
	Endpoint   string              `json:"endpoint" example:"ep_01k8x3m5t2f4v9z7q1c6b8n0da"`
	Selection  wireSelection       `json:"selection"`
	Rate       *int                `json:"rate" doc:"Deliveries a second; null without a bound of its own." example:"50"`
	State      webhook.ReplayState `json:"state" doc:"counting, then running. paused: the endpoint is off; it goes on when that is on again. done and canceled are the ends." example:"running"`
	Count      int                 `json:"count" doc:"How many it takes, as counted before it began." example:"120"`
	Done       int                 `json:"done" doc:"How many were queued so far." example:"40"`
	Failed     int                 `json:"failed" doc:"How many could not be queued any more when their turn came." example:"0"`
	CreatedAt  stamp               `json:"created_at" example:"2026-05-22T14:32:18.847Z"`
	FinishedAt *stamp              `json:"finished_at" example:"null"`
	Warning    string              `json:"warning,omitempty" doc:"With the creation: what the receiver may make of it, where that is to be minded." example:"It may take events older than the 14 days for which receivers are told to remember IDs: this receiver may take those for new ones."`
}

// wirePreview is the answer to a dry run.
type wirePreview struct {
	Count    int    `json:"count" doc:"How many deliveries the replay would send." example:"120"`
	Complete bool   `json:"complete" doc:"false: there are more than could be counted in time." example:"true"`
	Warning  string `json:"warning,omitempty" doc:"What the receiver may make of it, where that is to be minded." example:"It may take events older than the 14 days for which receivers are told to remember IDs: this receiver may take those for new ones."`
}

func (a *API) replayOperations() []*operation {
	one := a.schemas.of(reflect.TypeFor[wireReplay]())
	a.schemas.request(reflect.TypeFor[selectionInput]())
	take := a.schemas.bodyOf(reflect.TypeFor[replayInput](), map[string]any{"selection": map[string]any{"status": []string{"failed"}, "since": "2026-05-22T00:00:00.000Z"}})
	endpoint := param{name: "endpoint", in: "query", schema: &schema{Type: types{typeString}, MinLength: 1, MaxLength: 128}, example: "ep_01k8x3m5t2f4v9z7q1c6b8n0da", description: "Only those of this endpoint."}
	return []*operation{
		{
			id: "createReplay", method: http.MethodPost, path: "/v1/endpoints/{id}/replay", tag: "replays", scope: webhook.ScopeManage, tenancy: tenantOne,
			summary: "Replay deliveries of an endpoint", body: take, handle: a.createReplay, refusals: []webhook.Code{webhook.CodeConflict, webhook.CodeEndpointOff},
			description: "Each delivery that it takes is sent again as its contract promises it, mostly as a new one. One replay at a time for each endpoint.",
			answers: []answer{
				{status: 202, description: "The replay has begun.", schema: one},
				{status: 200, description: "With dry_run: the count.", schema: a.schemas.of(reflect.TypeFor[wirePreview]())},
			},
		},
		{
			id: "listReplays", method: http.MethodGet, path: "/v1/replays", tag: "replays", scope: webhook.ScopeRead, tenancy: tenantAcross,
			summary: "List replays", list: true, params: append(listParams(), endpoint), handle: a.listReplays,
			answers: []answer{{status: 200, description: "A page of replays.", schema: a.schemas.listOf(one, "ReplayList")}},
		},
		{
			id: "getReplay", method: http.MethodGet, path: "/v1/replays/{id}", tag: "replays", scope: webhook.ScopeRead, tenancy: tenantOne,
			summary: "Read a replay", handle: a.getReplay,
			answers: []answer{{status: 200, description: "The replay.", schema: one}},
		},
		{
			id: "cancelReplay", method: http.MethodPost, path: "/v1/replays/{id}/cancel", tag: "replays", scope: webhook.ScopeManage, tenancy: tenantOne,
			summary: "Cancel a replay", body: a.schemas.emptyBody(), handle: a.cancelReplay, refusals: []webhook.Code{webhook.CodeConflict},
			description: "It queues nothing more; what it has queued is sent. Canceling a canceled one changes nothing; one that is done is refused.",
			answers:     []answer{{status: 200, description: "The canceled replay.", schema: one}},
		},
	}
}

func (a *API) createReplay(c *call) (reply, error) {
	in, err := bodyAs[replayInput](c)
	if err != nil {
		return reply{}, err
	}
	e, err := a.cfg.Store.GetEndpoint(c.r.Context(), c.tenant, c.id())
	if err != nil {
		return reply{}, err
	}
	promise, revision := present{a.cfg.Contracts}.Current(e.Contract)
	if promise == nil {
		return reply{}, errors.New("replaying at an endpoint: contract " + e.Contract + " in revision " + revision + " is unknown")
	}
	selection, err := selectionOf(in.Selection, promise)
	if err != nil {
		return reply{}, err
	}
	r := webhook.Replay{Tenant: e.Tenant, Endpoint: e.ID, Selection: selection, Rate: in.Rate, CreatedAt: c.now}
	warning, err := a.warnOfReplay(c, &selection, promise)
	if err != nil {
		return reply{}, err
	}
	if in.DryRun {
		return a.previewReplay(c, r, warning)
	}
	if promise.Resend.NeedsOn && !e.On() {
		return reply{}, webhook.NewProblem(webhook.CodeEndpointOff, "the endpoint is "+string(e.State)+": switch it on, then replay")
	}
	made, err := a.cfg.Store.CreateReplay(c.r.Context(), r)
	if errors.Is(err, store.ErrExists) {
		return reply{}, webhook.NewProblem(webhook.CodeConflict, "a replay of this endpoint is under way; wait for its end, or cancel it")
	}
	if err != nil {
		return reply{}, err
	}
	shown := a.showReplay(made)
	shown.Warning = warning
	return reply{status: http.StatusAccepted, value: shown}, nil
}

// selectionOf checks a selection and puts it into the engine's words. What is
// given up where the caller names no status is the contract's last word (S11).
func selectionOf(in *selectionInput, promise *contract.Contract) (webhook.Selection, error) {
	if in == nil {
		in = &selectionInput{}
	}
	out := webhook.Selection{Types: in.Types, Runs: in.Runs, Events: cmp.Or(in.Events, webhook.EventsAttempted)}
	if in.Since != nil {
		out.Since = time.Time(*in.Since)
	}
	if in.Until != nil {
		out.Until = time.Time(*in.Until)
	}
	if !out.Until.IsZero() && !out.Since.Before(out.Until) {
		return out, webhook.InvalidField("/selection/until", "nothing lies between since and until", "a time after since")
	}
	switch {
	case out.Events == webhook.EventsMissing && len(in.Status) > 0:
		return out, webhook.InvalidField("/selection/status", "missing events have no delivery, and so no status", "status for attempted events only")
	case out.Events == webhook.EventsMissing:
	case len(in.Status) > 0:
		out.Statuses = engineStatuses(in.Status, promise)
	case len(in.Runs) == 0:
		out.Statuses = []contract.Status{promise.Exhausted.Status}
	}
	return out, nil
}

// engineStatuses are the ends that the contract shows as one of these.
func engineStatuses(shown []contract.Status, promise *contract.Contract) []contract.Status {
	var out []contract.Status
	for _, s := range contract.Statuses() {
		if s.Final() && s != contract.StatusRedelivered && slices.Contains(shown, promise.Shown(s)) {
			out = append(out, s)
		}
	}
	// Deliveries of an earlier contract may be in a status that this one never shows.
	for _, s := range shown {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// warnOfReplay warns of a replay that may reach beyond its receiver's memory: of
// one where the tenant has events that are old enough.
func (a *API) warnOfReplay(c *call, s *webhook.Selection, promise *contract.Contract) (string, error) {
	memory := promise.ReceiverMemory.Std()
	if memory == 0 || promise.WebhookID == contract.PerDelivery || s.Since.After(c.now.Add(-memory)) {
		return "", nil
	}
	old, err := a.cfg.Store.ListEvents(c.r.Context(), c.tenant, store.EventFilter{Span: store.Span{Until: c.now.Add(-memory)}}, store.Page{Limit: 1})
	if err != nil || len(old.Items) == 0 {
		return "", err
	}
	return "It may take events older than the " + daysOf(memory) + " for which receivers are told to remember IDs: this receiver may take those for new ones.", nil
}

// previewReplay counts what a replay would take, for as long as there is time.
func (a *API) previewReplay(c *call, r webhook.Replay, warning string) (reply, error) {
	ctx, cancel := context.WithTimeout(c.r.Context(), previewTime)
	defer cancel()
	p := store.StepParams{
		Replay: r, Decide: again.Replay(present{a.cfg.Contracts}, c.now), Matches: a.matches, Now: c.now, Ready: a.cfg.Clock.Now(),
	}
	out := wirePreview{Warning: warning}
	for after := int64(0); !out.Complete; {
		n, next, done, err := a.cfg.Store.CountReplay(ctx, p, after)
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if err != nil {
			return reply{}, err
		}
		out.Count, out.Complete, after = out.Count+n, done, next
	}
	return reply{status: http.StatusOK, value: out}, nil
}

func (a *API) listReplays(c *call) (reply, error) {
	page, err := a.page(c)
	if err != nil {
		return reply{}, err
	}
	listed, err := a.cfg.Store.ListReplays(c.r.Context(), c.tenant, c.query.Get("endpoint"), page)
	if err != nil {
		return reply{}, err
	}
	return pageOf(a, c, listed, a.showReplay), nil
}

func (a *API) getReplay(c *call) (reply, error) {
	r, err := a.cfg.Store.GetReplay(c.r.Context(), c.tenant, c.id())
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, value: a.showReplay(r)}, nil
}

func (a *API) cancelReplay(c *call) (reply, error) {
	canceled, err := a.cfg.Store.CancelReplay(c.r.Context(), c.tenant, c.id(), c.now)
	if err != nil {
		return reply{}, err
	}
	r, err := a.cfg.Store.GetReplay(c.r.Context(), c.tenant, c.id())
	if err != nil {
		return reply{}, err
	}
	if !canceled && r.State != webhook.ReplayCanceled {
		return reply{}, webhook.NewProblem(webhook.CodeConflict, "the replay is done: all that it took is queued")
	}
	return reply{status: http.StatusOK, value: a.showReplay(r)}, nil
}

func (a *API) showReplay(r *webhook.Replay) wireReplay {
	return wireReplay{
		ID: r.ID, Tenant: r.Tenant, Endpoint: r.Endpoint, Rate: orNull(r.Rate), State: r.State, Count: r.Count, Done: r.Done, Failed: r.Failed,
		CreatedAt: stamp(r.CreatedAt), FinishedAt: stampOrNull(r.FinishedAt),
		Selection: wireSelection{
			Status: r.Selection.Statuses, Types: r.Selection.Types, Runs: r.Selection.Runs,
			Since: stampOrNull(r.Selection.Since), Until: stampOrNull(r.Selection.Until), Events: cmp.Or(r.Selection.Events, webhook.EventsAttempted),
		},
	}
}
