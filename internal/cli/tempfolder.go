package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// inTempFolder runs do with a temporary folder below dir ("": the system's) and
// removes it afterwards, however do ends. The first signal to end cancels do's
// context; a second one, or a call of leave, removes the folder and returns at
// once, while do still runs: the process is about to end.
func inTempFolder(ctx context.Context, dir, pattern string, do func(ctx context.Context, folder string, leave func()) error) error {
	folder, err := os.MkdirTemp(dir, pattern)
	if err != nil {
		return err
	}
	// Without this a second signal, or a write to a closed pipe, would kill the
	// process where it stands. Pipes are judged by their writes' errors, since a
	// connection that broke raises the same signal.
	stops, broken := make(chan os.Signal, 4), make(chan os.Signal, 1)
	signal.Notify(stops, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	signal.Notify(broken, syscall.SIGPIPE)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	left := make(chan struct{})
	leave := sync.OnceFunc(func() { close(left) })
	done := make(chan error, 1)
	go func() { done <- do(ctx, folder, leave) }()
	for again := false; ; again = true {
		select {
		case err := <-done:
			signal.Stop(stops)
			signal.Stop(broken)
			return errors.Join(err, os.RemoveAll(folder))
		case <-left:
		case <-stops:
			if !again {
				cancel()
				continue
			}
		}
		// They stay taken: do still runs and may write.
		if err := removeInUse(folder); err != nil {
			return err
		}
		return exitError(exitFailed)
	}
}

// removeInUse removes a folder that files may still be made in.
func removeInUse(folder string) error {
	var err error
	for range 10 {
		err = os.RemoveAll(folder)
		if _, gone := os.Lstat(folder); errors.Is(gone, fs.ErrNotExist) {
			return nil
		}
	}
	return err
}

// watched is a stream whose reader may go away; leave is called then.
type watched struct {
	w     io.Writer
	leave func()
}

// Write implements io.Writer.
func (o watched) Write(text []byte) (int, error) {
	n, err := o.w.Write(text)
	if errors.Is(err, syscall.EPIPE) {
		o.leave()
	}
	return n, err
}
