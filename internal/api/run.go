package api

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"

	"github.com/posthorn/posthorn/internal/publish"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// finishTries is how often finishing is asked for again when subscriptions change
// at the same time.
const finishTries = 8

// runInput is what opening a run takes.
type runInput struct {
	Project string `json:"project,omitempty" doc:"A group of runs, by a name of your own." min:"1" max:"128" pattern:"^[A-Za-z0-9][A-Za-z0-9_.:-]*$" form:"1 to 128 of A-Z, a-z, 0-9, _, ., : and -, beginning with a letter or digit" example:"spring-campaign"`
	Type    string `json:"type,omitempty" doc:"Type of the event that finishing publishes." min:"1" max:"128" pattern:"^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$" form:"an event type such as run.finished" default:"run.finished" example:"import.finished"`
}

// wireRun is a run as callers see it.
type wireRun struct {
	ID         string           `json:"id" example:"run_01k8x3m5t2f4v9z7q1c6b8n0da"`
	Tenant     string           `json:"tenant" example:"default"`
	Project    *string          `json:"project" example:"spring-campaign"`
	Type       string           `json:"type" doc:"Type of the event that finishing publishes." example:"run.finished"`
	State      webhook.RunState `json:"state" doc:"open: it takes events. finished: receivers are told. deleted: its events are gone." example:"finished"`
	Counts     wireCounts       `json:"counts"`
	Event      *string          `json:"event" doc:"The event that finishing published." example:"evt_01k8x3m5t2f4v9z7q1c6b8n0da"`
	CreatedAt  stamp            `json:"created_at" example:"2026-05-22T14:32:18.847Z"`
	FinishedAt *stamp           `json:"finished_at" example:"2026-05-22T14:40:00.000Z"`
}

type wireCounts struct {
	Total  int            `json:"total" example:"120"`
	ByType map[string]int `json:"by_type" example:"{\"link.created\":120}"`
}

// runData is the data of the event that tells of a run.
type runData struct {
	RunID   string     `json:"runId"`
	Project string     `json:"project,omitempty"`
	Counts  wireCounts `json:"counts"`
}

func (a *API) runOperations() []*operation {
	one := a.schemas.of(reflect.TypeFor[wireRun]())
	project := param{name: "project", in: "query", schema: &schema{Type: types{typeString}, MinLength: 1, MaxLength: 128}, example: "spring-campaign", description: "Only those of this project."}
	row := func(method, path, id, summary, description string, handle func(*call) (reply, error), done answer) *operation {
		return &operation{
			id: id, method: method, path: path, tag: "runs", scope: webhook.ScopePublish, tenancy: tenantOne,
			summary: summary, description: description, handle: handle, answers: []answer{done},
		}
	}
	create := row(http.MethodPost, "/v1/runs", "createRun", "Open a run", "Events are added to it, then it is finished.", a.createRun, answer{status: 201, description: "The open run.", schema: one})
	create.body = a.schemas.bodyOf(reflect.TypeFor[runInput](), map[string]any{"project": "spring-campaign"})
	finish := row(http.MethodPost, "/v1/runs/{id}/finish", "finishRun", "Finish a run",
		"Publishes one event of the run's type, whose data are runId, project and counts; receivers under contracts that deliver runs get a thin notice and fetch the events. Repeating it changes nothing.",
		a.finishRun, answer{status: 200, description: "The finished run.", schema: one})
	finish.body, finish.refusals = a.schemas.emptyBody(), []webhook.Code{webhook.CodeRunGone}
	list := row(http.MethodGet, "/v1/runs", "listRuns", "List runs", "", a.listRuns, answer{status: 200, description: "A page of runs.", schema: a.schemas.listOf(one, "RunList")})
	list.scope, list.tenancy, list.list, list.params = webhook.ScopeRead, tenantAcross, true, append(listParams(), project)
	read := row(http.MethodGet, "/v1/runs/{id}", "getRun", "Read a run", "", a.getRun, answer{status: 200, description: "The run.", schema: one})
	read.scope = webhook.ScopeRead
	gone := answer{status: 204, description: "The events are gone."}
	remove := row(http.MethodDelete, "/v1/runs/{id}", "deleteRun", "Delete a run's events",
		"Deliveries that still wait end as failed with event_missing; readers get run_gone. Safe to repeat.", a.deleteRun, gone)
	remove.scope = webhook.ScopeManage
	removeAll := row(http.MethodDelete, "/v1/projects/{id}", "deleteProject", "Delete the events of all of a project's runs",
		"As for each of its runs. A project without runs is none; deleting it changes nothing.", a.deleteProject, gone)
	removeAll.scope = webhook.ScopeManage
	return []*operation{create, list, read, a.addRunEventsOperation(), a.readRunEventsOperation(), finish, remove, removeAll}
}

