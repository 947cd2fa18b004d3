package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/alecthomas/kong"

	"github.com/posthorn/posthorn/internal/clock"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

const description = `Posthorn sends webhooks, durably, and can prove what happened to each event.

Two commands to the first signed webhook:

    posthorn demo            see it work, nothing to set up
    posthorn serve           the real thing, at http://127.0.0.1:8080

` + "`posthorn help COMMAND`" + ` explains a command with examples.`

// Run runs the command that the arguments name and returns the exit code.
func Run(ctx context.Context, p *Process) int {
	if p.Clock == nil {
		p.Clock = clock.Start()
	}
	answered := false
	parser, err := newParser(p, func(int) { answered = true })
	if err != nil {
		p.warnf("%v", err)
		return exitFailed
	}
	kctx, err := parser.Parse(p.Args)
	if answered { // by --help or --version; whatever else is missing does not matter
		return exitOK
	}
	if err != nil {
		return report(p, usageOf(err))
	}
	kctx.BindTo(ctx, (*context.Context)(nil))
	return report(p, kctx.Run())
}

// newParser builds the grammar of the command line.
func newParser(p *Process, exit func(int)) (*kong.Kong, error) {
	return kong.New(&commands{}, append(valueMappers(),
		kong.Name("posthorn"),
		kong.Description(description),
		kong.Exit(exit),
		kong.Writers(p.Stdout, p.Stderr),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.ValueFormatter(formatHelp),
		kong.Resolvers(&layers{env: p.Env}),
		kong.Vars{"schemes": schemeNames()},
		kong.ExplicitGroups(groups()),
		kong.Bind(p),
	)...)
}

// formatHelp adds to a flag's help what it is by default and which variable
// gives it.
func formatHelp(v *kong.Value) string {
	text := v.Help
	if v.HasDefault && v.Default != "" && v.Default != "0" {
		text += " Default " + v.Default + "."
	}
	if environ := v.Tag.Get("environ"); environ != "" {
		text += " ($" + environ + ")"
	}
	return text
}

// usageError is a fault of how a command was called: exit code 2.
type usageError struct {
	err error
	// command is what to ask for help.
	command string
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// usagef makes a usage error.
func usagef(format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...)}
}

// usageOf makes a usage error of what the parser found, with the command that
// it had got to.
func usageOf(err error) error {
	u := &usageError{err: err, command: "posthorn"}
	if parse, ok := errors.AsType[*kong.ParseError](err); ok {
		u.err = plainly(parse.Unwrap())
		if parse.Context != nil && parse.Context.Selected() != nil {
			u.command = parse.Context.Selected().FullPath()
		}
	}
	return u
}

// exitError ends a command with a code and without a word: what there was to
// say has been said.
type exitError int

func (e exitError) Error() string { return "exit " + strconv.Itoa(int(e)) }
