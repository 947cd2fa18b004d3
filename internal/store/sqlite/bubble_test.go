package sqlite

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthorn/posthorn/internal/store"
)

// The store works in a bubble of virtual time, which tests of the dispatcher rely
// on: a day passes at once, and nothing is left behind.
func TestStore_WorksInVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, err := Open(t.Context(), complete(Config{Dir: t.TempDir(), Now: time.Now(), checkpointPages: 50}))
		if err != nil {
			t.Fatal(err)
		}
		e := newTestEndpoint(t, d, "a")
		rev := testRevision(t, d)
		for hour := range 24 {
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					p := newTestEvent("", rev, e)
					p.Now = time.Now()
					results, err := d.Accept(t.Context(), []store.AcceptParams{p})
					if err != nil || results[0].Err != nil {
						t.Errorf("%v, %+v", err, results)
						return
					}
					time.Sleep(time.Minute)
					if r, err := recordOne(d, testSuccess(&results[0].Fresh[0], 200)); err != nil || !r.Applied {
						t.Errorf("%v, %+v", err, r)
					}
				})
			}
			wg.Wait()
			time.Sleep(time.Hour)
			w, err := d.ReadWindow(t.Context(), store.WindowParams{Endpoint: e.Key, Now: time.Now(), Limit: 10})
			if err != nil || len(w.Work) != 0 || !w.Complete {
				t.Fatalf("hour %d: %v, %+v", hour, err, w)
			}
		}
		if err := d.DeleteEndpoint(t.Context(), e.Tenant, e.ID, false, time.Now()); err != nil {
			t.Error(err)
		}
		synctest.Wait() // the janitor is done
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}
