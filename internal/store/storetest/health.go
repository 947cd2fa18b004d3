package storetest

import (
	"sync"
	"time"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func healthCases() []testCase {
	return []testCase{
		{name: "TestStore_Health_FollowsOutcomes", run: healthFollowsOutcomes},
		{name: "TestStore_Health_AChangeSeesAndMayClearIt", run: changeSeesHealth},
		{name: "TestStore_Health_ManyAtOnceLoseNone", run: healthLosesNone},
	}
}

func healthFollowsOutcomes(f *fixture) {
	e := f.endpoint("a")
	at := func(seconds int) time.Time { return start().Add(time.Duration(seconds) * time.Second) }
	want := webhook.Health{}
	step := func(what string, p store.RecordParams) {
		f.Helper()
		f.record(p)
		f.same(what, f.getEndpoint(e).Health, want)
	}
	work := f.sendMany(e, 6)

	f.now = at(1)
	want = webhook.Health{FailuresInRow: 1, FirstFailureAt: at(1), LastAttemptAt: at(1)}
	step("first failure", f.failure(work[0], at(100)))
	f.now = at(2)
	want.FailuresInRow, want.LastAttemptAt = 2, at(2)
	step("second failure", f.failure(work[1], at(100)))
	f.now = at(3)
	p := f.failure(work[2], at(100))
	p.Counts = false
	step("one that does not count", p)
	f.now = at(4)
	want = webhook.Health{LastSuccessAt: at(4), LastAttemptAt: at(4)}
	step("success", f.success(work[3]))
	f.now = at(3)
	want.FailuresInRow, want.FirstFailureAt = 1, at(3)
	step("what is told late does not turn stamps back", f.failure(work[4], at(100)))
	f.restart()
	f.same("after a restart", f.getEndpoint(e).Health, want)
	f.now = at(6)
	want.FailuresInRow, want.LastAttemptAt = 2, at(6)
	step("goes on after a restart", f.failure(work[5], at(100)))
}

func changeSeesHealth(f *fixture) {
	e := f.endpoint("a")
	work := f.sendMany(e, 3)
	f.record(f.failure(work[0], f.now))
	f.record(f.failure(work[1], f.now))
	seen := 0
	after := f.change(e, func(e *webhook.Endpoint) {
		seen = e.Health.FailuresInRow
		e.Health.FailuresInRow, e.Health.FirstFailureAt = 0, time.Time{}
	})
	f.same("seen", seen, 2)
	f.same("answered", after.Health, f.getEndpoint(e).Health)
	f.record(f.failure(work[2], f.now))
	f.same("counted anew", f.getEndpoint(e).Health.FailuresInRow, 1)
}

func healthLosesNone(f *fixture) {
	e := f.endpoint("a")
	work := f.sendMany(e, 64)
	var wg sync.WaitGroup
	for _, w := range work {
		wg.Go(func() {
			if r := <-f.begin(f.failure(w, f.now)); r.err != nil {
				f.Error(r.err)
			}
		})
		if w.Ref%16 == 0 {
			f.change(e, func(e *webhook.Endpoint) { e.Description += "." })
		}
	}
	wg.Wait()
	f.same("failures", f.getEndpoint(e).Health.FailuresInRow, len(work))
}
