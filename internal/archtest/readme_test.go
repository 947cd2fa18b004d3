//go:build readme

package archtest

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// README.md is written so that this test can be its reader:
//
//	```sh                    runs; its exit code must be 0
//	```sh background=NAME    runs until the end, as in a terminal of its own
//	```sh until=shown        runs again until it prints what the next block says
//	```text                  lines that the block before must have printed, in this order
//	```text from=NAME        lines that the background command must print, waited for
//	```console               only shown
//
// In expected lines … stands for any text. Ports are exchanged for free ones.

// patience is how long an expected line of a background command may take.
const patience = 30 * time.Second

type block struct {
	lang, option, text string
}

var fence = regexp.MustCompile("(?ms)^```([a-z]+)(?: ([a-z]+=[a-z]+))?\n(.*?)^```$")

func blocks(text string) []block {
	var out []block
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		out = append(out, block{lang: m[1], option: m[2], text: m[3]})
	}
	return out
}

// reader is one who types what the README says.
type reader struct {
	t        *testing.T
	dir      string
	env      []string
	last     string
	terminal map[string]*terminal
}

// terminal is a command in the background.
type terminal struct {
	cmd *exec.Cmd
	mu  sync.Mutex
	out bytes.Buffer
	// from is where the next expected line is looked for.
	from int
}

func (w *terminal) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

// take looks for a line after those found before.
func (w *terminal) take(want *regexp.Regexp) (found bool, all string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := want.FindIndex(w.out.Bytes()[w.from:])
	if at != nil {
		w.from += at[1]
	}
	return at != nil, w.out.String()
}

func TestReadmeCommandsWork(t *testing.T) {
	t.Parallel()
	top := root(t)
	r := &reader{t: t, dir: t.TempDir(), terminal: map[string]*terminal{}}
	bin := filepath.Join(r.dir, "bin")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "posthorn"), "./cmd/posthorn")
	build.Dir = top
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text := read(t, "README.md")
	server := freePort(t)
	for port, free := range map[string]string{"8080": server, "8090": freePort(t)} {
		text = regexp.MustCompile(`\b`+port+`\b`).ReplaceAllString(text, free)
	}
	r.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"),
		"POSTHORN_LISTEN=127.0.0.1:"+server, "POSTHORN_SERVER=http://127.0.0.1:"+server)
	defer r.closeTerminals()

	if ran := r.follow(blocks(text)); ran < 5 && !t.Failed() {
		t.Errorf("only %d blocks ran: the README's form has changed", ran)
	}
}

// follow does what the blocks say, up to the first that fails, and returns how
// many commands it ran.
func (r *reader) follow(all []block) (ran int) {
	for i, b := range all {
		if r.t.Failed() {
			return ran
		}
		name := b.option[strings.Index(b.option, "=")+1:]
		switch {
		case b.lang == "sh" && strings.HasPrefix(b.option, "background="):
			r.open(name, b.text)
		case b.lang == "sh" && b.option == "until=shown" && i+1 < len(all):
			r.repeat(b.text, all[i+1].text)
		case b.lang == "sh" && b.option == "":
			r.run(b.text)
		case b.lang == "text":
			r.expect(name, b.text)
			continue
		default:
			continue
		}
		ran++
	}
	return ran
}

// repeat runs a script until it prints the expected lines.
func (r *reader) repeat(script, expected string) {
	r.t.Helper()
	for end := time.Now().Add(patience); !r.t.Failed(); <-time.After(100 * time.Millisecond) {
		r.run(script)
		if prints(r.last, expected) || time.Now().After(end) {
			return
		}
	}
}

// prints tells whether text has the expected lines in order.
func prints(text, expected string) bool {
	for _, want := range patterns(expected) {
		at := want.FindStringIndex(text)
		if at == nil {
			return false
		}
		text = text[at[1]:]
	}
	return true
}

// patterns are the expected lines; … stands for anything, blanks for blanks.
func patterns(expected string) []*regexp.Regexp {
	var out []*regexp.Regexp
	for line := range strings.Lines(expected) {
		words := strings.Fields(strings.ReplaceAll(line, "…", " … "))
		if len(words) == 0 {
			continue
		}
		pattern := regexp.QuoteMeta(strings.Join(words, " "))
		pattern = strings.ReplaceAll(strings.ReplaceAll(pattern, " … ", ".*"), "…", ".*")
		out = append(out, regexp.MustCompile(strings.ReplaceAll(pattern, " ", `[ \t]+`)))
	}
	return out
}

// shell makes a command whose children can be ended with it.
func (r *reader) shell(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = r.dir, r.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func (r *reader) run(script string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	out, err := r.shell(ctx, script).CombinedOutput()
	r.last = string(out)
	r.t.Logf("$ %s%s", script, out)
	if err != nil {
		r.t.Errorf("%v", err)
	}
}

func (r *reader) open(name, script string) {
	r.t.Helper()
	w := &terminal{}
	// exec: the signal at the end is for the command, not for a shell around it.
	w.cmd = r.shell(context.WithoutCancel(r.t.Context()), "exec "+script)
	w.cmd.Stdout, w.cmd.Stderr = w, w
	if err := w.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.terminal[name] = w
}

func (r *reader) expect(name, text string) {
	r.t.Helper()
	if name == "" {
		w := &terminal{}
		w.out.WriteString(r.last)
		r.await(w, text, 0)
		return
	}
	w, ok := r.terminal[name]
	if !ok {
		r.t.Fatalf("no command runs in the background as %q", name)
	}
	r.await(w, text, patience)
}

// await looks for each expected line, in order.
func (r *reader) await(w *terminal, text string, wait time.Duration) {
	r.t.Helper()
	for _, want := range patterns(text) {
		for end := time.Now().Add(wait); ; {
			found, all := w.take(want)
			if found {
				break
			}
			if time.Now().After(end) {
				r.t.Errorf("the README promises\n  %s\nbut there was only\n%s", want, all)
				return
			}
			<-time.After(50 * time.Millisecond)
		}
	}
}

// closeTerminals ends the background commands as Ctrl-C would; they must end by
// themselves then.
func (r *reader) closeTerminals() {
	for name, w := range r.terminal {
		if err := syscall.Kill(-w.cmd.Process.Pid, syscall.SIGTERM); err != nil {
			r.t.Errorf("%s had ended before: %v", name, err)
		}
		kill := time.AfterFunc(patience, func() {
			r.t.Errorf("%s did not end on SIGTERM", name)
			_ = syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL)
		})
		err := w.cmd.Wait()
		kill.Stop()
		if err != nil {
			r.t.Errorf("%s ended with %v", name, err)
		}
		if r.t.Failed() {
			r.t.Logf("%s printed\n%s", name, w.out.String())
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}
