package sqlite

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

var lossRuns = flag.Uint64("lossruns", 2, "how many runs of the power loss test, each with its own seed")

// loss is a crash point: what had been acknowledged, and what the medium holds.
type loss struct {
	op    int
	fate  fate
	known *ledger
	left  wreck
}

// The power goes at random moments of a life with restarts, checkpoints and many
// callers. Whatever was acknowledged before is on the medium, whatever became of
// the rest, and the rest is there whole or not at all.
func TestEngine_N1_PowerLoss(t *testing.T) {
	t.Parallel()
	for seed := range *lossRuns {
		t.Run(fmt.Sprintf("seed%d", seed), func(t *testing.T) {
			t.Parallel()
			losses := loseOften(t, seed)
			if len(losses) < 10 {
				t.Fatalf("only %d crash points", len(losses))
			}
			root, acknowledged := t.TempDir(), 0
			for i, l := range losses {
				acknowledged += len(l.known.events)
				dir := l.left.folder(t, filepath.Join(root, fmt.Sprint(i)))
				if !t.Run(fmt.Sprintf("op%d_%s", l.op, slug(string(l.fate))), func(t *testing.T) { l.survives(t, dir) }) {
					break
				}
			}
			if acknowledged == 0 {
				t.Fatal("nothing had been acknowledged at any crash point")
			}
		})
	}
}

// survives opens what is left and looks for what was acknowledged.
func (l loss) survives(t *testing.T, dir string) {
	d := open(t, Config{Dir: dir, Readers: 1})
	l.known.check(t, d)
	checkWhole(t, d)
	e := newTestEndpoint(t, d, "after")
	results, err := d.Accept(context.Background(), []store.AcceptParams{newTestEvent("after", testRevision(t, d), e)})
	if err != nil || results[0].Err != nil {
		t.Errorf("it does not go on: %v, %+v", err, results)
	}
}

// loseOften runs a load and copies what a power loss would leave at random
// operations.
func loseOften(t *testing.T, seed uint64) []loss {
	random := rand.New(rand.NewPCG(seed, 1))
	known, mu := newLedger(), sync.Mutex{}
	disk := newDisk(t)
	var losses []loss
	op, next := 0, 1+random.IntN(60)
	disk.watch(func(io) error {
		if op++; op < next {
			return nil
		}
		next += 1 + random.IntN(240)
		mu.Lock()
		now := &ledger{events: maps.Clone(known.events), outcomes: maps.Clone(known.outcomes)}
		mu.Unlock()
		fate := fates()[len(losses)%len(fates())]
		losses = append(losses, loss{op: op, fate: fate, known: now, left: disk.lose(fate, random)})
		return nil
	})
	dir := t.TempDir()
	for life := range 3 {
		d := open(t, Config{Dir: dir, VFS: disk.name, Readers: 1, checkpointPages: 40})
		if life == 0 {
			newTestEndpoint(t, d, "a")
			newTestEndpoint(t, d, "b")
		}
		all, revisions, err := d.LoadSubscriptions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for caller := range 5 {
			wg.Go(func() {
				for n := range 8 {
					id := fmt.Sprintf("l%dc%dn%d", life, caller, n)
					live(t, d, &mu, known, newTestEvent(id, revisions[webhook.DefaultTenant], all...))
				}
			})
		}
		wg.Wait()
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	disk.watch(nil)
	return losses
}

// live takes an event in, records its deliveries, and notes what was answered.
func live(t *testing.T, d *DB, mu *sync.Mutex, known *ledger, p store.AcceptParams) {
	results, err := d.Accept(context.Background(), []store.AcceptParams{p})
	if err != nil || results[0].Err != nil {
		t.Errorf("%v, %+v", err, results)
		return
	}
	mu.Lock()
	known.events[p.ID] = len(p.Targets)
	mu.Unlock()
	for i, w := range slices.Backward(results[0].Fresh) {
		code := 200 + i
		if _, err := recordOne(d, testSuccess(&w, code)); err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		known.outcomes[w.DeliveryID] = code
		mu.Unlock()
	}
}

// The property can fail: a store that does not sync loses what it acknowledged.
func TestEngine_N1_PowerLossTestCanFail(t *testing.T) {
	t.Parallel()
	disk := newDisk(t)
	d := open(t, Config{Dir: t.TempDir(), VFS: disk.name, Readers: 1})
	if err := d.writer.conn.db.Exec(`PRAGMA synchronous = OFF`); err != nil {
		t.Fatal(err)
	}
	e := newTestEndpoint(t, d, "a")
	known, mu := newLedger(), sync.Mutex{}
	live(t, d, &mu, known, newTestEvent("x", testRevision(t, d), e))
	disk.mu.Lock()
	left := disk.lose(fateNone, rand.New(rand.NewPCG(1, 1)))
	disk.mu.Unlock()
	after := open(t, Config{Dir: left.folder(t, t.TempDir()), Readers: 1})
	if _, err := after.GetEvent(t.Context(), webhook.DefaultTenant, "x"); err == nil {
		t.Fatal("what was never synced survived: the disk of these tests loses nothing")
	}
}
