package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/posthorn/posthorn/client"
)

// replayPoll is how often a replay that is waited for is looked at.
const replayPoll = time.Second

type replaysCommand struct {
	Create replaysCreate `cmd:"" help:"Send what an endpoint got, or should have got, again."`
	List   replaysList   `cmd:"" help:"List replays, newest first."`
	Get    replaysGet    `cmd:"" help:"Show how far a replay is."`
	Cancel replaysCancel `cmd:"" help:"End a replay."`
}

// Help implements kong.HelpProvider.
func (replaysCommand) Help() string {
	return `A replay is a job that sends an endpoint's deliveries again. It goes on after a restart of the server; each endpoint has one at a time.`
}

type replaysCreate struct {
	connection `embed:""`
	Endpoint   string                  `arg:"" help:"The endpoint's ID."`
	Statuses   []client.DeliveryStatus `name:"status" group:"filter" placeholder:"STATUS" help:"delivered, failed, dead, skipped or canceled; what was given up by default."`
	Types      []string                `name:"type" group:"filter" placeholder:"TYPE" help:"Only of these event types."`
	Runs       []string                `name:"run" group:"filter" placeholder:"ID" help:"Only of these runs; whatever ended, unless --status says otherwise."`
	Since      moment                  `name:"since" group:"filter" placeholder:"TIME" help:"Accepted at this time or later: RFC 3339, or how long ago (15m, 2h, 7d)."`
	Until      moment                  `name:"until" group:"filter" placeholder:"TIME" help:"Accepted before this time."`
	Events     string                  `name:"events" group:"filter" enum:"attempted,missing" default:"attempted" help:"attempted: what the endpoint has deliveries of. missing: what it would take now and has none of."`
	Rate       int                     `name:"rate" placeholder:"N" help:"Deliveries a second at most; the endpoint's own pace by default."`
	DryRun     bool                    `name:"dry-run" help:"Only count what it would send."`
	Wait       bool                    `name:"wait" help:"Wait for its end."`
}

// Help implements kong.HelpProvider.
func (replaysCreate) Help() string {
	return `What was given up since yesterday, seen first and then sent:

    posthorn replays create ep_01hw3 --since 1d --dry-run
    posthorn replays create ep_01hw3 --since 1d --rate 50 --wait

What an endpoint missed because it was made too late:

    posthorn replays create ep_01hw3 --events missing --since 7d`
}

// Run begins a replay.
func (c *replaysCreate) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	now := p.Clock.Wall()
	take := client.NewReplay{Rate: c.Rate, Selection: client.Selection{
		Statuses: c.Statuses, Types: c.Types, Runs: c.Runs, Since: c.Since.time(now), Until: c.Until.time(now), Events: c.Events,
	}}
	if c.DryRun {
		return c.preview(ctx, p, api, take)
	}
	r, err := api.CreateReplay(ctx, c.Endpoint, take)
	if err != nil {
		return err
	}
	if r.Warning != "" {
		p.warnf("%s", clean(r.Warning))
	}
	if !c.Wait {
		return showReplay(p, c.JSON, r)
	}
	p.warnf("%s began", clean(r.ID))
	if r, err = waitForReplay(ctx, p, api, r); err != nil {
		return err
	}
	if err := showReplay(p, c.JSON, r); err != nil {
		return err
	}
	if r.State == client.ReplayCanceled {
		return exitError(exitFailed)
	}
	return nil
}

func (c *replaysCreate) preview(ctx context.Context, p *Process, api *client.Client, take client.NewReplay) error {
	seen, err := api.PreviewReplay(ctx, c.Endpoint, take)
	if err != nil {
		return err
	}
	if seen.Warning != "" {
		p.warnf("%s", clean(seen.Warning))
	}
	if c.JSON {
		return p.printJSON(seen)
	}
	more := ""
	if !seen.Complete {
		more = ", and more than could be counted in time"
	}
	p.printf("%s would be sent%s\n", count(seen.Count, "delivery", "deliveries"), more)
	return nil
}

