package cli

import (
	"context"

	"github.com/posthorn/posthorn/client"
)

type tenantsCommand struct {
	List   tenantsList   `cmd:"" help:"List tenants."`
	Create tenantsCreate `cmd:"" help:"Create a tenant."`
	Get    tenantsGet    `cmd:"" help:"Show one tenant."`
	Update tenantsUpdate `cmd:"" help:"Change a tenant."`
	Delete tenantsDelete `cmd:"" help:"Delete a tenant that owns no endpoints any more."`
}

// Help implements kong.HelpProvider.
func (tenantsCommand) Help() string {
	return `A tenant owns endpoints, events and keys, and sees nobody else's. The tenant default is there from the start; who needs one only can forget about them.`
}

type tenantsList struct {
	connection `embed:""`
	listing    `embed:""`
}

// Help implements kong.HelpProvider.
func (tenantsList) Help() string {
	return `    posthorn tenants list`
}

// Run lists tenants.
func (c *tenantsList) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	return printList(p, c.JSON, c.Limit, api.AllTenants(ctx, c.page()),
		[]string{"ID", "NAME", "DEFAULT CONTRACT", "CREATED"},
		func(t client.Tenant) []string {
			return []string{t.ID, t.Name, t.DefaultContract, showTime(t.CreatedAt)}
		})
}

type tenantsCreate struct {
	connection      `embed:""`
	ID              string `arg:"" help:"Its ID: a-z, 0-9, _ and -."`
	Name            string `name:"name" placeholder:"TEXT" help:"For people."`
	DefaultContract string `name:"default-contract" placeholder:"NAME" help:"The contract of endpoints that name none."`
	OwnerURL        string `name:"owner-url" placeholder:"URL" help:"Where its owner is told of endpoints in trouble, by POSTs that bear no signature."`
	OwnerEmail      string `name:"owner-email" placeholder:"ADDRESS" help:"Where its owner is told of endpoints in trouble."`
}

// Help implements kong.HelpProvider.
func (tenantsCreate) Help() string {
	return `A tenant and a key for whoever publishes its events:

    posthorn tenants create acme --name 'Acme Ltd'
    posthorn keys create --tenant acme --scope publish`
}

// Run creates a tenant.
func (c *tenantsCreate) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	t, err := api.CreateTenant(ctx, client.NewTenant{
		ID: c.ID, Name: c.Name, DefaultContract: c.DefaultContract, OwnerURL: c.OwnerURL, OwnerEmail: c.OwnerEmail,
	})
	if err != nil {
		return err
	}
	if err := c.showTenant(p, t); err != nil {
		return err
	}
	c.tellOfSecond(ctx, p, api)
	return nil
}

type tenantsUpdate struct {
	connection      `embed:""`
	ID              string  `arg:"" help:"Its ID."`
	Name            *string `name:"name" placeholder:"TEXT" help:"For people."`
	DefaultContract *string `name:"default-contract" placeholder:"NAME" help:"The contract of endpoints that name none from now on."`
	OwnerURL        *string `name:"owner-url" placeholder:"URL" help:"Where its owner is told of endpoints in trouble, by POSTs that bear no signature; an empty text for nowhere."`
	OwnerEmail      *string `name:"owner-email" placeholder:"ADDRESS" help:"Where its owner is told of endpoints in trouble; an empty text for nowhere."`
}

// Help implements kong.HelpProvider.
func (tenantsUpdate) Help() string {
	return `What no flag names stays as it is; endpoints that exist keep their contract.

    posthorn tenants update acme --default-contract ours`
}

// Run changes a tenant.
func (c *tenantsUpdate) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	t, err := api.UpdateTenant(ctx, c.ID, client.TenantPatch{
		Name: c.Name, DefaultContract: c.DefaultContract, OwnerURL: c.OwnerURL, OwnerEmail: c.OwnerEmail,
	})
	if err != nil {
		return err
	}
	return c.showTenant(p, t)
}

// tellOfSecond warns once, when there are two tenants from now on: commands that
// worked without --tenant are refused then.
func (c *connection) tellOfSecond(ctx context.Context, p *Process, api *client.Client) {
	page, err := api.ListTenants(ctx, client.PageOptions{Limit: 3})
	if err != nil || len(page.Data) != 2 {
		return // the tenant is made; this is only a hint
	}
	p.warnf("there are two tenants now: callers with the admin key have to name one from now on, by --tenant, $POSTHORN_TENANT or the header Posthorn-Tenant")
}

func (c *connection) showTenant(p *Process, t client.Tenant) error {
	if c.JSON {
		return p.printJSON(t)
	}
	d := newDetails(p)
	d.add("id", t.ID)
	d.add("name", t.Name)
	d.add("default contract", t.DefaultContract)
	d.add("owner's URL", t.OwnerURL)
	d.add("owner's e-mail", t.OwnerEmail)
	d.add("created", showTime(t.CreatedAt))
	d.flush()
	return nil
}

type tenantsGet struct {
	connection `embed:""`
	ID         string `arg:"" help:"The tenant's ID."`
}

// Help implements kong.HelpProvider.
func (tenantsGet) Help() string {
	return `    posthorn tenants get acme`
}

// Run shows a tenant.
func (c *tenantsGet) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	t, err := api.GetTenant(ctx, c.ID)
	if err != nil {
		return err
	}
	return c.showTenant(p, t)
}

type tenantsDelete struct {
	connection `embed:""`
	ID         string `arg:"" help:"The tenant's ID."`
}

// Help implements kong.HelpProvider.
func (tenantsDelete) Help() string {
	return `Its keys stop working at once.

    posthorn tenants delete acme`
}

// Run deletes a tenant.
func (c *tenantsDelete) Run(ctx context.Context, p *Process) error {
	return c.act(ctx, p, c.ID, "deleted", (*client.Client).DeleteTenant)
}
