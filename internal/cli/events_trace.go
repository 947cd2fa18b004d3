package cli

import (
	"context"

	"github.com/posthorn/posthorn/client"
)

type eventsTrace struct {
	connection `embed:""`
	ID         string `arg:"" help:"The event's ID."`
}

// Help implements kong.HelpProvider.
func (eventsTrace) Help() string {
	return `Every endpoint of the tenant, with the event's deliveries to it, or why it has none: filtered_out where its filter does not take the event, filter_no_value where the filter reads what the event does not have.

    posthorn events trace evt_01hw3`
}

// Run traces an event.
func (c *eventsTrace) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	return printRows(p, c.JSON, 0, api.AllTraced(ctx, c.ID, client.PageOptions{Limit: pageSize}),
		[]string{"ENDPOINT", "REASON", "DELIVERY", "STATUS", "TRIES", "WHY"},
		func(one client.Traced) [][]string {
			if len(one.Deliveries) == 0 {
				return [][]string{{one.Endpoint, one.Reason, "", "", "", ""}}
			}
			var rows [][]string
			for _, d := range one.Deliveries {
				rows = append(rows, []string{one.Endpoint, one.Reason, d.ID, string(d.Status), showNumber(d.AttemptCount), whyText(d)})
			}
			return rows
		})
}

type eventsReplay struct {
	connection `embed:""`
	ID         string `arg:"" help:"The event's ID."`
	Endpoint   string `name:"endpoint" required:"" placeholder:"ID" help:"The endpoint to send it to."`
}

// Help implements kong.HelpProvider.
func (eventsReplay) Help() string {
	return `A new delivery with the whole schedule, of an event that the endpoint has a delivery of. What it has none of and would get now, replays create --events missing takes.

    posthorn events replay evt_01hw3 --endpoint ep_01hw3`
}

// Run replays an event.
func (c *eventsReplay) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	d, err := api.ReplayEvent(ctx, c.Endpoint, c.ID)
	if err != nil {
		return err
	}
	return tellSent(p, c.JSON, d)
}
