package storetest

import (
	"errors"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Contracts that tests know beside the built-in ones, by what they are like.
const (
	noticeContract = "notices" // a message ID per delivery, a gate by URL, redelivery marks the old row
	switchContract = "switch"  // resends from any end, shows no sending
)

// promises finds the tests' contracts, in whatever revision.
func promises(name, revision string) *contract.Contract {
	switch name {
	case noticeContract:
		return &contract.Contract{
			Name: name, WebhookID: contract.PerDelivery,
			Gate: contract.Gate{Any: true, Scope: string(webhook.GateURL), PassedBy: []contract.Trigger{
				contract.TriggerTest, contract.TriggerResend, contract.TriggerRedelivery,
			}},
			Redeliver: contract.Redeliver{From: []contract.Status{contract.StatusDead, contract.StatusFailed}, MarksOld: "redelivered"},
		}
	case switchContract:
		return &contract.Contract{
			Name: name, WebhookID: contract.PerEvent,
			Resend:  contract.Resend{From: []contract.Status{contract.StatusDelivered, contract.StatusFailed, contract.StatusSkipped}, Attempts: "once"},
			History: contract.History{Statuses: map[contract.Status]contract.Status{contract.StatusSending: contract.StatusPending}},
		}
	default:
		return Builtin(name, revision)
	}
}

// under puts an event's deliveries under a contract.
func under(name string, p store.AcceptParams) store.AcceptParams {
	for i := range p.Targets {
		p.Targets[i].Contract = name
	}
	return p
}

// sendUnder takes in one event for one endpoint under a contract.
func (f *fixture) sendUnder(name string, e *webhook.Endpoint) store.Work {
	f.Helper()
	return f.accept(under(name, f.event(e)))[0].Fresh[0]
}

// dead lets a delivery end without a way on.
func (f *fixture) dead(w store.Work) store.Work {
	f.Helper()
	f.record(f.end(w, contract.StatusDead, webhook.WhyExhausted))
	return w
}

// again asks for deliveries to be sent again.
func (f *fixture) again(decide func(*webhook.Delivery, *webhook.Endpoint) (store.Again, error), ids ...string) []store.SentAgain {
	f.Helper()
	results, err := f.SendAgain(f.ctx, store.SendAgainParams{Tenant: webhook.DefaultTenant, IDs: ids, Decide: decide, Now: f.now, Ready: f.now})
	f.ok(err)
	return results
}

// errRefused is a decision against sending again.
var errRefused = errors.New("refused")

// resent decides for another round; what has not ended is refused.
func resent(d *webhook.Delivery, _ *webhook.Endpoint) (store.Again, error) {
	if !d.Status.Final() {
		return store.Again{}, errRefused
	}
	return store.Again{Terms: contract.Terms{Trigger: contract.TriggerResend, Once: true}, ByPerson: true}, nil
}

// redelivered decides for a new delivery in the old one's place.
func redelivered(d *webhook.Delivery, _ *webhook.Endpoint) (store.Again, error) {
	if d.Status != contract.StatusDead {
		return store.Again{}, errRefused
	}
	return store.Again{
		New: true, Contract: d.Contract, ContractRevision: contractRevision, Terms: contract.Terms{Trigger: contract.TriggerRedelivery}, MarkOld: true,
	}, nil
}

// replayed decides for a new delivery beside the old one.
func replayed(d *webhook.Delivery, _ *webhook.Endpoint) (store.Again, error) {
	if !d.Status.Final() {
		return store.Again{}, errRefused
	}
	return store.Again{
		New: true, Contract: d.Contract, ContractRevision: contractRevision, Terms: contract.Terms{Trigger: contract.TriggerReplay}, ByPerson: true,
	}, nil
}

// byID reads a delivery of the default tenant.
func (f *fixture) byID(id string) *webhook.Delivery {
	f.Helper()
	d, err := f.GetDelivery(f.ctx, webhook.DefaultTenant, id)
	f.ok(err)
	return d
}

// listed are the IDs that a filter finds in the default tenant, oldest first.
func (f *fixture) listed(filter store.DeliveryFilter) []string {
	f.Helper()
	page, err := f.ListDeliveries(f.ctx, webhook.DefaultTenant, filter, store.Page{Limit: 250, Ascending: true})
	f.ok(err)
	ids := []string{}
	for _, d := range page.Items {
		ids = append(ids, d.ID)
	}
	return ids
}

// later is a moment after the fixture's own.
func (f *fixture) later(d time.Duration) time.Time { return f.now.Add(d) }
