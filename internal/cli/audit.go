package cli

import (
	"context"

	"github.com/posthorn/posthorn/client"
)

type auditCommand struct {
	List auditList `cmd:"" help:"List changes, newest first."`
}

// Help implements kong.HelpProvider.
func (auditCommand) Help() string {
	return `The trail of changes of endpoints, tenants, keys, contracts, runs and replays, by people and by the server itself. No secret is in it.`
}

type auditList struct {
	connection `embed:""`
	listing    `embed:""`
	Kind       string   `name:"kind" group:"filter" placeholder:"KIND" help:"Only changes of this kind of thing, such as endpoint."`
	Target     string   `name:"target" group:"filter" placeholder:"ID" help:"Only changes of the thing of this ID or name."`
	Actions    []string `name:"action" group:"filter" placeholder:"ACTION" help:"Only these actions, such as endpoint.paused."`
	Since      moment   `name:"since" group:"filter" placeholder:"TIME" help:"At this time or later: RFC 3339, or how long ago (15m, 2h, 7d)."`
	Until      moment   `name:"until" group:"filter" placeholder:"TIME" help:"Before this time."`
}

// Help implements kong.HelpProvider.
func (auditList) Help() string {
	return `    posthorn audit list --target ep_01hw3
    posthorn audit list --tenant '*' --kind contract --since 7d --json`
}

// Run lists the trail.
func (c *auditList) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	now := p.Clock.Wall()
	f := client.AuditFilter{Kind: c.Kind, Target: c.Target, Actions: c.Actions, Since: c.Since.time(now), Until: c.Until.time(now)}
	return printList(p, c.JSON, c.Limit, api.AllAudit(ctx, f, c.page()),
		[]string{"AT", "WHO", "ACTION", "TARGET", "WHY"},
		func(e client.AuditEntry) []string {
			return []string{showTime(e.At), actorText(e.Actor), e.Action, e.Target, e.Why}
		})
}

func actorText(a client.AuditActor) string {
	if a.ID == "" {
		return a.Kind
	}
	return a.Kind + " " + a.ID
}
