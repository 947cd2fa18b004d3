package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/posthorn/posthorn/client"
)

type eventsCommand struct {
	Send   eventsSend   `cmd:"" help:"Publish one event, or many from a file."`
	List   eventsList   `cmd:"" help:"List events, newest first."`
	Get    eventsGet    `cmd:"" help:"Show one event with its data."`
	Trace  eventsTrace  `cmd:"" help:"Follow an event to every endpoint."`
	Replay eventsReplay `cmd:"" help:"Send an event to an endpoint again."`
	Cancel eventsCancel `cmd:"" help:"End an event's waiting deliveries."`
	Erase  eventsErase  `cmd:"" help:"Delete an event's data for good; the log stays."`
}

// Help implements kong.HelpProvider.
func (eventsCommand) Help() string {
	return `An event is one fact, such as link.created. Each endpoint that subscribes to its type gets one delivery of it.`
}

type eventsSend struct {
	connection  `embed:""`
	Type        string  `arg:"" optional:"" help:"Type of the event, such as link.created."`
	Body        string  `arg:"" optional:"" name:"data" help:"Its data, any JSON value; @FILE reads a file, - or nothing reads standard input."`
	ID          string  `name:"id" placeholder:"ID" help:"Your own ID for it. Sending the same event with the same ID again is safe: it is delivered once."`
	CreatedAt   moment  `name:"created-at" placeholder:"TIME" help:"When it happened; now by default."`
	OrderingKey string  `name:"ordering-key" placeholder:"KEY" help:"Events of one key arrive in order where the contract or the endpoint orders."`
	DeliverAt   instant `name:"deliver-at" placeholder:"TIME" help:"Hold it back until then (RFC 3339)."`
	ExpiresAt   instant `name:"expires-at" placeholder:"TIME" help:"Give it up then (RFC 3339)."`
	NDJSON      string  `name:"ndjson" placeholder:"FILE" help:"Publish every line of a file instead, each an object as POST /v1/events takes it; - reads standard input."`
}

// Help implements kong.HelpProvider.
func (eventsSend) Help() string {
	return `Once this prints the event's ID, the event is on disk and will be delivered.

One event:

    posthorn events send link.created '{"link":{"slug":"abc123"}}' --id link-abc123-created

From a file, and many at once:

    posthorn events send click @click.json
    posthorn events send --ndjson clicks.ndjson`
}

// Run publishes.
func (c *eventsSend) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	if c.NDJSON != "" {
		if c.Type != "" {
			return usagef("--ndjson takes types and data from the file: leave out %q", c.Type)
		}
		return sendLines(ctx, p, c.NDJSON, c.JSON, api.SendNDJSON, nil)
	}
	if c.Type == "" {
		return usagef("the type of the event is missing, such as link.created")
	}
	if c.Body == "" || c.Body == "-" {
		tellReading(p)
	}
	data, err := readArgument(p, c.Body)
	if err != nil {
		return err
	}
	got, err := api.SendEvent(ctx, client.NewEvent{
		ID: c.ID, Type: c.Type, Data: data, CreatedAt: c.CreatedAt.time(p.Clock.Wall()), OrderingKey: c.OrderingKey,
		DeliverAt: time.Time(c.DeliverAt), ExpiresAt: time.Time(c.ExpiresAt),
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return p.printJSON(got)
	}
	made := "accepted, " + count(got.Deliveries, "delivery", "deliveries")
	if got.Replayed {
		made = "accepted before; nothing new was made"
	}
	p.printf("%s\n", clean(got.ID))
	p.warnf("%s; see: posthorn deliveries list --event %s", made, clean(got.ID))
	return nil
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// tellReading keeps a person from waiting for a command that waits for them.
func tellReading(p *Process) {
	if isTerminal(p.Stdin) {
		p.warnf("reading data from standard input; end with Ctrl-D")
	}
}

// readArgument returns an argument's text, or what it refers to.
func readArgument(p *Process, text string) ([]byte, error) {
	switch {
	case text == "" || text == "-":
		return io.ReadAll(p.Stdin)
	case strings.HasPrefix(text, "@"):
		return os.ReadFile(text[1:])
	default:
		return []byte(text), nil
	}
}

type eventsList struct {
	connection  `embed:""`
	listing     `embed:""`
	Types       []string `name:"type" group:"filter" placeholder:"TYPE" help:"Only of these types."`
	OrderingKey string   `name:"ordering-key" group:"filter" placeholder:"KEY" help:"Only of this ordering key."`
	Since       moment   `name:"since" group:"filter" placeholder:"TIME" help:"Accepted at this time or later: RFC 3339, or how long ago (15m, 2h, 7d)."`
	Until       moment   `name:"until" group:"filter" placeholder:"TIME" help:"Accepted before this time."`
}

// Help implements kong.HelpProvider.
func (eventsList) Help() string {
	return `The last hour's clicks:

    posthorn events list --type click --since 1h`
}

// Run lists events.
func (c *eventsList) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	f := client.EventFilter{Types: c.Types, OrderingKey: c.OrderingKey, Since: c.Since.time(p.Clock.Wall()), Until: c.Until.time(p.Clock.Wall())}
	return printList(p, c.JSON, c.Limit, api.AllEvents(ctx, f, c.page()),
		[]string{"ID", "TYPE", "ACCEPTED", "DELIVERIES"},
		func(e client.Event) []string {
			return []string{e.ID, e.Type, showTime(e.AcceptedAt), fmt.Sprint(e.Deliveries.Total)}
		})
}

