package catalog

import "github.com/posthorn/posthorn/contract"

// fact is something true of some contracts that changes what a text has to say.
type fact string

// The facts, from the most to the least particular: where several have a text,
// the first that holds gives it.
const (
	goneDisables    fact = "gone_disables"     // a 410 disables the endpoint
	endsDead        fact = "ends_dead"         // out of attempts is dead, so that failed means something else
	skipsWhileOff   fact = "skips_while_off"   // what an endpoint misses while off is not held
	deliversRuns    fact = "delivers_runs"     // a delivery is of a run
	operatorNamed   fact = "operator_named"    // the contract says who runs the platform
	pauses          fact = "pauses"            // failures in a row pause
	degrades        fact = "degrades"          // failures in a row mark
	wantsSuccess    fact = "wants_success"     // no success for long disables
	heedsAny        fact = "heeds_any"         // Retry-After of any failed answer
	heedsSome       fact = "heeds_some"        // Retry-After of some statuses
	replacesWait    fact = "replaces_wait"     // Retry-After is taken in place of the wait
	lengthensWait   fact = "lengthens_wait"    // the longer of the two is taken
	keepsResponse   fact = "keeps_response"    // the log has the beginning of an answer's body
	contractIsKnown fact = "contract_is_known" // any contract, as against none
)

func facts() []fact {
	return []fact{
		goneDisables, endsDead, skipsWhileOff, deliversRuns, operatorNamed, pauses, degrades, wantsSuccess,
		heedsAny, heedsSome, replacesWait, lengthensWait, keepsResponse, contractIsKnown,
	}
}

// holds tells whether the fact is true of a contract that Parse took.
func (f fact) holds(c *contract.Contract) bool {
	heeds := c.RetryAfter.Any || len(c.RetryAfter.On) > 0
	switch f {
	case goneDisables:
		return stopKey(c, AnswerGone) == keyStoppedDisabled
	case endsDead:
		return c.Exhausted.Status == contract.StatusDead
	case skipsWhileOff:
		return c.Off.New == contract.FateSkip && c.Off.Waiting == contract.FateSkip
	case deliversRuns:
		return c.Delivers == contract.DeliversRun
	case operatorNamed:
		return c.Operator != ""
	case pauses:
		return c.Pause.After > 0
	case degrades:
		return c.Degrade.After > 0
	case wantsSuccess:
		return c.Disable.NoSuccessFor > 0
	case heedsAny:
		return c.RetryAfter.Any
	case heedsSome:
		return len(c.RetryAfter.On) > 0
	case replacesWait:
		return heeds && c.RetryAfter.Mode == "replace"
	case lengthensWait:
		return heeds && c.RetryAfter.Mode != "replace"
	case keepsResponse:
		return c.Response.Keep > 0
	case contractIsKnown:
		return true
	}
	return false
}
