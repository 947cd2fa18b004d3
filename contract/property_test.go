package contract

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Writing a contract and reading it gives the same promise under the same
// revision, whatever it says; and editors find nothing wrong with it.
func TestContract_AnyPromise_ReadsAsItWasWritten(t *testing.T) {
	t.Parallel()
	schema := compiled(t)
	promises := anyPromise()
	rapid.Check(t, func(r *rapid.T) {
		c := promises.Draw(r, "contract")
		text := c.Canonical()
		again, err := Parse(text)
		if err != nil {
			r.Fatalf("%v\n%s", err, text)
		}
		if !reflect.DeepEqual(again, withoutEmpty(c)) || again.Revision() != c.Revision() {
			r.Fatalf("read as\n%s\nwritten as\n%s", again.Canonical(), text)
		}
		if err := schema.Validate(document(t, text)); err != nil {
			r.Fatalf("%v\n%s", err, text)
		}
	})
}

// withoutEmpty is a copy with its empty lists as Parse gives them.
func withoutEmpty(c *Contract) *Contract {
	copied := *c
	if copied.Headers == nil {
		copied.Headers = []Field{}
	}
	if len(copied.Order.Key) == 0 {
		copied.Order.Key = nil
	}
	return &copied
}

// round is what the tests expect of a round's schedule, said in another way than
// by the code under test.
func round(c *Contract, t Terms) []Duration {
	if t.Trigger == TriggerTest || t.Once {
		return []Duration{0}
	}
	if t.Degraded && c.Degrade.After > 0 {
		return c.Degrade.Waits
	}
	return c.Schedule.Waits
}

func anyTerms() *rapid.Generator[Terms] {
	return rapid.Custom(func(r *rapid.T) Terms {
		return Terms{pick(r, "trigger", Triggers()...), rapid.Bool().Draw(r, "degraded"), rapid.IntRange(0, 9).Draw(r, "once") == 0}
	})
}

// anyAnswer draws an answer as the sender reports it; most are failures.
func anyAnswer(c *Contract) *rapid.Generator[Answer] {
	kinds := []FailureKind{KindTimeout, KindNetwork, KindUnsafeURL}
	return rapid.Custom(func(r *rapid.T) Answer {
		if rapid.IntRange(0, 3).Draw(r, "connection") == 0 {
			return Answer{Kind: pick(r, "kind", kinds...)}
		}
		a := Answer{StatusCode: pick(r, "status", 500, 503, 429, 404, 410, 302, rapid.IntRange(101, 999).Draw(r, "any status"))}
		a.Kind = c.Classify(a.StatusCode)
		a.RetryAfter = pick(r, "retry-after", "", "", "1", "120", "86400", "99999999999999999999", "0", "-3", "soon", "Tue, 14 Nov 2023 22:15:20 GMT", "Tue, 14 Nov 2017 22:15:20 GMT")
		return a
	})
}

// checkWait holds a wait against the schedule, its jitter and Retry-After.
func checkWait(r *rapid.T, c *Contract, in Tried, got time.Duration) {
	base := float64(round(c, in.Terms)[in.Try])
	low, high := time.Duration(base*(1-c.Schedule.Jitter))-1, time.Duration(base*(1+c.Schedule.Jitter))+1
	code := in.Answer.StatusCode
	heeded := code != 0 && (c.RetryAfter.Any || slices.Contains(c.RetryAfter.On, code))
	asked, understood := ParseRetryAfter(in.Answer.RetryAfter, in.EndedAt)
	if heeded && understood {
		asked = min(asked, c.RetryAfter.Max.Std())
		low, high = max(low, asked), max(high, asked)
		if c.RetryAfter.Mode == "replace" {
			low, high = asked, asked
		}
	}
	if got < 0 || got < low || got > high {
		r.Fatalf("try %d, %+v: a wait of %s, want %s to %s", in.Try, in.Answer, got, low, high)
	}
}