func (a *API) createRun(c *call) (reply, error) {
	in, err := bodyAs[runInput](c)
	if err != nil {
		return reply{}, err
	}
	if webhook.Operational(in.Type) {
		return reply{}, webhook.InvalidField("/type", "it is one of the server's own types, which nobody publishes", "a type of your own, such as import.finished")
	}
	if in.Type == "" {
		in.Type = webhook.TypeRunFinished
	}
	made, err := a.cfg.Store.CreateRun(c.r.Context(), webhook.Run{Tenant: c.tenant, Project: in.Project, Type: in.Type, State: webhook.RunOpen, CreatedAt: c.now})
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusCreated, value: showRun(made)}, nil
}

func (a *API) listRuns(c *call) (reply, error) {
	page, err := a.page(c)
	if err != nil {
		return reply{}, err
	}
	listed, err := a.cfg.Store.ListRuns(c.r.Context(), c.tenant, c.query.Get("project"), page)
	if err != nil {
		return reply{}, err
	}
	return pageOf(a, c, listed, showRun), nil
}

func (a *API) getRun(c *call) (reply, error) {
	r, err := a.cfg.Store.GetRun(c.r.Context(), c.tenant, c.id())
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, value: showRun(r)}, nil
}

// finishRun closes a run and publishes what tells of it, in one commit.
func (a *API) finishRun(c *call) (reply, error) {
	var failed error
	tell := func(r webhook.Run) store.AcceptParams {
		p, err := a.runNotice(&r, c)
		if err != nil {
			failed = err
		}
		return p
	}
	for try := 1; ; try++ {
		r, accepted, err := a.cfg.Store.FinishRun(c.r.Context(), c.tenant, c.id(), c.now, tell)
		switch {
		case failed != nil:
			return reply{}, fmt.Errorf("telling of run %s: %w", c.id(), failed)
		case errors.Is(err, store.ErrStale) && try < finishTries:
			continue
		case errors.Is(err, store.ErrNotEmpty):
			return reply{}, runGone()
		case err != nil:
			return reply{}, err
		}
		if len(accepted.Fresh) > 0 {
			a.cfg.Offer(accepted.Fresh)
		}
		return reply{status: http.StatusOK, value: showRun(r)}, nil
	}
}

// runNotice prepares the event that tells of a finished run. It looks in memory
// only: the store asks for it inside its commit.
func (a *API) runNotice(r *webhook.Run, c *call) (store.AcceptParams, error) {
	data, err := encode(runData{RunID: r.ID, Project: r.Project, Counts: showCounts(r.Counts)})
	p := store.AcceptParams{
		Tenant: r.Tenant, Type: r.Type, Data: data, ContentType: publish.ContentTypeJSON, Run: r.ID, Now: c.now, Ready: a.cfg.Clock.Now(),
	}
	a.cfg.Match(&p)
	return p, err
}

func (a *API) deleteRun(c *call) (reply, error) {
	if err := a.cfg.Store.DeleteRun(c.r.Context(), c.tenant, c.id(), c.now); err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusNoContent}, nil
}

func (a *API) deleteProject(c *call) (reply, error) {
	if _, err := a.cfg.Store.DeleteProject(c.r.Context(), c.tenant, c.id(), c.now); err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusNoContent}, nil
}

func runGone() error {
	return webhook.NewProblem(webhook.CodeRunGone, "The run was deleted, and its events with it.")
}

func showRun(r *webhook.Run) wireRun {
	return wireRun{
		ID: r.ID, Tenant: r.Tenant, Project: orNull(r.Project), Type: r.Type, State: r.State, Counts: showCounts(r.Counts), Event: orNull(r.Event),
		CreatedAt: stamp(r.CreatedAt), FinishedAt: stampOrNull(r.FinishedAt),
	}
}

func showCounts(n webhook.RunCounts) wireCounts { return wireCounts{Total: n.Total, ByType: n.ByType} }
