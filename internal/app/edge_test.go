package app

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthorn/posthorn/client"
	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/store/sqlite"
	"github.com/posthorn/posthorn/internal/webhook"
)

// flakyLog refuses the first outcomes that it is given.
type flakyLog struct {
	store.Lanes
	refuse atomic.Int32
	asked  atomic.Int32
}

func (f *flakyLog) Record(p store.RecordParams, done func(store.RecordResult, error)) {
	f.asked.Add(1)
	if f.refuse.Add(-1) >= 0 {
		go done(store.RecordResult{}, errors.New("insert into the log: the key exists"))
		return
	}
	f.Lanes.Record(p, done)
}

func TestFault_B04_LogThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	log := &flakyLog{}
	log.refuse.Store(3)
	s := start(t, options{lapse: 1000, seams: seams{lanes: func(l store.Lanes) store.Lanes {
		log.Lanes = l
		return log
	}}})
	s.endpoint(r.url("/"))
	d := s.until(s.send(`{}`), client.StatusDelivered)
	s.quiet()
	if n := len(r.at("/")); n != 1 {
		t.Errorf("%d requests, want one", n)
	}
	if len(d.Attempts) != 1 || d.Attempts[0].StatusCode != 200 {
		t.Errorf("%d attempts", len(d.Attempts))
	}
	if n := log.asked.Load(); n != 4 {
		t.Errorf("the outcome was written %d times, want 4", n)
	}
}

// walk pages through an endpoint's deliveries, seven at a time, to the end or,
// with back, to the beginning; it returns the IDs that keep wants, in the order of
// the list, and the page where it stopped.
func (c caller) walk(endpoint string, page client.PageOptions, back bool, keep func(id string) bool, most int) (ids []string, last client.Page[client.Delivery]) {
	c.t.Helper()
	page.Limit = 7
	for {
		got, err := c.ListDeliveries(c.t.Context(), client.DeliveryFilter{Endpoint: endpoint}, page)
		if err != nil {
			c.t.Fatal(err)
		}
		var kept []string
		for _, d := range got.Data {
			if keep(d.ID) {
				kept = append(kept, d.ID)
			}
		}
		page.Cursor = got.Next
		if back {
			page.Cursor = got.Prev
			ids = slices.Concat(kept, ids)
		} else {
			ids = append(ids, kept...)
		}
		if page.Cursor == "" || len(ids) >= most {
			return ids, got
		}
	}
}

func TestFault_B55_PagesUnderInserts(t *testing.T) {
	t.Parallel()
	const rows = 300
	s := start(t, options{})
	e := s.endpoint("https://receiver.example/")
	if _, err := s.PauseEndpoint(t.Context(), e.ID); err != nil {
		t.Fatal(err)
	}
	s.flood(rows) // a hundred of them in one commit
	known := map[string]bool{}
	for _, d := range s.list(client.DeliveryFilter{Endpoint: e.ID}) {
		known[d.ID] = true
	}
	keep := func(id string) bool { return known[id] }
	w := flooding(s.caller, 1, 1000)
	defer w.running.Wait()
	eventually(t, "inserts meanwhile", func() bool { return w.count() > 0 })
	for _, ascending := range []bool{false, true} {
		page := client.PageOptions{Ascending: ascending}
		forward, last := s.walk(e.ID, page, false, keep, rows)
		if n := len(slices.Compact(sorted(forward))); n != rows || len(forward) != rows {
			t.Errorf("ascending %v: %d rows, %d of them different, want %d", ascending, len(forward), n, rows)
		}
		page.Cursor = last.Prev
		var tail int
		for _, d := range last.Data {
			if known[d.ID] {
				tail++
			}
		}
		back, _ := s.walk(e.ID, page, true, keep, rows-tail)
		if !slices.Equal(back, forward[:rows-tail]) {
			t.Errorf("ascending %v: %d rows backwards, want %d in the same order", ascending, len(back), rows-tail)
		}
	}
}

// secretsOf are texts that may stand nowhere but in requests.
func secretsOf(secret string) []string {
	return []string{"S3CRET", "T0K3N", secret, strings.TrimPrefix(secret, "whsec_")}
}

func checkFree(t testing.TB, where string, text []byte, secrets []string) {
	t.Helper()
	for _, s := range secrets {
		if at := bytes.Index(text, []byte(s)); at >= 0 {
			t.Errorf("%s shows %q: …%q…", where, s, text[max(0, at-60):min(len(text), at+60)])
		}
	}
}

