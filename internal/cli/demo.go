package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/posthorn/posthorn/client"
	"github.com/posthorn/posthorn/internal/cli/demo"
	"github.com/posthorn/posthorn/internal/config"
)

// demoGrace is how long attempts under way may take when the demo ends.
const demoGrace = 2 * time.Second

type demoCommand struct {
	For    span   `name:"for" placeholder:"DURATION" help:"End after about this time, with exit code 0 if all that should have arrived arrived. Without it, Ctrl-C ends the demo."`
	Listen string `name:"listen" placeholder:"ADDR" default:"127.0.0.1:0" help:"Address of the server's API; port 0 takes a free one."`
	JSON   bool   `name:"json" help:"Print the summary as JSON; what happens meanwhile goes to standard error."`
}

// Help implements kong.HelpProvider.
func (demoCommand) Help() string {
	return `Starts a real server on a temporary folder and a receiver that checks every signature and answers 200, or 500 twice, or 429 with Retry-After, or a redirect, or not at all. A link shortener's events (click, conversion, link.created) are published, four a second, and waits pass a hundred times as fast, so that a retry after five minutes is seen after three seconds.

    posthorn demo
    posthorn demo --for 20s`
}

// Run shows the demo.
func (c *demoCommand) Run(ctx context.Context, p *Process) error {
	folder, err := os.MkdirTemp("", "posthorn-demo-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	socket, err := listenAt(ctx, "127.0.0.1:0", "--listen")
	if err != nil {
		return err
	}
	// Ctrl-C ends the demo, not the server: what it owes is still delivered.
	server, err := c.startServer(context.WithoutCancel(ctx), p, folder, socket.Addr())
	if err != nil {
		return errors.Join(err, socket.Close())
	}
	d := demo.New(demo.Config{
		API:      &client.Client{BaseURL: "http://" + server.Addr(), Key: server.AdminKey()},
		Receiver: "http://" + socket.Addr().String(),
		For:      c.For.std(), Patience: demo.Patience, Now: p.Clock.Wall, View: c.view(p),
		Random: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
	})
	receiving, stopReceiving := context.WithCancel(context.WithoutCancel(ctx))
	received := make(chan error, 1)
	go func() { received <- serveHTTP(receiving, socket, d.Handler()) }()
	c.announce(p, server, folder)

	summary, err := d.Run(ctx)
	d.Release()
	err = errors.Join(err, stopServer(server, demoGrace))
	stopReceiving()
	if err = errors.Join(err, <-received); err != nil {
		return err
	}
	return c.conclude(p, summary)
}

func (c *demoCommand) startServer(ctx context.Context, p *Process, folder string, receiver net.Addr) (Server, error) {
	settings := config.Server{
		Data: folder, Listen: c.Listen, AllowNetworks: []string{receiver.String()},
		TimeLapse: demo.TimeLapse, ShutdownGrace: demoGrace,
	}
	if err := settings.Validate(); err != nil {
		return nil, err
	}
	errorsOnly := &slog.HandlerOptions{Level: slog.LevelError}
	return startServer(ctx, p, settings, io.Discard, slog.New(slog.NewTextHandler(p.Stderr, errorsOnly)))
}

// view is where people see what happens: a table that moves, or lines.
func (c *demoCommand) view(p *Process) demo.View {
	if c.JSON {
		return demo.Lines{W: p.Stderr}
	}
	if f, ok := p.Stdout.(*os.File); ok && isTerminal(f) {
		width, _, err := term.GetSize(int(f.Fd()))
		if err != nil {
			width = 80
		}
		return &demo.Live{W: f, Width: width}
	}
	return demo.Lines{W: p.Stdout}
}

func (c *demoCommand) announce(p *Process, server Server, folder string) {
	_, _ = fmt.Fprintf(p.Stderr, `The API is at http://%[1]s, described at http://%[1]s/docs. Look around from another terminal while this runs:

    export POSTHORN_SERVER=http://%[1]s POSTHORN_DATA=%[2]s
    posthorn deliveries list --status pending
    posthorn endpoints list

`, server.Addr(), folder)
}

func (c *demoCommand) conclude(p *Process, s demo.Summary) error {
	if c.JSON {
		if err := p.printJSON(s); err != nil {
			return err
		}
	} else {
		p.printf("\n%s", s.Text())
	}
	if !s.OK() {
		return exitError(exitFailed)
	}
	return nil
}
