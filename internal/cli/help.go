package cli

import "context"

type helpCommand struct {
	Words []string `arg:"" optional:"" name:"command" help:"The command, such as events send; all of them if absent."`
}

// Help implements kong.HelpProvider.
func (helpCommand) Help() string {
	return `    posthorn help events send`
}

// Run shows what --help shows.
func (c *helpCommand) Run(ctx context.Context, p *Process) error {
	asked := *p
	asked.Args = append(append([]string{}, c.Words...), "--help")
	if code := Run(ctx, &asked); code != exitOK {
		return exitError(code)
	}
	return nil
}