func TestFault_B81_SecretsStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	const secret = "whsec_QUFBQUJCQkJDQ0NDRERERGVlZWVmZmZm"
	cert := certificate(t, true, "r.example", "down.example", "private.example")
	r := newTLSReceiver(t, func(int) *tls.Certificate { return cert })
	r.on("/hook/T0K3N-500", status(500))
	r.on("/hook/T0K3N-cut", thenClose("HTTP/1.1 200 OK\r\nX-Broken"))
	dns := &names{answers: map[string][]string{
		"r.example": {"127.0.0.1"}, "bad.example": {"127.0.0.1"}, "down.example": {"127.0.0.2"}, "private.example": {"10.1.2.3"},
	}}
	s := start(t, options{metrics: true, seams: seams{resolver: dns}})
	secrets := secretsOf(secret)
	refused := func(method, path string, in string) {
		code, _, answer := s.raw(method, path, "application/json", []byte(in))
		if code < 400 {
			t.Errorf("%s was taken: %s", in, answer)
		}
		checkFree(t, "an error of the API", answer, secrets)
	}
	endpoint := func(url string) string {
		return fmt.Sprintf(`{"url":%q,"events":["*"],"secret":%q,"headers":{"Authorization":"Bearer S3CRET-4"}}`, url, secret)
	}
	refused("POST", "/v1/endpoints", endpoint(r.named("bob:S3CRET-1@r.example", "/hook/T0K3N-2")))
	refused("POST", "/v1/endpoints", endpoint("ftp://r.example/hook/T0K3N-2?token=S3CRET-3"))
	refused("POST", "/v1/endpoints", strings.Replace(endpoint(r.named("r.example", "/T0K3N")), "Bearer S3CRET-4", `S3CRET\r\nX: S3CRET`, 1))
	refused("POST", "/v1/endpoints", strings.Replace(endpoint(r.named("r.example", "/T0K3N")), secret, "whsec_S3CRET", 1))
	refused("POST", "/v1/endpoints", `{"url":"https://r.example/T0K3N","events":["*"],"other":"S3CRET"}`)
	refused("GET", "/v1/endpoints/ep_S3CRET?other=T0K3N", "")

	scenarios := map[string]string{
		"success": r.named("r.example", "/hook/T0K3N-2?token=S3CRET-3"), "500": r.named("r.example", "/hook/T0K3N-500?token=S3CRET-3"),
		"cut": r.named("r.example", "/hook/T0K3N-cut?token=S3CRET-3"), "refused": r.named("down.example", "/hook/T0K3N-2?token=S3CRET-3"),
		"tls": r.named("bad.example", "/hook/T0K3N-2?token=S3CRET-3"), "guard": r.named("private.example", "/hook/T0K3N-2?token=S3CRET-3"),
		"dns": r.named("none.example", "/hook/T0K3N-2?token=S3CRET-3"),
	}
	for name, url := range scenarios {
		s.endpoint(url, events(name), func(e *client.NewEndpoint) {
			e.Secret, e.Headers = secret, map[string]string{"Authorization": "Bearer S3CRET-4"}
		})
		accepted, err := s.SendEvent(t.Context(), client.NewEvent{Type: name, Data: []byte(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		d := s.tried(accepted.ID, 1)
		if (d.Status == client.StatusDelivered) != (name == "success") {
			t.Errorf("%s: %s, %q", name, d.Status, d.Attempts[0].Error)
		}
		_, _, shown := s.raw(http.MethodGet, "/v1/deliveries/"+d.ID, "", nil)
		checkFree(t, "the delivery of "+name, shown, secrets)
	}
	// They were sent, or the test would prove nothing.
	if q := r.at("/hook/T0K3N-2"); len(q) != 1 || q[0].value("Authorization") != "Bearer S3CRET-4" || q[0].forged(secret) != nil ||
		strings.Contains(q[0].value("Host"), "bob") {
		t.Errorf("%d requests arrived", len(q))
	}
	_, _, metrics := s.raw(http.MethodGet, "/metrics", "", nil)
	resp, err := s.HTTP.Get("http://" + s.app.metrics.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	open, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || !bytes.Contains(metrics, []byte("posthorn_")) || !bytes.Contains(open, []byte("posthorn_")) {
		t.Errorf("metrics: %v", err)
	}
	checkFree(t, "/metrics", append(metrics, open...), secrets)
	s.stop()
	checkFree(t, "the log", []byte(s.log.String()), append(secrets, operatorKey))
}

// An attempt that panics is a failed one, and what it panicked with is not shown.
func TestFault_B81_PanicsShowNothing(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	// No buffer has a negative size.
	s := start(t, options{lapse: 1_000_000, change: func(c *contract.Contract) { c.Response.Read = -2 }})
	e := s.endpoint(r.url("/T0K3N"), func(e *client.NewEndpoint) { e.Headers = map[string]string{"Authorization": "Bearer S3CRET-4"} })
	d := s.until(s.send(`{}`), client.StatusFailed)
	if len(d.Attempts) != 10 || len(r.at("/T0K3N")) != 10 {
		t.Errorf("%d attempts, %d requests", len(d.Attempts), len(r.at("/T0K3N")))
	}
	_, _, shown := s.raw(http.MethodGet, "/v1/deliveries/"+d.ID, "", nil)
	checkFree(t, "the delivery", shown, secretsOf(e.Secret))
	s.stop()
	if !strings.Contains(s.log.String(), "an attempt panicked") {
		t.Error("no word of it in the log")
	}
	checkFree(t, "the log", []byte(s.log.String()), secretsOf(e.Secret))
}

// A receiver may send back what it got at a moment when nothing was asked: the
// HTTP client must not write that down.
func TestFault_B81_UnaskedAnswersAreNotLogged(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	said := make(chan struct{})
	r.on("/T0K3N", func(x *exchange) bool {
		return write("HTTP/1.1 204 No Content\r\n\r\n")(x) && held(said, write(string(x.head)))(x)
	})
	p := launch(t, t.TempDir())
	e := p.endpoint(r.url("/T0K3N"), func(e *client.NewEndpoint) { e.Headers = map[string]string{"Authorization": "Bearer S3CRET-4"} })
	p.until(p.send(`{}`), client.StatusDelivered)
	close(said)
	eventually(t, "the connection's end", func() bool { return r.connected() == 0 })
	if code, _ := p.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	checkFree(t, "the log", []byte(p.stderr.String()), secretsOf(e.Secret))
}

func TestFault_B84_ABadRowFailsItsDeliveryOnly(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	s := start(t, options{lapse: 1_000_000})
	bad := s.endpoint(r.url("/bad"), func(e *client.NewEndpoint) { e.Headers = map[string]string{"X-A": "a"} })
	s.endpoint(r.url("/good"))
	s.stop()

	// Somebody changes the row by hand: nothing that checks stands in between.
	keys, err := keyring(&s.app.cfg)
	if err != nil {
		t.Fatal(err)
	}
	var db *sqlite.DB
	whenFree(t, func() (err error) {
		db, err = sqlite.Open(t.Context(), sqlite.Config{Dir: s.opt.dir, Sealer: keys, Now: time.Now(), Contract: s.app.contracts.Promised})
		return err
	})
	_, err = db.UpdateEndpoint(t.Context(), webhook.DefaultTenant, bad.ID, time.Now(), func(e *webhook.Endpoint) (store.EndpointUpdate, error) {
		e.Headers = []webhook.Header{{Name: "X-A", Value: webhook.NewSecretText("a\r\nX-Injected: 1")}}
		return store.EndpointUpdate{}, nil
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}

	s = start(t, s.opt)
	for range 20 {
		s.send(`{}`)
	}
	eventually(t, "the end of all", func() bool { return s.count(bad.ID, client.StatusFailed) == 20 })
	r.await("/good", 20)
	for _, d := range s.list(client.DeliveryFilter{Endpoint: bad.ID})[:1] {
		d, err := s.GetDelivery(t.Context(), d.ID)
		if err != nil || len(d.Attempts) != 10 || !strings.Contains(d.Attempts[0].Error, "damaged") {
			t.Errorf("%d attempts, the first %+v, %v", len(d.Attempts), d.Attempts[0], err)
		}
	}
	for _, q := range r.at("") {
		if q.path() != "/good" || len(q.values("X-Injected")) != 0 || len(q.values("Content-Length")) != 1 {
			t.Errorf("arrived %q", q.head)
		}
	}
	// Mended, it delivers.
	if _, err := s.UpdateEndpoint(t.Context(), bad.ID, client.EndpointPatch{Headers: map[string]*string{"X-A": nil}}); err != nil {
		t.Fatal(err)
	}
	s.send(`{}`)
	r.await("/bad", 1)
}

// The environment of all tests here names a proxy, under every name.
func TestFault_B85_EnvironmentProxiesSeeNothing(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	cert := certificate(t, true, "r2.example")
	secure := newTLSReceiver(t, func(int) *tls.Certificate { return cert })
	dns := &names{answers: map[string][]string{"r1.example": {"127.0.0.1"}, "r2.example": {"127.0.0.1"}, "r3.example": {"10.1.2.3"}}}
	s := start(t, options{seams: seams{resolver: dns}})
	s.endpoint(r.named("r1.example", "/"), events("one"))
	s.endpoint(secure.named("r2.example", "/"), events("two"))
	s.endpoint("http://r3.example/", events("three"))
	for kind, want := range map[string]client.DeliveryStatus{"one": client.StatusDelivered, "two": client.StatusDelivered, "three": client.StatusFailed} {
		accepted, err := s.SendEvent(t.Context(), client.NewEvent{Type: kind, Data: []byte(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		d := s.until(accepted.ID, want)
		if want == client.StatusFailed && d.FailureKind != client.KindUnsafeURL {
			t.Errorf("%s: %s", kind, d.FailureKind) // no weaker checks because of a proxy
		}
	}
	// What was in the queue of the proxy would be there by now.
	if err := shared.proxy.SetDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	conn, err := shared.proxy.Accept()
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("somebody came to the proxy: %v, %v", conn, err)
	}
	said := s.log.String()
	for _, name := range proxyVariables() {
		if !strings.Contains(said, name) {
			t.Errorf("the log does not say that %s is ignored", name)
		}
	}
	if strings.Contains(said, shared.proxy.Addr().String()) {
		t.Error("the log shows the proxy, whose URL may bear a password")
	}
}

// Nothing that is secret lies in a file in clear; what encrypts lies in files of
// its own, which nobody else may read.
func TestSecretsAtRest(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	s := start(t, options{})
	e := s.endpoint(r.url("/"), func(e *client.NewEndpoint) { e.Headers = map[string]string{"Authorization": "Bearer S3CRET-4"} })
	key, err := s.CreateKey(t.Context(), "default", client.NewAPIKey{Scopes: []client.Scope{client.ScopePublish}})
	if err != nil {
		t.Fatal(err)
	}
	s.until(s.send(`{}`), client.StatusDelivered)
	secrets := append(secretsOf(e.Secret), key.Key, key.Key[strings.LastIndex(key.Key, "_")+1:], operatorKey)
	look := func() (files int) {
		err := filepath.WalkDir(s.opt.dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			checkFree(t, filepath.Base(path), text, secrets)
			if info, err := d.Info(); err != nil || strings.HasSuffix(path, ".key") && info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %s, %v", path, info.Mode(), err)
			}
			files++
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	if look() < 3 { // with the write-ahead log
		t.Error("there are too few files to prove anything")
	}
	s.stop()
	look()
}

func TestEngine_N28_OwnListenersAreNeverCalled(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"127.0.0.1:0", "0.0.0.0:0"} {
		dns := &names{answers: map[string][]string{"self.example": {"127.0.0.1"}}}
		s := start(t, options{listen: listen, metrics: true, allow: []string{"127.0.0.0/8", "::1"}, seams: seams{resolver: dns}})
		_, port, err := net.SplitHostPort(s.app.Addr())
		if err != nil {
			t.Fatal(err)
		}
		s.BaseURL = "http://127.0.0.1:" + port
		urls := []string{
			"http://127.0.0.1:" + port + "/v1/events", "http://self.example:" + port + "/healthz", "http://" + s.app.metrics.Addr().String() + "/metrics",
		}
		if listen != "127.0.0.1:0" {
			urls = append(urls, "http://127.0.0.2:"+port+"/healthz")
		}
		for _, url := range urls {
			e := s.endpoint(url)
			d := s.until(s.send(`{}`), client.StatusFailed)
			if d.FailureKind != client.KindUnsafeURL || d.StatusCode != 0 || len(d.Attempts) != 1 || !strings.Contains(d.Attempts[0].Error, "this service itself") {
				t.Errorf("%s at %s: %s, status %d, %+v", url, listen, d.FailureKind, d.StatusCode, d.Attempts)
			}
			if err := s.DeleteEndpoint(t.Context(), e.ID); err != nil {
				t.Fatal(err)
			}
		}
		// Another port of the same address is open.
		r := newReceiver(t)
		s.endpoint(r.url("/"))
		s.until(s.send(`{}`), client.StatusDelivered)
	}
}
