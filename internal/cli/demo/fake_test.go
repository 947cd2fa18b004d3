package demo_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthorn/posthorn/signature"
)

// fake is a server that delivers, honestly unless told otherwise.
type fake struct {
	*httptest.Server
	// forget drops the deliveries to this endpoint though it promised them.
	forget string
	// forge signs with another secret.
	forge bool
	// twice delivers again what was delivered.
	twice bool

	scheme     signature.Scheme
	mu         sync.Mutex
	events     int
	endpoints  map[string]fakeEndpoint
	deliveries []map[string]any
	stop       chan struct{}
	work       sync.WaitGroup
}

type fakeEndpoint struct {
	ID     string   `json:"id"`
	URL    string   `json:"url"`
	Events []string `json:"events"`
	Secret string   `json:"secret"`
}

const (
	fakeSecret  = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	otherSecret = "whsec_IB8eHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgE="
)

func newFake(t *testing.T) *fake {
	t.Helper()
	scheme, _ := signature.Lookup("standardwebhooks", "")
	f := &fake{scheme: scheme, endpoints: map[string]fakeEndpoint{}, stop: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/endpoints", f.createEndpoint)
	mux.HandleFunc("GET /v1/endpoints/{id}", func(w http.ResponseWriter, r *http.Request) {
		reply(w, 200, map[string]any{"id": r.PathValue("id"), "waiting": 3})
	})
	mux.HandleFunc("POST /v1/events", f.publish)
	mux.HandleFunc("GET /v1/deliveries", func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		reply(w, 200, map[string]any{"data": f.deliveries, "next": nil})
	})
	f.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		close(f.stop)
		f.work.Wait()
		f.Close()
	})
	return f
}

func reply(w http.ResponseWriter, status int, v any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (f *fake) createEndpoint(w http.ResponseWriter, r *http.Request) {
	var e fakeEndpoint
	_ = json.NewDecoder(r.Body).Decode(&e)
	e.ID, e.Secret = "ep_"+e.URL[strings.LastIndexByte(e.URL, '/')+1:], fakeSecret
	f.mu.Lock()
	f.endpoints[e.ID] = e
	f.mu.Unlock()
	reply(w, 201, e)
}

func (f *fake) publish(w http.ResponseWriter, r *http.Request) {
	var e struct {
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	_ = json.NewDecoder(r.Body).Decode(&e)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events++
	id := fmt.Sprintf("evt_%d", f.events)
	for _, endpoint := range f.endpoints {
		if !slices.Contains(endpoint.Events, "*") && !slices.Contains(endpoint.Events, e.Type) {
			continue
		}
		d := map[string]any{"id": "dlv", "status": "pending"}
		f.deliveries = append(f.deliveries, d)
		if endpoint.ID != "ep_"+f.forget {
			f.work.Go(func() { f.deliver(endpoint, id, fmt.Sprintf(`{"type":%q,"data":%s}`, e.Type, e.Data), d) })
		}
	}
	reply(w, 202, map[string]any{"id": id, "deliveries": 1})
}

// deliver tries every 10 ms until a 2xx comes.
func (f *fake) deliver(e fakeEndpoint, id, body string, d map[string]any) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		status := f.try(e, id, body)
		f.mu.Lock()
		if status >= 200 && status <= 299 {
			d["status"] = "delivered"
		} else {
			d["reason"] = "retry"
		}
		f.mu.Unlock()
		if status >= 200 && status <= 299 {
			if f.twice {
				f.try(e, id, body)
			}
			return
		}
		select {
		case <-f.stop:
			return
		case <-tick.C:
		}
	}
}

func (f *fake) try(e fakeEndpoint, id, body string) int {
	secret := fakeSecret
	if f.forge {
		secret = otherSecret
	}
	key, err := f.scheme.ParseKey(secret)
	if err != nil {
		return 0
	}
	req, err := http.NewRequest(http.MethodPost, e.URL, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0
	}
	msg := signature.Message{ID: id, Timestamp: time.Now().Unix(), Body: []byte(body)}
	if err := f.scheme.SetHeaders(req.Header, msg, key); err != nil {
		return 0
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}
