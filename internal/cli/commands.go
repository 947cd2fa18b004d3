package cli

import "github.com/alecthomas/kong"

// commands is the command line as a whole; its order is that of the help.
type commands struct {
	Serve      serveCommand      `cmd:"" group:"server" help:"Start the server."`
	Demo       demoCommand       `cmd:"" group:"server" help:"See signed webhooks arrive, fail, be retried and be delivered."`
	Bench      benchCommand      `cmd:"" group:"server" help:"Measure how fast this machine delivers."`
	Events     eventsCommand     `cmd:"" group:"api" help:"Publish events and look at them."`
	Endpoints  endpointsCommand  `cmd:"" group:"api" help:"Keep the URLs that events are delivered to."`
	Deliveries deliveriesCommand `cmd:"" group:"api" help:"See what became of each event at each endpoint."`
	Replays    replaysCommand    `cmd:"" group:"api" help:"Send again what an endpoint got, or should have got."`
	Runs       runsCommand       `cmd:"" group:"api" help:"Batches of events that are delivered as one notice."`
	Filters    filtersCommand    `cmd:"" group:"api" help:"Try filters of endpoints."`
	Audit      auditCommand      `cmd:"" group:"api" help:"See who changed what."`
	Tenants    tenantsCommand    `cmd:"" group:"api" help:"Keep tenants (with an operator's key)."`
	Keys       keysCommand       `cmd:"" group:"api" help:"Keep API keys (with an operator's key)."`
	Listen     listenCommand     `cmd:"" group:"tools" help:"Receive webhooks here: check, print and forward them."`
	Verify     verifyCommand     `cmd:"" group:"tools" help:"Check one webhook's signature."`
	Contract   contractCommand   `cmd:"" group:"tools" help:"Show what a contract promises; store your own."`
	Completion completionCommand `cmd:"" group:"tools" help:"Print a completion script for a shell."`
	Version    versionCommand    `cmd:"" group:"tools" help:"Print the version."`
	Help       helpCommand       `cmd:"" group:"tools" help:"Explain a command, as --help does."`
	// Hidden: it would stand in the help of every command.
	ShowVersion versionFlag `name:"version" hidden:"" help:"Print the version."`
}

// groups are the headings of the help.
func groups() []kong.Group {
	return []kong.Group{
		{Key: "server", Title: "Server:"},
		{Key: "api", Title: "Talk to a server:"},
		{Key: "tools", Title: "Tools:"},
		{Key: "connection", Title: "Connection:"},
		{Key: "filter", Title: "Filters (several values by comma):"},
	}
}
