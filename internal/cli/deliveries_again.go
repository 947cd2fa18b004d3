package cli

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/posthorn/posthorn/client"
)

type deliveriesSummary struct {
	connection    `embed:""`
	deliveryFlags `embed:""`
}

// Help implements kong.HelpProvider.
func (deliveriesSummary) Help() string {
	return `    posthorn deliveries summary --endpoint ep_01hw3 --since 1d`
}

// Run counts deliveries.
func (c *deliveriesSummary) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	s, err := api.SummarizeDeliveries(ctx, c.filter(p.Clock.Wall()))
	if err != nil {
		return err
	}
	if c.JSON {
		return p.printJSON(s)
	}
	d := newDetails(p)
	d.add("total", fmt.Sprint(s.Total))
	for _, status := range slices.Sorted(maps.Keys(s.ByStatus)) {
		d.add(string(status), fmt.Sprint(s.ByStatus[status]))
	}
	for _, kind := range slices.Sorted(maps.Keys(s.ByFailureKind)) {
		d.add("because of "+string(kind), fmt.Sprint(s.ByFailureKind[kind]))
	}
	d.flush()
	if !s.Complete {
		p.warnf("there are more: these are the newest, back to %s; narrow it, by --since for example", showTime(s.OldestAt))
	}
	return nil
}

type deliveriesExport struct {
	connection    `embed:""`
	deliveryFlags `embed:""`
	Ascending     bool `name:"oldest-first" help:"Begin with the oldest; the newest come first otherwise."`
}

// Help implements kong.HelpProvider.
func (deliveriesExport) Help() string {
	return `One delivery a line, without bodies and attempts. An export that is cut off ends with an error.

    posthorn deliveries export --since 30d > deliveries.ndjson`
}

// Run exports deliveries.
func (c *deliveriesExport) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	// An export takes as long as it takes; the server ends one that stands still.
	unbounded := http.Client{Transport: api.HTTP.Transport}
	api.HTTP = &unbounded
	for d, err := range api.ExportDeliveries(ctx, c.filter(p.Clock.Wall()), c.Ascending) {
		if err != nil {
			return err
		}
		if err := p.printJSON(d); err != nil {
			return err
		}
	}
	return nil
}

// resendMost is how many deliveries the server sends again at once.
const resendMost = 100

type deliveriesResend struct {
	connection `embed:""`
	IDs        []string `arg:"" name:"id" help:"The deliveries' IDs, 100 at most."`
}

// Help implements kong.HelpProvider.
func (deliveriesResend) Help() string {
	return `What that means says the contract: another round of the same delivery, or a new one. Of several all are sent or none.

    posthorn deliveries resend dlv_01hw3
    posthorn deliveries list --status failed --since 1d --json | jq -r .id | xargs posthorn deliveries resend`
}

// Run sends deliveries again.
func (c *deliveriesResend) Run(ctx context.Context, p *Process) error {
	if len(c.IDs) > resendMost {
		return usagef("%d deliveries are too many for once: %d at most; see posthorn replays create for more", len(c.IDs), resendMost)
	}
	api, err := c.client(p)
	if err != nil {
		return err
	}
	var sent client.Resent
	if len(c.IDs) == 1 {
		var d client.Delivery
		d, err = api.ResendDelivery(ctx, c.IDs[0])
		sent.Data = []client.Delivery{d}
	} else {
		sent, err = api.ResendDeliveries(ctx, c.IDs)
	}
	if err != nil {
		return namePlaces(err, c.IDs)
	}
	for _, d := range sent.Data {
		if err := tellSent(p, c.JSON, d); err != nil {
			return err
		}
	}
	if len(sent.Errors) > 0 {
		reportRefusal(p, &client.Error{Status: http.StatusConflict, Code: client.CodeNotResendable, Detail: "Some can't be sent again.", Fields: named(sent.Errors, c.IDs)})
		return exitError(exitFailed)
	}
	return nil
}

// tellSent prints a delivery that will be sent.
func tellSent(p *Process, asJSON bool, d client.Delivery) error {
	if d.Warning != "" {
		p.warnf("%s: %s", clean(d.ID), clean(d.Warning))
	}
	if asJSON {
		return p.printJSON(d)
	}
	p.printf("%s\n", clean(d.ID))
	return nil
}

// namePlaces puts the IDs in the place of their numbers, for people.
func namePlaces(err error, ids []string) error {
	refused, ok := err.(*client.Error) //nolint:errorlint // because the client returns it bare
	if !ok {
		return err
	}
	told := *refused
	told.Fields = named(refused.Fields, ids)
	return &told
}

func named(fields []client.FieldError, ids []string) []client.FieldError {
	out := slices.Clone(fields)
	for i := range out {
		var n int
		if rest, ok := strings.CutPrefix(out[i].Pointer, "/ids/"); ok {
			if _, err := fmt.Sscan(rest, &n); err == nil && n >= 0 && n < len(ids) {
				out[i].Pointer = ids[n]
			}
		}
	}
	return out
}
