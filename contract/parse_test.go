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

// What the YAML library finds is said in plain words, and every fault has its line.
func TestParse_FaultsInPlainWordsWithLines(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"empty":           {"", "line 1: the file is empty"},
		"no mapping":      {"\n- name\n", "line 2: a list can't stand here"},
		"open bracket":    {"name: x\nurl: [", "line 2: did not find expected node content"},
		"two documents":   {"name: x\n---\nname: y\n", "line 1: expected single document, found multiple"},
		"twice":           {"name: x\nname: y\n", `line 2: mapping key "name" already defined at line 1`},
		"no number":       {"\nresponse: {read: much}\n", "line 2: `much` is not a whole number"},
		"no truth":        {"retry_after:\n  any: perhaps\n", "line 2: `perhaps` is not true or false"},
		"list for a text": {"name: [x]\n", "line 1: a list is not a text"},
		"no value":        {"name: x\nschedule:\n  waits: [0, ~]\nstop:\n", "line 3: schedule.waits[1]: has no value\nline 4: stop: has no value"},
		"no control":      {"name: \x00", "line 1: control characters are not allowed (value: 0)"},
		"too large":       {strings.Repeat("#", maxFile+1), "line 1: the file is larger than 262144 bytes"},
	} {
		if _, err := Parse([]byte(test.text)); err == nil || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
}

// One reading tells of all that is wrong, whatever the kind.
func TestParse_AllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	yaml, _ := BuiltinYAML(Standard)
	text := strings.NewReplacer("timeout: 15s", "timout: 15s", "keep: 30d", "keep: soon", "jitter: 0.10", "jitter: 1.5", "on: gone", "on: gonne",
		"[hmac-sha256, ed25519]", "[md5]").Replace(string(yaml))
	_, err := Parse([]byte(text))
	for _, want := range []string{"timout", "soon", "jitter", "stop[0].on", "signature.algorithms"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named: %v", want, err)
		}
	}
}

// A contract that passes can be put into effect: receivers can check what is
// signed, and no header of it frames the request.
func TestParse_RefusesWhatCouldNotBeSent(t *testing.T) {
	t.Parallel()
	yaml, _ := BuiltinYAML(Standard)
	text := string(yaml)
	for name, test := range map[string]struct{ from, to, want string }{
		"no ID to check":        {"{name: webhook-id, from: webhook_id}", "{name: webhook-try, from: attempt}", "signature.signed: with {id}"},
		"no time to check":      {"{name: webhook-timestamp, from: timestamp}", "{name: webhook-try, from: attempt}", "signature.form: standard needs"},
		"two bodies":            {`"{id}.{t}.{body}"`, `"{id}.{t}.{body}.{body}"`, "signature.signed: must contain"},
		"unknown part":          {`"{id}.{t}.{body}"`, `"{id}.{t}.{path}.{body}"`, "signature.signed: must contain"},
		"parts that touch":      {`"{id}.{t}.{body}"`, `"{id}.{t}{body}"`, "could share a signature"},
		"ed25519 in hex":        {"form: standard", "form: timestamped-hex", "signature.algorithms: ed25519"},
		"header that frames":    {"name: webhook-id", "name: Transfer-Encoding", "headers[0].name: must be the name"},
		"signature that frames": {"header: webhook-signature", "header: Proxy-Authorization", "signature.header: must be the name"},
		"the sender's own":      {"name: webhook-id", "name: user-agent", "headers[0].name: must be the name"},
		"a name with a space":   {"header: webhook-signature", "header: webhook signature", "signature.header: must be the name"},
		"one header twice":      {"name: webhook-id", "name: Webhook-Signature", "headers[0].name: must be a name of its own"},
		"no status":             {"on: [429, 502, 504]", "on: [429, 5020]", "gate.on[1]: must be an HTTP status"},
		"no event type":         {"type: webhook.test", "type: webhook test", "test.type: must be words"},
		"prefix in two words":   {"prefix: whsec_", "prefix: wh sec", "secret.prefix: must be"},
		"operator on two lines": {"name: standard", `name: standard` + "\n" + `operator: "a\nb"`, "operator: must be"},
		"nanosecond time-out":   {"timeout: 15s", "timeout: 15ns", "timeout: must lie between 1ms and 60s"},
		"scope without a gate":  {"on: [429, 502, 504]\n  scope: endpoint", "scope: world", "gate.scope: must be url or endpoint"},
		"degraded for too long": {"receiver_memory: 10d", "receiver_memory: 10d\ndegrade: {after: 3, for: 1h, waits: [0, 11d]}", "receiver_memory"},
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

func TestContract_ReservedHeaders(t *testing.T) {
	t.Parallel()
	if got := strings.Join(standard(t).ReservedHeaders(), " "); got != "webhook-signature webhook-id webhook-timestamp" {
		t.Errorf("%q", got)
	}
}
