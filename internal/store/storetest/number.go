package storetest

import (
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func numberCases() []testCase {
	return []testCase{
		{name: "TestEngine_N13_NumbersAreUniqueAndRising", run: numbersRise},
		{name: "TestEngine_N13_UncountedTriesDoNotCount", run: uncountedTriesDoNotCount},
	}
}

// Number counts the log's rows: counted tries, interruptions and superseded ones
// alike, also over a restart.
func numbersRise(f *fixture) {
	e := f.endpoint("a")
	w := f.send(e)
	next := func() store.Work { return f.window(e, f.now.Add(time.Hour)).Work[0] }

	f.record(f.failure(w, f.now))
	cut := f.failure(next(), f.now)
	cut.Attempt.Counted, cut.Interrupted = false, 1
	f.record(cut)
	f.record(f.failure(w, f.now)) // superseded: a failure of the first try once more
	f.restart()
	f.record(f.failure(next(), f.now))
	f.record(f.success(next()))
	f.record(f.success(w)) // superseded after the end

	var numbers, tries []int
	var superseded []bool
	ids := map[string]bool{}
	for _, a := range f.attempts(w) {
		numbers, tries, superseded = append(numbers, a.Number), append(tries, a.Try), append(superseded, a.Superseded)
		ids[a.ID] = true
	}
	f.same("numbers", numbers, []int{1, 2, 3, 4, 5, 6})
	f.same("tries", tries, []int{1, 2, 1, 2, 3, 1})
	f.same("superseded", superseded, []bool{false, false, true, false, false, true})
	f.same("IDs", len(ids), 6)
	d := f.delivery(w)
	if d.Status != contract.StatusDelivered || d.AttemptCount != 3 {
		f.Fatalf("delivery is %+v", d)
	}
}

func uncountedTriesDoNotCount(f *fixture) {
	e := f.endpoint("a")
	w := f.send(e)
	for i := 1; i <= 3; i++ {
		p := f.failure(w, f.now)
		p.Attempt.Counted, p.Interrupted, p.Counts, p.Reason = false, i, false, webhook.WhyInterrupted
		if r := f.record(p); !r.Applied {
			f.Fatalf("interruption %d was not applied", i)
		}
		got := f.window(e, f.now).Work[0]
		if got.Attempts != 0 || got.Interrupted != i || got.Rows != i {
			f.Fatalf("after interruption %d: %+v", i, got)
		}
	}
	f.record(f.failure(w, f.now))
	got := f.window(e, f.now).Work[0]
	if got.Attempts != 1 || got.Interrupted != 0 || got.Rows != 4 {
		f.Fatalf("after a counted try: %+v", got)
	}
	f.same("failures", f.getEndpoint(e).Health.FailuresInRow, 1)
}
