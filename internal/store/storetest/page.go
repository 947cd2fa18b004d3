package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func pageCases() []testCase {
	return []testCase{
		{name: "TestFault_B55_EachDeliveryExactlyOnce", run: eachDeliveryExactlyOnce},
		{name: "TestFault_B55_EveryListPages", run: everyListPages},
		{name: "TestFault_B55_FilteredPages", run: filteredPages},
	}
}

// list reads one page and names its items.
type list func(store.Page) (items []string, next, prev int64, err error)

func named[T any](listed store.Listed[T], err error, name func(T) string) ([]string, int64, int64, error) {
	items := make([]string, len(listed.Items))
	for i, item := range listed.Items {
		items[i] = name(item)
	}
	return items, listed.Next, listed.Prev, err
}

// walked is a list read to its end.
type walked struct {
	all  []string
	last []string // the last page
	prev int64    // leads to the page before it
}

// forward reads a list page by page.
func (f *fixture) forward(l list, limit int, ascending bool) walked {
	f.Helper()
	w := walked{all: []string{}}
	page := store.Page{Limit: limit, Ascending: ascending}
	for range 10_000 {
		items, next, prev, err := l(page)
		f.ok(err)
		if len(items) > limit {
			f.Fatalf("%d items on a page of %d", len(items), limit)
		}
		if page.After == 0 && prev != 0 {
			f.Fatal("the first page leads back")
		}
		w.all, w.last, w.prev = append(w.all, items...), items, prev
		if page.After = next; next == 0 {
			return w
		}
	}
	f.Fatal("the list has no end")
	return w
}

// backward reads a list from its last page to its first, and returns it in its
// order.
func (f *fixture) backward(l list, limit int, ascending bool) []string {
	f.Helper()
	w := f.forward(l, limit, ascending)
	all, prev := w.last, w.prev
	for range 10_000 {
		if prev == 0 {
			return all
		}
		items, next, before, err := l(store.Page{Limit: limit, Ascending: ascending, Backward: true, After: prev})
		f.ok(err)
		if next == 0 || len(items) > limit {
			f.Fatalf("a page before another has %d items and leads to %d", len(items), next)
		}
		all = append(slices.Clone(items), all...)
		prev = before
	}
	f.Fatal("the list has no beginning")
	return nil
}

// pages checks that each way through a list meets each item exactly once.
func (f *fixture) pages(name string, l list, newestFirst []string, limits ...int) {
	f.Helper()
	oldestFirst := slices.Clone(newestFirst)
	slices.Reverse(oldestFirst)
	for _, limit := range limits {
		for ascending, want := range map[bool][]string{false: newestFirst, true: oldestFirst} {
			what := fmt.Sprintf("%s, %d a page, ascending %v", name, limit, ascending)
			f.same(what, f.forward(l, limit, ascending).all, want)
			f.same(what+", backward", f.backward(l, limit, ascending), want)
		}
	}
}

func (f *fixture) deliveryList(filter store.DeliveryFilter) list {
	return func(p store.Page) ([]string, int64, int64, error) {
		listed, err := f.ListDeliveries(f.ctx, webhook.DefaultTenant, filter, p)
		return named(listed, err, func(d *webhook.Delivery) string { return d.ID })
	}
}

