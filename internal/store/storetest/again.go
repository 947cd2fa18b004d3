package storetest

import (
	"sync"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func againCases() []testCase {
	known := Options{Contract: promises}
	return []testCase{
		{name: "TestContract_P7_AllOrNone", opts: known, run: allOrNone},
		{name: "TestEngine_N13_AResendIsARound", opts: known, run: resendIsARound},
		{name: "TestContract_S11_RedeliveryReplacesTheOldRow", opts: known, run: redeliveryReplaces},
		{name: "TestContract_E11_TheNewestOfAnEventAtAnEndpoint", opts: known, run: newestOfAnEvent},
		{name: "TestFault_B91_TwoAtOnce", opts: known, run: twoAtOnce},
		{name: "TestEngine_N17_AResendIsNotHitByTheMarkBefore", opts: known, run: resendAfterMark},
		{name: "TestStore_SendAgain_RefusesWhatNoDecisionMay", opts: known, run: refusesWhatNoDecisionMay},
	}
}

func allOrNone(f *fixture) {
	e := f.endpoint("a")
	done, waits, failed := f.sendUnder(switchContract, e), f.sendUnder(switchContract, e), f.sendUnder(switchContract, e)
	f.record(f.success(done))
	f.record(f.end(failed, contract.StatusFailed, webhook.WhyExhausted))
	before, told := f.snapshot(), f.heard.count()
	results := f.again(resent, done.DeliveryID, waits.DeliveryID, "dlv_nothing", failed.DeliveryID)
	f.same("results", len(results), 4)
	f.fails(results[1].Err, errRefused)
	f.fails(results[2].Err, store.ErrNotFound)
	for _, i := range []int{0, 3} {
		f.same("of one that could be", results[i], store.SentAgain{})
	}
	f.same("nothing is stored", f.snapshot(), before)
	f.same("nothing is told", f.heard.count(), told)

	// One that is named twice goes out once.
	results = f.again(resent, done.DeliveryID, failed.DeliveryID, done.DeliveryID)
	f.same("results", results, []store.SentAgain{{ID: done.DeliveryID}, {ID: failed.DeliveryID}, {ID: done.DeliveryID}})
	changes := f.heard.since(told)
	if len(changes) != 1 || len(changes[0].Accepted) != 2 || changes[0].Tenant != webhook.DefaultTenant {
		f.Fatalf("told %+v", changes)
	}
	f.restart()
	got := f.window(e, f.now).Work
	f.same("due", refs(got), []webhook.Ref{done.Ref, failed.Ref, waits.Ref}) // what a person asked for goes first
	f.same("told", changes[0].Accepted[0].Ref, done.Ref)
	if got[0].Round != 2 || !got[0].Once || got[0].Trigger != contract.TriggerResend || !got[0].ByPerson {
		f.Fatalf("work is %+v", got[0])
	}
}

func resendIsARound(f *fixture) {
	e := f.endpoint("a")
	w := f.sendUnder(switchContract, e)
	f.record(f.failure(w, f.now))
	w.Attempts++
	f.record(f.end(w, contract.StatusFailed, webhook.WhyExhausted))
	before := f.delivery(w)
	f.again(resent, w.DeliveryID)
	d := f.delivery(w)
	if d.ID != before.ID || d.WebhookID != before.WebhookID || d.Status != contract.StatusPending || d.Round != 2 || d.AttemptCount != 0 ||
		!d.Once || !d.FinishedAt.IsZero() || d.Trigger != contract.TriggerResend || d.ReplacedBy != "" || !d.CreatedAt.Equal(before.CreatedAt) {
		f.Fatalf("delivery is %+v", d)
	}
	round := f.window(e, f.now).Work[0]
	f.record(f.success(round))
	f.record(f.failure(w, f.now)) // of the round before: it changes nothing
	f.restart()
	d = f.delivery(w)
	if d.Status != contract.StatusDelivered || d.AttemptCount != 1 {
		f.Fatalf("delivery is %+v", d)
	}
	var numbers, rounds, tries []int
	for _, a := range f.attempts(w) {
		numbers, rounds, tries = append(numbers, a.Number), append(rounds, a.Round), append(tries, a.Try)
	}
	f.same("numbers", numbers, []int{1, 2, 3, 4})
	f.same("rounds", rounds, []int{1, 1, 2, 1})
	f.same("tries", tries, []int{1, 2, 1, 2})
}

func redeliveryReplaces(f *fixture) {
	e := f.endpoint("a")
	old := f.dead(f.sendUnder(noticeContract, e))
	first := f.sendUnder(noticeContract, e) // waits before it
	id := f.again(redelivered, old.DeliveryID)[0].ID
	was, is := f.delivery(old), f.byID(id)
	if was.Status != contract.StatusRedelivered || was.ReplacedBy != id || was.Replaces != "" || len(f.attempts(old)) != 1 {
		f.Fatalf("the old one is %+v", was)
	}
	if is.Status != contract.StatusPending || is.Replaces != old.DeliveryID || is.ReplacedBy != "" || is.Event != old.EventID || is.Round != 1 ||
		is.AttemptCount != 0 || is.Trigger != contract.TriggerRedelivery || is.WebhookID == was.WebhookID || is.WebhookID != id {
		f.Fatalf("the new one is %+v", is)
	}
	f.fails(f.again(redelivered, old.DeliveryID)[0].Err, errRefused)
	f.restart()
	f.same("due", f.due(e, f.now), []webhook.Ref{first.Ref, is.Ref})
	f.record(f.success(f.window(e, f.now).Work[1]))
	f.same("delivered", f.byID(id).Status, contract.StatusDelivered)
	f.same("the old row stays", f.delivery(old).Status, contract.StatusRedelivered)
}

func newestOfAnEvent(f *fixture) {
	a, b := f.endpoint("a"), f.endpoint("b")
	p := f.event(a, b)
	p.ID = "x"
	work := f.accept(p)[0].Fresh
	ask := func(event, endpoint string) (string, error) {
		results, err := f.SendAgain(f.ctx, store.SendAgainParams{
			Tenant: webhook.DefaultTenant, Event: event, Endpoint: endpoint, Decide: replayed, Now: f.now, Ready: f.now,
		})
		if err != nil {
			return "", err
		}
		f.same("results", len(results), 1)
		return results[0].ID, results[0].Err
	}
	_, err := ask("x", "a")
	f.fails(err, store.ErrNotFound) // none has ended
	f.record(f.success(work[0]))
	id, err := ask("x", "a")
	f.ok(err)
	d := f.byID(id)
	if d.Endpoint != "a" || d.Event != "x" || d.Trigger != contract.TriggerReplay || d.Round != 1 || d.WebhookID != "x" {
		f.Fatalf("the new one is %+v", d)
	}
	old := f.delivery(work[0])
	if old.Status != contract.StatusDelivered || old.ReplacedBy != d.ID {
		f.Fatalf("the old one is %+v", old)
	}
	// While the newest waits, the newest that has ended is meant.
	f.record(f.end(f.window(a, f.now).Work[0], contract.StatusFailed, webhook.WhyExhausted))
	seen := ""
	_, err = f.SendAgain(f.ctx, store.SendAgainParams{
		Tenant: webhook.DefaultTenant, Event: "x", Endpoint: "a", Now: f.now, Ready: f.now,
		Decide: func(d *webhook.Delivery, e *webhook.Endpoint) (store.Again, error) {
			seen = d.ID
			return replayed(d, e)
		},
	})
	f.ok(err)
	f.same("asked about", seen, id)
	for _, c := range [][2]string{{"nothing", "a"}, {"x", "nothing"}, {"x", "b"}} {
		_, err := ask(c[0], c[1])
		f.fails(err, store.ErrNotFound)
	}
	test := f.event(b)
	test.ID, test.Trigger = "test", contract.TriggerTest
	f.record(f.success(f.accept(test)[0].Fresh[0]))
	_, err = ask("test", "b")
	f.fails(err, store.ErrNotFound)
}

// Of two wishes at once one is granted, the other sees that it waits; the log's
// numbers stay unique and rise.
func twoAtOnce(f *fixture) {
	e := f.endpoint("a")
	w := f.sendUnder(switchContract, e)
	f.record(f.success(w))
	const rounds, callers = 5, 4
	for range rounds {
		results := make([]store.SentAgain, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() { results[i] = f.again(resent, w.DeliveryID)[0] })
		}
		wg.Wait()
		granted := 0
		for _, r := range results {
			if r.Err == nil {
				granted++
			} else {
				f.fails(r.Err, errRefused)
			}
		}
		f.same("granted", granted, 1)
		due := f.window(e, f.now).Work
		f.same("due", len(due), 1)
		f.record(f.success(due[0]))
	}
	f.restart()
	log := f.attempts(w)
	f.same("attempts", len(log), 1+rounds)
	for i, a := range log {
		f.same("number", a.Number, i+1)
		f.same("round", a.Round, i+1)
	}
}

