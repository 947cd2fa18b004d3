package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"golang.org/x/term"

	"github.com/posthorn/posthorn/internal/clock"
	"github.com/posthorn/posthorn/internal/config"
)

// Process is what a command has of the machine it runs on.
type Process struct {
	Args   []string // without the program's name
	Env    config.Lookup
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Clock is started by Run if it is nil.
	Clock *clock.Clock
	// Executable is this program, for commands that start it as a child.
	Executable string
	// NewServer makes the server; nil in a program without one.
	NewServer NewServer
}

// NewServer makes a server that is not started yet. A *config.Fault says what
// the person who started it can mend.
type NewServer func(config.Server, ServerOptions) (Server, error)

// ServerOptions is what a server gets besides its settings.
type ServerOptions struct {
	Log *slog.Logger
	// Stdout is for what people should read at the start.
	Stdout io.Writer
	// Terminal tells that Stdout is one: only there is a new admin key shown.
	Terminal bool
	// Lookup reads the environment, for the proxy variables that are ignored.
	Lookup func(string) (string, bool)
	// Version stands in the User-Agent.
	Version string
}

// Server is a server as a whole.
type Server interface {
	// Start opens the listeners and begins to deliver; it returns when the
	// server answers.
	Start(context.Context) error
	// Addr is the address that it listens at, host:port with the real port.
	Addr() string
	// AdminKey is the admin key, given or made.
	AdminKey() string
	// Wait returns when the server has ended: nil after Stop, else why.
	Wait() error
	// Stop drains and closes: no new attempts, those under way may end within
	// the configured grace or until ctx ends, whichever is first.
	Stop(context.Context) error
}

// printf writes to standard output. A reader that went away is nobody to tell.
func (p *Process) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(p.Stdout, format, args...)
}

// warnf writes a line to standard error.
func (p *Process) warnf(format string, args ...any) {
	_, _ = fmt.Fprintf(p.Stderr, "posthorn: "+format+"\n", args...)
}

// isTerminal tells whether a person is at the other end of a stream.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
