package cli

import (
	"context"
	"fmt"
	"strings"
)

type filtersCommand struct {
	Check filtersCheck `cmd:"" help:"Try a filter on recent events."`
}

// Help implements kong.HelpProvider.
func (filtersCommand) Help() string {
	return `A filter is a CEL expression over type, event (id, type, created_at, ordering_key, tenant) and data. An endpoint that has one gets only events that fulfil it.`
}

type filtersCheck struct {
	connection `embed:""`
	Filter     string `arg:"" help:"The expression."`
	Events     int    `name:"events" placeholder:"N" help:"How many of the newest events to try it on, 1000 at most; by default as many."`
}

// Help implements kong.HelpProvider.
func (filtersCheck) Help() string {
	return `    posthorn filters check 'data.amount > 100'`
}

// Run tries a filter.
func (c *filtersCheck) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	tried, err := api.CheckFilter(ctx, c.Filter, c.Events)
	if err != nil {
		return err
	}
	if c.JSON {
		return p.printJSON(tried)
	}
	d := newDetails(p)
	d.add("examined", fmt.Sprint(tried.Examined))
	d.add("matched", fmt.Sprint(tried.Matched))
	d.add("undecided", showNumber(tried.Errors))
	d.add("such as", strings.Join(tried.Sample, ", "))
	d.flush()
	return nil
}
