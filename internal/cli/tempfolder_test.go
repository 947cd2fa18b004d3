package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// UseTempFolder is a program that works in a temporary folder: it says where it
// is, writes lines until they can't be written if its argument is lines, and
// after a first signal goes on as if it were stuck.
func UseTempFolder() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // as cmd/posthorn does
	err := inTempFolder(ctx, os.Args[1], "work-", func(ctx context.Context, folder string, leave func()) error {
		out := watched{os.Stdout, leave}
		if err := os.WriteFile(filepath.Join(folder, "file"), nil, 0o600); err != nil {
			return err
		}
		_, _ = fmt.Fprintln(out, folder)
		for os.Args[2] == "lines" {
			_, _ = fmt.Fprintln(out, "a line")
		}
		if os.Args[2] == "stuck" {
			<-ctx.Done()
			_, _ = fmt.Fprintln(out, "the first signal came")
			select {}
		}
		return nil
	})
	os.Exit(report(&Process{Stderr: os.Stderr}, err))
}

// useTempFolder starts the program in a folder of the test's.
func useTempFolder(t *testing.T, how string) (dir string, cmd *exec.Cmd, lines *bufio.Scanner) {
	t.Helper()
	dir = t.TempDir()
	cmd = exec.CommandContext(t.Context(), "tempfolder", dir, how)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines = bufio.NewScanner(out)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), filepath.Join(dir, "work-")) {
		t.Fatalf("it works in %q", lines.Text())
	}
	if how == "lines" { // whoever reads goes away
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return dir, cmd, lines
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

func TestTempFolder_IsGoneAtTheEnd(t *testing.T) {
	t.Parallel()
	dir, cmd, _ := useTempFolder(t, "end")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	wantEmpty(t, dir)
}

func TestTempFolder_IsGoneWhenTheReaderGoes(t *testing.T) {
	t.Parallel()
	dir, cmd, _ := useTempFolder(t, "lines")
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitFailed {
		t.Errorf("it ended with %v", cmd.ProcessState)
	}
	wantEmpty(t, dir)
}

func TestTempFolder_IsGoneAfterASecondSignal(t *testing.T) {
	t.Parallel()
	dir, cmd, lines := useTempFolder(t, "stuck")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if !lines.Scan() || lines.Text() != "the first signal came" {
		t.Fatalf("after the first signal: %q", lines.Text())
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitFailed {
		t.Errorf("it ended with %v", cmd.ProcessState)
	}
	wantEmpty(t, dir)
}
