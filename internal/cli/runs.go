package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/posthorn/posthorn/client"
)

type runsCommand struct {
	Create runsCreate `cmd:"" help:"Open a run."`
	Add    runsAdd    `cmd:"" help:"Add events to an open run."`
	Finish runsFinish `cmd:"" help:"Finish a run and tell its receivers."`
	List   runsList   `cmd:"" help:"List runs, newest first."`
	Get    runsGet    `cmd:"" help:"Show one run."`
	Events runsEvents `cmd:"" help:"Read a run's events, as receivers do."`
	Delete runsDelete `cmd:"" help:"Delete a run's events, or those of a project's runs."`
}

// Help implements kong.HelpProvider.
func (runsCommand) Help() string {
	return `A run is a batch of events that is delivered as one thin notice; its receivers fetch the events page by page.`
}

type runsCreate struct {
	connection `embed:""`
	Project    string `name:"project" placeholder:"NAME" help:"A group of runs, by a name of your own."`
	Type       string `name:"type" placeholder:"TYPE" help:"Type of the event that finishing publishes; run.finished by default."`
}

// Help implements kong.HelpProvider.
func (runsCreate) Help() string {
	return `    run=$(posthorn runs create --project spring)
    posthorn runs add "$run" events.ndjson
    posthorn runs finish "$run"`
}

// Run opens a run.
func (c *runsCreate) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	r, err := api.CreateRun(ctx, client.NewRun{Project: c.Project, Type: c.Type})
	if err != nil {
		return err
	}
	if c.JSON {
		return p.printJSON(r)
	}
	p.printf("%s\n", clean(r.ID))
	return nil
}

type runsAdd struct {
	connection `embed:""`
	ID         string `arg:"" help:"The run's ID."`
	File       string `arg:"" optional:"" default:"-" help:"A file with an event on each line: id, type, data, created_at; - or nothing reads standard input."`
}

// Help implements kong.HelpProvider.
func (runsAdd) Help() string {
	return `A file of any length. Events whose ID the run has already are left out, so a file whose events have IDs can be added again.

    posthorn runs add run_01hw3 events.ndjson`
}

// Run adds events.
func (c *runsAdd) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	repeated := 0
	add := func(ctx context.Context, lines []byte) ([]client.LineResult, error) {
		added, err := api.AddRunNDJSON(ctx, c.ID, lines)
		repeated += added.Repeated
		return added.Lines, err
	}
	return sendLines(ctx, p, c.File, c.JSON, add, func() int { return repeated })
}

type runsFinish struct {
	connection `embed:""`
	ID         string `arg:"" help:"The run's ID."`
}

// Help implements kong.HelpProvider.
func (runsFinish) Help() string {
	return `Publishes one event of the run's type. Repeating it is harmless.

    posthorn runs finish run_01hw3`
}

// Run finishes a run.
func (c *runsFinish) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	r, err := api.FinishRun(ctx, c.ID)
	if err != nil {
		return err
	}
	return showRun(p, c.JSON, r)
}

func showRun(p *Process, asJSON bool, r client.Run) error {
	if asJSON {
		return p.printJSON(r)
	}
	d := newDetails(p)
	d.add("id", r.ID)
	d.add("project", r.Project)
	d.add("type", r.Type)
	d.add("state", string(r.State))
	d.add("events", fmt.Sprint(r.Counts.Total))
	for _, one := range slices.Sorted(maps.Keys(r.Counts.ByType)) {
		d.add("of "+one, fmt.Sprint(r.Counts.ByType[one]))
	}
	d.add("told by", r.Event)
	d.add("created", showTime(r.CreatedAt))
	d.add("finished", showTime(r.FinishedAt))
	d.flush()
	return nil
}

type runsList struct {
	connection `embed:""`
	listing    `embed:""`
	Project    string `name:"project" group:"filter" placeholder:"NAME" help:"Only of this project."`
}

