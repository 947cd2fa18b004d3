package storetest

import (
	"fmt"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func eventCases() []testCase {
	return []testCase{
		{name: "TestStore_GetEvent_ByEitherID", run: getEventByEitherID},
		{name: "TestStore_ListEvents_Filters", run: listEventsFilters},
		{name: "TestStore_ListEvents_SpanIsExact", run: eventSpanIsExact},
		{name: "TestStore_CountDeliveries_ByShownStatus", run: countsByShownStatus},
		{name: "TestStore_CancelEvent_EndsWhatWaits", run: cancelEventEndsWhatWaits},
		{name: "TestStore_EraseEventData_KeepsTheLog", run: eraseKeepsTheLog},
	}
}

func getEventByEitherID(f *fixture) {
	e := f.endpoint("a")
	own := f.event(e)
	own.ID, own.Type, own.OrderingKey = "order:4711", "click", "k"
	own.CreatedAt, own.DeliverAt, own.ExpiresAt = f.now.Add(-time.Hour), f.now.Add(time.Hour), f.now.Add(2*time.Hour)
	made := f.accept(own, f.event(e, e))

	got, err := f.GetEvent(f.ctx, webhook.DefaultTenant, "order:4711")
	f.ok(err)
	f.same("by the caller's ID", got, &webhook.Event{
		ID: "order:4711", Tenant: webhook.DefaultTenant, Type: "click", Data: own.Data, ContentType: "application/json",
		CreatedAt: own.CreatedAt, AcceptedAt: f.now, OrderingKey: "k", DeliverAt: own.DeliverAt, ExpiresAt: own.ExpiresAt, Deliveries: 1,
	})
	got, err = f.GetEvent(f.ctx, webhook.DefaultTenant, made[1].ID)
	f.ok(err)
	f.same("by ours", got, &webhook.Event{
		ID: made[1].ID, Tenant: webhook.DefaultTenant, Type: eventType, Data: []byte(`{"n":1}`), ContentType: "application/json",
		CreatedAt: f.now, AcceptedAt: f.now, Deliveries: 2,
	})
	for _, id := range []string{"", "nothing", made[1].ID + "0", made[1].ID[:len(made[1].ID)-1], made[1].Fresh[0].DeliveryID, "order:4711 ", "ORDER:4711"} {
		_, err := f.GetEvent(f.ctx, webhook.DefaultTenant, id)
		f.fails(err, store.ErrNotFound)
	}
}

func listEventsFilters(f *fixture) {
	f.tenant("t2")
	accept := func(tenant, kind, key string) string {
		p := newEvent(tenant, f.revision(tenant), f.now)
		p.Type, p.OrderingKey = kind, key
		return f.accept(p)[0].ID
	}
	a, b, c := accept("default", "click", "k1"), accept("default", "conversion", "k1"), accept("default", "click", "k2")
	d := accept("t2", "click", "k1")
	for _, test := range []struct {
		name   string
		tenant string
		filter store.EventFilter
		want   []string
	}{
		{"all of a tenant, newest first", "default", store.EventFilter{}, []string{c, b, a}},
		{"all tenants", store.TenantAll, store.EventFilter{}, []string{d, c, b, a}},
		{"no such tenant", "nobody", store.EventFilter{}, []string{}},
		{"a type", "default", store.EventFilter{Types: []string{"click"}}, []string{c, a}},
		{"types", "default", store.EventFilter{Types: []string{"click", "conversion", "never"}}, []string{c, b, a}},
		{"an unknown type", "default", store.EventFilter{Types: []string{"never"}}, []string{}},
		{"a key", "default", store.EventFilter{OrderingKey: "k1"}, []string{b, a}},
		{"both", "default", store.EventFilter{OrderingKey: "k1", Types: []string{"click"}}, []string{a}},
		{"of all tenants", store.TenantAll, store.EventFilter{OrderingKey: "k1", Types: []string{"click"}}, []string{d, a}},
	} {
		listed, err := f.ListEvents(f.ctx, test.tenant, test.filter, store.Page{Limit: 10})
		f.ok(err)
		got := []string{}
		for _, e := range listed.Items {
			got = append(got, e.ID)
			if e.Data != nil {
				f.Errorf("%s: a list brings payloads", test.name)
			}
		}
		f.same(test.name, got, test.want)
	}
}

// Since is inclusive, until exclusive, also where stamps do not rise with the
// order of commits: publishers take their stamp before they queue.
func eventSpanIsExact(f *fixture) {
	e := f.endpoint("a")
	offsets := []int{0, 1, 1, 1, 3, 2, 4, 4, 7, 5, 6, 8, 8, 9}
	var ids []string
	for _, ms := range offsets {
		p := f.event(e)
		p.Now = start().Add(time.Duration(ms) * 100 * time.Millisecond)
		ids = append(ids, f.accept(p)[0].ID)
	}
	at := func(ms int) time.Time { return start().Add(time.Duration(ms) * 100 * time.Millisecond) }
	for since := -1; since <= 10; since++ {
		for until := since; until <= 10; until++ {
			span := store.Span{Since: at(since), Until: at(until)}
			if since == -1 {
				span.Since = time.Time{}
			}
			if until == 10 {
				span.Until = time.Time{}
			}
			want := []string{}
			for i, ms := range offsets {
				if ms >= since && (until == 10 || ms < until) {
					want = append(want, ids[i])
				}
			}
			name := fmt.Sprintf("since %d until %d", since, until)
			events, err := f.ListEvents(f.ctx, webhook.DefaultTenant, store.EventFilter{Span: span}, store.Page{Limit: 100, Ascending: true})
			f.ok(err)
			got := []string{}
			for _, e := range events.Items {
				got = append(got, e.ID)
			}
			f.same("events "+name, got, want)
			deliveries, err := f.ListDeliveries(f.ctx, webhook.DefaultTenant, store.DeliveryFilter{Span: span}, store.Page{Limit: 100, Ascending: true})
			f.ok(err)
			got = []string{}
			for _, d := range deliveries.Items {
				got = append(got, d.Event)
			}
			f.same("deliveries "+name, got, want)
		}
	}
}

func countsByShownStatus(f *fixture) {
	a, b, c, d := f.endpoint("a"), f.endpoint("b"), f.endpoint("c"), f.endpoint("d")
	r := f.accept(f.event(a, b, c, d))[0]
	f.accept(f.event(a, b)) // another event's are not counted
	f.record(f.success(r.Fresh[0]))
	f.mark(markOf(r.Fresh[1], f.now))
	f.ok(f.DeleteEndpoint(f.ctx, c.Tenant, c.ID, false, f.now))
	counts, err := f.CountDeliveries(f.ctx, webhook.DefaultTenant, r.ID)
	f.ok(err)
	f.same("counts", counts, map[contract.Status]int{
		contract.StatusDelivered: 1, contract.StatusSending: 1, contract.StatusCanceled: 1, contract.StatusPending: 1,
	})
	none := f.accept(f.event())[0]
	counts, err = f.CountDeliveries(f.ctx, webhook.DefaultTenant, none.ID)
	f.ok(err)
	f.same("counts of none", counts, map[contract.Status]int{})
	_, err = f.CountDeliveries(f.ctx, webhook.DefaultTenant, "nothing")
	f.fails(err, store.ErrNotFound)
}

func cancelEventEndsWhatWaits(f *fixture) {
	a, b, c := f.endpoint("a"), f.endpoint("b"), f.endpoint("c")
	p := f.event(a, b, c)
	p.ID = "x"
	work := f.accept(p)[0].Fresh
	other := f.send(a)
	f.record(f.success(work[0]))
	f.record(f.failure(work[1], f.now.Add(time.Hour)))
	told := f.heard.count()
	at := f.now.Add(time.Minute)
	n, err := f.CancelEvent(f.ctx, webhook.DefaultTenant, "x", at)
	f.ok(err)
	f.same("canceled", n, 2)
	changes := f.heard.since(told)
	if len(changes) != 1 || changes[0].Tenant != webhook.DefaultTenant {
		f.Fatalf("told %+v", changes)
	}
	f.same("told", changes[0].Canceled, refs(work[1:]))
	f.same("delivered stays", f.delivery(work[0]).Status, contract.StatusDelivered)
	for _, w := range work[1:] {
		d := f.delivery(w)
		if d.Status != contract.StatusCanceled || d.Reason != webhook.WhyCanceled || !d.FinishedAt.Equal(at) || !d.NextAttemptAt.IsZero() {
			f.Errorf("delivery is %+v", d)
		}
	}
	f.same("other events' deliveries", f.due(a, at), []webhook.Ref{other.Ref})
	f.same("lanes", len(f.due(b, at.Add(time.Hour)))+len(f.due(c, at.Add(time.Hour))), 0)

	n, err = f.CancelEvent(f.ctx, webhook.DefaultTenant, "x", at)
	f.ok(err)
	f.same("again", n, 0)
	_, err = f.CancelEvent(f.ctx, webhook.DefaultTenant, "nothing", at)
	f.fails(err, store.ErrNotFound)
	// A try that was under way ends: it is noted, and changes nothing.
	f.same("late answer", f.record(f.success(work[2])), store.RecordResult{})
	f.same("status", f.delivery(work[2]).Status, contract.StatusCanceled)
}

func eraseKeepsTheLog(f *fixture) {
	e := f.endpoint("a")
	p := f.event(e)
	p.ID = "x"
	setData(&p, "to be forgotten")
	w := f.accept(p)[0].Fresh[0]
	kept := f.send(e)
	f.record(f.failure(w, f.now.Add(time.Hour)))
	for range 2 {
		f.ok(f.EraseEventData(f.ctx, webhook.DefaultTenant, "x", f.now))
		event, err := f.GetEvent(f.ctx, webhook.DefaultTenant, "x")
		f.ok(err)
		if !event.Erased || event.Data != nil || event.Deliveries != 1 {
			f.Fatalf("event is %+v", event)
		}
	}
	f.same("log", len(f.attempts(w)), 1)
	again := f.window(e, f.now.Add(time.Hour)).Work[1]
	if !again.Erased || again.Data != nil || again.Ref != w.Ref {
		f.Fatalf("work is %+v", again)
	}
	f.repeats(p, 1) // the ID stays taken
	data, err := f.LoadData(f.ctx, kept.Ref)
	f.ok(err)
	f.same("another event's data", data, kept.Data)
	f.fails(f.EraseEventData(f.ctx, webhook.DefaultTenant, "nothing", f.now), store.ErrNotFound)
}
