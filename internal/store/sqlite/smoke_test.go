package sqlite

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

type plainSealer struct{}

func (plainSealer) Seal(p, _ []byte) ([]byte, error) { return append([]byte("x"), p...), nil }
func (plainSealer) Open(s, _ []byte) ([]byte, error) { return s[1:], nil }
func (plainSealer) Fingerprint() []byte              { return []byte("f") }
func (plainSealer) Matches(f []byte) bool            { return string(f) == "f" }
func (plainSealer) NeedsReseal([]byte) bool          { return false }

func BenchmarkAcceptRecord(b *testing.B) {
	ctx := context.Background()
	d, err := Open(ctx, Config{Dir: b.TempDir(), Sealer: plainSealer{}, Now: time.Now()})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	now := time.Now()
	e, err := d.CreateEndpoint(ctx, &webhook.Endpoint{ID: "ep_1", Tenant: "default", URL: "http://x/", Events: []string{"*"}, Contract: "standard", ContractRevision: "r", State: webhook.EndpointActive, MaxInFlight: 10, CreatedAt: now, StateSince: now})
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 1024)
	var wg sync.WaitGroup
	work := make(chan int)
	for range 128 {
		wg.Go(func() {
			for range work {
				r, err := d.Accept(ctx, []store.AcceptParams{{Tenant: "default", Revision: 2, Targets: []store.Target{{Endpoint: e.Key, Contract: "standard", ContractRevision: "r"}}, Type: "a.b", Data: data, Now: time.Now()}})
				if err != nil || r[0].Err != nil {
					panic(fmt.Sprint(err, r))
				}
				w := r[0].Fresh[0]
				done := make(chan error)
				d.Record(store.RecordParams{Ref: w.Ref, Tenant: w.Tenant, Endpoint: w.Endpoint, Round: 1, Attempt: &webhook.Attempt{Round: 1, Try: 1, Counted: true, At: time.Now(), StatusCode: 200, Address: "127.0.0.1:80", Response: []byte("ok")}, Status: contract.StatusDelivered, Health: true, Now: time.Now()}, func(_ store.RecordResult, err error) { done <- err })
				if err := <-done; err != nil {
					panic(err)
				}
			}
		})
	}
	b.ResetTimer()
	for i := range b.N {
		work <- i
	}
	close(work)
	wg.Wait()
}
