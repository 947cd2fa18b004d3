package storetest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
)

// Database is one installation's data for as long as a test runs.
type Database interface {
	// Open opens the data and closes the store when the test ends, if the test
	// did not. Opening again after Close is a restart.
	Open(tb testing.TB, o Options) store.Store
	// Stall holds the store's commits back until release is called; what is
	// submitted meanwhile waits, in order.
	Stall(tb testing.TB, s store.Store) (release func())
}

// Factory makes an empty database.
type Factory func(tb testing.TB) Database

// Options are what a test asks of an opened store.
type Options struct {
	// Now stamps what opening writes.
	Now time.Time
	// DueNow is the clock that due times are told by (N20).
	DueNow func() time.Time
	// OnChange hears of commits, see store.Change.
	OnChange func(store.Change)
	// Contract finds a contract's revision in memory; nil takes Builtin.
	Contract func(name, revision string) *contract.Contract
	// QueueRows and QueueBytes bound the writer's queue (N5); zero takes the
	// driver's own.
	QueueRows, QueueBytes int
}

// Builtin is the built-in contract of a name in whatever revision; nil for
// another name.
func Builtin(name, _ string) *contract.Contract { return builtins()[name] }

// builtins reads them once: every row that is shown asks.
var builtins = sync.OnceValue(func() map[string]*contract.Contract { //nolint:gochecknoglobals // because it is worked out once and never written
	all := map[string]*contract.Contract{}
	for _, name := range contract.BuiltinNames() {
		all[name], _ = contract.Builtin(name)
	}
	return all
})

// testCase is one rule, proved on a database of its own.
type testCase struct {
	name string
	opts Options
	run  func(*fixture)
}

// Run runs the suite.
func Run(t *testing.T, factory Factory) {
	all := slices.Concat(
		acceptCases(), idempotencyCases(), overloadCases(), revisionCases(), laneCases(), markCases(), recordCases(), numberCases(),
		operationalCases(), healthCases(), eventCases(), deliveryCases(), filterCases(), pageCases(), endpointCases(),
		tenantCases(), keyCases(), isolationCases(), concurrencyCases(),
		skipCases(), catchUpCases(), keepCases(),
		lineCases(), termsCases(), turnCases(),
		auditCases(), contractCases(), shownCases(), againCases(), runCases(), replayCases(), waitingCases(),
	)
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(newFixture(t, factory, c.opts))
		})
	}
}
