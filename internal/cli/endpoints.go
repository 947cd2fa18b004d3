package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/posthorn/posthorn/client"
)

type endpointsCommand struct {
	Create  endpointsCreate  `cmd:"" help:"Create an endpoint; prints its signing secret once."`
	List    endpointsList    `cmd:"" help:"List endpoints."`
	Get     endpointsGet     `cmd:"" help:"Show one endpoint."`
	Update  endpointsUpdate  `cmd:"" help:"Change an endpoint."`
	Delete  endpointsDelete  `cmd:"" help:"Delete an endpoint; its waiting deliveries are canceled."`
	Pause   endpointsPause   `cmd:"" help:"Hold an endpoint's deliveries back."`
	Resume  endpointsResume  `cmd:"" help:"Let a paused endpoint's deliveries go out again."`
	Enable  endpointsEnable  `cmd:"" help:"Turn a disabled endpoint on again."`
	Disable endpointsDisable `cmd:"" help:"Turn an endpoint off for its owner (with an operator's key)."`
	Test    endpointsTest    `cmd:"" help:"Send one test event and show what the receiver answered."`
	Rotate  endpointsRotate  `cmd:"" name:"rotate-secret" help:"Give an endpoint a new signing secret; prints it once."`
}

// Help implements kong.HelpProvider.
func (endpointsCommand) Help() string {
	return `An endpoint is a URL of yours or of a customer's, the event types it gets, and the contract by which it gets them.`
}

type endpointsCreate struct {
	connection   `embed:""`
	URL          string            `arg:"" help:"Where deliveries are posted to."`
	Events       []string          `name:"event" short:"e" required:"true" placeholder:"PATTERN" help:"What it gets: a type, link.* for a family, * for all. Repeat it, or separate by comma."`
	ID           string            `name:"id" placeholder:"ID" help:"Your own ID; creates it, or replaces the endpoint that has it."`
	Contract     string            `name:"contract" placeholder:"NAME" help:"The contract; by default the tenant's."`
	Secret       string            `name:"secret" placeholder:"SECRET" help:"The signing secret, if it exists already; @FILE reads a file. Made if absent. whsk_ and the base64 of 32 bytes is an Ed25519 private key, where the contract signs with one: signatures are v1a then."`
	Description  string            `name:"description" placeholder:"TEXT" help:"For people."`
	Headers      []string          `name:"header" sep:"none" placeholder:"'NAME: VALUE'" help:"Send this header with each request; repeat it for more."`
	Metadata     map[string]string `name:"metadata" placeholder:"KEY=VALUE" help:"Your own data about it; repeat it for more."`
	Filter       string            `name:"filter" placeholder:"EXPR" help:"Only events that fulfil this CEL expression, such as 'data.amount > 100'."`
	OrderingFrom []string          `name:"ordering-from" placeholder:"PATH" help:"Deliver strictly in order by the key at this path, such as data.link_id; repeat it for paths to look at next."`
	MaxInFlight  int               `name:"max-in-flight" placeholder:"N" help:"The most requests at a time."`
	Inactive     bool              `name:"inactive" help:"Create it switched off."`
}

// Help implements kong.HelpProvider.
func (endpointsCreate) Help() string {
	return `The answer shows the signing secret; it is shown only now, so keep it for the receiver.

    posthorn endpoints create https://example.com/hooks -e click -e 'link.*'

With an Ed25519 key receivers verify by the public keys that endpoints get shows, and hold no secret:

    echo whsk_$(head -c 32 /dev/urandom | base64) > key
    posthorn endpoints create https://example.com/hooks -e click --secret @key`
}

// Run creates an endpoint.
func (c *endpointsCreate) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	e, err := c.endpoint(p)
	if err != nil {
		return err
	}
	created := client.Endpoint{}
	if c.ID != "" {
		created, err = api.PutEndpoint(ctx, c.ID, e)
	} else {
		created, err = api.CreateEndpoint(ctx, e)
	}
	if err != nil {
		return err
	}
	return c.show(p, created)
}

func (c *endpointsCreate) endpoint(p *Process) (client.NewEndpoint, error) {
	e := client.NewEndpoint{
		URL: c.URL, Events: c.Events, Contract: c.Contract, Secret: c.Secret, Description: c.Description,
		Metadata: c.Metadata, Filter: c.Filter, MaxInFlight: c.MaxInFlight,
	}
	if len(c.OrderingFrom) > 0 {
		e.Ordering = &client.Ordering{From: c.OrderingFrom}
	}
	if c.Inactive {
		e.Active = new(false)
	}
	var err error
	if e.Secret, err = readSecret(p, c.Secret); err != nil {
		return e, err
	}
	for _, line := range c.Headers {
		name, value, ok := splitHeader(line)
		if !ok {
			return e, usagef("--header: it must be 'Name: value'")
		}
		if e.Headers == nil {
			e.Headers = map[string]string{}
		}
		e.Headers[name] = value
	}
	return e, nil
}

