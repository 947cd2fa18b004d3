package demo

import (
	"errors"
	"testing"
)

func TestLedger_OwesUntilA2xxCame(t *testing.T) {
	t.Parallel()
	all := stations()
	flaky := all[1]
	l := newLedger()
	l.accept("evt_1", typeClick, all)
	if got := l.missing(); got != 2 { // healthy and flaky
		t.Errorf("%d missing", got)
	}
	for try, want := range []int{2, 2, 2, 1} {
		if got := l.missing(); got != want {
			t.Errorf("%d missing after %d tries, want %d", got, try, want)
		}
		l.arrive(flaky, "evt_1", nil)
	}
	l.arrive(flaky, "evt_1", errors.New("bad"))
	var s Summary
	l.fill(&s)
	if want := (Summary{Accepted: 1, Verified: 4, Refused: 1, Duplicates: 1, Missing: 1}); s != want {
		t.Errorf("got %+v, want %+v", s, want)
	}
	if got := l.tally("flaky"); got.requests != 5 || got.failures != 3 || got.delivered != 1 || got.last != "bad sig." {
		t.Errorf("got %+v", got)
	}
}

func TestSummary_OK(t *testing.T) {
	t.Parallel()
	for _, s := range []Summary{{}, {Accepted: 1, Missing: 1}, {Accepted: 1, Refused: 1}} {
		if s.OK() {
			t.Errorf("%+v is taken for good", s)
		}
	}
	if s := (Summary{Accepted: 1, Failed: 3, Duplicates: 1}); !s.OK() {
		t.Errorf("%+v is taken for bad", s)
	}
}
