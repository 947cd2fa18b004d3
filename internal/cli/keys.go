package cli

import (
	"context"
	"strings"

	"github.com/posthorn/posthorn/client"
)

// defaultTenant exists from the start.
const defaultTenant = "default"

type keysCommand struct {
	List   keysList   `cmd:"" help:"List a tenant's keys; never the keys themselves."`
	Create keysCreate `cmd:"" help:"Create a key; prints it once."`
	Revoke keysRevoke `cmd:"" help:"Make a key invalid at once."`
}

// Help implements kong.HelpProvider.
func (keysCommand) Help() string {
	return `A key belongs to one tenant (--tenant, by default the tenant default) and can't leave it. Its scopes say what it may do: publish events, read, or manage endpoints.`
}

// keyTenant is whose keys are meant.
func (c *connection) keyTenant() string {
	if c.Tenant == "" {
		return defaultTenant
	}
	return c.Tenant
}

type keysList struct {
	connection `embed:""`
	listing    `embed:""`
}

// Help implements kong.HelpProvider.
func (keysList) Help() string {
	return `    posthorn keys list --tenant acme`
}

// Run lists keys.
func (c *keysList) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	return printList(p, c.JSON, c.Limit, api.AllKeys(ctx, c.keyTenant(), c.page()),
		[]string{"ID", "NAME", "SCOPES", "CREATED", "EXPIRES", "LAST USED"},
		func(k client.APIKey) []string {
			return []string{k.ID, k.Name, scopesText(k.Scopes), showTime(k.CreatedAt), showTime(k.ExpiresAt), showTime(k.LastUsedAt)}
		})
}

func scopesText(scopes []client.Scope) string {
	parts := make([]string, len(scopes))
	for i, s := range scopes {
		parts[i] = string(s)
	}
	return strings.Join(parts, ",")
}

type keysCreate struct {
	connection `embed:""`
	Scopes     []client.Scope `name:"scope" required:"true" placeholder:"SCOPE" help:"What it may do: publish, read, manage. Repeat it, or separate by comma."`
	Name       string         `name:"name" placeholder:"TEXT" help:"For people: who holds it."`
	ExpiresIn  span           `name:"expires-in" placeholder:"DURATION" help:"Stop working after this time, such as 12h or 90d; never by default."`
}

// Help implements kong.HelpProvider.
func (keysCreate) Help() string {
	return `The key is the only thing on standard output, and is shown only now:

    POSTHORN_KEY=$(posthorn keys create --tenant acme --scope publish,read)`
}

// Run creates a key.
func (c *keysCreate) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	k := client.NewAPIKey{Name: c.Name, Scopes: c.Scopes}
	if c.ExpiresIn > 0 {
		k.ExpiresAt = p.Clock.Wall().Add(c.ExpiresIn.std())
	}
	made, err := api.CreateKey(ctx, c.keyTenant(), k)
	if err != nil {
		return err
	}
	if c.JSON {
		return p.printJSON(made)
	}
	p.printf("%s\n", clean(made.Key))
	p.warnf("key %s of tenant %s, shown only now", clean(made.ID), clean(c.keyTenant()))
	return nil
}

type keysRevoke struct {
	connection `embed:""`
	ID         string `arg:"" help:"The key's ID, as keys list shows it."`
}

// Help implements kong.HelpProvider.
func (keysRevoke) Help() string {
	return `    posthorn keys revoke 01hw3 --tenant acme`
}

// Run revokes a key.
func (c *keysRevoke) Run(ctx context.Context, p *Process) error {
	revoke := func(api *client.Client, ctx context.Context, id string) error {
		return api.RevokeKey(ctx, c.keyTenant(), id)
	}
	return c.act(ctx, p, c.ID, "revoked", revoke)
}