// readSecret returns a secret, or that of the file that @FILE names.
func readSecret(p *Process, text string) (string, error) {
	if !strings.HasPrefix(text, "@") {
		return text, nil
	}
	read, err := readArgument(p, text)
	return strings.TrimSpace(string(read)), err
}

// splitHeader reads "Name: value"; blanks around the value are no part of it.
func splitHeader(line string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(line, ":")
	name = strings.TrimSpace(name)
	return name, strings.Trim(value, " \t"), ok && name != ""
}

// show prints an endpoint.
func (c *connection) show(p *Process, e client.Endpoint) error {
	if c.JSON {
		return p.printJSON(e)
	}
	d := newDetails(p)
	d.add("id", e.ID)
	d.add("tenant", e.Tenant)
	d.add("url", e.URL)
	d.add("events", strings.Join(e.Events, ", "))
	d.add("contract", strings.TrimSpace(e.Contract+" "+e.ContractRevision))
	d.add("state", stateText(e))
	d.add("since", showTime(e.StateSince))
	d.add("description", e.Description)
	d.add("filter", e.Filter)
	if e.Ordering != nil {
		d.add("ordered by", strings.Join(e.Ordering.From, ", "))
	}
	d.addAll("header", e.Headers)
	d.addAll("metadata", e.Metadata)
	d.add("max in flight", showNumber(e.MaxInFlight))
	d.add("banner", e.Banner)
	d.add("degraded until", showTime(e.DegradedUntil))
	d.add("waiting", waitingText(e))
	d.add("oldest due", showTime(e.OldestDue))
	d.add("failures in a row", showNumber(e.Health.FailuresInRow))
	d.add("last success", showTime(e.Health.LastSuccessAt))
	d.add("last attempt", showTime(e.Health.LastAttemptAt))
	d.add("version", fmt.Sprint(e.Version))
	for _, secret := range e.Secrets {
		d.add("signs with", secretText(secret))
	}
	d.add("public keys", e.JWKSURL)
	d.add("secret", e.Secret)
	d.flush()
	if e.Secret != "" {
		p.warnf("the secret is shown only now: keep it for the receiver")
	}
	return nil
}

// secretText tells of a secret without showing it.
func secretText(s client.SigningSecret) string {
	text := s.ID
	if s.PublicKey != "" {
		text += " " + s.PublicKey
	}
	if !s.ExpiresAt.IsZero() {
		text += ", until " + showTime(s.ExpiresAt)
	}
	return text
}

func waitingText(e client.Endpoint) string {
	if e.Waiting == nil {
		return ""
	}
	return fmt.Sprint(*e.Waiting)
}

func stateText(e client.Endpoint) string {
	if e.StateReason == "" {
		return string(e.State)
	}
	return string(e.State) + " (" + e.StateReason + ")"
}

// listedState is the state with the mark degraded, while that lasts.
func listedState(e client.Endpoint, now time.Time) string {
	if e.DegradedUntil.After(now) {
		return stateText(e) + ", degraded"
	}
	return stateText(e)
}

type endpointsList struct {
	connection `embed:""`
	listing    `embed:""`
}

// Help implements kong.HelpProvider.
func (endpointsList) Help() string {
	return `    posthorn endpoints list --limit 0 --json`
}

// Run lists endpoints.
func (c *endpointsList) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	return printList(p, c.JSON, c.Limit, api.AllEndpoints(ctx, c.page()),
		[]string{"ID", "STATE", "URL", "EVENTS", "CONTRACT", "CREATED"},
		func(e client.Endpoint) []string {
			return []string{e.ID, listedState(e, p.Clock.Wall()), e.URL, strings.Join(e.Events, ","), e.Contract, showTime(e.CreatedAt)}
		})
}

type endpointsGet struct {
	connection `embed:""`
	ID         string `arg:"" help:"The endpoint's ID."`
}

// Help implements kong.HelpProvider.
func (endpointsGet) Help() string {
	return `    posthorn endpoints get ep_01hw3`
}

// Run shows an endpoint.
func (c *endpointsGet) Run(ctx context.Context, p *Process) error {
	return c.change(p, func(api *client.Client) (client.Endpoint, error) { return api.GetEndpoint(ctx, c.ID) })
}

