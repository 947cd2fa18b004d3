package storetest

import (
	"bytes"
	"fmt"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func recordCases() []testCase {
	return []testCase{
		{name: "TestEngine_N12_CompareAndSet", run: compareAndSet},
		{name: "TestEngine_N12_SuccessIsAbsorbing", run: successIsAbsorbing},
		{name: "TestEngine_N12_StaleFailureChangesNothing", run: staleFailureChangesNothing},
		{name: "TestEngine_N12_OutcomeIsRecordedWhole", run: outcomeIsRecordedWhole},
		{name: "TestEngine_N12_EndWithoutATry", run: endWithoutATry},
		{name: "TestEngine_N12_DoneIsCalledOnceInOrder", run: doneIsCalledInOrder},
		{name: "TestEngine_N12_MissingDeliveryIsNoError", run: missingDeliveryIsNoError},
		{name: "TestFault_B05_LargeAnswersAreRecorded", run: largeAnswersAreRecorded},
	}
}

// outcomes are what a try can mean, for the tables below.
func (f *fixture) outcomes(w store.Work) map[string]store.RecordParams {
	return map[string]store.RecordParams{
		"success": f.success(w),
		"retry":   f.failure(w, f.now.Add(time.Hour)),
		"failed":  f.end(w, contract.StatusFailed, webhook.WhyExhausted),
		"dead":    f.end(w, contract.StatusDead, webhook.WhyStopped),
	}
}

// Every outcome against every state of the delivery: it applies only where
// round, attempts and "not final" hold; a success is absorbed wherever the
// delivery still waits; the attempt stands in the log in any case.
func compareAndSet(f *fixture) {
	states := []struct {
		name    string
		final   bool
		current bool
		prepare func(store.Work) store.Work // what the recorder believes
	}{
		{"current", false, true, func(w store.Work) store.Work { return w }},
		{"another round", false, false, func(w store.Work) store.Work { w.Round++; return w }},
		{"earlier attempts", false, false, func(w store.Work) store.Work { f.record(f.failure(w, f.now)); return w }},
		{"later attempts", false, false, func(w store.Work) store.Work { w.Attempts++; return w }},
		{"delivered", true, false, func(w store.Work) store.Work { f.record(f.success(w)); return w }},
		{"failed", true, false, func(w store.Work) store.Work {
			f.record(f.end(w, contract.StatusFailed, webhook.WhyExhausted))
			return w
		}},
		{"canceled", true, false, func(w store.Work) store.Work {
			_, err := f.CancelDelivery(f.ctx, w.Tenant, w.DeliveryID, f.now)
			f.ok(err)
			return w
		}},
	}
	for _, state := range states {
		for outcome := range f.outcomes(store.Work{}) {
			name := fmt.Sprintf("%s onto %s", outcome, state.name)
			e := f.endpoint(fmt.Sprintf("e%d", f.revision(webhook.DefaultTenant)))
			w := f.send(e)
			seen := state.prepare(w)
			before, log := f.delivery(w), len(f.attempts(w))

			r := f.record(f.outcomes(seen)[outcome])
			absorbed := !state.current && !state.final && outcome == "success"
			f.same(name, r, store.RecordResult{Applied: state.current, Absorbed: absorbed})

			after, attempts := f.delivery(w), f.attempts(w)
			if len(attempts) != log+1 || attempts[log].Superseded == state.current {
				f.Errorf("%s: log is %+v", name, attempts)
			}
			if !r.Applied && !r.Absorbed {
				f.same(name+": delivery", after, before)
				continue
			}
			want := f.outcomes(seen)[outcome].Status
			waits := len(f.due(e, f.now.Add(time.Hour))) == 1
			if after.Status != want || waits == want.Final() || after.FinishedAt.IsZero() == want.Final() {
				f.Errorf("%s: after it %+v, waits %v", name, after, waits)
			}
		}
	}
}

// A 2xx of an owner that is none any more still ends the delivery, and what was
// planned with it.
func successIsAbsorbing(f *fixture) {
	e := f.endpoint("a")
	w := f.send(e)
	f.record(f.failure(w, f.now.Add(time.Hour)))
	late := f.success(w)
	late.Now = f.now.Add(time.Minute)
	late.Attempt = attempt(&w, late.Now, 204)
	r := f.record(late)
	f.same("result", r, store.RecordResult{Absorbed: true})
	d := f.delivery(w)
	if d.Status != contract.StatusDelivered || !d.NextAttemptAt.IsZero() || !d.FinishedAt.Equal(late.Now) || d.FailureKind != contract.KindNone {
		f.Fatalf("delivery is %+v", d)
	}
	f.same("waiting", len(f.due(e, f.now.Add(2*time.Hour))), 0)
	health := f.getEndpoint(e).Health
	if health.FailuresInRow != 0 || !health.LastSuccessAt.Equal(late.Now) {
		f.Fatalf("health is %+v", health)
	}
	// What comes after it is only noted.
	f.same("after it", f.record(f.success(w)), store.RecordResult{})
	f.same("log", len(f.attempts(w)), 3)
}

func staleFailureChangesNothing(f *fixture) {
	e := f.endpoint("a")
	w := f.send(e)
	f.record(f.failure(w, f.now.Add(time.Minute)))
	before, health, lane := f.delivery(w), f.getEndpoint(e), f.window(e, f.now.Add(time.Minute))
	told := f.heard.count()

	late := f.end(w, contract.StatusDead, webhook.WhyStopped)
	late.Now = f.now.Add(time.Second)
	late.Disable = webhook.ReasonGone
	late.Emit = []store.AcceptParams{f.operational(webhook.TypeEndpointDisabled)}
	f.same("result", f.record(late), store.RecordResult{})
	f.same("delivery", f.delivery(w), before)
	f.same("endpoint", f.getEndpoint(e), health)
	lane.Work[0].Rows++ // the log alone grew
	f.same("lane", f.window(e, f.now.Add(time.Minute)), lane)
	f.same("events", f.countEvents(webhook.DefaultTenant), 1)
	f.same("told", f.heard.count(), told)
}

func outcomeIsRecordedWhole(f *fixture) {
	e := f.endpoint("a")
	w := f.send(e)
	next := f.now.Add(90 * time.Second)
	p := f.failure(w, next)
	p.Attempt.Truncated, p.Attempt.Response = true, []byte("\xff\x00 any bytes")
	p.Attempt.Duration = 1234567 * time.Microsecond
	f.record(p)
	d := f.delivery(w)
	want := *d
	want.Status, want.Reason, want.FailureKind, want.StatusCode = contract.StatusPending, webhook.WhyRetry, contract.KindHTTPStatus, 500
	want.AttemptCount, want.Round, want.NextAttemptAt, want.Duration = 1, 1, next, p.Attempt.Duration
	want.FinishedAt = time.Time{}
	f.same("delivery", *d, want)

	log := f.attempts(w)
	row := *p.Attempt
	row.ID, row.Number = log[0].ID, 1
	f.same("log", log, []webhook.Attempt{row})

	w.Attempts++
	ended := f.success(w)
	ended.Now = next
	f.record(ended)
	d = f.delivery(w)
	if d.Status != contract.StatusDelivered || d.Reason != webhook.WhyNone || d.FailureKind != contract.KindNone || d.StatusCode != 200 ||
		d.AttemptCount != 2 || !d.FinishedAt.Equal(next) || !d.NextAttemptAt.IsZero() {
		f.Fatalf("delivery is %+v", d)
	}
}

// An end without a try (expired, event missing) leaves no row in the log.
func endWithoutATry(f *fixture) {
	e := f.endpoint("a")
	w := f.send(e)
	r := f.record(store.RecordParams{
		Ref: w.Ref, Tenant: w.Tenant, Endpoint: w.Endpoint, Round: 1, Status: contract.StatusFailed, Reason: webhook.WhyEventMissing,
		FailureKind: contract.KindEventMissing, Now: f.now,
	})
	d := f.delivery(w)
	if !r.Applied || d.Status != contract.StatusFailed || d.Reason != webhook.WhyEventMissing || d.FailureKind != contract.KindEventMissing ||
		d.AttemptCount != 0 || len(f.attempts(w)) != 0 || len(f.due(e, f.now)) != 0 {
		f.Fatalf("result %+v, delivery %+v", r, d)
	}
	f.same("health", f.getEndpoint(e).Health, webhook.Health{})
}

func doneIsCalledInOrder(f *fixture) {
	e := f.endpoint("a")
	work := f.sendMany(e, 200)
	order := make(chan webhook.Ref, 2*len(work))
	for _, w := range work {
		f.Record(f.success(w), func(r store.RecordResult, err error) {
			if err != nil || !r.Applied {
				f.Errorf("%+v, %v", r, err)
			}
			order <- w.Ref
		})
	}
	for _, w := range work {
		if got := <-order; got != w.Ref {
			f.Fatalf("%d was done before %d", got, w.Ref)
		}
	}
	f.ok(f.Ping(f.ctx))
	f.same("further calls", len(order), 0)
}

func missingDeliveryIsNoError(f *fixture) {
	e := f.endpoint("a")
	w := f.send(e)
	gone := w
	gone.Ref += 1000
	f.same("result", f.record(f.success(gone)), store.RecordResult{})
	f.same("others", f.delivery(w).Status, contract.StatusPending)
}

func largeAnswersAreRecorded(f *fixture) {
	e := f.endpoint("a")
	for _, size := range []int{70_000, 5 << 20} {
		w := f.send(e)
		p := f.success(w)
		p.Attempt.Response = bytes.Repeat([]byte("a"), size)
		if r := f.record(p); !r.Applied {
			f.Fatalf("an answer of %d bytes was not recorded", size)
		}
		f.same("status", f.delivery(w).Status, contract.StatusDelivered)
		log := f.attempts(w)
		if len(log) != 1 || (len(log[0].Response) != size && !log[0].Truncated) {
			f.Fatalf("%d bytes: %d rows, %d kept", size, len(log), len(log[0].Response))
		}
	}
}
