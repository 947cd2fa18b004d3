// Command posthorn sends webhooks. All of it is in internal/cli; this file hands
// it the machine (arguments, environment, streams, signals) and the server.
package main

import (
	"context"
	"io"
	"log" //nolint:depguard // because net/http's client knows no other logger
	"os"
	"os/signal"
	"syscall"

	"github.com/posthorn/posthorn/internal/app"
	"github.com/posthorn/posthorn/internal/cli"
	"github.com/posthorn/posthorn/internal/config"
)

func main() {
	// What a receiver says unasked, net/http writes down. It may be the request
	// that it got, with its secrets (B81).
	log.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal kills as usual
	executable, err := os.Executable()
	if err != nil {
		executable = os.Args[0]
	}
	os.Exit(cli.Run(ctx, &cli.Process{
		Args: os.Args[1:], Env: os.LookupEnv, Executable: executable, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		NewServer: func(c config.Server, o cli.ServerOptions) (cli.Server, error) { return app.New(c, app.Options(o)) },
	}))
}