// What a mark has skipped can be resent, whether its row says so already or not,
// and the round is not the mark's.
func resendAfterMark(f *fixture) {
	e := f.endpoint("a")
	work := f.sendMany(e, 30)
	at := f.later(time.Minute)
	_, err := f.UpdateEndpoint(f.ctx, e.Tenant, e.ID, at, func(*webhook.Endpoint) (store.EndpointUpdate, error) {
		return store.EndpointUpdate{Skip: webhook.WhySwitchedOff}, nil
	})
	f.ok(err)
	ids := []string{work[3].DeliveryID, work[29].DeliveryID}
	f.same("results", f.again(resent, ids...), []store.SentAgain{{ID: ids[0]}, {ID: ids[1]}})
	for range 2 {
		f.says("resent", work[3], contract.StatusPending, webhook.WhyNone, contract.KindNone)
		f.says("not resent", work[4], contract.StatusSkipped, webhook.WhySwitchedOff, contract.KindNone)
		f.same("due", f.due(e, f.later(time.Hour)), []webhook.Ref{work[3].Ref, work[29].Ref})
		f.restart()
	}
}

func refusesWhatNoDecisionMay(f *fixture) {
	e := f.endpoint("a")
	waits, gone := f.send(e), f.send(e)
	yes := func(*webhook.Delivery, *webhook.Endpoint) (store.Again, error) { return store.Again{}, nil }
	if f.again(yes, waits.DeliveryID)[0].Err == nil {
		f.Fatal("one that waits was sent again")
	}
	f.record(f.success(gone))
	f.ok(f.DeleteEndpoint(f.ctx, e.Tenant, e.ID, false, f.now))
	asked := false
	results := f.again(func(_ *webhook.Delivery, e *webhook.Endpoint) (store.Again, error) {
		asked = e == nil
		return store.Again{}, nil
	}, gone.DeliveryID)
	f.fails(results[0].Err, store.ErrNotFound)
	f.same("asked without an endpoint", asked, true)
	f.same("delivered stays", f.delivery(gone).Status, contract.StatusDelivered)
}
