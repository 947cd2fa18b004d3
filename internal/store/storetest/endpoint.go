package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func endpointCases() []testCase {
	return []testCase{
		{name: "TestStore_CreateEndpoint_KeepsEveryField", run: createKeepsEveryField},
		{name: "TestStore_CreateEndpoint_GivesAnID", run: createGivesAnID},
		{name: "TestStore_CreateEndpoint_Refusals", run: createRefusals},
		{name: "TestStore_UpdateEndpoint_SeesWhatIsCurrent", run: updateSeesWhatIsCurrent},
		{name: "TestStore_UpdateEndpoint_RefusalChangesNothing", run: updateRefusal},
		{name: "TestStore_UpdateEndpoint_SecretsAndHeaders", run: updateSecrets},
		{name: "TestFault_B59_DeletedAtOnce", run: deletedAtOnce},
		{name: "TestFault_B61_DeletedEndpointsRowsEnd", run: deletedRowsEnd},
		{name: "TestStore_DeleteEndpoint_IDCanBeUsedAgain", run: deletedIDCanBeUsedAgain},
		{name: "TestStore_CountWaiting", run: countWaiting},
		{name: "TestStore_LoadSubscriptions_IsWhatWasTold", run: subscriptionsAreWhatWasTold},
	}
}

// fullEndpoint has something in every field.
func fullEndpoint(id string, now time.Time) *webhook.Endpoint {
	e := newEndpoint(webhook.DefaultTenant, id, now)
	e.Events = []string{"link.*", "click", "quote\"d", "ünïcode"}
	e.State, e.StateReason, e.StateSince = webhook.EndpointPaused, webhook.ReasonPerson, now.Add(-time.Minute)
	e.Description, e.Metadata = "what it is for", map[string]string{"team": "a b", "": "empty", "ü": "\"x\""}
	e.Headers = []webhook.Header{
		{Name: "X-B", Value: webhook.NewSecretText("header value one")}, {Name: "X-A", Value: webhook.NewSecretText("two")},
		{Name: "X-B", Value: webhook.NewSecretText("three")},
	}
	e.Secrets = []webhook.SigningSecret{
		{ID: "sec_2", Text: webhook.NewSecretText("whsec_present"), CreatedAt: now},
		{ID: "sec_1", Text: webhook.NewSecretText("whsec_before"), CreatedAt: now.Add(-time.Hour), ExpiresAt: now.Add(time.Hour)},
	}
	e.Health = webhook.Health{FailuresInRow: 3, FirstFailureAt: now.Add(-3 * time.Second), LastSuccessAt: now.Add(-4 * time.Second), LastAttemptAt: now}
	return e
}

func createKeepsEveryField(f *fixture) {
	in := fullEndpoint("full", f.now)
	made, err := f.CreateEndpoint(f.ctx, in)
	f.ok(err)
	if made.Key == 0 || made.Version != 1 {
		f.Fatalf("made %+v", made)
	}
	want := fullEndpoint("full", f.now)
	want.Key, want.Version, want.UpdatedAt = made.Key, 1, f.now
	f.same("answered", made, want)
	f.same("read", f.getEndpoint(in), want)
	told := f.heard.since(0)
	f.same("told", told[len(told)-1].Endpoint, want)
	f.restart()
	f.same("after a restart", f.getEndpoint(in), want)
	all, _, err := f.LoadSubscriptions(f.ctx)
	f.ok(err)
	f.same("loaded", all, []*webhook.Endpoint{want})
}

func createGivesAnID(f *fixture) {
	seen := map[string]bool{}
	for range 3 {
		made, err := f.CreateEndpoint(f.ctx, newEndpoint(webhook.DefaultTenant, "", f.now))
		f.ok(err)
		if !strings.HasPrefix(made.ID, webhook.PrefixEndpoint+"_") || !webhook.ValidCallerID(made.ID) || seen[made.ID] {
			f.Fatalf("ID is %q", made.ID)
		}
		seen[made.ID] = true
		f.same("read", f.getEndpoint(made), made)
	}
}

func createRefusals(f *fixture) {
	f.tenant("t2")
	e := f.endpoint("a")
	_, err := f.CreateEndpoint(f.ctx, newEndpoint(webhook.DefaultTenant, "a", f.now))
	f.fails(err, store.ErrExists)
	_, err = f.CreateEndpoint(f.ctx, newEndpoint("nobody", "b", f.now))
	f.fails(err, store.ErrNotFound)
	other := f.endpointOf("t2", "a") // the same ID in another tenant is free
	if other.Key == e.Key {
		f.Fatal("two endpoints have one key")
	}
	f.same("the first", f.getEndpoint(e), e)
}

