package app

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is the real binary, serving.
type process struct {
	caller
	cmd  *exec.Cmd
	dir  string
	args []string
	// stderr is what it logs.
	stderr *text
	ended  chan struct{}
	err    error
}

// launch starts the binary on a folder and waits until it listens. The test's
// end kills it.
func launch(t testing.TB, dir string, args ...string) *process {
	t.Helper()
	p, lines := spawn(t, dir, args...)
	const ready = "Posthorn listens at http://"
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		select {
		case line, more := <-lines:
			if address, ok := strings.CutPrefix(line, ready); ok {
				p.caller = newCaller(t, address)
				return p
			}
			if !more {
				<-p.ended
				t.Fatalf("the server ended: %v\n%s", p.err, p.stderr)
			}
		case <-deadline.C:
			t.Fatalf("the server does not listen\n%s", p.stderr)
		}
	}
}

// spawn starts the binary and returns what it prints, line by line.
func spawn(t testing.TB, dir string, args ...string) (*process, <-chan string) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{caller: caller{t: t}, dir: dir, args: args, stderr: &text{}, ended: make(chan struct{})}
	all := append([]string{"serve", "--listen", "127.0.0.1:0", "--data", dir, "--allow-network", "127.0.0.0/8"}, args...)
	p.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), path, all...)
	p.cmd.Env = append(os.Environ(), "POSTHORN_ADMIN_KEY="+operatorKey)
	p.cmd.Stderr = p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 16)
	go func() {
		defer close(p.ended)
		scan := bufio.NewScanner(stdout)
		for scan.Scan() {
			select {
			case lines <- scan.Text():
			default: // nobody reads any more
			}
		}
		close(lines)
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the server in %s wrote:\n%s", filepath.Base(dir), p.stderr)
		}
	})
	return p, lines
}

// again starts the binary once more, on the same folder.
func (p *process) again() *process {
	p.t.Helper()
	return launch(p.t, p.dir, p.args...)
}

// kill is kill -9. It returns when the process is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
	if p.Client != nil {
		p.HTTP.CloseIdleConnections()
	}
}

// terminate sends SIGTERM and returns the exit code and how long it took.
func (p *process) terminate() (code int, took time.Duration) {
	p.t.Helper()
	begin := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	code = p.exitCode()
	return code, time.Since(begin)
}

// exitCode waits for the end.
func (p *process) exitCode() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatal("the process does not end")
	}
	var exit *exec.ExitError
	switch {
	case p.err == nil:
		return 0
	case errors.As(p.err, &exit):
		return exit.ExitCode()
	default:
		p.t.Fatal(p.err)
		return -1
	}
}

// peak is the most memory that the process has had resident, in bytes. Linux
// tells; ok is false elsewhere.
func (p *process) peak() (bytesUsed int, ok bool) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/status")
	if err != nil {
		return 0, false
	}
	_, rest, found := bytes.Cut(status, []byte("VmHWM:"))
	if !found {
		return 0, false
	}
	kib, err := strconv.Atoi(string(bytes.Fields(rest)[0]))
	return kib << 10, err == nil
}

// checkPeak checks that memory did not grow by more than most since before.
func (p *process) checkPeak(before, most int) {
	p.t.Helper()
	now, ok := p.peak()
	if grown := now - before; ok && grown > most {
		p.t.Errorf("memory grew by %d MiB, from %d", grown>>20, before>>20)
	}
}
