package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// childFolder, when set, makes the test binary a process that publishes into that
// folder until it is killed.
const childFolder = "POSTHORN_SQLITE_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childFolder); dir != "" {
		publishForEver(dir)
	}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, "closed stores left something running:", err)
		code = 1
	}
	os.Exit(code)
}

// publishForEver accepts events and records their deliveries from several callers
// and writes a line for each answer that it got.
func publishForEver(dir string) {
	ctx := context.Background()
	d, err := Open(ctx, complete(Config{Dir: dir, checkpointPages: 200}))
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	all, revisions, err := d.LoadSubscriptions(ctx)
	if err != nil || len(all) == 0 {
		fmt.Println("error", err, len(all))
		os.Exit(1)
	}
	pid := os.Getpid()
	var wg sync.WaitGroup
	for caller := range 8 {
		wg.Go(func() {
			for n := 0; ; n++ {
				id := fmt.Sprintf("p%dc%dn%d", pid, caller, n)
				results, err := d.Accept(ctx, []store.AcceptParams{newTestEvent(id, revisions[webhook.DefaultTenant], all...)})
				if err != nil || results[0].Err != nil {
					fmt.Println("error", err, results)
					return
				}
				fmt.Println("event", id, len(all))
				for _, w := range results[0].Fresh[1:] { // the first of each stays to be sent
					if _, err := recordOne(d, testSuccess(&w, 200)); err != nil {
						fmt.Println("error", err)
						return
					}
					fmt.Println("outcome", w.DeliveryID, 200)
				}
			}
		})
	}
	wg.Wait()
	os.Exit(1)
}

// A process that publishes is killed at random moments and started again on the
// same folder. Whatever it had said it was told is there, whole.
func TestEngine_N1_KilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, Config{Dir: dir})
	newTestEndpoint(t, d, "a")
	newTestEndpoint(t, d, "b")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	known := newLedger()
	for range 5 {
		before := len(known.events)
		runAndKill(t, dir, known)
		if len(known.events) == before {
			t.Fatal("it was killed before it was told anything")
		}
		// Looked at in a copy, so that the next process finds what was left.
		d, err := Open(t.Context(), complete(Config{Dir: copyFolder(t, dir), Readers: 1}))
		if err != nil {
			t.Fatal(err)
		}
		known.check(t, d)
		checkWhole(t, d)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// runAndKill runs a child until it has told a few things, and kills it.
func runAndKill(t *testing.T, dir string, known *ledger) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childFolder+"="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for told := 0; ; told++ {
		if told == 10 {
			time.AfterFunc(rand.N(150*time.Millisecond), func() { _ = child.Process.Kill() })
		}
		line, err := lines.ReadString('\n')
		if err != nil {
			break // a line that was cut was not told
		}
		words := strings.Fields(line)
		if len(words) != 3 || words[0] == "error" {
			t.Fatalf("the child says %q", line)
		}
		n, err := strconv.Atoi(words[2])
		if err != nil {
			t.Fatalf("the child says %q", line)
		}
		switch words[0] {
		case "event":
			known.events[words[1]] = n
		case "outcome":
			known.outcomes[words[1]] = n
		}
	}
	_ = child.Wait() // it was killed
}

func copyFolder(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	for _, name := range []string{FileName, FileName + "-wal"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}