type endpointsUpdate struct {
	connection   `embed:""`
	ID           string            `arg:"" help:"The endpoint's ID."`
	URL          *string           `name:"url" placeholder:"URL" help:"Post to this URL from now on, also what waits."`
	Events       []string          `name:"event" short:"e" placeholder:"PATTERN" help:"What it gets from now on, in place of what it got."`
	Contract     *string           `name:"contract" placeholder:"NAME" help:"The contract of new deliveries."`
	Description  *string           `name:"description" placeholder:"TEXT" help:"For people."`
	Headers      []string          `name:"header" sep:"none" placeholder:"'NAME: VALUE'" help:"Set this header; 'NAME:' removes it."`
	Metadata     map[string]string `name:"metadata" placeholder:"KEY=VALUE" help:"Set this member; KEY= removes it."`
	Filter       *string           `name:"filter" placeholder:"EXPR" help:"Only events that fulfil this CEL expression; an empty text takes the filter away."`
	OrderingFrom []string          `name:"ordering-from" placeholder:"PATH" help:"Deliver strictly in order by the key at this path; none leaves it to the contract again."`
	MaxInFlight  *int              `name:"max-in-flight" placeholder:"N" help:"The most requests at a time."`
	Active       *bool             `name:"active" negatable:"" help:"Switch it on or off."`
	IfVersion    int64             `name:"if-version" placeholder:"N" help:"Only if this is still its version."`
}

// Help implements kong.HelpProvider.
func (endpointsUpdate) Help() string {
	return `What no flag names stays as it is.

    posthorn endpoints update ep_01hw3 --url https://example.com/new --header 'X-Team: links'`
}

// Run changes an endpoint.
func (c *endpointsUpdate) Run(ctx context.Context, p *Process) error {
	patch := client.EndpointPatch{
		URL: c.URL, Events: c.Events, Contract: c.Contract, Description: c.Description,
		Filter: c.Filter, MaxInFlight: c.MaxInFlight, Active: c.Active, IfVersion: c.IfVersion,
	}
	switch {
	case len(c.OrderingFrom) == 1 && c.OrderingFrom[0] == "none":
		patch.Ordering = &client.Ordering{}
	case len(c.OrderingFrom) > 0:
		patch.Ordering = &client.Ordering{From: c.OrderingFrom}
	}
	for _, line := range c.Headers {
		name, value, ok := splitHeader(line)
		if !ok {
			return usagef("--header: it must be 'Name: value'")
		}
		patch.Headers = setMember(patch.Headers, name, value)
	}
	for name, value := range c.Metadata {
		patch.Metadata = setMember(patch.Metadata, name, value)
	}
	return c.change(p, func(api *client.Client) (client.Endpoint, error) { return api.UpdateEndpoint(ctx, c.ID, patch) })
}

// setMember sets a member of a merge patch; an empty value removes it.
func setMember(members map[string]*string, name, value string) map[string]*string {
	if members == nil {
		members = map[string]*string{}
	}
	members[name] = nil
	if value != "" {
		members[name] = &value
	}
	return members
}

// change asks for something that answers with the endpoint, and shows it.
func (c *connection) change(p *Process, do func(*client.Client) (client.Endpoint, error)) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	e, err := do(api)
	if err != nil {
		return err
	}
	return c.show(p, e)
}

type endpointsDelete struct {
	connection `embed:""`
	ID         string `arg:"" help:"The endpoint's ID."`
}

// Help implements kong.HelpProvider.
func (endpointsDelete) Help() string {
	return `No attempt starts any more. The log stays for as long as the contract keeps it; under contracts with history.on_endpoint_delete: delete it goes with the endpoint, at once and for good.

    posthorn endpoints delete ep_01hw3`
}

// Run deletes an endpoint.
func (c *endpointsDelete) Run(ctx context.Context, p *Process) error {
	return c.act(ctx, p, c.ID, "deleted", (*client.Client).DeleteEndpoint)
}

type endpointsPause struct {
	connection `embed:""`
	ID         string `arg:"" help:"The endpoint's ID."`
}

// Help implements kong.HelpProvider.
func (endpointsPause) Help() string {
	return `What waits is held and goes out, oldest first, when you resume; where the contract says so, it is skipped.

    posthorn endpoints pause ep_01hw3`
}

// Run pauses an endpoint.
func (c *endpointsPause) Run(ctx context.Context, p *Process) error {
	return c.change(p, func(api *client.Client) (client.Endpoint, error) { return api.PauseEndpoint(ctx, c.ID) })
}

type endpointsResume struct {
	connection `embed:""`
	ID         string `arg:"" help:"The endpoint's ID."`
}

// Help implements kong.HelpProvider.
func (endpointsResume) Help() string {
	return `    posthorn endpoints resume ep_01hw3`
}

// Run resumes an endpoint.
func (c *endpointsResume) Run(ctx context.Context, p *Process) error {
	return c.change(p, func(api *client.Client) (client.Endpoint, error) { return api.ResumeEndpoint(ctx, c.ID) })
}

