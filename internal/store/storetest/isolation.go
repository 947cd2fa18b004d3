package storetest

import (
	"context"
	"reflect"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func isolationCases() []testCase {
	return []testCase{
		{name: "TestStore_Isolation_AnotherTenantsIDIsNotFound", run: anotherTenantsID},
		{name: "TestStore_Isolation_EveryMethodIsAsked", run: everyMethodIsAsked},
	}
}

// owned is what one tenant owns and another asks for.
type owned struct {
	endpoint, event, ownEvent, delivery, key string
}

// crossings ask for another tenant's thing by its ID, by method.
func crossings(ctx context.Context, s store.Store, tenant string, o owned) map[string]func() error {
	return map[string]func() error{
		"GetEvent": func() error { _, err := s.GetEvent(ctx, tenant, o.event); return err },
		"GetEvent, the caller's ID": func() error {
			_, err := s.GetEvent(ctx, tenant, o.ownEvent)
			return err
		},
		"CountDeliveries": func() error { _, err := s.CountDeliveries(ctx, tenant, o.event); return err },
		"CancelEvent":     func() error { _, err := s.CancelEvent(ctx, tenant, o.event, start()); return err },
		"CancelEvent, the caller's ID": func() error {
			_, err := s.CancelEvent(ctx, tenant, o.ownEvent, start())
			return err
		},
		"EraseEventData": func() error { return s.EraseEventData(ctx, tenant, o.event, start()) },
		"GetDelivery":    func() error { _, err := s.GetDelivery(ctx, tenant, o.delivery); return err },
		"ListAttempts":   func() error { _, err := s.ListAttempts(ctx, tenant, o.delivery); return err },
		"CancelDelivery": func() error { _, err := s.CancelDelivery(ctx, tenant, o.delivery, start()); return err },
		"UpdateEndpoint": func() error {
			_, err := s.UpdateEndpoint(ctx, tenant, o.endpoint, start(), func(e *webhook.Endpoint) (store.EndpointUpdate, error) {
				e.URL = "https://thief.example.com/"
				return store.EndpointUpdate{}, nil
			})
			return err
		},
		"DeleteEndpoint": func() error { return s.DeleteEndpoint(ctx, tenant, o.endpoint, false, start()) },
		"GetEndpoint":    func() error { _, err := s.GetEndpoint(ctx, tenant, o.endpoint); return err },
		"CountWaiting":   func() error { _, _, err := s.CountWaiting(ctx, tenant, o.endpoint, 10); return err },
		"RevokeKey":      func() error { return s.RevokeKey(ctx, tenant, o.key) },
	}
}

func anotherTenantsID(f *fixture) {
	f.tenant("t2")
	e := f.endpoint("mine")
	p := f.event(e)
	p.ID = "own"
	made := f.accept(f.event(e), p)
	key := f.key(webhook.DefaultTenant, "k1")
	o := owned{endpoint: e.ID, event: made[0].ID, ownEvent: "own", delivery: made[0].Fresh[0].DeliveryID, key: key.ID}
	before, told := f.snapshot(), f.heard.count()
	for _, tenant := range []string{"t2", "nobody", ""} {
		for name, ask := range crossings(f.ctx, f.Store, tenant, o) {
			if err := ask(); err == nil {
				f.Errorf("%s crosses from tenant %q", name, tenant)
			} else {
				f.fails(err, store.ErrNotFound)
			}
		}
		f.nothingListed(tenant, o)
	}
	f.same("what is stored", f.snapshot(), before)
	f.same("told", f.heard.count(), told)
	_, err := f.FindKey(f.ctx, key.ID)
	f.ok(err)
	for name, ask := range crossings(f.ctx, f.Store, webhook.DefaultTenant, o) {
		if name != "DeleteEndpoint" && name != "RevokeKey" {
			if err := ask(); err != nil {
				f.Errorf("%s does not work for the owner: %v", name, err)
			}
		}
	}
}

// nothingListed checks the lists, which take filters by ID.
func (f *fixture) nothingListed(tenant string, o owned) {
	f.Helper()
	page := store.Page{Limit: 10}
	events, err := f.ListEvents(f.ctx, tenant, store.EventFilter{}, page)
	f.ok(err)
	n := len(events.Items)
	for _, filter := range []store.DeliveryFilter{{}, {Event: o.event}, {Event: o.ownEvent}, {Endpoint: o.endpoint}} {
		deliveries, err := f.ListDeliveries(f.ctx, tenant, filter, page)
		f.ok(err)
		n += len(deliveries.Items)
	}
	endpoints, err := f.ListEndpoints(f.ctx, tenant, page)
	f.ok(err)
	keys, err := f.ListKeys(f.ctx, tenant, page)
	f.ok(err)
	if n += len(endpoints.Items) + len(keys.Items); n != 0 {
		f.Errorf("tenant %q sees %d things of another", tenant, n)
	}
}

// A new method with a tenant and an ID must join the table above, or say here why
// it needs not.
func everyMethodIsAsked(f *fixture) {
	elsewhere := map[string]bool{
		// Asked in nothingListed.
		"ListEvents": true, "ListDeliveries": true, "ListEndpoints": true, "ListKeys": true,
		// About tenants themselves, or for operators.
		"CreateTenant": true, "UpdateTenant": true, "DeleteTenant": true, "GetTenant": true, "ListTenants": true, "SoleTenant": true,
		// They make things of the tenant they name, or have no caller's ID.
		"Accept": true, "CreateEndpoint": true, "CreateKey": true, "FindKey": true, "TouchKeys": true, "LoadSubscriptions": true,
		"ListLanes": true, "ReadWindow": true, "LoadData": true, "Record": true, "MarkRunning": true, "ListMarks": true,
		"Ping": true, "Close": true,
	}
	asked := crossings(f.ctx, f.Store, "", owned{})
	for m := range reflect.TypeFor[store.Store]().Methods() {
		if asked[m.Name] == nil && !elsewhere[m.Name] {
			f.Errorf("nobody asks %s for another tenant's thing", m.Name)
		}
	}
}
