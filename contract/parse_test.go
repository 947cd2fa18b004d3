package contract

import (
	"strings"
	"testing"
)

func TestParse_RefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	yaml, _ := BuiltinYAML(Standard)
	text := string(yaml)
	for name, test := range map[string]struct{ from, to, want string }{
		"unknown field":   {"timeout: 15s", "timeout: 15s\ntimeot: 3s", "timeot"},
		"long time-out":   {"timeout: 15s", "timeout: 61s", "timeout"},
		"no time-out":     {"timeout: 15s", "", "timeout"},
		"bad wait":        {"waits: [0, 5s,", "waits: [0, 5 parsecs,", "duration"},
		"bad status":      {`success: ["200-299"]`, `success: ["200-199"]`, "range"},
		"bad source":      {"from: event.type", "from: event.kind", "body.fields"},
		"bad kind":        {"on: gone", "on: lost", "stop"},
		"bad version":     {"apiVersion: 1", "apiVersion: 2", "apiVersion"},
		"bad jitter":      {"jitter: 0.10", "jitter: 1.5", "jitter"},
		"signs no body":   {`signed: "{id}.{t}.{body}"`, `signed: "{id}"`, "signature.signed"},
		"bad exhausted":   {"status: failed\n  emit", "status: delivered\n  emit", "exhausted"},
		"keeps unread":    {"read: 4096, keep: 4096", "read: 10, keep: 4096", "response"},
		"unknown scheme":  {"[https, http]", "[ftp]", "url.schemes"},
		"secret too long": {"bytes: 32", "bytes: 65", "secret.bytes"},
	} {
		changed := strings.Replace(text, test.from, test.to, 1)
		if changed == text {
			t.Fatalf("%s changes nothing", name)
		}
		if _, err := Parse([]byte(changed)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want one about %s", name, err, test.want)
		}
	}
}

func TestRevision_FollowsTheMeaning(t *testing.T) {
	t.Parallel()
	yaml, _ := BuiltinYAML(Standard)
	same, err := Parse([]byte("# another comment\n" + string(yaml)))
	if err != nil {
		t.Fatal(err)
	}
	other, err := Parse([]byte(strings.Replace(string(yaml), "timeout: 15s", "timeout: 16s", 1)))
	if err != nil {
		t.Fatal(err)
	}
	c := standard(t)
	if c.Revision() == "" || same.Revision() != c.Revision() || other.Revision() == c.Revision() {
		t.Errorf("revisions %s, %s, %s", c.Revision(), same.Revision(), other.Revision())
	}
}

func TestBuiltin_Parses(t *testing.T) {
	t.Parallel()
	if c := standard(t); c.Name != Standard || c.Attempts(Terms{}) != 10 {
		t.Errorf("standard: %+v", c)
	}
	if _, ok := Builtin("other"); ok {
		t.Error("a contract that does not exist was found")
	}
}