func updateSeesWhatIsCurrent(f *fixture) {
	e := f.endpoint("a")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			_, err := f.UpdateEndpoint(f.ctx, e.Tenant, e.ID, f.now, func(e *webhook.Endpoint) (store.EndpointUpdate, error) {
				e.MaxInFlight++
				return store.EndpointUpdate{}, nil
			})
			if err != nil {
				f.Error(err)
			}
		})
	}
	wg.Wait()
	got := f.getEndpoint(e)
	if got.MaxInFlight != e.MaxInFlight+20 || got.Version != e.Version+20 {
		f.Fatalf("in flight %d, version %d", got.MaxInFlight, got.Version)
	}
	at := f.now.Add(time.Hour)
	after, err := f.UpdateEndpoint(f.ctx, e.Tenant, e.ID, at, func(e *webhook.Endpoint) (store.EndpointUpdate, error) {
		full := fullEndpoint(e.ID, f.now)
		full.Key, full.Version = e.Key, e.Version
		*e = *full
		return store.EndpointUpdate{}, nil
	})
	f.ok(err)
	if !after.UpdatedAt.Equal(at) || !after.CreatedAt.Equal(f.now) {
		f.Fatalf("after %+v", after)
	}
	f.same("every field", f.getEndpoint(e), after)
}

func updateRefusal(f *fixture) {
	e := f.endpoint("a")
	told := f.heard.count()
	refused := errors.New("not like that")
	_, err := f.UpdateEndpoint(f.ctx, e.Tenant, e.ID, f.now, func(e *webhook.Endpoint) (store.EndpointUpdate, error) {
		e.URL, e.Version = "https://elsewhere.example.com/", 77
		return store.EndpointUpdate{}, refused
	})
	if err != refused { //nolint:errorlint // because the promise is "returned unchanged"
		f.Fatalf("error is %v", err)
	}
	got, err := f.UpdateEndpoint(f.ctx, e.Tenant, e.ID, f.now.Add(time.Hour), func(e *webhook.Endpoint) (store.EndpointUpdate, error) {
		e.URL = "https://elsewhere.example.com/"
		return store.EndpointUpdate{Unchanged: true}, nil
	})
	f.ok(err)
	f.same("answer of an update that changes nothing", got, e)
	f.same("stored", f.getEndpoint(e), e)
	f.same("told", f.heard.count(), told)
	_, err = f.UpdateEndpoint(f.ctx, e.Tenant, "nothing", f.now, func(*webhook.Endpoint) (store.EndpointUpdate, error) {
		f.Error("asked about nothing")
		return store.EndpointUpdate{}, nil
	})
	f.fails(err, store.ErrNotFound)
}

func updateSecrets(f *fixture) {
	e, err := f.CreateEndpoint(f.ctx, fullEndpoint("a", f.now))
	f.ok(err)
	third := webhook.SigningSecret{ID: "sec_3", Text: webhook.NewSecretText("whsec_third"), CreatedAt: f.now.Add(time.Minute)}
	after := f.change(e, func(e *webhook.Endpoint) {
		e.Secrets = append([]webhook.SigningSecret{third}, e.Secrets[0])
		e.Secrets[1].ExpiresAt = f.now.Add(time.Hour)
		e.Headers = nil
	})
	got := f.getEndpoint(e)
	f.same("read", got, after)
	if len(got.Secrets) != 2 || got.Secrets[0].Text.Reveal() != "whsec_third" || got.Secrets[1].ID != "sec_2" || got.Headers != nil {
		f.Fatalf("secrets are %+v, headers %+v", got.Secrets, got.Headers)
	}
	f.change(e, func(e *webhook.Endpoint) { e.Secrets = nil })
	f.same("without secrets", len(f.getEndpoint(e).Secrets), 0)
}

// A delete is true at once: for reads, for publishers, for the lanes.
func deletedAtOnce(f *fixture) {
	e := f.endpoint("a")
	work := f.sendMany(e, 20)
	f.record(f.failure(work[0], f.now.Add(time.Hour)))
	f.record(f.success(work[1]))
	stale := f.event(e)
	told := f.heard.count()
	f.ok(f.DeleteEndpoint(f.ctx, e.Tenant, e.ID, false, f.now.Add(time.Second)))

	changes := f.heard.since(told)
	if len(changes) != 1 || changes[0].EndpointDeleted != e.Key || changes[0].Revision != f.revision(e.Tenant) || changes[0].Tenant != e.Tenant {
		f.Fatalf("told %+v", changes)
	}
	_, err := f.GetEndpoint(f.ctx, e.Tenant, e.ID)
	f.fails(err, store.ErrNotFound)
	_, _, err = f.CountWaiting(f.ctx, e.Tenant, e.ID, 10)
	f.fails(err, store.ErrNotFound)
	f.fails(f.DeleteEndpoint(f.ctx, e.Tenant, e.ID, false, f.now), store.ErrNotFound)
	listed, err := f.ListEndpoints(f.ctx, e.Tenant, store.Page{Limit: 10})
	f.ok(err)
	all, _, err := f.LoadSubscriptions(f.ctx)
	f.ok(err)
	f.same("listed and loaded", len(listed.Items)+len(all), 0)
	results, err := f.Accept(f.ctx, []store.AcceptParams{stale})
	f.ok(err)
	f.fails(results[0].Err, store.ErrStale)
	for i, w := range work {
		want := contract.StatusCanceled
		if i == 1 {
			want = contract.StatusDelivered
		}
		if d := f.delivery(w); d.Status != want || d.Endpoint != "a" {
			f.Fatalf("delivery %d is %+v", i, d)
		}
	}
	f.same("log", len(f.attempts(work[0])), 1)
}

