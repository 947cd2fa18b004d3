package contract

// Return is what becomes of what an endpoint missed when it is switched on again.
type Return struct {
	// Backlog: what was held goes out, oldest first; else it is skipped.
	Backlog bool
	// SkipMissed: what came while the endpoint was off is skipped all the same
	// (resume "now").
	SkipMissed bool
	// Redeliver: dead deliveries are redelivered in the same order (S10).
	Redeliver bool
}

// SwitchOn says what switching an endpoint on does. was is how it was off:
// BecameDisabled, or BecamePaused for a pause of whatever reason. skip asks for
// what was missed to be left out; ok is false where the contract does not allow
// that.
func (c *Contract) SwitchOn(was Transition, skip bool) (r Return, ok bool) {
	if was == BecameDisabled {
		r = Return{Backlog: c.OnEnable.Held == heldBacklog, Redeliver: c.OnEnable.Dead == deadRedeliver}
	} else {
		r = Return{Backlog: c.OnResume.Held == heldBacklog, Redeliver: c.OnResume.Dead == deadRedeliver}
	}
	r.SkipMissed = skip
	return r, !skip || c.OnEnable.MaySkip
}

// SkipsNew tells whether events that come while an endpoint is off are skipped.
func (c *Contract) SkipsNew() bool { return c.Off.New == FateSkip }

// SkipsWaiting tells whether what waits is skipped when an endpoint goes off.
func (c *Contract) SkipsWaiting() bool { return c.Off.Waiting == FateSkip }

// Orders tells whether deliveries of one key wait for each other.
func (c *Contract) Orders() bool { return c.Order.Mode == orderStrict }

// Words of on_resume, on_enable and order.
const (
	heldBacklog   = "backlog"
	deadRedeliver = "redeliver"
	orderStrict   = "strict"
)
