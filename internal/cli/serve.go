package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"syscall"
	"time"

	"github.com/posthorn/posthorn/internal/config"
)

// readyLine is the line on standard output that says where the server listens;
// programs that start it wait for it.
const readyLine = "Posthorn listens at http://%s\n"

// docsLine follows it.
const docsLine = "The API describes itself at http://%s/docs\n"

// stopMargin is how much longer than the grace a stop may take: the last
// outcomes are written after the last attempt.
const stopMargin = 10 * time.Second

type serveCommand struct {
	config.Server `embed:""`
	Config        string `name:"config" environ:"POSTHORN_CONFIG" placeholder:"FILE" help:"Read settings from this YAML file; flags and environment win over it."`
}

// Help implements kong.HelpProvider.
func (serveCommand) Help() string {
	return `Everything lies in one folder, ./posthorn-data unless --data names another. The first start makes an admin key there, which the other commands find by themselves.

    posthorn serve
    posthorn endpoints create https://example.com/hooks -e '*'
    posthorn events send hello '{"to":"world"}'

An endpoint in a private network must be allowed by name of its network:

    posthorn serve --listen 0.0.0.0:8080 --allow-network 10.20.0.0/16:443

SIGTERM or Ctrl-C stops it without losing anything; a second one ends it at once, and still nothing that was accepted is lost.`
}

// Run serves until it is told to stop.
func (c *serveCommand) Run(ctx context.Context, p *Process) error {
	c.Secrets = config.ReadSecrets(p.Env)
	if err := c.Validate(); err != nil {
		return err
	}
	server, err := startServer(ctx, p, c.Server, p.Stdout, slog.New(slog.NewTextHandler(p.Stderr, nil)))
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		p.warnf("stopped before the start had ended")
		return nil
	}
	if err != nil {
		return err
	}
	p.printf(readyLine+docsLine, server.Addr(), server.Addr())
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	select {
	case err := <-ended:
		if err == nil {
			err = errors.New("the server ended by itself")
		}
		return fmt.Errorf("the server stopped: %w", err)
	case <-ctx.Done():
	}
	p.warnf("stopping: attempts under way may take up to %s; a second signal ends it at once", c.ShutdownGrace)
	return stopServer(server, c.ShutdownGrace)
}

// startServer makes a server and starts it. notices gets what people should
// read.
func startServer(ctx context.Context, p *Process, settings config.Server, notices io.Writer, log *slog.Logger) (Server, error) {
	if p.NewServer == nil {
		return nil, errors.New("this program was built without the server")
	}
	// Writing where nobody reads any more, to a tee that Ctrl-C ended as well, must
	// not kill the server in place of stopping it.
	signal.Ignore(syscall.SIGPIPE)
	server, err := p.NewServer(settings, ServerOptions{
		Log: log, Stdout: notices, Terminal: isTerminal(notices), Lookup: p.Env, Version: readBuild().Version,
	})
	if err == nil {
		err = server.Start(ctx)
	}
	if err == nil {
		return server, nil
	}
	if _, ok := errors.AsType[*config.Fault](err); ok {
		return nil, err
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, portInUse(err, settings.Listen, "--listen")
	}
	return nil, fmt.Errorf("the server could not start: %w", err)
}

// stopServer stops a server within its grace, whatever became of the context
// that it was started with.
func stopServer(server Server, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), grace+stopMargin)
	defer cancel()
	if err := server.Stop(ctx); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}
