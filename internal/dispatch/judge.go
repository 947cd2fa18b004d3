package dispatch

import (
	"encoding/json"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Texts of log rows that are no answer's.
const (
	textCutByStop = "interrupted: the server stopped before an answer came"
	textLost      = "interrupted: outcome unknown"
)

// poison is how many interruptions in a row count as one failure (N14).
const poison = 3

// judge makes the record of a flight: what the contract says of its outcome.
func (d *Dispatcher) judge(f *flight) {
	w := &f.it.work
	d.beginRecord(f)
	switch f.how {
	case howMissing:
		f.record.Status, f.record.Reason = contract.StatusFailed, webhook.WhyEventMissing
		f.record.FailureKind = contract.KindEventMissing
	case howExpired:
		f.record.Status, f.record.Reason = contract.StatusSkipped, webhook.WhyExpired
	case howInterrupted:
		d.logTry(f)
		f.attempt.Error, f.attempt.FailureKind = textCutByStop, contract.KindNone
		f.record.Interrupted = w.Interrupted
		d.waitAgain(f)
	case howTried:
		d.logTry(f)
		d.apply(f, f.dec)
		if f.outcome.Fault != webhook.FaultNone {
			// A request that could not be put together (FaultPrepare: a stored row is
			// bad, B84) is a failed try by the schedule, which leaves time to mend the
			// row, but says nothing about the endpoint's health.
			f.record.Counts = false
		}
	case howJoined:
		f.record.Join, f.record.Status, f.record.NextAt = true, contract.StatusPending, d.now()
	case howWithdrawn, howUnread: // these write nothing
	}
}

// beginRecord fills in what every record of a flight has. A flight's record is
// empty until then, but for Now; it is large, so it is written where it stands.
func (d *Dispatcher) beginRecord(f *flight) {
	w, r := &f.it.work, &f.record
	r.Ref, r.Tenant, r.Endpoint = w.Ref, w.Tenant, w.Endpoint
	r.Round, r.Attempts = w.Round, w.Attempts
	r.Contract, r.Lapse, r.Raise = f.contract, d.cfg.TimeLapse, f.raise
	if r.Now.IsZero() {
		r.Now = d.cfg.Clock.Wall()
	}
}

// logTry makes the log's row of a try; whether it counts is not known yet.
func (d *Dispatcher) logTry(f *flight) {
	o, w, a := &f.outcome, &f.it.work, &f.attempt
	a.Round, a.Try = w.Round, w.Attempts+1
	a.At, a.Duration, a.StatusCode = o.StartedAt, o.Duration, o.StatusCode
	a.Error, a.Address = o.Message, o.Address
	a.Response, a.Truncated = o.Response, o.ResponseTruncated || o.ResponseBroken
	if a.At.IsZero() {
		a.At = f.record.Now
	}
	f.record.Attempt = a
}

// waitAgain leaves the delivery as it was, due at once.
func (d *Dispatcher) waitAgain(f *flight) {
	f.record.Status, f.record.Reason = contract.StatusPending, webhook.WhyInterrupted
	f.record.NextAt = d.now()
}

// after asks the contract's rules after a try. Without a contract there is no
// schedule: the delivery ends.
func (d *Dispatcher) after(f *flight, a contract.Answer) contract.Decision {
	if f.contract == nil {
		return contract.Decision{Status: contract.StatusFailed, Ending: contract.ByStop, Kind: a.Kind, Counted: true}
	}
	return f.contract.After(contract.Tried{
		Terms:  termsOf(&f.it.work),
		Try:    f.it.work.Attempts + 1,
		Answer: a,
		// The endpoint as it is after the try.
		EndpointDeleted: f.deleted,
		EndpointOn:      f.state == webhook.EndpointActive,
		EndedAt:         f.record.Now,
	}, d.cfg.Random())
}

func termsOf(w *store.Work) contract.Terms {
	return contract.Terms{Trigger: w.Trigger, Degraded: w.Degraded, Once: w.Once}
}

// nextAt is when a delivery that still waits is tried next.
func (d *Dispatcher) nextAt(dec contract.Decision, now time.Time) time.Time {
	if dec.Ending == contract.ByRetry {
		return now.Add(d.lapse(dec.Wait))
	}
	return now
}

// apply writes a decision into the record.
func (d *Dispatcher) apply(f *flight, dec contract.Decision) {
	r := &f.record
	r.Status, r.Reason, r.FailureKind = dec.Status, f.reason(dec.Ending), dec.Kind
	r.Counts = dec.Health && f.contract != nil
	f.attempt.Counted, f.attempt.FailureKind = dec.Counted, dec.Kind
	if dec.Status == contract.StatusPending {
		r.NextAt = f.nextAt
	}
	if dec.Disable {
		r.Disable = webhook.ReasonGone
	}
	d.emit(f, dec)
}

func (f *flight) reason(e contract.Ending) webhook.Reason {
	switch e {
	case contract.ByAnswer:
		return webhook.WhyNone
	case contract.ByRetry:
		return webhook.WhyRetry
	case contract.ByStop:
		return webhook.WhyStopped
	case contract.ByExhaustion:
		return webhook.WhyExhausted
	case contract.ByDeletion:
		return webhook.WhyEndpointDeleted
	case contract.BySkip:
		return webhook.WhySwitchedOff
	case contract.ByPause:
		if f.state == webhook.EndpointDisabled {
			return webhook.WhyDisabled
		}
		return webhook.WhyPaused
	}
	return webhook.WhyNone
}

// notice is the data of an operational event about a delivery, or about the
// endpoint that its try has changed (N19): IDs and facts, nothing of the payload.
type notice struct {
	Endpoint string `json:"endpoint"`
	// State and StateReason are the endpoint's; only in endpoint.*.
	State       webhook.EndpointState `json:"state,omitempty"`
	StateReason webhook.StateReason   `json:"state_reason,omitempty"`
	Delivery    string                `json:"delivery"`
	Event       string                `json:"event"`
	Type        string                `json:"type"`
	Attempts    int                   `json:"attempts"`
	// FailureKind is left out after a success.
	FailureKind contract.FailureKind `json:"failure_kind,omitempty"`
	// StatusCode is null when no complete headers came.
	StatusCode *int `json:"status_code"`
}

// noticeOf tells of a flight as it is recorded.
func noticeOf(f *flight) notice {
	w := &f.it.work
	n := notice{
		Endpoint: f.endpoint.ID, Delivery: w.DeliveryID, Event: w.EventID, Type: w.Type,
		Attempts: w.Attempts, FailureKind: f.record.FailureKind,
	}
	if f.attempt.Counted {
		n.Attempts++
	}
	if code := f.attempt.StatusCode; code != 0 {
		n.StatusCode = &code
	}
	return n
}

// emit adds the operational events that a decision raises about the delivery.
// Deliveries of such events raise none.
func (d *Dispatcher) emit(f *flight, dec contract.Decision) {
	if len(dec.Emit) == 0 || webhook.Operational(f.it.work.Type) {
		return
	}
	for _, eventType := range dec.Emit {
		if p, ok := d.operational(f, eventType, noticeOf(f)); ok {
			f.record.Emit = append(f.record.Emit, p)
		}
	}
}

// raiseAbout makes an operational event about the endpoint, as the store has left
// it; the store asks for it inside its commit. The flight does not change then.
func (d *Dispatcher) raiseAbout(f *flight, eventType string, after *webhook.Endpoint) (store.AcceptParams, bool) {
	if webhook.Operational(f.it.work.Type) {
		return store.AcceptParams{}, false
	}
	n := noticeOf(f)
	n.State, n.StateReason = after.State, after.StateReason
	return d.operational(f, eventType, n)
}

func (d *Dispatcher) operational(f *flight, eventType string, n notice) (store.AcceptParams, bool) {
	data, err := json.Marshal(n)
	if err != nil {
		return store.AcceptParams{}, false // strings and numbers always marshal
	}
	p := store.AcceptParams{
		Tenant: f.it.work.Tenant, Type: eventType, Data: data,
		ContentType: "application/json", Now: f.record.Now, Ready: d.now(),
	}
	d.cfg.Match(&p)
	return p, true
}

// judgeLost makes the record of an attempt whose end was lost with its process
// (N14): in the log, not counted, due at once. The third in a row counts as a
// failure by the contract, since the delivery itself may be what kills.
func (d *Dispatcher) judgeLost(f *flight, m store.Mark) {
	w := &f.it.work
	d.beginRecord(f)
	f.record.Round, f.record.Attempts = m.Round, m.Attempts
	f.record.Attempt, f.record.Interrupted = &f.attempt, w.Interrupted+1
	f.attempt = webhook.Attempt{Round: m.Round, Try: m.Try, At: m.At.UTC().Truncate(time.Millisecond), Error: textLost}
	if f.deleted {
		f.record.Status, f.record.Reason = contract.StatusCanceled, webhook.WhyEndpointDeleted
		return
	}
	if f.record.Interrupted >= poison {
		dec := d.after(f, contract.Answer{Kind: contract.KindNetwork})
		if dec.Ending != contract.ByPause {
			f.record.Interrupted = 0
			f.nextAt = d.nextAt(dec, d.now())
			d.apply(f, dec)
			return
		}
	}
	d.waitAgain(f)
}
