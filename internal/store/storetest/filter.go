package storetest

import (
	"slices"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func filterCases() []testCase {
	return []testCase{
		{name: "TestStore_ListDeliveries_EveryFilter", run: everyFilter},
		{name: "TestStore_ListDeliveries_EveryMemberOfEachSet", run: everyMember},
	}
}

// zoo makes one delivery of each kind and returns them by name.
func (f *fixture) zoo() map[string]store.Work {
	f.Helper()
	for _, id := range []string{"active", "paused", "disabled", "deleted"} {
		f.endpoint(id)
	}
	f.tenant("t2")
	f.endpointOf("t2", "active")
	zoo := map[string]store.Work{}
	add := func(name, endpoint, kind string, change func(*store.AcceptParams)) store.Work {
		p := f.event(f.getEndpoint(newEndpoint(webhook.DefaultTenant, endpoint, f.now)))
		p.Type = kind
		if change != nil {
			change(&p)
		}
		zoo[name] = f.accept(p)[0].Fresh[0]
		return zoo[name]
	}
	add("fresh", "active", "click", func(p *store.AcceptParams) { p.ID = "own" })
	f.record(f.failure(add("retry", "active", "click", nil), f.now.Add(time.Minute)))
	add("scheduled", "active", "click", func(p *store.AcceptParams) { p.DeliverAt = f.now.Add(time.Hour) })
	f.mark(markOf(add("sending", "active", "click", nil), f.now))
	f.record(f.success(add("delivered", "active", "conversion", func(p *store.AcceptParams) { p.OrderingKey = "k" })))
	p := f.end(add("failed", "active", "conversion", nil), contract.StatusFailed, webhook.WhyExhausted)
	p.FailureKind, p.Attempt.FailureKind = contract.KindTimeout, contract.KindTimeout
	f.record(p)
	p = f.end(add("dead", "active", "click", nil), contract.StatusDead, webhook.WhyStopped)
	p.FailureKind, p.Attempt.FailureKind = contract.KindGone, contract.KindGone
	f.record(p)
	p = f.end(add("skipped", "active", "click", nil), contract.StatusSkipped, webhook.WhyExpired)
	p.FailureKind, p.Attempt = contract.KindNone, nil
	f.record(p)
	_, err := f.CancelDelivery(f.ctx, webhook.DefaultTenant, add("canceled", "active", "click", nil).DeliveryID, f.now)
	f.ok(err)
	add("paused", "paused", "click", nil)
	f.record(f.failure(add("disabled", "disabled", "click", nil), f.now.Add(time.Minute)))
	add("deleted", "deleted", "click", nil)
	f.record(f.success(add("deleted but delivered", "deleted", "click", nil)))

	off := func(id string, state webhook.EndpointState) {
		f.change(newEndpoint(webhook.DefaultTenant, id, f.now), func(e *webhook.Endpoint) { e.State = state })
	}
	off("paused", webhook.EndpointPaused)
	off("disabled", webhook.EndpointDisabled)
	f.ok(f.DeleteEndpoint(f.ctx, webhook.DefaultTenant, "deleted", false, f.now))
	other := f.event(f.getEndpoint(newEndpoint("t2", "active", f.now)))
	other.ID, other.Type = "own", "click"
	zoo["t2"] = f.accept(other)[0].Fresh[0]
	return zoo
}

// names lists what a filter finds, sorted.
func (f *fixture) names(zoo map[string]store.Work, tenant string, filter store.DeliveryFilter) []string {
	f.Helper()
	listed, err := f.ListDeliveries(f.ctx, tenant, filter, store.Page{Limit: 100})
	f.ok(err)
	names := []string{}
	for _, d := range listed.Items {
		for name, w := range zoo {
			if w.Ref == d.Ref {
				names = append(names, name)
				f.same("listed "+name, d, f.delivery(w))
			}
		}
	}
	if len(names) != len(listed.Items) {
		f.Fatalf("%d deliveries are listed, %d are known", len(listed.Items), len(names))
	}
	slices.Sort(names)
	return names
}

func everyFilter(f *fixture) {
	zoo := f.zoo()
	status := func(s ...contract.Status) store.DeliveryFilter { return store.DeliveryFilter{Statuses: s} }
	reason := func(r ...webhook.Reason) store.DeliveryFilter { return store.DeliveryFilter{Reasons: r} }
	kind := func(k ...contract.FailureKind) store.DeliveryFilter { return store.DeliveryFilter{FailureKinds: k} }
	for _, c := range []struct {
		name   string
		filter store.DeliveryFilter
		want   []string
	}{
		{"pending", status(contract.StatusPending), []string{"disabled", "fresh", "paused", "retry", "scheduled"}},
		{"sending", status(contract.StatusSending), []string{"sending"}},
		{"delivered", status(contract.StatusDelivered), []string{"deleted but delivered", "delivered"}},
		{"failed", status(contract.StatusFailed), []string{"failed"}},
		{"dead", status(contract.StatusDead), []string{"dead"}},
		{"skipped", status(contract.StatusSkipped), []string{"skipped"}},
		{"canceled", status(contract.StatusCanceled), []string{"canceled", "deleted"}},
		{"redelivered", status(contract.StatusRedelivered), []string{}},
		{"two statuses", status(contract.StatusDead, contract.StatusFailed), []string{"dead", "failed"}},
		{"retry", reason(webhook.WhyRetry), []string{"retry"}},
		{"scheduled", reason(webhook.WhyScheduled), []string{"scheduled"}},
		{"paused", reason(webhook.WhyPaused), []string{"paused"}},
		{"disabled", reason(webhook.WhyDisabled), []string{"disabled"}},
		{"endpoint deleted", reason(webhook.WhyEndpointDeleted), []string{"deleted"}},
		{"canceled by a caller", reason(webhook.WhyCanceled), []string{"canceled"}},
		{"exhausted or stopped", reason(webhook.WhyExhausted, webhook.WhyStopped), []string{"dead", "failed"}},
		{"expired", reason(webhook.WhyExpired), []string{"skipped"}},
		{"http_status", kind(contract.KindHTTPStatus), []string{"disabled", "retry"}},
		{"timeout or gone", kind(contract.KindTimeout, contract.KindGone), []string{"dead", "failed"}},
		{"a type", store.DeliveryFilter{Types: []string{"conversion"}}, []string{"delivered", "failed"}},
		{"an unknown type", store.DeliveryFilter{Types: []string{"never"}}, []string{}},
		{"types", store.DeliveryFilter{Types: []string{"conversion", "never"}}, []string{"delivered", "failed"}},
		{"an endpoint", store.DeliveryFilter{Endpoint: "paused"}, []string{"paused"}},
		{"a deleted endpoint", store.DeliveryFilter{Endpoint: "deleted"}, []string{"deleted", "deleted but delivered"}},
		{"an unknown endpoint", store.DeliveryFilter{Endpoint: "nothing"}, []string{}},
		{"an event of the caller's ID", store.DeliveryFilter{Event: "own"}, []string{"fresh"}},
		{"an event of ours", store.DeliveryFilter{Event: zoo["dead"].EventID}, []string{"dead"}},
		{"an unknown event", store.DeliveryFilter{Event: "nothing"}, []string{}},
		{"another tenant's event", store.DeliveryFilter{Event: zoo["t2"].EventID}, []string{"fresh"}}, // the same caller's ID
		{"an ordering key", store.DeliveryFilter{OrderingKey: "k"}, []string{"delivered"}},
		{"an unknown key", store.DeliveryFilter{OrderingKey: "K"}, []string{}},
		{"a trigger", store.DeliveryFilter{Triggers: []contract.Trigger{contract.TriggerTest}}, []string{}},
		{"fields combine", store.DeliveryFilter{Endpoint: "active", Types: []string{"click"}, Statuses: []contract.Status{contract.StatusPending, contract.StatusDead}},
			[]string{"dead", "fresh", "retry", "scheduled"}},
		{"event and endpoint", store.DeliveryFilter{Endpoint: "paused", Event: "own"}, []string{}},
		{"span", store.DeliveryFilter{Span: store.Span{Since: f.now.Add(time.Millisecond)}}, []string{}},
	} {
		f.same(c.name, f.names(zoo, webhook.DefaultTenant, c.filter), c.want)
	}
	all := []string{}
	for name := range zoo {
		all = append(all, name)
	}
	slices.Sort(all)
	f.same("all tenants", f.names(zoo, store.TenantAll, store.DeliveryFilter{}), all)
	f.same("all of trigger event", f.names(zoo, store.TenantAll, store.DeliveryFilter{Triggers: contract.Triggers()[:1]}), all)
	f.same("another tenant", f.names(zoo, "t2", store.DeliveryFilter{}), []string{"t2"})
	f.same("another tenant's endpoint of that name", f.names(zoo, "t2", store.DeliveryFilter{Endpoint: "active"}), []string{"t2"})
	f.same("no such tenant", f.names(zoo, "nobody", store.DeliveryFilter{}), []string{})
}

// Whatever a closed set holds can be written, read and filtered by.
func everyMember(f *fixture) {
	e := f.endpoint("a")
	for _, status := range contract.Statuses() {
		if !status.Final() {
			continue
		}
		w := f.send(e)
		f.record(f.end(w, status, webhook.WhyNone))
		f.same("status", f.delivery(w).Status, status)
	}
	for _, kind := range contract.FailureKinds() {
		w := f.send(e)
		p := f.end(w, contract.StatusFailed, webhook.WhyNone)
		p.FailureKind, p.Attempt.FailureKind = kind, kind
		f.record(p)
		f.same("kind", f.delivery(w).FailureKind, kind)
		f.same("attempt's kind", f.attempts(w)[0].FailureKind, kind)
		found := f.names(map[string]store.Work{string(kind): w}, webhook.DefaultTenant, store.DeliveryFilter{Event: w.EventID, FailureKinds: []contract.FailureKind{kind}})
		f.same("found by kind", found, []string{string(kind)})
	}
	for _, reason := range webhook.Reasons() {
		w := f.send(e)
		f.record(f.end(w, contract.StatusFailed, reason))
		f.same("reason", f.delivery(w).Reason, reason)
		found := f.names(map[string]store.Work{string(reason): w}, webhook.DefaultTenant, store.DeliveryFilter{Event: w.EventID, Reasons: []webhook.Reason{reason}})
		f.same("found by reason", found, []string{string(reason)})
	}
	for _, state := range []webhook.EndpointState{webhook.EndpointPaused, webhook.EndpointDisabled, webhook.EndpointActive} {
		f.change(e, func(e *webhook.Endpoint) { e.State = state })
		f.same("state", f.getEndpoint(e).State, state)
	}
	for _, reason := range []webhook.StateReason{
		webhook.ReasonPerson, webhook.ReasonStaff, webhook.ReasonSwitchedOff, webhook.ReasonGone, webhook.ReasonNoSuccess,
		webhook.ReasonFailuresInRow, webhook.ReasonActive,
	} {
		f.change(e, func(e *webhook.Endpoint) { e.StateReason = reason })
		f.same("state reason", f.getEndpoint(e).StateReason, reason)
	}
}
