package contract

import "slices"

// Again is what a person's wish to send a delivery once more comes to.
type Again string

// Ways of sending again.
const (
	AgainNot       Again = ""          // the status does not allow it
	AgainResend    Again = "resend"    // the same delivery, a new round
	AgainRedeliver Again = "redeliver" // a new delivery of the same event or run
	AgainOff       Again = "off"       // it would, were the endpoint on
)

// SendAgain decides what resending a delivery of a status means: the contract's
// resend where the status allows it, else its redelivery (S8, S11, P7, E11).
// Tests are never sent again.
func (c *Contract) SendAgain(s Status, t Trigger, endpointOn bool) Again {
	way := AgainNot
	switch {
	case t == TriggerTest || !s.Final() || s == StatusRedelivered:
		return AgainNot
	case slices.Contains(c.Resend.From, s):
		way = AgainResend
	case c.redelivers(s):
		way = AgainRedeliver
	}
	if way != AgainNot && c.Resend.NeedsOn && !endpointOn {
		return AgainOff
	}
	return way
}

// Redelivers tells whether a delivery can be replaced by a new one, as replays
// and the enabling of an endpoint do.
func (c *Contract) Redelivers(s Status, t Trigger) bool {
	return t != TriggerTest && s.Final() && s != StatusRedelivered && c.redelivers(s)
}

func (c *Contract) redelivers(s Status) bool { return slices.Contains(c.Redeliver.From, s) }

// ResendTerms are the terms of a resend's round.
func (c *Contract) ResendTerms(of Terms) Terms {
	of.Trigger = TriggerResend
	of.Once = c.Resend.Attempts == "once"
	return of
}