// waitForReplay returns when a replay has ended. It tells of each change of state
// on the way: a paused one waits for its endpoint.
func waitForReplay(ctx context.Context, p *Process, api *client.Client, r client.Replay) (client.Replay, error) {
	state := r.State
	for r.Open() {
		timer := time.NewTimer(replayPoll)
		select {
		case <-ctx.Done():
			timer.Stop()
			return r, ctx.Err()
		case <-timer.C:
		}
		var err error
		if r, err = api.GetReplay(ctx, r.ID); err != nil {
			return r, err
		}
		if r.State != state && r.Open() {
			state = r.State
			p.warnf("%s: %s, %d of %d", clean(r.ID), clean(string(state)), r.Done, r.Count)
		}
	}
	return r, nil
}

func showReplay(p *Process, asJSON bool, r client.Replay) error {
	if asJSON {
		return p.printJSON(r)
	}
	d := newDetails(p)
	d.add("id", r.ID)
	d.add("endpoint", r.Endpoint)
	d.add("takes", selectionText(r.Selection))
	d.add("rate", showNumber(r.Rate))
	d.add("state", string(r.State))
	d.add("count", fmt.Sprint(r.Count))
	d.add("done", fmt.Sprint(r.Done))
	d.add("failed", showNumber(r.Failed))
	d.add("created", showTime(r.CreatedAt))
	d.add("finished", showTime(r.FinishedAt))
	d.flush()
	return nil
}

// selectionText is "failed, dead; of click; since …".
func selectionText(s client.Selection) string {
	var parts []string
	add := func(before, text string) {
		if text != "" {
			parts = append(parts, before+text)
		}
	}
	if s.Events == client.EventsMissing {
		add("", "missing events")
	}
	statuses := make([]string, len(s.Statuses))
	for i, status := range s.Statuses {
		statuses[i] = string(status)
	}
	add("", strings.Join(statuses, ", "))
	add("of ", strings.Join(s.Types, ", "))
	add("of run ", strings.Join(s.Runs, ", "))
	add("since ", showTime(s.Since))
	add("until ", showTime(s.Until))
	return strings.Join(parts, "; ")
}

type replaysList struct {
	connection `embed:""`
	listing    `embed:""`
	Endpoint   string `name:"endpoint" group:"filter" placeholder:"ID" help:"Only of this endpoint."`
}

// Help implements kong.HelpProvider.
func (replaysList) Help() string {
	return `    posthorn replays list --endpoint ep_01hw3`
}

// Run lists replays.
func (c *replaysList) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	return printList(p, c.JSON, c.Limit, api.AllReplays(ctx, c.Endpoint, c.page()),
		[]string{"ID", "ENDPOINT", "STATE", "COUNT", "DONE", "FAILED", "CREATED", "FINISHED"},
		func(r client.Replay) []string {
			return []string{
				r.ID, r.Endpoint, string(r.State), fmt.Sprint(r.Count), fmt.Sprint(r.Done), fmt.Sprint(r.Failed), showTime(r.CreatedAt), showTime(r.FinishedAt),
			}
		})
}

type replaysGet struct {
	connection `embed:""`
	ID         string `arg:"" help:"The replay's ID."`
	Wait       bool   `name:"wait" help:"Wait for its end."`
}

// Help implements kong.HelpProvider.
func (replaysGet) Help() string {
	return `    posthorn replays get rpl_01hw3 --wait`
}

// Run shows a replay.
func (c *replaysGet) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	r, err := api.GetReplay(ctx, c.ID)
	if err == nil && c.Wait {
		r, err = waitForReplay(ctx, p, api, r)
	}
	if err != nil {
		return err
	}
	return showReplay(p, c.JSON, r)
}

type replaysCancel struct {
	connection `embed:""`
	ID         string `arg:"" help:"The replay's ID."`
}

// Help implements kong.HelpProvider.
func (replaysCancel) Help() string {
	return `It queues nothing more; what it has queued is sent.

    posthorn replays cancel rpl_01hw3`
}

// Run cancels a replay.
func (c *replaysCancel) Run(ctx context.Context, p *Process) error {
	return c.act(ctx, p, c.ID, "canceled", func(api *client.Client, ctx context.Context, id string) error {
		_, err := api.CancelReplay(ctx, id)
		return err
	})
}
