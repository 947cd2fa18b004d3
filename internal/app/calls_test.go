package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/signature"
)

// object is a JSON object of an answer.
type object map[string]any

// text is a member's string, by a path such as "health.last_attempt_at"; "" for
// null.
func (o object) text(path string) string {
	v, _ := o.at(path).(string)
	return v
}

// number is a member's number; -1 for null.
func (o object) number(path string) int {
	if v, ok := o.at(path).(float64); ok {
		return int(v)
	}
	return -1
}

// list is a member's objects.
func (o object) list(path string) []object {
	all, _ := o.at(path).([]any)
	out := make([]object, len(all))
	for i, v := range all {
		m, _ := v.(map[string]any)
		out[i] = m
	}
	return out
}

func (o object) at(path string) any {
	var v any = map[string]any(o)
	for name := range strings.SplitSeq(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

// do makes a request with a JSON body and returns the answer, which must have the
// status.
func (c caller) do(want int, method, path, body string) object {
	c.t.Helper()
	mediaType := ""
	if body != "" {
		mediaType = "application/json"
	}
	status, _, out := c.raw(method, path, mediaType, []byte(body))
	if status != want {
		c.t.Fatalf("%s %s: status %d, want %d: %s", method, path, status, want, out)
	}
	var o object
	if len(out) > 0 {
		if err := json.Unmarshal(out, &o); err != nil {
			c.t.Fatalf("%s %s: %v: %s", method, path, err, out)
		}
	}
	return o
}

// under creates an endpoint at a path of the virtual net, under a contract, and
// returns its ID and secret.
func (v *virtual) under(contractName, path string, events ...string) (id, secret string) {
	v.t.Helper()
	if len(events) == 0 {
		events = []string{"*"}
	}
	patterns, err := json.Marshal(events)
	if err != nil {
		v.t.Fatal(err)
	}
	e := v.do(http.StatusCreated, "POST", "/v1/endpoints",
		fmt.Sprintf(`{"url":%q,"events":%s,"contract":%q}`, virtualAddress+path, patterns, contractName))
	return e.text("id"), e.text("secret")
}

// publish accepts an event and returns its ID.
func (v *virtual) publish(eventType, data string, more ...string) string {
	v.t.Helper()
	return v.do(http.StatusAccepted, "POST", "/v1/events",
		fmt.Sprintf(`{"type":%q,"data":%s%s}`, eventType, data, strings.Join(more, ""))).text("id")
}

// rows lists deliveries, newest first.
func (v *virtual) rows(query string) []object {
	v.t.Helper()
	return v.do(http.StatusOK, "GET", "/v1/deliveries?limit=250&"+query, "").list("data")
}

// row is the only delivery that a query finds, whole.
func (v *virtual) row(query string) object {
	v.t.Helper()
	all := v.rows(query)
	if len(all) != 1 {
		v.t.Fatalf("%s: %d deliveries, want one: %v", query, len(all), all)
	}
	return v.do(http.StatusOK, "GET", "/v1/deliveries/"+all[0].text("id"), "")
}

// endpointNow reads an endpoint.
func (v *virtual) endpointNow(id string) object {
	v.t.Helper()
	return v.do(http.StatusOK, "GET", "/v1/endpoints/"+id, "")
}

// count counts deliveries by their shown status.
func (v *virtual) counts(query string) map[string]int {
	v.t.Helper()
	n := map[string]int{}
	for _, r := range v.rows(query) {
		n[r.text("status")]++
	}
	return n
}

// checkWaits checks that hits lie as far apart as a contract's waits say, jitter
// included.
func checkWaits(t testing.TB, hits []hit, waits []contract.Duration, jitter float64) {
	t.Helper()
	if len(hits) != len(waits) {
		t.Fatalf("%d attempts, want %d", len(hits), len(waits))
	}
	for i := 1; i < len(hits); i++ {
		gap, want := hits[i].at.Sub(hits[i-1].at), waits[i].Std()
		slack := time.Duration(jitter*float64(want)) + 50*time.Millisecond
		if gap < want-slack || gap > want+slack {
			t.Errorf("attempt %d came %v after the one before, want %v ± %v", i+1, gap, want, slack)
		}
	}
}

// checkSignature verifies a hit under a built-in contract's scheme.
func checkSignature(t testing.TB, scheme, secret string, h hit) {
	t.Helper()
	s, ok := signature.Lookup(scheme, "")
	if !ok {
		t.Fatalf("no scheme %s", scheme)
	}
	key, err := s.ParseKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(signature.Request{Header: h.header, Body: h.body}, []signature.Key{key}, h.at, 5*time.Minute); err != nil {
		t.Errorf("a request does not verify under %s: %v", scheme, err)
	}
}

// promise is a built-in contract.
func promise(t testing.TB, name string) *contract.Contract {
	t.Helper()
	c, ok := contract.Builtin(name)
	if !ok {
		t.Fatalf("no contract %s", name)
	}
	return c
}
