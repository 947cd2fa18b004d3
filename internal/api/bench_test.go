package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/posthorn/posthorn/internal/publish"
)

// acceptingPublisher accepts everything at once, so that only the edge is measured.
type acceptingPublisher struct{}

func (acceptingPublisher) Publish(_ context.Context, _ string, events []publish.Event) ([]publish.Result, error) {
	results := make([]publish.Result, len(events))
	for i := range results {
		results[i] = publish.Result{ID: "evt_01k8x3m5t2f4v9z7q1c6b8n0da", Deliveries: 1}
	}
	return results, nil
}

// discard is an answer that nobody keeps.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

// BenchmarkPublish is what the edge costs for one event of 1 KiB with a tenant's
// key: routing, key, tenant, body, parsing, answer.
func BenchmarkPublish(b *testing.B) {
	f := newFixture(b, func(c *Config) { c.Publisher = acceptingPublisher{} })
	key := f.send(to("POST", "/v1/tenants/default/keys", `{"scopes":["publish"]}`)).is(201).text("key")
	body := `{"type":"link.created","data":{"text":"` + strings.Repeat("x", 1000) + `"}}`
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		w := &discard{}
		for pb.Next() {
			r := httptest.NewRequestWithContext(context.Background(), "POST", "/v1/events", strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer "+key)
			r.Header.Set("Content-Type", "application/json")
			w.header = http.Header{}
			f.api.ServeHTTP(w, r)
		}
	})
}