// Help implements kong.HelpProvider.
func (runsList) Help() string {
	return `    posthorn runs list --project spring`
}

// Run lists runs.
func (c *runsList) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	return printList(p, c.JSON, c.Limit, api.AllRuns(ctx, c.Project, c.page()),
		[]string{"ID", "PROJECT", "TYPE", "STATE", "EVENTS", "CREATED", "FINISHED"},
		func(r client.Run) []string {
			return []string{r.ID, r.Project, r.Type, string(r.State), fmt.Sprint(r.Counts.Total), showTime(r.CreatedAt), showTime(r.FinishedAt)}
		})
}

type runsGet struct {
	connection `embed:""`
	ID         string `arg:"" help:"The run's ID."`
}

// Help implements kong.HelpProvider.
func (runsGet) Help() string {
	return `    posthorn runs get run_01hw3`
}

// Run shows a run.
func (c *runsGet) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	r, err := api.GetRun(ctx, c.ID)
	if err != nil {
		return err
	}
	return showRun(p, c.JSON, r)
}

type runsEvents struct {
	connection `embed:""`
	ID         string `arg:"" help:"The run's ID, or that of a plain event that was delivered as a run."`
	Token      string `name:"token" placeholder:"TOKEN" help:"The page token of the notice, in the place of the API key."`
	Limit      int    `name:"limit" placeholder:"N" default:"50" help:"How many to print at most; 0 prints all."`
}

// Help implements kong.HelpProvider.
func (runsEvents) Help() string {
	return `In the order in which they were added. With --json each line is an event as receivers read it.

    posthorn runs events run_01hw3 --limit 0 --json`
}

// Run reads a run's events.
func (c *runsEvents) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	if c.Token != "" {
		// A receiver knows no tenant.
		api.Key, api.Tenant = c.Token, ""
	}
	size := listing{Limit: c.Limit}
	events := api.AllRunEvents(ctx, c.ID, size.page())
	if !c.JSON {
		return printList(p, false, c.Limit, events, []string{"ID", "TYPE", "CREATED"}, func(e client.RunEvent) []string {
			return []string{e.EventID, e.Type, showTime(e.CreatedAt)}
		})
	}
	n := 0
	for e, err := range events {
		if err != nil {
			return err
		}
		if err := printRunEvent(p, e); err != nil {
			return err
		}
		if n++; n == c.Limit {
			break
		}
	}
	return nil
}

// printRunEvent prints an event on one line. The bytes of its data go in as they
// are, but for line breaks between tokens.
func printRunEvent(p *Process, e client.RunEvent) error {
	data := e.Data
	e.Data = json.RawMessage("null")
	var head bytes.Buffer
	if err := encodeJSON(&head, e); err != nil {
		return err
	}
	text := bytes.TrimSuffix(head.Bytes(), []byte("null}\n"))
	start := len(text)
	text = append(text, data...)
	for i, b := range text[start:] {
		if b == '\n' || b == '\r' {
			text[start+i] = ' '
		}
	}
	_, err := p.Stdout.Write(append(text, "}\n"...))
	return err
}

type runsDelete struct {
	connection `embed:""`
	ID         string `arg:"" optional:"" help:"The run's ID."`
	Project    string `name:"project" placeholder:"NAME" help:"Delete those of all runs of this project instead."`
}

// Help implements kong.HelpProvider.
func (runsDelete) Help() string {
	return `Notices that still wait fail as event_missing. Repeating it is harmless.

    posthorn runs delete run_01hw3
    posthorn runs delete --project spring`
}

// Run deletes a run's events.
func (c *runsDelete) Run(ctx context.Context, p *Process) error {
	switch {
	case (c.ID == "") == (c.Project == ""):
		return usagef("name a run, or a project with --project")
	case c.ID != "":
		return c.act(ctx, p, c.ID, "deleted", (*client.Client).DeleteRun)
	default:
		return c.act(ctx, p, c.Project, "deleted", (*client.Client).DeleteProject)
	}
}