// The rows of a deleted endpoint reach their end by a job, across a restart, and
// leave the lanes. Of what was under way only a success still counts: a 2xx is
// delivered whatever became of the endpoint.
func deletedRowsEnd(f *fixture) {
	e, other := f.endpoint("a"), f.endpoint("b")
	work := f.sendMany(e, 350)
	f.sendMany(other, 3)
	at := f.now.Add(time.Second)
	f.ok(f.DeleteEndpoint(f.ctx, e.Tenant, e.ID, false, at))
	f.restart()
	deadline := time.Now().Add(20 * time.Second)
	for len(f.due(e, f.now)) > 0 {
		if time.Now().After(deadline) {
			f.Fatal("rows of a deleted endpoint still wait")
		}
	}
	lanes, err := f.ListLanes(f.ctx)
	f.ok(err)
	f.same("lanes", lanes, []store.LaneHead{{Endpoint: other.Key, Due: f.now}})
	for _, w := range []store.Work{work[0], work[len(work)-1]} {
		d := f.delivery(w)
		if d.Status != contract.StatusCanceled || d.Reason != webhook.WhyEndpointDeleted || !d.FinishedAt.Equal(at) {
			f.Fatalf("delivery is %+v", d)
		}
	}
	f.same("late success", f.record(f.success(work[0])), store.RecordResult{Absorbed: true})
	f.same("late failure", f.record(f.failure(work[1], f.now)), store.RecordResult{})
	if d := f.delivery(work[0]); d.Status != contract.StatusDelivered || d.Reason != webhook.WhyNone || d.AttemptCount != 1 {
		f.Fatalf("after the success: %+v", d)
	}
	f.same("after the failure", f.delivery(work[1]).Status, contract.StatusCanceled)
	f.same("lanes", len(f.due(e, f.now.Add(time.Hour))), 0)
	f.same("the other endpoint's", len(f.due(other, f.now)), 3)
}

func deletedIDCanBeUsedAgain(f *fixture) {
	first, err := f.CreateEndpoint(f.ctx, fullEndpoint("a", f.now))
	f.ok(err)
	old := f.send(first)
	f.record(f.success(old))
	f.ok(f.DeleteEndpoint(f.ctx, first.Tenant, first.ID, false, f.now))
	second := f.endpoint("a")
	if second.Key == first.Key {
		f.Fatal("a key was given twice")
	}
	fresh := f.send(second)
	f.same("the new one", f.getEndpoint(second), second)
	f.same("the old one's log", f.delivery(old).Status, contract.StatusDelivered)
	f.same("the new one's lane", f.due(second, f.now), []webhook.Ref{fresh.Ref})
}

func countWaiting(f *fixture) {
	e := f.endpoint("a")
	check := func(what string, most, want int, due time.Time) {
		f.Helper()
		n, oldest, err := f.CountWaiting(f.ctx, e.Tenant, e.ID, most)
		f.ok(err)
		if n != want || !oldest.Equal(due) {
			f.Fatalf("%s: %d wait, the oldest since %v", what, n, oldest)
		}
	}
	check("none", 10, 0, time.Time{})
	work := f.sendMany(e, 5)
	f.sendMany(f.endpoint("b"), 7)
	check("some", 10, 5, f.now)
	check("as many as asked", 5, 5, f.now)
	check("no further than asked", 3, 3, f.now)
	f.record(f.success(work[0]))
	for _, w := range work[1:] {
		f.record(f.failure(w, f.now.Add(time.Duration(w.Ref)*time.Minute)))
	}
	check("retries", 10, 4, f.now.Add(time.Duration(work[1].Ref)*time.Minute))
}

// Whoever begins with LoadSubscriptions and follows OnChange holds what is
// stored.
func subscriptionsAreWhatWasTold(f *fixture) {
	f.tenant("t2")
	for i := range 4 {
		f.endpoint(fmt.Sprintf("e%d", i))
		f.endpointOf("t2", fmt.Sprintf("e%d", i))
	}
	f.change(newEndpoint("t2", "e1", f.now), func(e *webhook.Endpoint) { e.Events = []string{"click"} })
	f.ok(f.DeleteEndpoint(f.ctx, "t2", "e2", false, f.now))
	f.ok(f.DeleteEndpoint(f.ctx, webhook.DefaultTenant, "e0", false, f.now))

	held := map[webhook.EndpointKey]*webhook.Endpoint{}
	revisions := map[string]int64{webhook.DefaultTenant: 1}
	for _, c := range f.heard.since(0) {
		if c.Revision != 0 {
			revisions[c.Tenant] = c.Revision
		}
		if c.Endpoint != nil {
			held[c.Endpoint.Key] = c.Endpoint
		}
		delete(held, c.EndpointDeleted)
	}
	all, stored, err := f.LoadSubscriptions(f.ctx)
	f.ok(err)
	loaded := map[webhook.EndpointKey]*webhook.Endpoint{}
	for _, e := range all {
		loaded[e.Key] = e
	}
	f.same("endpoints", held, loaded)
	f.same("revisions", revisions, stored)
}
