package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/internal/webhook"
)

func valid() Server {
	return Server{Data: "d", Listen: "127.0.0.1:0", TimeLapse: 1, ShutdownGrace: 20 * time.Second}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	long := webhook.NewSecretText(strings.Repeat("k", 32))
	for name, test := range map[string]struct {
		change func(*Server)
		want   string // the setting at fault
	}{
		"as it is":         {func(*Server) {}, ""},
		"all interfaces":   {func(s *Server) { s.Listen = ":8080" }, ""},
		"IPv6":             {func(s *Server) { s.Listen = "[::1]:8080" }, ""},
		"no folder":        {func(s *Server) { s.Data = "" }, "--data"},
		"no port":          {func(s *Server) { s.Listen = "127.0.0.1" }, "--listen"},
		"a large port":     {func(s *Server) { s.Listen = "127.0.0.1:65536" }, "--listen"},
		"a URL":            {func(s *Server) { s.Listen = "http://127.0.0.1:80" }, "--listen"},
		"metrics":          {func(s *Server) { s.MetricsListen = "x" }, "--metrics-listen"},
		"no time":          {func(s *Server) { s.TimeLapse = 0 }, "--time-lapse"},
		"negative grace":   {func(s *Server) { s.ShutdownGrace = -1 }, "--shutdown-grace"},
		"public":           {func(s *Server) { s.PublicURL = "https://hooks.example.com/x" }, ""},
		"public host only": {func(s *Server) { s.PublicURL = "hooks.example.com" }, "--public-url"},
		"public with user": {func(s *Server) { s.PublicURL = "https://a:b@hooks.example.com" }, "--public-url"},
		"admin key":        {func(s *Server) { s.Secrets.AdminKey = long }, ""},
		"short admin key":  {func(s *Server) { s.Secrets.AdminKey = webhook.NewSecretText("hunter2") }, "POSTHORN_ADMIN_KEY"},
		"spaced admin key": {func(s *Server) { s.Secrets.AdminKey = webhook.NewSecretText(strings.Repeat("a ", 20)) }, "POSTHORN_ADMIN_KEY"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := valid()
			test.change(&s)
			err := s.Validate()
			if f, ok := errors.AsType[*Fault](err); ok {
				if f.Setting != test.want {
					t.Errorf("got %q, want one about %q", err, test.want)
				}
			} else if err != nil || test.want != "" {
				t.Errorf("got %v, want a fault about %q", err, test.want)
			}
		})
	}
}

// TestPublicBase_EndsWithoutASlash: paths are appended to it.
func TestPublicBase_EndsWithoutASlash(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"": "", "https://example.com": "https://example.com", "https://example.com/": "https://example.com", "https://example.com/hooks//": "https://example.com/hooks",
	} {
		s := valid()
		if s.PublicURL = given; s.Validate() != nil || s.PublicBase() != want {
			t.Errorf("%q is appended to as %q", given, s.PublicBase())
		}
	}
}

func TestSecrets_NeverPrinted(t *testing.T) {
	t.Parallel()
	env := map[string]string{
		"POSTHORN_ADMIN_KEY": "admin-key-in-clear", "POSTHORN_SECRETS_KEY": "secrets-in-clear", "POSTHORN_SECRETS_KEY_OLD": "old1-in-clear, old2-in-clear",
	}
	s := valid()
	s.Secrets = ReadSecrets(func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	if len(s.Secrets.SecretsKeyOld) != 2 || s.Secrets.SecretsKeyOld[1].Reveal() != "old2-in-clear" {
		t.Errorf("old keys: %d", len(s.Secrets.SecretsKeyOld))
	}
	text := fmt.Sprintf("%v %+v %#v %v", s, s, s, s.Validate())
	if strings.Contains(text, "in-clear") {
		t.Errorf("a secret is printed: %s", text)
	}
}

func TestLookup_EmptyIsAbsent(t *testing.T) {
	t.Parallel()
	env := Lookup(func(string) (string, bool) { return "", true })
	if _, ok := env.Get("POSTHORN_DATA"); ok {
		t.Error("an empty variable counts")
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	got, err := parseFile([]byte("# ours\nlisten: 0.0.0.0:80\nallow_networks:\n  - 10.0.0.0/8\n  - 192.168.1.7:80\ndev: true\ntime_lapse: 60\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := "map[allow_networks:10.0.0.0/8,192.168.1.7:80 dev:true listen:0.0.0.0:80 time_lapse:60]"
	if fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	for _, empty := range []string{"", "# nothing\n", "---\n"} {
		if got, err := parseFile([]byte(empty)); err != nil || len(got) != 0 {
			t.Errorf("%q: %v, %v", empty, got, err)
		}
	}
}

func TestFile_RefusedWithItsLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"data: x\nlisen: y\n":               `line 2: unknown key "lisen"; known are allow_networks, data,`,
		"data: x\n\ndata: y\n":              "line 3: data is given a second time",
		"admin_key: hunter2\n":              "line 1: admin_key is not taken from a file: set POSTHORN_ADMIN_KEY in the environment",
		"listen: [a, b]\n":                  "line 1: listen takes one value, not a list",
		"allow_networks:\n- a\n- {b: c}\n":  "line 3: allow_networks is a list of plain values",
		"listen: {host: x}\n":               "line 1: listen takes a plain value",
		"listen:\n":                         "line 1: listen has no value",
		"- listen\n":                        "line 1: must hold settings",
		"listen: \"a\ndata: b: c\n\tx: 1\n": "is no YAML",
	} {
		_, err := parseFile([]byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the value is quoted: %v", err)
		}
	}
}

func TestReadFile_NamesTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "posthorn.yaml")
	if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(path, []byte("x: 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path); err == nil || !strings.HasPrefix(err.Error(), path+` line 1: unknown key "x"`) {
		t.Errorf("got %v", err)
	}
}

// Every setting can be found in every layer, and its key follows from its variable.
func TestSettings_Complete(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range Settings() {
		if !strings.HasPrefix(s.Environ, "POSTHORN_") || s.Help == "" || seen[s.Environ] {
			t.Errorf("incomplete or twice: %+v", s)
		}
		seen[s.Environ] = true
		if s.Flag != "" && s.Key == "" {
			t.Errorf("no key: %+v", s)
		}
	}
	var b bytes.Buffer
	if err := WriteReference(&b); err != nil {
		t.Fatal(err)
	}
	for environ := range seen {
		if !strings.Contains(b.String(), environ) {
			t.Errorf("the reference lacks %s", environ)
		}
	}
}
