package contract

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func standard(t testing.TB) *Contract {
	t.Helper()
	c, ok := Builtin(Standard)
	if !ok {
		text, _ := BuiltinYAML(Standard)
		_, err := Parse(text)
		t.Fatalf("the built-in contract does not parse: %v", err)
	}
	return c
}

func failed(try, status int) Tried {
	return Tried{
		Terms: Terms{Trigger: TriggerEvent}, Try: try, EndpointOn: true, EndedAt: time.Unix(1_700_000_000, 0),
		Answer: Answer{Kind: KindHTTPStatus, StatusCode: status},
	}
}

// The schedule of the standard contract: ten attempts, 75 h 35 m 5 s in all
// before jitter.
func TestContract_S2_ScheduleOfStandard(t *testing.T) {
	t.Parallel()
	c := standard(t)
	want := []time.Duration{
		5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour,
		20 * time.Hour, 24 * time.Hour,
	}
	total := time.Duration(0)
	for i, w := range want {
		d := c.After(failed(i+1, 500), 0.5)
		if d.Status != StatusPending || d.Ending != ByRetry || d.Wait != w || !d.Counted {
			t.Errorf("after try %d: %+v, want a wait of %s", i+1, d, w)
		}
		total += d.Wait
	}
	if total != 75*time.Hour+35*time.Minute+5*time.Second {
		t.Errorf("the whole schedule takes %s", total)
	}
	d := c.After(failed(10, 500), 0.5)
	if d.Status != StatusFailed || d.Ending != ByExhaustion || len(d.Emit) != 1 || d.Emit[0] != "webhook.failed" {
		t.Errorf("after the last try: %+v", d)
	}
}

func TestContract_S2_JitterIsEvenAndBounded(t *testing.T) {
	t.Parallel()
	c := standard(t)
	if low := c.After(failed(2, 500), 0).Wait; low != 270*time.Second {
		t.Errorf("shortest wait is %s, want 4m30s", low)
	}
	if high := c.After(failed(2, 500), 0.999999999).Wait; high < 329*time.Second || high > 330*time.Second {
		t.Errorf("longest wait is %s, want 5m30s", high)
	}
}

func TestContract_S4_RetryAfterNeverShortens(t *testing.T) {
	t.Parallel()
	c := standard(t)
	for name, test := range map[string]struct {
		try    int
		header string
		want   time.Duration
	}{
		"longer than the schedule":  {1, "120", 120 * time.Second},
		"shorter than the schedule": {3, "120", 30 * time.Minute},
		"over its cap":              {1, "999999", 24 * time.Hour},
		"absurdly long":             {1, "99999999999999999999999", 24 * time.Hour},
		"zero":                      {1, "0", 5 * time.Second},
		"negative":                  {1, "-5", 5 * time.Second},
		"a word":                    {1, "soon", 5 * time.Second},
		"a date ahead":              {1, "Tue, 14 Nov 2023 22:15:20 GMT", 120 * time.Second},
		"RFC 850":                   {1, "Tuesday, 14-Nov-23 22:15:20 GMT", 120 * time.Second},
		"asctime":                   {1, "Tue Nov 14 22:15:20 2023", 120 * time.Second},
		"a date past":               {1, "Tue, 14 Nov 2023 22:00:00 GMT", 5 * time.Second},
	} {
		in := failed(test.try, 503)
		in.Answer.RetryAfter = test.header
		if got := c.After(in, 0.5).Wait; got != test.want {
			t.Errorf("%s: wait %s, want %s", name, got, test.want)
		}
	}
}

func TestContract_S4_GoneStopsAndDisables(t *testing.T) {
	t.Parallel()
	c := standard(t)
	in := failed(1, 410)
	in.Answer.Kind = KindGone
	d := c.After(in, 0.5)
	if d.Status != StatusFailed || d.Ending != ByStop || !d.Disable {
		t.Errorf("410: %+v", d)
	}
	in.Trigger = TriggerTest
	if d := c.After(in, 0.5); d.Disable || d.Health {
		t.Errorf("410 to a test: %+v", d)
	}
	in = failed(1, 0)
	in.Answer.Kind = KindUnsafeURL
	if d := c.After(in, 0.5); d.Status != StatusFailed || d.Disable {
		t.Errorf("blocked URL: %+v", d)
	}
}

