package again

import (
	"github.com/posthorn/posthorn/internal/webhook"
)

// Refused says why a delivery can't be sent again. It is an error whose text
// callers may read.
type Refused string

// Why a delivery can't be sent again.
const (
	RefusedTest        Refused = "test"        // tests never are
	RefusedUnfinished  Refused = "unfinished"  // it still waits or is being sent
	RefusedRedelivered Refused = "redelivered" // a new delivery took its place
	RefusedStatus      Refused = "status"      // its contract does not send it again from there
	RefusedReplay      Refused = "replay"      // only a replay sends it again from there
	RefusedDeleted     Refused = "deleted"     // its endpoint was deleted
	RefusedOff         Refused = "off"         // its endpoint is off
)

// Error implements error.
func (r Refused) Error() string {
	switch r {
	case RefusedTest:
		return "it is a test, and tests are never sent again"
	case RefusedUnfinished:
		return "it has not ended yet: it is still to be sent, or being sent"
	case RefusedRedelivered:
		return "it was redelivered already: a new delivery took its place"
	case RefusedReplay:
		return "it was not given up; a replay of its event or its endpoint sends it again"
	case RefusedDeleted:
		return "its endpoint was deleted"
	case RefusedOff:
		return "its endpoint is off: switch it on first"
	case RefusedStatus:
	}
	return "its contract does not send it again from the status that it ended in"
}

// refusal says why the contract does not take a delivery.
func refusal(d *webhook.Delivery) error {
	switch {
	case d.Trigger == webhook.TriggerTest:
		return RefusedTest
	case !d.Status.Final():
		return RefusedUnfinished
	case d.Status == webhook.StatusRedelivered:
		return RefusedRedelivered
	default:
		return RefusedStatus
	}
}
