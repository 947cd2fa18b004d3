package app

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// Whoever reads what the server writes may end before it does, as after Ctrl-C in
// posthorn serve | tee log: it stops in order all the same.
func TestFault_B50_NobodyReadsTheLog(t *testing.T) {
	t.Parallel()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = read.Close() }()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir())
	cmd.Env = append(os.Environ(), "POSTHORN_ADMIN_KEY="+operatorKey)
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
	_ = write.Close()
	for lines := bufio.NewScanner(read); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "Posthorn listens at ") {
			break
		}
	}
	_ = read.Close()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
