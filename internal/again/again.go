package again

import (
	"fmt"
	"slices"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// marksOld is what redeliver.marks_old says where the old row is replaced.
const marksOld = "redelivered"

// Contracts finds promises, in memory.
type Contracts interface {
	// Promised is what a delivery was promised under; nil where it is not known.
	Promised(name, revision string) *contract.Contract
	// Current is the present revision of a contract; nil where there is none.
	Current(name string) (c *contract.Contract, revision string)
}

// Decide is the form of the decisions that callers of the API ask for
// (store.SendAgainParams). An error that is a Refused is the caller's to read.
type Decide func(*webhook.Delivery, *webhook.Endpoint) (store.Again, error)

// Resend decides what a person's wish to send a delivery again comes to: its
// contract's resend where the status allows it, else its redelivery, else a
// Refused. now is the wall time.
func Resend(all Contracts, now time.Time) Decide {
	return func(d *webhook.Delivery, e *webhook.Endpoint) (store.Again, error) {
		own, err := promise(all, d, e)
		if err != nil {
			return store.Again{}, err
		}
		switch own.SendAgain(d.Status, d.Trigger, e.On()) {
		case contract.AgainResend:
			return resend(own, d), nil
		case contract.AgainRedeliver:
			if !byHand(own, d.Status) {
				return store.Again{}, RefusedReplay
			}
			return renew(all, own, d, e, contract.TriggerRedelivery, now, true)
		case contract.AgainOff:
			if !resends(own, d) && !byHand(own, d.Status) {
				return store.Again{}, RefusedReplay
			}
			return store.Again{}, RefusedOff
		case contract.AgainNot:
		}
		return store.Again{}, refusal(d)
	}
}

// Event decides the replay of one event (E11): a new delivery with the whole
// schedule, from any status that its contract redelivers. Under a contract that
// makes no new deliveries it is that contract's resend (P7).
func Event(all Contracts, now time.Time) Decide {
	return func(d *webhook.Delivery, e *webhook.Endpoint) (store.Again, error) {
		own, err := promise(all, d, e)
		if err != nil {
			return store.Again{}, err
		}
		renews := own.Redelivers(d.Status, d.Trigger)
		if !renews && (renewsAny(own) || !resends(own, d)) {
			return store.Again{}, refusal(d)
		}
		if own.Resend.NeedsOn && !e.On() {
			return store.Again{}, RefusedOff
		}
		if renews {
			return renew(all, own, d, e, contract.TriggerReplay, now, true)
		}
		return resend(own, d), nil
	}
}

// Replay decides for a replay's job, one delivery after the other: each is
// redelivered (S11), or resent under a contract that makes no new deliveries. ok
// is false for one that the contract lets nobody send again. Whether the endpoint
// is on is the job's to see: it waits while it is not.
func Replay(all Contracts, now time.Time) func(*webhook.Delivery, *webhook.Endpoint) (again store.Again, ok bool) {
	return func(d *webhook.Delivery, e *webhook.Endpoint) (store.Again, bool) {
		own, err := promise(all, d, e)
		if err != nil {
			return store.Again{}, false
		}
		if own.Redelivers(d.Status, d.Trigger) {
			made, err := renew(all, own, d, e, contract.TriggerRedelivery, now, false)
			return made, err == nil
		}
		if renewsAny(own) || !resends(own, d) {
			return store.Again{}, false
		}
		again := resend(own, d)
		again.ByPerson = false
		return again, true
	}
}

// promise finds what a delivery was promised under.
func promise(all Contracts, d *webhook.Delivery, e *webhook.Endpoint) (*contract.Contract, error) {
	if e == nil {
		return nil, RefusedDeleted
	}
	own := all.Promised(d.Contract, d.ContractRevision)
	if own == nil {
		return nil, fmt.Errorf("sending delivery %s again: contract %s in revision %s is unknown", d.ID, d.Contract, d.ContractRevision)
	}
	return own, nil
}

// renewsAny tells whether a contract makes new deliveries at all.
func renewsAny(c *contract.Contract) bool { return len(c.Redeliver.From) > 0 }

// resends tells whether the contract's resend takes a delivery, were its endpoint
// on.
func resends(own *contract.Contract, d *webhook.Delivery) bool {
	return own.SendAgain(d.Status, d.Trigger, true) == contract.AgainResend
}

// byHand tells whether a person's wish for one delivery may redeliver it from a
// status. Where the new one takes the old one's place in the log, that is for
// what was given up; what was delivered or skipped is a replay's to choose (S11).
func byHand(own *contract.Contract, s contract.Status) bool {
	if own.Redeliver.MarksOld != marksOld || s == own.Exhausted.Status {
		return true
	}
	return slices.ContainsFunc(own.Stop, func(stop contract.Stop) bool { return stop.Status == s })
}

// resend is another round of the delivery itself.
func resend(own *contract.Contract, d *webhook.Delivery) store.Again {
	return store.Again{
		Terms:    own.ResendTerms(contract.Terms{Trigger: d.Trigger, Degraded: d.Degraded, Once: d.Once}),
		ByPerson: true,
	}
}

// renew is a new delivery under the endpoint's present contract. What becomes of
// the old row is the old one's promise.
func renew(all Contracts, own *contract.Contract, d *webhook.Delivery, e *webhook.Endpoint, t contract.Trigger, now time.Time, byPerson bool) (store.Again, error) {
	present, revision := all.Current(e.Contract)
	if present == nil {
		return store.Again{}, fmt.Errorf("sending delivery %s again: contract %s of its endpoint is unknown", d.ID, e.Contract)
	}
	made := store.Again{
		New: true, Contract: e.Contract, ContractRevision: revision,
		Terms:   contract.Terms{Trigger: t, Degraded: now.Before(e.Health.DegradedUntil)},
		MarkOld: own.Redeliver.MarksOld == marksOld, ByPerson: byPerson,
	}
	// Replays pass the line of their key, redeliveries join its tail (N15).
	if t == contract.TriggerRedelivery && (present.Orders() || e.Ordering != nil) {
		made.Key = d.OrderingKey
	}
	return made, nil
}
