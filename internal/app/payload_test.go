package app

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/client"
)

// post publishes data as it stands.
func (c caller) post(data string) (status int, answer []byte) {
	c.t.Helper()
	status, _, answer = c.raw(http.MethodPost, "/v1/events", "application/json", []byte(`{"type":"note.made","data":`+data+`}`))
	return status, answer
}

// idOf is the event's ID in the answer to publishing it.
func idOf(answer []byte) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(string(answer), `{"id":"`), `"`)
	return id
}

func TestFault_B10_ZerosAndHalfSurrogates(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	s := start(t, options{})
	e := s.endpoint(r.url("/"))
	taken := []string{`{"t":"a\u0000b"}`, `{"t":"\ud800"}`, `{"\u0000":"\udfff\ud800"}`}
	for i, data := range taken {
		if code, answer := s.post(data); code != http.StatusAccepted {
			t.Fatalf("%s: %d %s", data, code, answer)
		}
		got := r.await("/", i+1)
		if !bytes.Equal(got[i].data(), []byte(data)) {
			t.Errorf("posted %s, arrived %s", data, got[i].data())
		}
		shown := s.until(got[i].id(), client.StatusDelivered)
		if shown.Body != string(got[i].body) {
			t.Errorf("the log shows %q, sent was %q", shown.Body, got[i].body)
		}
	}
	for _, data := range []string{"{\"t\":\"a\x00b\"}", "\"\xed\xa0\x80\""} {
		code, answer := s.post(data)
		if code != http.StatusBadRequest || !bytes.Contains(answer, []byte(`"invalid_body"`)) || !bytes.Contains(answer, []byte(`"detail"`)) {
			t.Errorf("%q: %d %s", data, code, answer)
		}
	}
	s.quiet()
	checkAll(t, e.Secret, r.at("/"))
	if n := len(r.at("/")); n != len(taken) {
		t.Errorf("%d requests, want %d", n, len(taken))
	}
}

func TestFault_B22_BytesFromPostToReceiverAndLog(t *testing.T) {
	t.Parallel()
	const data = `{ "z":1, "a":"<b>&\u00e9 é \/ \u2028","n":1.0,"e":1e3,"big":12345678901234567890 }`
	r := newReceiver(t)
	s := start(t, options{})
	e := s.endpoint(r.url("/"))
	if code, answer := s.post(data + "\n"); code != http.StatusAccepted {
		t.Fatalf("%d %s", code, answer)
	}
	q := r.await("/", 1)[0]
	// White space around a JSON value is none of it; inside, every byte stays.
	if string(q.data()) != data {
		t.Errorf("posted  %s\narrived %s", data, q.data())
	}
	checkAll(t, e.Secret, r.at("/"))
	if shown := s.until(q.id(), client.StatusDelivered); shown.Body != string(q.body) || shown.BodyEncoding != "utf8" {
		t.Errorf("sent  %s\nshown %s", q.body, shown.Body)
	}
	_, _, answer := s.raw(http.MethodGet, "/v1/events/"+q.id(), "", nil)
	if !bytes.Contains(answer, []byte(`"data":`+data)) {
		t.Errorf("the event is shown as %s", answer)
	}
	if q.value("Content-Length") != strconv.Itoa(len(q.body)) || len(q.values("Content-Type")) != 1 {
		t.Errorf("head %q", q.head)
	}
}

// randomJSON makes a value with the layouts and letters that serialisers change.
func randomJSON(rnd *rand.Rand, depth int) string {
	space := strings.Repeat(" ", rnd.IntN(3)) + []string{"", "\t", "\r"}[rnd.IntN(3)]
	switch n := rnd.IntN(8); {
	case n == 0 && depth > 0:
		var parts []string
		for range rnd.IntN(4) {
			parts = append(parts, randomJSON(rnd, depth-1))
		}
		return space + "[" + strings.Join(parts, ",") + "]" + space
	case n <= 3 && depth > 0:
		var parts []string
		for range rnd.IntN(4) {
			parts = append(parts, fmt.Sprintf(`%s"%c"%s:%s`, space, 'a'+rnd.IntN(3), space, randomJSON(rnd, depth-1)))
		}
		return "{" + strings.Join(parts, ",") + space + "}"
	case n == 4:
		return []string{"1.0", "1E+2", "-0", "12345678901234567890.10", "0.1e-7"}[rnd.IntN(5)]
	case n == 5:
		return []string{"true", "null", "{}", "[]", `""`}[rnd.IntN(5)]
	default:
		return `"` + []string{"x", "é\\u00e9", "<&>", "\\/", "\u2028", "日本", "\\ud83d\\ude00😀"}[rnd.IntN(7)] + `"`
	}
}