// 500 deliveries of one stamp, then 500 that differ by a microsecond, read in
// pages of 7 while others are taken in.
func eachDeliveryExactlyOnce(f *fixture) {
	e, noise := f.endpoint("a"), f.endpoint("noise")
	var events []store.AcceptParams
	first := f.event(e)
	for i := range 1000 {
		p := first
		if i >= 500 {
			p.Now = f.now.Add(time.Duration(i-499) * time.Microsecond)
		}
		events = append(events, p)
	}
	var want []string
	known := map[string]bool{}
	for _, r := range f.accept(events...) {
		want = append(want, r.Fresh[0].DeliveryID)
		known[r.Fresh[0].DeliveryID] = true
	}
	slices.Reverse(want)

	// One more comes in beside each page, so that pages outrun them.
	more := newEvent(webhook.DefaultTenant, first.Revision, f.now, noise)
	tick := make(chan struct{}, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range tick {
			if _, err := f.Accept(f.ctx, []store.AcceptParams{more}); err != nil {
				f.Error(err)
			}
		}
	})
	defer wg.Wait()
	defer close(tick)
	// Newer ones may come into view or not; those that were there do, once.
	busy := func(l list) list {
		return func(p store.Page) ([]string, int64, int64, error) {
			select {
			case tick <- struct{}{}:
			default:
			}
			items, next, prev, err := l(p)
			return slices.DeleteFunc(items, func(id string) bool { return !known[id] }), next, prev, err
		}
	}
	all := busy(f.deliveryList(store.DeliveryFilter{}))
	f.same("all, forward", f.forward(all, 7, false).all, want)
	f.same("all, backward", f.backward(all, 7, false), want)
	mine := f.deliveryList(store.DeliveryFilter{Endpoint: "a", Span: store.Span{Until: f.now.Add(time.Second)}})
	f.same("one endpoint's, forward", f.forward(busy(mine), 7, false).all, want)
	f.pages("one endpoint's", mine, want, 250)
}

// Every list pages the same way.
func everyListPages(f *fixture) {
	const n = 11
	var endpoints, events, tenants, keys []string
	e := f.endpoint("target")
	work := f.sendMany(e, n)
	for i := range n {
		endpoints = append(endpoints, f.endpoint(fmt.Sprintf("e%d", i)).ID)
		events = append(events, work[i].EventID)
		tenants = append(tenants, fmt.Sprintf("t%d", i))
		f.tenant(tenants[i])
		keys = append(keys, f.key(webhook.DefaultTenant, fmt.Sprintf("k%d", i)).ID)
	}
	endpoints = append([]string{"target"}, endpoints...)
	tenants = append([]string{webhook.DefaultTenant}, tenants...)
	for name, c := range map[string]struct {
		want []string
		list list
	}{
		"endpoints": {endpoints, func(p store.Page) ([]string, int64, int64, error) {
			listed, err := f.ListEndpoints(f.ctx, webhook.DefaultTenant, p)
			return named(listed, err, func(e *webhook.Endpoint) string { return e.ID })
		}},
		"events": {events, func(p store.Page) ([]string, int64, int64, error) {
			listed, err := f.ListEvents(f.ctx, webhook.DefaultTenant, store.EventFilter{}, p)
			return named(listed, err, func(e *webhook.Event) string { return e.ID })
		}},
		"tenants": {tenants, func(p store.Page) ([]string, int64, int64, error) {
			listed, err := f.ListTenants(f.ctx, p)
			return named(listed, err, func(t *webhook.Tenant) string { return t.ID })
		}},
		"keys": {keys, func(p store.Page) ([]string, int64, int64, error) {
			listed, err := f.ListKeys(f.ctx, webhook.DefaultTenant, p)
			return named(listed, err, func(k *webhook.APIKey) string { return k.ID })
		}},
	} {
		slices.Reverse(c.want)
		f.pages(name, c.list, c.want, 1, 2, 5, 11, 12, 250)
	}
}

// A filter that takes few of many still meets each exactly once, whatever a page
// examines.
func filteredPages(f *fixture) {
	a, b := f.endpoint("a"), f.endpoint("b")
	var want []string
	for i, w := range f.sendMany(a, 60) {
		if i%3 == 0 {
			f.record(f.end(w, contract.StatusDead, webhook.WhyStopped))
			want = append(want, w.DeliveryID)
		}
	}
	f.sendMany(b, 5)
	slices.Reverse(want)
	f.pages("by status", f.deliveryList(store.DeliveryFilter{Statuses: []contract.Status{contract.StatusDead}}), want, 1, 7, 20, 21)
	f.pages("by status and endpoint", f.deliveryList(store.DeliveryFilter{Statuses: []contract.Status{contract.StatusDead}, Endpoint: "a"}), want, 7)
	f.pages("none", f.deliveryList(store.DeliveryFilter{Statuses: []contract.Status{contract.StatusRedelivered}}), []string{}, 7)
}
