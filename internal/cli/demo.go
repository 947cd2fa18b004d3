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
	"os/exec"
	"time"

	"golang.org/x/term"

	"github.com/posthorn/posthorn/client"
	"github.com/posthorn/posthorn/internal/cli/demo"
	"github.com/posthorn/posthorn/internal/config"
)

// demoGrace is how long attempts under way may take when the demo ends.
const demoGrace = 2 * time.Second

type demoCommand struct {
	For    span   `name:"for" placeholder:"DURATION" help:"End after this time, with exit code 0 if all that should have arrived arrived. Without it, Ctrl-C ends the demo."`
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
	return inTempFolder(ctx, "", "posthorn-demo-", func(ctx context.Context, folder string, leave func()) error {
		return c.show(ctx, p, folder, watched{p.Stdout, leave})
	})
}

// show runs the demo and writes what people read to out.
func (c *demoCommand) show(ctx context.Context, p *Process, folder string, out io.Writer) error {
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
		For:      c.For.std(), Patience: demo.Patience, Now: p.Clock.Wall, View: c.view(p, out, server, folder),
		Random: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
	})
	receiving, stopReceiving := context.WithCancel(context.WithoutCancel(ctx))
	received := make(chan error, 1)
	go func() { received <- serveHTTP(receiving, socket, d.Handler()) }()

	summary, err := d.Run(ctx)
	d.Release()
	err = errors.Join(err, stopServer(server, demoGrace))
	stopReceiving()
	if err = errors.Join(err, <-received); err != nil {
		return err
	}
	return c.conclude(out, summary)
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
func (c *demoCommand) view(p *Process, out io.Writer, server Server, folder string) demo.View {
	f, ok := p.Stdout.(*os.File)
	switch {
	case c.JSON:
		c.announce(p, server, folder)
		return demo.Lines{W: p.Stderr}
	case !ok || !isTerminal(f):
		c.announce(p, server, folder)
		return demo.Lines{W: out}
	default:
		return &demo.Live{W: out, Note: liveNote(server, folder), Size: func() (width, height int) {
			width, height, err := term.GetSize(int(f.Fd()))
			if err != nil {
				return 80, 24
			}
			return width, height
		}}
	}
}

func (c *demoCommand) announce(p *Process, server Server, folder string) {
	_, _ = fmt.Fprintf(p.Stderr, `A server runs at http://%[1]s; it describes its API at /docs.
Waits pass %[4]d times as fast as they would: what is tried again after five
minutes is tried after three seconds. Look around from another terminal:

    export POSTHORN_SERVER=http://%[1]s
    export POSTHORN_DATA=%[2]s
    %[3]s deliveries list --status pending

`, server.Addr(), folder, programName(p), demo.TimeLapse)
}

// liveNote is the same in the few lines that a table leaves.
func liveNote(server Server, folder string) []string {
	return []string{
		fmt.Sprintf("Waits pass %d times as fast as they would. API: http://%s/docs", demo.TimeLapse, server.Addr()),
		"Elsewhere: export POSTHORN_SERVER=http://" + server.Addr(),
		"           export POSTHORN_DATA=" + folder,
	}
}

// programName is how another terminal calls this program.
func programName(p *Process) string {
	if _, err := exec.LookPath("posthorn"); err == nil || p.Executable == "" {
		return "posthorn"
	}
	return p.Executable
}

func (c *demoCommand) conclude(out io.Writer, s demo.Summary) error {
	if c.JSON {
		if err := encodeJSON(out, s); err != nil {
			return err
		}
	} else {
		_, _ = fmt.Fprintf(out, "\n%s", s.Text())
	}
	if !s.OK() {
		return exitError(exitFailed)
	}
	return nil
}
