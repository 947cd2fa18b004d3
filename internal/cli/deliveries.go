package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/posthorn/posthorn/client"
)

type deliveriesCommand struct {
	List    deliveriesList    `cmd:"" help:"List deliveries, newest first."`
	Get     deliveriesGet     `cmd:"" help:"Show one delivery with its body and every attempt."`
	Summary deliveriesSummary `cmd:"" help:"Count deliveries by status and failure kind."`
	Export  deliveriesExport  `cmd:"" help:"Print all deliveries that filters choose, as JSON lines."`
	Resend  deliveriesResend  `cmd:"" help:"Send deliveries again."`
	Cancel  deliveriesCancel  `cmd:"" help:"End a waiting delivery."`
}

// Help implements kong.HelpProvider.
func (deliveriesCommand) Help() string {
	return `A delivery is one event for one endpoint. It is tried until the receiver answers with a 2xx or the contract gives up; each try is an attempt.`
}

// deliveryFlags choose deliveries.
type deliveryFlags struct {
	Endpoint     string                  `name:"endpoint" group:"filter" placeholder:"ID" help:"Only to this endpoint."`
	Event        string                  `name:"event" group:"filter" placeholder:"ID" help:"Only of this event."`
	RunID        string                  `name:"run" group:"filter" placeholder:"ID" help:"Only of this run."`
	Statuses     []client.DeliveryStatus `name:"status" group:"filter" placeholder:"STATUS" help:"pending, sending, delivered, failed, dead, skipped, canceled or redelivered."`
	Types        []string                `name:"type" group:"filter" placeholder:"TYPE" help:"Only of these event types."`
	FailureKinds []client.FailureKind    `name:"failure-kind" group:"filter" placeholder:"KIND" help:"Why it has not got through: http_status, client_error, gone, timeout, network, redirect, unsafe_url, endpoint_unavailable, event_missing or paused."`
	Reasons      []string                `name:"reason" group:"filter" placeholder:"REASON" help:"Why it waits or ended otherwise, such as retry, paused or exhausted."`
	Triggers     []client.Trigger        `name:"trigger" group:"filter" placeholder:"TRIGGER" help:"What made it: event, test, resend, redelivery, replay or poll."`
	OrderingKey  string                  `name:"ordering-key" group:"filter" placeholder:"KEY" help:"Only of this ordering key."`
	Since        moment                  `name:"since" group:"filter" placeholder:"TIME" help:"Accepted at this time or later: RFC 3339, or how long ago (15m, 2h, 7d)."`
	Until        moment                  `name:"until" group:"filter" placeholder:"TIME" help:"Accepted before this time."`
}

func (f *deliveryFlags) filter(now time.Time) client.DeliveryFilter {
	return client.DeliveryFilter{
		Endpoint: f.Endpoint, Event: f.Event, Run: f.RunID, Statuses: f.Statuses, Types: f.Types, FailureKinds: f.FailureKinds,
		Reasons: f.Reasons, Triggers: f.Triggers, OrderingKey: f.OrderingKey, Since: f.Since.time(now), Until: f.Until.time(now),
	}
}

type deliveriesList struct {
	connection    `embed:""`
	listing       `embed:""`
	deliveryFlags `embed:""`
}

// Help implements kong.HelpProvider.
func (deliveriesList) Help() string {
	return `What waits after a failure, and what was given up since yesterday:

    posthorn deliveries list --status pending --reason retry
    posthorn deliveries list --status failed,dead --since 1d --json`
}

// Run lists deliveries.
func (c *deliveriesList) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	return printList(p, c.JSON, c.Limit, api.AllDeliveries(ctx, c.filter(p.Clock.Wall()), c.page()),
		[]string{"ID", "STATUS", "TYPE", "ENDPOINT", "TRIES", "ANSWER", "WHY", "CREATED", "NEXT TRY"},
		func(d client.Delivery) []string {
			return []string{
				d.ID, string(d.Status), d.Type, d.Endpoint, fmt.Sprint(d.AttemptCount), showNumber(d.StatusCode),
				whyText(d), showTime(d.CreatedAt), nextText(d),
			}
		})
}