type endpointsEnable struct {
	connection `embed:""`
	ID         string        `arg:"" help:"The endpoint's ID."`
	Resume     client.Resume `name:"resume" enum:"backlog,now" default:"backlog" placeholder:"HOW" help:"backlog sends what came meanwhile, oldest first, as far as the contract held it; now skips it, where the contract allows that."`
}

// Help implements kong.HelpProvider.
func (endpointsEnable) Help() string {
	return `An endpoint that answered 410 is disabled. Mend the receiver first; what waited is then sent, oldest first.

    posthorn endpoints enable ep_01hw3
    posthorn endpoints enable ep_01hw3 --resume now`
}

// Run enables an endpoint.
func (c *endpointsEnable) Run(ctx context.Context, p *Process) error {
	return c.change(p, func(api *client.Client) (client.Endpoint, error) { return api.EnableEndpoint(ctx, c.ID, c.Resume) })
}

type endpointsDisable struct {
	connection `embed:""`
	ID         string `arg:"" help:"The endpoint's ID."`
	Reason     string `name:"reason" placeholder:"TEXT" help:"Why, in your own words; it goes into the audit trail."`
}

// Help implements kong.HelpProvider.
func (endpointsDisable) Help() string {
	return `Its owner reads that the platform's staff did it, and may enable it again.

    posthorn endpoints disable ep_01hw3 --reason 'floods the receiver'`
}

// Run disables an endpoint.
func (c *endpointsDisable) Run(ctx context.Context, p *Process) error {
	return c.change(p, func(api *client.Client) (client.Endpoint, error) { return api.DisableEndpoint(ctx, c.ID, c.Reason) })
}

type endpointsTest struct {
	connection `embed:""`
	ID         string `arg:"" help:"The endpoint's ID."`
}

// Help implements kong.HelpProvider.
func (endpointsTest) Help() string {
	return `One try of the contract's test event; it counts for nothing. Exit code 1 unless the receiver took it.

    posthorn endpoints test ep_01hw3`
}

// Run tests an endpoint.
func (c *endpointsTest) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	result, err := api.TestEndpoint(ctx, c.ID)
	if err != nil {
		return err
	}
	if err := c.showTest(p, result); err != nil {
		return err
	}
	if result.Status != client.StatusDelivered {
		return errors.New("the receiver did not take the test")
	}
	return nil
}

func (c *connection) showTest(p *Process, t client.TestResult) error {
	if c.JSON {
		return p.printJSON(t)
	}
	d := newDetails(p)
	d.add("status", string(t.Status))
	d.add("delivery", t.Delivery)
	d.add("at", showTime(t.At))
	d.add("answer", showNumber(t.StatusCode))
	d.add("took", fmt.Sprintf("%g ms", t.DurationMS))
	d.add("failure", string(t.FailureKind))
	d.add("error", t.Error)
	d.add("address", t.Address)
	d.add("response", t.Response)
	d.flush()
	return nil
}

type endpointsRotate struct {
	connection `embed:""`
	ID         string `arg:"" help:"The endpoint's ID."`
	Secret     string `name:"secret" placeholder:"SECRET" help:"The new secret, if it exists already; @FILE reads a file. Made if absent, of the same kind as the present one. whsk_ and the base64 of 32 bytes is an Ed25519 private key, where the contract signs with one."`
	Overlap    *span  `name:"overlap" placeholder:"DURATION" help:"How long earlier secrets go on to sign beside it, such as 24h; by default what the contract says, 30d at most."`
	Revoke     bool   `name:"revoke" help:"Let earlier secrets stop at once: for one that leaked."`
}

// Help implements kong.HelpProvider.
func (endpointsRotate) Help() string {
	return `Requests are signed with the new secret from now on, and for the overlap with the earlier ones too, so that the receiver can change over in its own time. Three secrets sign at most; one more drops the oldest.

    posthorn endpoints rotate-secret ep_01hw3 --overlap 24h
    posthorn endpoints rotate-secret ep_01hw3 --revoke`
}

// Run rotates an endpoint's secret.
func (c *endpointsRotate) Run(ctx context.Context, p *Process) error {
	r := client.Rotation{Revoke: c.Revoke}
	if c.Overlap != nil {
		r.Overlap = c.Overlap.std()
		if c.Revoke {
			return usagef("--overlap and --revoke contradict each other: give one of them")
		}
		if r.Overlap == 0 {
			return usagef("--overlap: 0 is no overlap; --revoke lets earlier secrets stop at once")
		}
	}
	var err error
	if r.Secret, err = readSecret(p, c.Secret); err != nil {
		return err
	}
	return c.change(p, func(api *client.Client) (client.Endpoint, error) { return api.RotateSecret(ctx, c.ID, r) })
}
