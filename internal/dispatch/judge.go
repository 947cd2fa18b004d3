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
	f.record = store.RecordParams{
		Ref: w.Ref, Tenant: w.Tenant, Endpoint: w.Endpoint,
		Round: w.Round, Attempts: w.Attempts,
		Now: d.cfg.Clock.Wall(),
	}
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
		d.decide(f)
	case howWithdrawn, howUnread: // these write nothing
	}
}

// logTry makes the log's row of a try; whether it counts is not known yet.
func (d *Dispatcher) logTry(f *flight) {
	o, w := &f.outcome, &f.it.work
	f.attempt = webhook.Attempt{
		Round: w.Round, Try: w.Attempts + 1,
		At: o.StartedAt, Duration: o.Duration, StatusCode: o.StatusCode,
		Error: o.Message, Address: o.Address,
		Response: o.Response, Truncated: o.ResponseTruncated || o.ResponseBroken,
	}
	if f.attempt.At.IsZero() {
		f.attempt.At = f.record.Now
	}
	f.record.Attempt = &f.attempt
}

// waitAgain leaves the delivery as it was, due at once.
func (d *Dispatcher) waitAgain(f *flight) {
	f.record.Status, f.record.Reason = contract.StatusPending, webhook.WhyInterrupted
	f.record.NextAt = d.now()
}

// decide applies the contract to a try. A request that could not be put together
// (FaultPrepare: a stored row is bad, B84) is a failed try by the schedule, which
// leaves time to mend the row, but says nothing about the endpoint's health.
func (d *Dispatcher) decide(f *flight) {
	o := &f.outcome
	kind := o.Kind
	if o.Fault != webhook.FaultNone && kind == contract.KindNone {
		kind = contract.KindNetwork
	}
	dec := d.after(f, contract.Answer{Kind: kind, StatusCode: o.StatusCode, RetryAfter: o.RetryAfter})
	d.apply(f, dec)
	if o.Fault != webhook.FaultNone {
		f.record.Counts = false
	}
}

// after asks the contract's rules after a try. Without a contract there is no
// schedule: the delivery ends.
func (d *Dispatcher) after(f *flight, a contract.Answer) contract.Decision {
	if f.contract == nil {
		return contract.Decision{Status: contract.StatusFailed, Ending: contract.ByStop, Kind: a.Kind, Counted: true}
	}
	return f.contract.After(contract.Tried{
		Terms:  contract.Terms{Trigger: f.it.work.Trigger},
		Try:    f.it.work.Attempts + 1,
		Answer: a,
		// The endpoint as it is after the try.
		EndpointDeleted: f.deleted,
		EndpointOn:      f.state == webhook.EndpointActive,
		EndedAt:         f.record.Now,
	}, d.cfg.Random())
}

// apply writes a decision into the record.
func (d *Dispatcher) apply(f *flight, dec contract.Decision) {
	r := &f.record
	r.Status, r.Reason, r.FailureKind = dec.Status, f.reason(dec.Ending), dec.Kind
	r.Contract, r.Counts, r.Lapse = f.contract, dec.Health && f.contract != nil, d.cfg.TimeLapse
	f.attempt.Counted, f.attempt.FailureKind = dec.Counted, dec.Kind
	if dec.Status == contract.StatusPending {
		r.NextAt = d.now()
		if dec.Ending == contract.ByRetry {
			r.NextAt = r.NextAt.Add(d.lapse(dec.Wait))
		}
	}
	if dec.Disable {
		r.Disable = webhook.ReasonGone
		d.bar(f)
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

// bar keeps the lane from starting anything until the disabling is committed.
func (d *Dispatcher) bar(f *flight) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f.bars = true
	f.lane.barred++
	f.lane.epoch.Add(1)
}

// notice is the data of an operational event about a delivery (N19): IDs and
// facts, nothing of the payload.
type notice struct {
	Endpoint string `json:"endpoint"`
	// State and StateReason are the endpoint's; only in endpoint.disabled.
	State       webhook.EndpointState `json:"state,omitempty"`
	StateReason webhook.StateReason   `json:"state_reason,omitempty"`
	Delivery    string                `json:"delivery"`
	Event       string                `json:"event"`
	Type        string                `json:"type"`
	Attempts    int                   `json:"attempts"`
	FailureKind contract.FailureKind  `json:"failure_kind"`
	// StatusCode is null when no complete headers came.
	StatusCode *int `json:"status_code"`
}

// emit adds the operational events that a decision raises. Deliveries of such
// events raise none.
func (d *Dispatcher) emit(f *flight, dec contract.Decision) {
	w := &f.it.work
	if (len(dec.Emit) == 0 && !dec.Disable) || webhook.Operational(w.Type) {
		return
	}
	n := notice{
		Endpoint: f.endpoint.ID, Delivery: w.DeliveryID, Event: w.EventID, Type: w.Type,
		Attempts: w.Attempts, FailureKind: dec.Kind,
	}
	if dec.Counted {
		n.Attempts++
	}
	if code := f.attempt.StatusCode; code != 0 {
		n.StatusCode = &code
	}
	for _, eventType := range dec.Emit {
		d.raise(f, eventType, n)
	}
	if dec.Disable {
		n.State, n.StateReason = webhook.EndpointDisabled, webhook.ReasonGone
		d.raise(f, webhook.TypeEndpointDisabled, n)
	}
}

func (d *Dispatcher) raise(f *flight, eventType string, n notice) {
	data, err := json.Marshal(n)
	if err != nil {
		return // strings and numbers always marshal
	}
	p := store.AcceptParams{
		Tenant: f.it.work.Tenant, Type: eventType, Data: data,
		ContentType: "application/json", Now: f.record.Now, Ready: d.now(),
	}
	d.cfg.Match(&p)
	f.record.Emit = append(f.record.Emit, p)
}

// rematch finds the targets of a record's events anew (N2).
func (d *Dispatcher) rematch(f *flight) {
	for i := range f.record.Emit {
		d.cfg.Match(&f.record.Emit[i])
	}
}

// judgeLost makes the record of an attempt whose end was lost with its process
// (N14): in the log, not counted, due at once. The third in a row counts as a
// failure by the contract, since the delivery itself may be what kills.
func (d *Dispatcher) judgeLost(f *flight, m store.Mark) {
	w := &f.it.work
	f.record = store.RecordParams{
		Ref: w.Ref, Tenant: w.Tenant, Endpoint: w.Endpoint,
		Round: m.Round, Attempts: m.Attempts,
		Attempt: &f.attempt, Interrupted: w.Interrupted + 1,
		Now: d.cfg.Clock.Wall(),
	}
	f.attempt = webhook.Attempt{Round: m.Round, Try: m.Try, At: m.At.UTC().Truncate(time.Millisecond), Error: textLost}
	if f.deleted {
		f.record.Status, f.record.Reason = contract.StatusCanceled, webhook.WhyEndpointDeleted
		return
	}
	if f.record.Interrupted >= poison {
		dec := d.after(f, contract.Answer{Kind: contract.KindNetwork})
		if dec.Ending != contract.ByPause {
			f.record.Interrupted = 0
			d.apply(f, dec)
			return
		}
	}
	d.waitAgain(f)
}