// whyText joins the failure kind and the reason.
func whyText(d client.Delivery) string {
	parts := []string{}
	for _, part := range []string{string(d.FailureKind), d.Reason} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ", ")
}

// nextText says when a delivery is tried next. While its endpoint is off that is
// no time, but what holds it back.
func nextText(d client.Delivery) string {
	if d.Reason == "paused" || d.Reason == "disabled" {
		return d.Reason
	}
	return showTime(d.NextAttemptAt)
}

type deliveriesGet struct {
	connection `embed:""`
	ID         string `arg:"" help:"The delivery's ID."`
}

// Help implements kong.HelpProvider.
func (deliveriesGet) Help() string {
	return `    posthorn deliveries get dlv_01hw3`
}

// Run shows a delivery.
func (c *deliveriesGet) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	d, err := api.GetDelivery(ctx, c.ID)
	if err != nil {
		return err
	}
	if c.JSON {
		return p.printJSON(d)
	}
	showDelivery(p, d)
	showAttempts(p, d.Attempts)
	return nil
}

func showDelivery(p *Process, d client.Delivery) {
	out := newDetails(p)
	out.add("id", d.ID)
	out.add("tenant", d.Tenant)
	out.add("event", d.Event)
	out.add("run", d.Run)
	out.add("type", d.Type)
	out.add("endpoint", d.Endpoint)
	out.add("webhook id", d.WebhookID)
	out.add("contract", strings.TrimSpace(d.Contract+" "+d.ContractRevision))
	out.add("trigger", string(d.Trigger))
	out.add("status", string(d.Status))
	out.add("why", whyText(d))
	out.add("attempts", fmt.Sprint(d.AttemptCount))
	if d.Degraded {
		out.add("schedule", "that of a degraded endpoint")
	}
	out.add("created", showTime(d.CreatedAt))
	out.add("next attempt", nextText(d))
	out.add("expires", showTime(d.ExpiresAt))
	out.add("finished", showTime(d.FinishedAt))
	out.add("replaces", d.Replaces)
	out.add("replaced by", d.ReplacedBy)
	out.add("content type", d.ContentType)
	out.addAll("header", d.RequestHeaders)
	out.flush()
	if d.Body != "" {
		p.printf("body%s:\n%s\n", encodingNote(d.BodyEncoding), cleanLines(d.Body))
	}
}

func encodingNote(encoding string) string {
	if encoding == "base64" {
		return " (base64)"
	}
	return ""
}

func showAttempts(p *Process, attempts []client.Attempt) {
	for _, a := range attempts {
		result := string(a.FailureKind)
		if result == "" {
			result = "delivered"
		}
		if a.StatusCode != 0 {
			result += fmt.Sprintf(", status %d", a.StatusCode)
		}
		if a.Superseded {
			result += ", superseded"
		}
		p.printf("attempt %d at %s, %.1f ms: %s\n", a.Number, showTime(a.At), a.DurationMS, clean(result))
		if a.Error != "" {
			p.printf("    %s\n", clean(a.Error))
		}
		if a.Response != "" {
			text := strings.ReplaceAll(strings.TrimRight(cleanLines(a.Response), "\n"), "\n", "\n    ")
			p.printf("    answer%s: %s\n", encodingNote(a.ResponseEncoding), text)
		}
	}
}

type deliveriesCancel struct {
	connection `embed:""`
	ID         string `arg:"" help:"The delivery's ID."`
}

// Help implements kong.HelpProvider.
func (deliveriesCancel) Help() string {
	return `A request that is under way may still deliver it.

    posthorn deliveries cancel dlv_01hw3`
}

// Run cancels a delivery.
func (c *deliveriesCancel) Run(ctx context.Context, p *Process) error {
	cancel := func(api *client.Client, ctx context.Context, id string) error {
		_, err := api.CancelDelivery(ctx, id)
		return err
	}
	return c.act(ctx, p, c.ID, "canceled", cancel)
}
