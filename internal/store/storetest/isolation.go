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
	endpoint, event, ownEvent, delivery, key, run, replay string
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
		"CountDue":       func() error { _, err := s.CountDue(ctx, tenant, o.endpoint, start(), 10); return err },
		"RevokeKey":      func() error { return s.RevokeKey(ctx, tenant, o.key) },
		"SendAgain": func() error {
			results, err := s.SendAgain(ctx, store.SendAgainParams{Tenant: tenant, IDs: []string{o.delivery}, Decide: resent, Now: start(), Ready: start()})
			if err != nil {
				return err
			}
			return results[0].Err
		},
		"SendAgain, by event": func() error {
			_, err := s.SendAgain(ctx, store.SendAgainParams{Tenant: tenant, Event: o.ownEvent, Endpoint: o.endpoint, Decide: resent, Now: start(), Ready: start()})
			return err
		},
		"CreateReplay": func() error {
			_, err := s.CreateReplay(ctx, webhook.Replay{Tenant: tenant, Endpoint: o.endpoint, CreatedAt: start()})
			return err
		},
		"GetReplay":    func() error { _, err := s.GetReplay(ctx, tenant, o.replay); return err },
		"CancelReplay": func() error { _, err := s.CancelReplay(ctx, tenant, o.replay, start()); return err },
		"StepReplay": func() error {
			_, err := s.StepReplay(ctx, store.StepParams{Replay: webhook.Replay{ID: o.replay, Tenant: tenant}, Most: 1, Decide: skipAll, Now: start(), Ready: start()})
			return err
		},
		"CountReplay": func() error {
			_, _, _, err := s.CountReplay(ctx, store.StepParams{Replay: webhook.Replay{ID: o.replay, Tenant: tenant}, Decide: skipAll}, 0)
			return err
		},
		"CountReplay, a preview": func() error {
			_, _, _, err := s.CountReplay(ctx, store.StepParams{Replay: webhook.Replay{Tenant: tenant, Endpoint: o.endpoint}, Decide: skipAll}, 0)
			return err
		},
		"GetRun":       func() error { _, err := s.GetRun(ctx, tenant, o.run); return err },
		"AddRunEvents": func() error { _, err := s.AddRunEvents(ctx, tenant, o.run, nil); return err },
		"FinishRun": func() error {
			_, _, err := s.FinishRun(ctx, tenant, o.run, start(), func(webhook.Run) store.AcceptParams { return store.AcceptParams{Tenant: tenant, Now: start()} })
			return err
		},
		"DeleteRun":     func() error { return s.DeleteRun(ctx, tenant, o.run, start()) },
		"ReadRunEvents": func() error { _, _, err := s.ReadRunEvents(ctx, tenant, o.run, 0, 10); return err },
	}
}

// skipAll lets a replay take nothing.
func skipAll(*webhook.Delivery, *webhook.Endpoint) (store.Again, bool) { return store.Again{}, false }

// disturbs names the crossings that others of the table can't follow.
func disturbs(name string) bool {
	switch name {
	case "DeleteEndpoint", "RevokeKey", "FinishRun", "DeleteRun", "CreateReplay", "SendAgain", "SendAgain, by event":
		return true
	}
	return false
}

func anotherTenantsID(f *fixture) {
	f.tenant("t2")
	e := f.endpoint("mine")
	p := f.event(e)
	p.ID = "own"
	made := f.accept(f.event(e), p)
	key := f.key(webhook.DefaultTenant, "k1")
	f.record(f.success(made[1].Fresh[0]))
	run, replay := f.open("p"), f.replay(e.ID, webhook.Selection{})
	o := owned{
		endpoint: e.ID, event: made[0].ID, ownEvent: "own", delivery: made[0].Fresh[0].DeliveryID, key: key.ID, run: run.ID, replay: replay.ID,
	}
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
		if !disturbs(name) {
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
	for _, filter := range []store.DeliveryFilter{{}, {Event: o.event}, {Event: o.ownEvent}, {Endpoint: o.endpoint}, {Run: o.run}, {Run: o.event}} {
		deliveries, err := f.ListDeliveries(f.ctx, tenant, filter, page)
		f.ok(err)
		n += len(deliveries.Items)
	}
	endpoints, err := f.ListEndpoints(f.ctx, tenant, page)
	f.ok(err)
	keys, err := f.ListKeys(f.ctx, tenant, page)
	f.ok(err)
	runs, err := f.ListRuns(f.ctx, tenant, "p", page)
	f.ok(err)
	replays, err := f.ListReplays(f.ctx, tenant, o.endpoint, page)
	f.ok(err)
	trail, err := f.ListAudit(f.ctx, tenant, store.AuditFilter{Target: o.endpoint}, page)
	f.ok(err)
	deleted, err := f.DeleteProject(f.ctx, tenant, "p", start())
	f.ok(err)
	n += deleted + len(runs.Items) + len(replays.Items) + len(trail.Items)
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
		"ListRuns": true, "ListReplays": true, "ListAudit": true, "DeleteProject": true,
		// About tenants themselves, or for operators.
		"CreateTenant": true, "UpdateTenant": true, "DeleteTenant": true, "GetTenant": true, "ListTenants": true, "SoleTenant": true,
		// Of the whole installation.
		"PutContract": true, "DeleteContract": true, "ListContractRevisions": true, "LoadContracts": true,
		// They make things of the tenant they name, or have no caller's ID.
		"Accept": true, "CreateEndpoint": true, "CreateKey": true, "FindKey": true, "TouchKeys": true, "LoadSubscriptions": true,
		"ListLanes": true, "ReadWindow": true, "LoadData": true, "Record": true, "MarkRunning": true, "ListMarks": true,
		"LoadWork": true, "ListGates": true, "ListOpenReplays": true, "ReadPageGrant": true, "DueNotices": true, "SettleNotice": true,
		"Retain": true, "SkipHeld": true, "CreateRun": true,
		"Ping": true, "Close": true,
	}
	asked := crossings(f.ctx, f.Store, "", owned{})
	for m := range reflect.TypeFor[store.Store]().Methods() {
		if asked[m.Name] == nil && !elsewhere[m.Name] {
			f.Errorf("nobody asks %s for another tenant's thing", m.Name)
		}
	}
}