// checkEnd holds the end of a round against the reasons that there are for one.
func checkEnd(r *rapid.T, c *Contract, in Tried, d Decision) {
	i := slices.IndexFunc(c.Stop, func(s Stop) bool { return s.On == in.Answer.Kind })
	want := Status("")
	switch {
	case in.Answer.Kind == KindNone:
		want = StatusDelivered
	case in.EndpointDeleted:
		want = StatusCanceled
	case i >= 0:
		want = c.Stop[i].Status
	case in.Single():
		want = StatusFailed
	case !in.EndpointOn && c.Off.InFlight == FateSkip:
		want = StatusSkipped
	case in.EndpointOn && in.Try == len(round(c, in.Terms)):
		want = c.Exhausted.Status
	}
	if d.Status != want {
		r.Fatalf("try %d, %+v ended %q (%s), want %q", in.Try, in, d.Status, d.Ending, want)
	}
	stopped := d.Ending == ByStop
	if d.Disable != (stopped && c.Stop[max(i, 0)].Disable && in.Trigger != TriggerTest) {
		r.Fatalf("%+v asks to disable: %v", in, d.Disable)
	}
	if (len(d.Emit) > 0) != (d.Ending == ByExhaustion && !in.Single() && len(c.Exhausted.Emit) > 0) {
		r.Fatalf("%+v raises %v", in, d.Emit)
	}
}

// Whatever the contract, its terms and the answers: a round has at most as many
// counted tries as promised, each wait is as promised, and it ends once, in one
// final state.
func TestContract_S2_S4_AnyPromiseAnyAnswers(t *testing.T) {
	t.Parallel()
	promises := anyPromise()
	rapid.Check(t, func(r *rapid.T) {
		c := promises.Draw(r, "contract")
		for range 10 {
			playRound(r, c, anyTerms().Draw(r, "terms"))
		}
	})
}

func playRound(r *rapid.T, c *Contract, terms Terms) {
	promised := len(round(c, terms))
	if c.Attempts(terms) != promised || promised > len(c.Schedule.Waits) {
		r.Fatalf("%d attempts, want %d", c.Attempts(terms), promised)
	}
	now, try := time.Unix(simulationStart, 0), 1
	for n := 0; ; n++ {
		in := Tried{
			Terms: terms, Try: try, Answer: anyAnswer(c).Draw(r, "answer"), EndedAt: now,
			// Now and then the endpoint is paused or deleted meanwhile, and on again.
			EndpointOn: n > 200 || rapid.IntRange(0, 9).Draw(r, "on") > 0, EndpointDeleted: rapid.IntRange(0, 60).Draw(r, "deleted") == 0,
		}
		d := c.After(in, rapid.Float64Range(0, 0.9999999).Draw(r, "random"))
		if d.Status.Final() {
			checkEnd(r, c, in, d)
			return
		}
		switch d.Ending { //nolint:exhaustive // because the others are no endings of what waits
		case ByRetry:
			checkWait(r, c, in, d.Wait)
			now = now.Add(d.Wait)
			try++
		case ByPause: // held, and made again under its number
			if in.EndpointOn || d.Counted || d.Health || d.Kind != KindPaused {
				r.Fatalf("%+v: %+v", in, d)
			}
		default:
			r.Fatalf("%+v: pending by %q", in, d.Ending)
		}
		if try > promised {
			r.Fatalf("try %d of %d", try, promised)
		}
	}
}

// The same through Simulate: one final state at most, at the end, and no step
// after what ended the round or switched the endpoint off.
func TestContract_S2_AnySimulationEndsOnce(t *testing.T) {
	t.Parallel()
	promises := anyPromise()
	rapid.Check(t, func(r *rapid.T) {
		c := promises.Draw(r, "contract")
		answers := make([]Simulated, rapid.IntRange(1, 60).Draw(r, "answers"))
		for i := range answers {
			answers[i] = Simulated{Answer: anyAnswer(c).Draw(r, "answer"), Takes: span(r, "takes", 0, c.Timeout.Std()).Std()}
		}
		steps := c.Simulate(answers, func() float64 { return rapid.Float64Range(0, 0.9999999).Draw(r, "random") })
		if len(steps) == 0 || len(steps) > len(c.Schedule.Waits) || len(steps) > len(answers) {
			r.Fatalf("%d steps of %d answers and %d attempts", len(steps), len(answers), len(c.Schedule.Waits))
		}
		for i, s := range steps {
			last := i == len(steps)-1
			if s.Attempt != i+1 || s.Ended != (s.Status.Final() || s.EndpointOff != "") || s.Ended && !last {
				r.Fatalf("step %d of %d: %+v", i+1, len(steps), s)
			}
			if !last && (s.NextAt < s.At+answers[i].Takes || steps[i+1].At != s.NextAt) {
				r.Fatalf("step %d: %+v, then %+v", i+1, s, steps[i+1])
			}
		}
		if last := steps[len(steps)-1]; !last.Ended && len(steps) < len(answers) {
			r.Fatalf("answers are left, but it stops: %+v", last)
		}
	})
}

