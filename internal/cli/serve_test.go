package cli_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/posthorn/posthorn/internal/cli"
	"github.com/posthorn/posthorn/internal/config"
)

// serve runs serve with a stub, which is told to stop at once.
func serve(t *testing.T, s *stub, env map[string]string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.ended = make(chan struct{})
	p := program{env: env, newServer: func(c config.Server, _ cli.ServerOptions) (cli.Server, error) {
		s.settings = c
		return s, nil
	}}
	return p.run(ctx, append([]string{"serve"}, args...)...)
}

func TestServe_SaysWhereAndStops(t *testing.T) {
	t.Parallel()
	s := &stub{}
	got := serve(t, s, map[string]string{"POSTHORN_ADMIN_KEY": strings.Repeat("k", 32)})
	if got.code != 0 || got.out != "Posthorn listens at http://127.0.0.1:4321\nThe API describes itself at http://127.0.0.1:4321/docs\n" || !s.stopped {
		t.Errorf("got %+v", got)
	}
	if s.settings.Secrets.AdminKey.Reveal() != strings.Repeat("k", 32) {
		t.Error("the admin key did not arrive")
	}
	if strings.Contains(got.out+got.errors, "kkkk") {
		t.Error("the admin key is shown")
	}
}

// Flag, then environment, then file, then default.
func TestServe_Layers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "posthorn.yaml")
	text := "listen: file:1\ndata: file\ntime_lapse: 7\nallow_networks: [10.0.0.0/8, '[fd00::1]:80']\ndev: true\nno_migrate: true\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &stub{}
	env := map[string]string{"POSTHORN_LISTEN": "env:2", "POSTHORN_DATA": "env", "POSTHORN_CONFIG": file, "POSTHORN_NO_MIGRATE": "false", "POSTHORN_PUBLIC_URL": ""}
	if got := serve(t, s, env, "--listen", "flag:3"); got.code != 0 {
		t.Fatalf("got %+v", got)
	}
	c := s.settings
	got := fmt.Sprint(c.Listen, c.Data, c.TimeLapse, c.AllowNetworks, c.Dev, c.NoMigrate, c.ShutdownGrace, c.PublicURL)
	want := fmt.Sprint("flag:3", "env", 7, []string{"10.0.0.0/8", "[fd00::1]:80"}, true, false, 20*time.Second, "")
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// A flag that names a file wins over the variable.
	other := filepath.Join(t.TempDir(), "other.yaml")
	if err := os.WriteFile(other, []byte("time_lapse: 8\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = &stub{}
	if serve(t, s, env, "--config", other); s.settings.TimeLapse != 8 {
		t.Errorf("time lapse %d", s.settings.TimeLapse)
	}
	// Several networks: repeated, or by comma in flag and environment.
	s = &stub{}
	serve(t, s, map[string]string{"POSTHORN_ALLOW_NETWORKS": "a,b"})
	if got := fmt.Sprint(s.settings.AllowNetworks); got != "[a b]" {
		t.Errorf("got %s", got)
	}
	s = &stub{}
	serve(t, s, nil, "--allow-network", "a,b", "--allow-network", "c")
	if got := fmt.Sprint(s.settings.AllowNetworks); got != "[a b c]" {
		t.Errorf("got %s", got)
	}
}

func TestServe_ClearLines(t *testing.T) {
	t.Parallel()
	inUse := fmt.Errorf("listen: %w", os.NewSyscallError("bind", syscall.EADDRINUSE))
	for name, test := range map[string]struct {
		err  error
		code int
		want string
	}{
		"a port in use":  {inUse, 1, "posthorn: The address 127.0.0.1:8080 is in use by another program; end that, or choose another with --listen.\n"},
		"a fault":        {config.NewFault(nil, "The data folder d is in use by another server."), 1, "posthorn: The data folder d is in use by another server.\n"},
		"a setting":      {&config.Fault{Setting: "--allow-network", Text: `"x" is no network`}, 2, "posthorn: --allow-network \"x\" is no network\n"},
		"something else": {errors.New("open the store: disk full"), 1, "posthorn: the server could not start: open the store: disk full\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			serve(t, &stub{startErr: test.err}, nil).want(t, test.code, "", test.want)
		})
	}
}

func TestServe_DeathIsAFailure(t *testing.T) {
	t.Parallel()
	s := &stub{ended: make(chan struct{}), waitErr: errors.New("the database failed")}
	close(s.ended)
	p := program{newServer: func(config.Server, cli.ServerOptions) (cli.Server, error) { return s, nil }}
	got := p.run(t.Context(), "serve")
	if got.code != 1 || !strings.Contains(got.errors, "the database failed") {
		t.Errorf("got %+v", got)
	}
}

// slowStart is a server whose start takes until it is told to stop.
type slowStart struct{ *stub }

func (slowStart) Start(ctx context.Context) error {
	if ctx.Done() == nil {
		return errors.New("nothing ends this start")
	}
	<-ctx.Done()
	return fmt.Errorf("starting the lanes: %w", ctx.Err())
}

// A start can take long: what was interrupted is recorded first, and the disk may
// be full. The first signal ends it all the same, and that is no failure.
func TestFault_B50_StopWhileStarting(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := program{newServer: func(config.Server, cli.ServerOptions) (cli.Server, error) { return slowStart{&stub{}}, nil }}
	p.run(ctx, "serve").want(t, 0, "", "posthorn: stopped before the start had ended\n")
}