func TestFault_B24_RandomBodiesOnEveryAttempt(t *testing.T) {
	t.Parallel()
	const events, tries = 200, 5
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	r := newReceiver(t)
	r.on("/", failing(tries-1))
	s := start(t, options{lapse: 1_000_000})
	e := s.endpoint(r.url("/"))
	var lines []client.NewEvent
	for i := range events {
		data := randomJSON(rnd, 4)
		if i == 0 { // as large as one may be
			data = `"` + strings.Repeat("é", (256<<10)/2-1) + `"`
		}
		data = strings.ReplaceAll(data, "\r", " ") // a line break ends a line of NDJSON
		lines = append(lines, client.NewEvent{ID: "e" + strconv.Itoa(i), Type: "a.b", Data: []byte(strings.TrimSpace(data))})
	}
	results, err := s.SendEvents(t.Context(), lines)
	if err != nil {
		t.Fatal(err)
	}
	for i, result := range results {
		if result.Err() != nil {
			t.Fatalf("%s: %v", lines[i].Data, result.Err())
		}
	}
	all := map[string][]*request{}
	for _, q := range r.await("/", events*tries) {
		all[q.id()] = append(all[q.id()], q)
	}
	for _, line := range lines {
		got := all[line.ID]
		if len(got) != tries {
			t.Errorf("%s: %d tries, want %d", line.ID, len(got), tries)
		}
		checkAll(t, e.Secret, got)
		for n, q := range got {
			if !bytes.Equal(q.data(), line.Data) || !bytes.Equal(q.body, got[0].body) {
				t.Errorf("try %d: posted %q, arrived %q", n+1, line.Data, q.data())
			}
		}
	}
	if err := all["e1"][0].forged("whsec_" + strings.Repeat("A", 44)); err == nil {
		t.Error("it verifies with another secret too")
	}
}