type eventsGet struct {
	connection `embed:""`
	ID         string `arg:"" help:"The event's ID."`
}

// Help implements kong.HelpProvider.
func (eventsGet) Help() string {
	return `    posthorn events get evt_01hw3`
}

// Run shows an event.
func (c *eventsGet) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	e, err := api.GetEvent(ctx, c.ID)
	if err != nil {
		return err
	}
	if c.JSON {
		return printEvent(p, e)
	}
	d := newDetails(p)
	d.add("id", e.ID)
	d.add("tenant", e.Tenant)
	d.add("type", e.Type)
	d.add("created", showTime(e.CreatedAt))
	d.add("accepted", showTime(e.AcceptedAt))
	d.add("run", e.Run)
	d.add("ordering key", e.OrderingKey)
	d.add("deliver at", showTime(e.DeliverAt))
	d.add("expires", showTime(e.ExpiresAt))
	d.add("deliveries", countsText(e.Deliveries))
	if e.Erased {
		d.add("data", "erased")
	}
	d.flush()
	if len(e.Data) > 0 && !e.Erased {
		p.printf("data:\n%s\n", cleanLines(string(e.Data)))
	}
	return nil
}

// printEvent prints an event as JSON. The bytes of its data go in as they are:
// an encoder would lay them out anew.
func printEvent(p *Process, e client.Event) error {
	data := e.Data
	e.Data = nil
	var head bytes.Buffer
	if err := encodeJSON(&head, e); err != nil {
		return err
	}
	text := bytes.TrimSuffix(head.Bytes(), []byte("}\n"))
	if len(data) > 0 {
		text = append(append(text, `,"data":`...), data...)
	}
	_, err := p.Stdout.Write(append(text, "}\n"...))
	return err
}

// countsText is "3: 2 delivered, 1 pending".
func countsText(c client.DeliveryCounts) string {
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(c.ByStatus)) {
		parts = append(parts, fmt.Sprintf("%d %s", c.ByStatus[status], status))
	}
	if len(parts) == 0 {
		return fmt.Sprint(c.Total)
	}
	return fmt.Sprintf("%d: %s", c.Total, strings.Join(parts, ", "))
}

type eventsCancel struct {
	connection `embed:""`
	ID         string `arg:"" help:"The event's ID."`
}

// Help implements kong.HelpProvider.
func (eventsCancel) Help() string {
	return `Deliveries that wait end as canceled; one that is under way may still arrive. Those that have ended stay as they are. Repeating it is harmless.

    posthorn events cancel evt_01hw3`
}

// Run cancels an event and tells how many deliveries that ended: those that
// had ended before stay as they are.
func (c *eventsCancel) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	before, err := api.GetEvent(ctx, c.ID)
	blind := errors.Is(err, client.CodeForbidden) // a key that may change things but not read them
	if err != nil && !blind {
		return err
	}
	if err := api.CancelEvent(ctx, c.ID); err != nil {
		return err
	}
	if blind {
		return c.tellCanceled(p, nil, "the event's waiting deliveries are canceled; this key may not read how many there were")
	}
	after, err := api.GetEvent(ctx, c.ID)
	if err != nil {
		return err
	}
	n := after.Deliveries.ByStatus[client.StatusCanceled] - before.Deliveries.ByStatus[client.StatusCanceled]
	return c.tellCanceled(p, &n, canceledText(n, after.Deliveries))
}

func canceledText(n int, all client.DeliveryCounts) string {
	text := count(n, "delivery", "deliveries") + " canceled"
	switch {
	case n > 0:
		return text
	case all.Total == 0:
		return text + ": it had none"
	case all.ByStatus[client.StatusPending]+all.ByStatus[client.StatusSending] > 0:
		return text + ": what is left is under way"
	default:
		return text + ": they had ended"
	}
}

func (c *eventsCancel) tellCanceled(p *Process, n *int, text string) error {
	if c.JSON {
		return p.printJSON(struct {
			ID         string `json:"id"`
			Canceled   bool   `json:"canceled"` // nothing waits any more
			Deliveries *int   `json:"deliveries_canceled,omitempty"`
		}{c.ID, true, n})
	}
	p.printf("%s: %s\n", clean(c.ID), text)
	return nil
}

type eventsErase struct {
	connection `embed:""`
	ID         string `arg:"" help:"The event's ID."`
}

// Help implements kong.HelpProvider.
func (eventsErase) Help() string {
	return `For data that must go, such as somebody's personal data. Deliveries that still wait fail as event_missing.

    posthorn events erase evt_01hw3`
}

// Run erases an event's data.
func (c *eventsErase) Run(ctx context.Context, p *Process) error {
	return c.act(ctx, p, c.ID, "erased", (*client.Client).EraseEventData)
}

// act does something to one thing and says so.
func (c *connection) act(ctx context.Context, p *Process, id, done string, do func(*client.Client, context.Context, string) error) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	if err := do(api, ctx, id); err != nil {
		return err
	}
	if c.JSON {
		return p.printJSON(map[string]any{"id": id, done: true})
	}
	p.printf("%s %s\n", clean(id), done)
	return nil
}