// Whatever comes in whatever order, and however the clock jumps: nobody is
// disabled, paused or marked without the failures in a row that it takes.
func TestEngine_N20_AnyPromiseJudgesOnlyByFailuresInRow(t *testing.T) {
	t.Parallel()
	promises := anyPromise()
	rapid.Check(t, func(r *rapid.T) {
		c := promises.Draw(r, "contract")
		now := time.Unix(simulationStart, 0)
		lapse := pick(r, "lapse", 1, 100)
		s := Standing{On: true}
		row, first := 0, time.Time{}
		for range rapid.IntRange(1, 80).Draw(r, "tries") {
			now = now.Add(pick(r, "passes", 0, time.Second, time.Hour, 100*24*time.Hour, -time.Hour, -100*24*time.Hour))
			if rapid.IntRange(0, 19).Draw(r, "renewed") == 0 {
				s, row, first = s.Renewed(), 0, time.Time{}
			}
			s.On = rapid.IntRange(0, 9).Draw(r, "on") > 0
			delivered := rapid.IntRange(0, 9).Draw(r, "delivered") == 0
			if row++; delivered {
				row, first = 0, time.Time{}
			} else if first.IsZero() {
				first = now
			}
			turn := c.Judge(s, delivered, now, lapse)
			if turn.After.FailuresInRow != row || !turn.After.FirstFailureAt.Equal(first) || turn.After.On != s.On {
				r.Fatalf("%+v, want %d failures in a row since %s", turn.After, row, first)
			}
			checkTurn(r, c, s, turn, now, lapse)
			s = turn.After
		}
	})
}

func checkTurn(r *rapid.T, c *Contract, before Standing, turn Turn, now time.Time, lapse int) {
	row := turn.After.FailuresInRow
	lack := c.Disable.NoSuccessFor.Std() / time.Duration(lapse)
	due := false
	switch turn.Became {
	case "":
		due = true
	case BecameDisabled:
		due = row >= 3 && c.Disable.NoSuccessFor > 0 && now.Sub(turn.After.FirstFailureAt) >= lack
	case BecamePaused:
		due = c.Pause.After > 0 && row >= c.Pause.After
	case BecameDegraded:
		due = c.Degrade.After > 0 && row >= c.Degrade.After && before.DegradedUntil.IsZero()
	}
	if !due || turn.Became != "" && (!before.On || row == 0) {
		r.Fatalf("after %d failures in a row: %+v", row, turn)
	}
	if turn.TellOwner != slices.Contains(c.TellOwner, turn.Became) {
		r.Fatalf("%q tells the owner: %v", turn.Became, turn.TellOwner)
	}
	if turn.Recovered && (row != 0 || !turn.After.DegradedUntil.IsZero()) {
		r.Fatalf("recovered, and still: %+v", turn.After)
	}
	if turn.After.LastSuccessAt.Before(before.LastSuccessAt) || turn.After.LastAttemptAt.Before(before.LastAttemptAt) {
		r.Fatalf("a clock that goes back takes times back: %+v", turn.After)
	}
}

// Whatever the contract: tests, and what has not ended or was replaced, are never
// sent again; what could be stopped for good has a way back.
func TestContract_S11_AnyPromiseSendsAgain(t *testing.T) {
	t.Parallel()
	promises := anyPromise()
	rapid.Check(t, func(r *rapid.T) {
		c := promises.Draw(r, "contract")
		for _, s := range Statuses() {
			for _, trigger := range Triggers() {
				way, off := c.SendAgain(s, trigger, true), c.SendAgain(s, trigger, false)
				never := trigger == TriggerTest || !s.Final() || s == StatusRedelivered
				if never && (way != AgainNot || off != AgainNot || c.Redelivers(s, trigger)) {
					r.Fatalf("%s by %s: %q", s, trigger, way)
				}
				if way == AgainOff || (off == AgainNot) != (way == AgainNot) || way != AgainNot && (off == AgainOff) != c.Resend.NeedsOn {
					r.Fatalf("%s by %s: %q while on, %q while off", s, trigger, way, off)
				}
			}
		}
		if c.Exhausted.Status == StatusDead && c.SendAgain(StatusDead, TriggerEvent, true) == AgainNot {
			r.Fatal("dead ones have no way back")
		}
	})
}