func TestFault_B25_FreshTimestampOnEachTry(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.on("/", status(503), status(503), status(503), status(200))
	// The second retry's five minutes pass in 0.3 s, the third's half an hour in
	// 1.8 s.
	s := start(t, options{lapse: 1000})
	e := s.endpoint(r.url("/"))
	id := s.send(`{"n":1}`)
	d := s.until(id, client.StatusDelivered)
	all := r.at("/")
	if len(all) != 4 || d.AttemptCount != 4 {
		t.Fatalf("%d requests, %d attempts", len(all), d.AttemptCount)
	}
	checkAll(t, e.Secret, all)
	var stamps []int64
	for _, q := range all {
		seconds, err := strconv.ParseInt(q.value("webhook-timestamp"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if off := q.at.Sub(time.Unix(seconds, 0)); off < 0 || off > 3*time.Second {
			t.Errorf("sent at %s with the timestamp %d", q.at, seconds)
		}
		if q.id() != id || !bytes.Equal(q.body, all[0].body) {
			t.Errorf("ID %q, body %q", q.id(), q.body)
		}
		stamps = append(stamps, seconds)
	}
	if stamps[3] <= stamps[0] {
		t.Errorf("timestamps %v: the last try is seconds later than the first", stamps)
	}
}

func TestFault_B68_OneKeyManyContents(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	s := start(t, options{})
	s.endpoint(r.url("/"))
	if _, err := s.CreateTenant(t.Context(), client.NewTenant{ID: "other"}); err != nil {
		t.Fatal(err)
	}
	other := s.caller
	copied := *s.Client
	copied.Tenant = "other"
	other.Client = &copied
	s.Tenant = "default"
	other.endpoint(r.url("/other"))
	publish := func(tenant, id, kind, data string) (int, http.Header, []byte) {
		return s.raw(http.MethodPost, "/v1/events", "application/json", []byte(`{"id":"`+id+`","type":"`+kind+`","data":`+data+`}`), "Posthorn-Tenant", tenant)
	}
	steps := []struct {
		tenant, id, kind, data string
		want                   int
		replayed               bool
	}{
		{"default", "k1", "a.b", `{"n":1}`, 202, false},
		{"default", "k1", "a.b", `{"n":2}`, 409, false},
		{"default", "k1", "a.b", `{ "n":1 }`, 409, false}, // bytes, not meaning
		{"default", "k1", "a.c", `{"n":1}`, 409, false},
		{"default", "k1", "a.b", `{"n":1}`, 200, true},
		{"other", "k1", "a.b", `{"n":2}`, 202, false},
		{"default", "k", "a.b", `1`, 202, false},
		{"default", strings.Repeat("k", 128), "a.b", `1`, 202, false},
		{"default", strings.Repeat("k", 256), "a.b", `1`, 422, false},
		{"default", "%00", "a.b", `1`, 422, false},
		{"default", "😀", "a.b", `1`, 422, false},
		{"default", "k.1", "a.b", `1`, 422, false},
	}
	for _, step := range steps {
		code, header, answer := publish(step.tenant, step.id, step.kind, step.data)
		if code != step.want || (header.Get("Posthorn-Replayed") == "true") != step.replayed {
			t.Errorf("%+v: %d %s", step, code, answer)
		}
		if code == 409 && (!bytes.Contains(answer, []byte(`"conflict_id"`)) || !bytes.Contains(answer, []byte(`"first_accepted_at"`))) {
			t.Errorf("%+v: %s", step, answer)
		}
	}
	r.await("/", 3)
	r.await("/other", 1)
	s.quiet()
	if got := sorted(ids(r.at("/"))); len(got) != 3 || got[1] != "k1" {
		t.Errorf("arrived %q", got)
	}
	if q := r.at("/other"); len(q) != 1 || string(q[0].data()) != `{"n":2}` {
		t.Errorf("the other tenant got %d", len(q))
	}
}

func TestFault_B69_ManyPatternsOneDelivery(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	s := start(t, options{})
	s.endpoint(r.url("/x"), events("*", "*", "order.*", "order.paid"))
	publish := func() client.Accepted {
		accepted, err := s.SendEvent(t.Context(), client.NewEvent{Type: "order.paid", Data: []byte(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		return accepted
	}
	if a := publish(); a.Deliveries != 1 {
		t.Errorf("%d deliveries, want one", a.Deliveries)
	}
	r.await("/x", 1)
	s.quiet()
	if n := len(r.at("/x")); n != 1 {
		t.Errorf("%d requests, want one", n)
	}
	// A second endpoint with the same URL is another one.
	s.endpoint(r.url("/x"), events("order.paid"))
	if a := publish(); a.Deliveries != 2 {
		t.Errorf("%d deliveries, want two", a.Deliveries)
	}
	r.await("/x", 3)
}

func TestFault_B76_TargetAsWritten(t *testing.T) {
	t.Parallel()
	const target = "/a/b;v=1/?foo=123&bar=XYZ&foo=9&empty=&flag&q=a+b%20c"
	r := newReceiver(t)
	r.on("/a/b;v=1/", status(500), status(200))
	s := start(t, options{lapse: 1000})
	s.endpoint(r.url(target + "#frag"))
	s.until(s.send(`1`), client.StatusDelivered)
	all := r.at("/a/b;v=1/")
	if len(all) != 2 {
		t.Fatalf("%d requests", len(all))
	}
	for i, q := range all {
		if want := "POST " + target + " HTTP/1.1"; q.line() != want {
			t.Errorf("try %d: %s\nwant   %s", i+1, q.line(), want)
		}
	}
}

func TestFault_B76_HostOfAnIPv6Literal(t *testing.T) {
	t.Parallel()
	r := receiverAt(t, "[::1]:0", nil)
	s := start(t, options{allow: []string{"::1"}})
	s.endpoint(r.url("/x"))
	s.until(s.send(`1`), client.StatusDelivered)
	if want := "[::1]:" + strconv.Itoa(int(r.port())); r.at("/x")[0].value("Host") != want {
		t.Errorf("Host %q, want %q", r.at("/x")[0].value("Host"), want)
	}
}

func TestFault_B87_TakenWholeOrRefused(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 1024)
	for i := range noise {
		noise[i] = byte(rand.IntN(256))
	}
	noise[0] = 0xff // so that it is surely no JSON
	payloads := map[string][]byte{
		"empty": nil, "letter": []byte("x"), "form": []byte("a=1+2&b==&c=%2B"), "xml": []byte("\xef\xbb\xbf<a/>"), "noise": noise,
		"lines": []byte("{\"a\":1}\n{\"b\":2}\n"), "null": []byte("null"), "array": []byte("[]"), "bom": []byte("\xef\xbb\xbf{}"),
		"deep":  []byte(strings.Repeat("[", 5000) + strings.Repeat("]", 5000)),
		"utf16": []byte("{\x00}\x00"), "broken": []byte("\"\xc3\x28\""), "string": []byte(`"x"`), "number": []byte("1e400"),
	}
	r := newReceiver(t)
	s := start(t, options{})
	e := s.endpoint(r.url("/"))
	taken := map[string]string{}
	for name, payload := range payloads {
		for _, mediaType := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16", "application/json"} {
			asData := slices.Concat([]byte(`{"type":"a.b","data":`), payload, []byte("}"))
			for i, in := range [][]byte{payload, asData} {
				code, _, answer := s.raw(http.MethodPost, "/v1/events", mediaType, in)
				switch {
				case code == http.StatusAccepted && i == 1 && mediaType == "application/json":
					taken[idOf(answer)] = string(payload)
				case code != 400 && code != 415 && code != 422:
					t.Errorf("%s as %q (%d): %d %s", name, mediaType, i, code, answer)
				}
			}
		}
	}
	if len(taken) < 4 {
		t.Errorf("only %d payloads were taken", len(taken))
	}
	eventually(t, "all that was taken", func() bool { return len(r.at("/")) >= len(taken) })
	s.quiet()
	checkAll(t, e.Secret, r.at("/"))
	for _, q := range r.at("/") {
		if string(q.data()) != taken[q.id()] || q.value("Content-Type") != "application/json" {
			t.Errorf("%s: posted %.60q, arrived %.60q", q.id(), taken[q.id()], q.data())
		}
		delete(taken, q.id())
	}
	if len(taken) != 0 {
		t.Errorf("lost or doubled: %v", taken)
	}
}