// S6's part of a pause under way: a 2xx counts, anything else leaves it waiting,
// logged and not counted.
func TestContract_S6_PausedWhileUnderWay(t *testing.T) {
	t.Parallel()
	c := standard(t)
	in := failed(3, 500)
	in.EndpointOn = false
	d := c.After(in, 0.5)
	if d.Status != StatusPending || d.Kind != KindPaused || d.Counted || d.Health {
		t.Errorf("failed meanwhile: %+v", d)
	}
	in.Answer = Answer{StatusCode: 204}
	if d := c.After(in, 0.5); d.Status != StatusDelivered {
		t.Errorf("delivered meanwhile: %+v", d)
	}
	in.EndpointDeleted = true
	if d := c.After(in, 0.5); d.Status != StatusDelivered {
		t.Errorf("delivered though the endpoint was deleted: %+v", d)
	}
}

func TestContract_S6_KindOfEachStatus(t *testing.T) {
	t.Parallel()
	c := standard(t)
	for status, want := range map[int]FailureKind{
		200: KindNone, 201: KindNone, 204: KindNone, 226: KindNone, 299: KindNone,
		101: KindHTTPStatus, 300: KindRedirect, 304: KindRedirect, 399: KindRedirect,
		400: KindClientError, 404: KindClientError, 409: KindClientError, 425: KindClientError, 451: KindClientError,
		408: KindHTTPStatus, 413: KindHTTPStatus, 429: KindHTTPStatus, 410: KindGone,
		500: KindHTTPStatus, 503: KindHTTPStatus, 599: KindHTTPStatus, 600: KindHTTPStatus, 999: KindHTTPStatus,
	} {
		if got := c.Classify(status); got != want {
			t.Errorf("status %d is %q, want %q", status, got, want)
		}
	}
	if len(FailureKinds()) != 10 {
		t.Errorf("S6 has ten kinds, found %d", len(FailureKinds()))
	}
}

// The settled order of rules before a try.
func TestContract_OrderBeforeATry(t *testing.T) {
	t.Parallel()
	c := standard(t)
	now := time.Unix(1_700_000_000, 0)
	all := Facts{
		Trigger: TriggerEvent, EndpointDeleted: true, EventGone: true, ExpiresAt: now, EndpointOn: false, Due: now.Add(time.Hour),
	}
	steps := []struct {
		want Verdict
		mend func(*Facts)
	}{
		{Drop, func(f *Facts) { f.EndpointDeleted = false }},
		{EndMissing, func(f *Facts) { f.EventGone = false }},
		{EndExpired, func(f *Facts) { f.ExpiresAt = now.Add(time.Nanosecond) }},
		{Hold, func(f *Facts) { f.EndpointOn = true }},
		{WaitForTime, func(f *Facts) { f.Due = now }},
		{Try, func(*Facts) {}},
	}
	for _, s := range steps {
		if got := c.Before(all, now); got != s.want {
			t.Errorf("%+v: %s, want %s", all, got, s.want)
		}
		s.mend(&all)
	}
	test := Facts{Trigger: TriggerTest, Due: now}
	if got := c.Before(test, now); got != Try {
		t.Errorf("a test while off: %s", got)
	}
}

// Whatever the answers: attempts never exceed the contract's, a wait is never
// shorter than min(Retry-After, its cap) nor outside the schedule's jitter else,
// and there is exactly one final state.
func TestContract_S2_AnyAnswers(t *testing.T) {
	t.Parallel()
	c := standard(t)
	kinds := []FailureKind{KindHTTPStatus, KindClientError, KindGone, KindTimeout, KindNetwork, KindRedirect, KindUnsafeURL, KindNone}
	rapid.Check(t, func(r *rapid.T) {
		for try := 1; ; try++ {
			if try > c.Attempts(Terms{}) {
				r.Fatalf("try %d of %d", try, c.Attempts(Terms{}))
			}
			in := failed(try, 0)
			in.Answer.Kind = rapid.SampledFrom(kinds).Draw(r, "kind")
			asked := time.Duration(0)
			if in.Answer.Kind == KindHTTPStatus && rapid.Bool().Draw(r, "asks") {
				in.Answer.StatusCode, in.Answer.RetryAfter = 503, "3600"
				asked = time.Hour
			}
			d := c.After(in, rapid.Float64Range(0, 0.999999).Draw(r, "random"))
			if d.Status.Final() {
				if (d.Status == StatusDelivered) != (in.Answer.Kind == KindNone) {
					r.Fatalf("%s ended %s", in.Answer.Kind, d.Status)
				}
				return
			}
			base := c.Schedule.Waits[try].Std()
			low, high := base*9/10-1, base*11/10+1
			if d.Wait < max(low, asked) || d.Wait > max(high, asked) {
				r.Fatalf("wait %s after try %d (schedule %s, asked %s)", d.Wait, try, base, asked)
			}
		}
	})
}
