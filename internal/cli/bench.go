package cli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/posthorn/posthorn/internal/cli/bench"
	"github.com/posthorn/posthorn/internal/config"
	"github.com/posthorn/posthorn/internal/webhook"
)

const (
	// benchGrace is how long attempts under way may take at the end of a bench.
	benchGrace = 2 * time.Second
	// childStart is how long the child may take until it listens.
	childStart = 30 * time.Second
)

type benchCommand struct {
	Events     int    `name:"events" placeholder:"N" default:"20000" help:"How many events to publish."`
	Publishers int    `name:"publishers" placeholder:"N" default:"32" help:"How many publish at a time."`
	Size       int    `name:"size" placeholder:"BYTES" default:"1024" help:"Size of an event's data."`
	Batch      int    `name:"batch" placeholder:"N" default:"1" help:"Events in one request, as NDJSON."`
	Fanout     int    `name:"fanout" placeholder:"N" default:"1" help:"Endpoints that get each event."`
	Rate       int    `name:"rate" placeholder:"N" help:"Publish so many events a second, to see latencies at rest; as fast as possible by default."`
	Patience   span   `name:"patience" placeholder:"DURATION" default:"15s" help:"What has not arrived when nothing has for so long is lost."`
	Dir        string `name:"dir" placeholder:"DIR" help:"Where to make the temporary data folder: the disk that is measured. The system's folder for temporary files by default."`
	InProcess  bool   `name:"in-process" help:"Run the server in this process, for profiling; its CPU and memory can't be told then."`
	JSON       bool   `name:"json" help:"Print JSON."`
}

// Help implements kong.HelpProvider.
func (benchCommand) Help() string {
	return `Starts a server on a temporary folder with durable settings, a receiver and publishers, all on this machine's loopback, and prints rates, latencies from before the publishing request to the arrival, what was lost or doubled, the server's CPU and memory, and the rate of plain HTTP between the same two ends. Exit code 1 if anything is lost or a signature is bad.

    posthorn bench
    posthorn bench --batch 100 --events 100000
    posthorn bench --fanout 10 --events 5000
    posthorn bench --rate 60 --events 600`
}

// Run measures.
func (c *benchCommand) Run(ctx context.Context, p *Process) error {
	cfg := bench.Config{
		Events: c.Events, Publishers: c.Publishers, Size: c.Size, Batch: c.Batch, Fanout: c.Fanout, Rate: c.Rate,
		Plain: min(max(c.Events, 2_000), 20_000), Patience: c.Patience.std(), Now: p.Clock.Now,
	}
	if err := cfg.Validate(); err != nil {
		return usagef("%w", err)
	}
	return inTempFolder(ctx, c.Dir, "posthorn-bench-", func(ctx context.Context, folder string, _ func()) error {
		return c.measure(ctx, p, cfg, folder)
	})
}

func (c *benchCommand) measure(ctx context.Context, p *Process, cfg bench.Config, folder string) error {
	receiver, err := bench.NewReceiver(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = receiver.Close() }()
	measured, err := c.startServer(ctx, p, config.Server{
		Data: folder, Listen: "127.0.0.1:0", AllowNetworks: []string{receiver.Addr()}, TimeLapse: 1, ShutdownGrace: benchGrace,
	})
	if err != nil {
		return err
	}
	result, err := receiver.Run(ctx, measured.target)
	if err = errors.Join(err, measured.stop()); err != nil {
		return err
	}
	if c.JSON {
		if err := p.printJSON(result); err != nil {
			return err
		}
	} else {
		p.printf("%s", result.Text())
	}
	if !result.OK() {
		return exitError(exitFailed)
	}
	return nil
}

// measured is a running server and how to end it.
type measured struct {
	target bench.Target
	stop   func() error
}

func (c *benchCommand) startServer(ctx context.Context, p *Process, settings config.Server) (measured, error) {
	random := make([]byte, 32)
	if _, err := rand.Read(random); err != nil {
		return measured{}, fmt.Errorf("read random bytes: %w", err)
	}
	key := hex.EncodeToString(random)
	if !c.InProcess {
		return startChild(ctx, p, settings, key)
	}
	settings.Secrets.AdminKey = webhook.NewSecretText(key)
	server, err := startServer(context.WithoutCancel(ctx), p, settings, io.Discard, slog.New(slog.NewTextHandler(p.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	if err != nil {
		return measured{}, err
	}
	return measured{
		target: bench.Target{Addr: server.Addr(), Key: key},
		stop:   func() error { return stopServer(server, settings.ShutdownGrace) },
	}, nil
}

// startChild starts this program as a server of its own, so that its CPU and
// memory are nobody else's.
func startChild(ctx context.Context, p *Process, settings config.Server, key string) (measured, error) {
	args := []string{"serve", "--data", settings.Data, "--listen", settings.Listen, "--shutdown-grace", settings.ShutdownGrace.String()}
	for _, network := range settings.AllowNetworks {
		args = append(args, "--allow-network", network)
	}
	cmd := exec.CommandContext(ctx, p.Executable, args...)
	cmd.Env = []string{"POSTHORN_ADMIN_KEY=" + key}
	for _, name := range []string{"HOME", "PATH", "TMPDIR", "GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GODEBUG"} {
		if value, ok := p.Env.Get(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = settings.ShutdownGrace + stopMargin
	complaints := &lastWords{}
	cmd.Stderr = complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		return measured{}, err
	}
	if err := cmd.Start(); err != nil {
		return measured{}, fmt.Errorf("start the server: %w", err)
	}
	addr, err := readAddr(ctx, out)
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return measured{}, fmt.Errorf("the server did not start: %s", complaints.text(err.Error()))
	}
	return measured{
		target: bench.Target{Addr: addr, Key: key, PID: cmd.Process.Pid},
		stop: func() error {
			if err := cmd.Cancel(); err != nil {
				return fmt.Errorf("stop the server: %w", err)
			}
			if err := cmd.Wait(); err != nil && ctx.Err() == nil {
				return fmt.Errorf("the server ended badly: %s", complaints.text(err.Error()))
			}
			return nil
		},
	}, nil
}

// readAddr waits for the line that says where the server listens.
func readAddr(ctx context.Context, out io.Reader) (string, error) {
	type found struct {
		addr string
		err  error
	}
	result := make(chan found, 1)
	go func() {
		prefix, _, _ := strings.Cut(readyLine, "%s")
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if addr, ok := strings.CutPrefix(lines.Text(), prefix); ok {
				result <- found{addr: addr}
				_, _ = io.Copy(io.Discard, out) // else a later line would block it
				return
			}
		}
		result <- found{err: errors.Join(errors.New("it ended before it listened"), lines.Err())}
	}()
	timer := time.NewTimer(childStart)
	defer timer.Stop()
	select {
	case f := <-result:
		return f.addr, f.err
	case <-ctx.Done():
		return "", ctx.Err()
	case <-timer.C:
		return "", fmt.Errorf("it did not listen within %s", childStart)
	}
}

// lastWords keeps the end of what a child writes to standard error.
type lastWords struct {
	mu   sync.Mutex
	kept []byte
}

// Write implements io.Writer.
func (w *lastWords) Write(b []byte) (int, error) {
	const most = 4 << 10
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, b...)
	if over := len(w.kept) - most; over > 0 {
		w.kept = bytes.Clone(w.kept[over:])
	}
	return len(b), nil
}

// text is the last line, or what is said in its place if there is none.
func (w *lastWords) text(otherwise string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.TrimSpace(string(w.kept))
	if text == "" {
		return otherwise
	}
	return text[strings.LastIndexByte(text, '\n')+1:]
}
