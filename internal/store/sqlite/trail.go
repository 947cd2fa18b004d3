package sqlite

import (
	"cmp"
	"encoding/json"
	"net/url"
	"time"

	"github.com/posthorn/posthorn/internal/webhook"
)

// auditEndpoint writes a change of an endpoint into the trail: the fields that
// changed. before is nil for a new one, after for a deleted one. Without an action
// it is endpoint.updated; without a reason that of the new state.
func (t *tx) auditEndpoint(by webhook.Actor, before, after *webhook.Endpoint, action, why string, now time.Time) error {
	of := cmp.Or(after, before)
	if why == "" && before != nil && after != nil && before.StateReason != after.StateReason {
		why = string(after.StateReason)
	}
	e := webhook.AuditEntry{
		At: now, Tenant: of.Tenant, Action: cmp.Or(action, "endpoint.updated"), Kind: "endpoint", Target: of.ID, Why: why,
	}
	var err error
	if e.Before, e.After, err = changedFields(before, after); err != nil {
		return err
	}
	return t.audit(by, e)
}

// trailField is a field as the trail shows it. what decides whether it changed; it
// may bear secrets and is only compared.
type trailField struct {
	name  string
	shown any
	what  any
}

// trailFields are an endpoint's fields for the trail. A URL may bear credentials,
// so only its host is shown; of headers the names, of secrets the IDs.
func trailFields(e *webhook.Endpoint) []trailField {
	if e == nil {
		return nil
	}
	host := ""
	if u, err := url.Parse(e.URL); err == nil {
		host = u.Host
	}
	names, values, secrets := []string{}, [][2]string{}, []string{}
	for _, h := range e.Headers {
		names = append(names, h.Name)
		values = append(values, [2]string{h.Name, h.Value.Reveal()})
	}
	for _, s := range e.Secrets {
		secrets = append(secrets, s.ID)
	}
	// None and empty are the same for a caller.
	metadata, events := e.Metadata, e.Events
	if len(metadata) == 0 {
		metadata = map[string]string{}
	}
	if len(events) == 0 {
		events = []string{}
	}
	plain := func(name string, v any) trailField { return trailField{name, v, v} }
	var degraded *time.Time
	if !e.Health.DegradedUntil.IsZero() {
		degraded = &e.Health.DegradedUntil
	}
	fields := []trailField{
		{"url_host", host, e.URL}, plain("events", events), plain("contract", e.Contract), plain("state", e.State),
		plain("state_reason", e.StateReason), plain("description", e.Description), plain("metadata", metadata), {"headers", names, values},
		plain("max_in_flight", e.MaxInFlight), plain("filter", e.Filter), plain("secrets", secrets), plain("degraded_until", degraded),
	}
	if e.Ordering == nil {
		return append(fields, plain("ordering", nil))
	}
	return append(fields, plain("ordering", append([]string{}, e.Ordering.From...)))
}

// changedFields are JSON objects of the fields that differ; nil for no endpoint.
func changedFields(before, after *webhook.Endpoint) (was, is json.RawMessage, err error) {
	old, present := trailFields(before), trailFields(after)
	was, err = showFields(old, present)
	if err != nil {
		return nil, nil, err
	}
	is, err = showFields(present, old)
	return was, is, err
}

// showFields shows those of the fields that others have in another form; all
// where there are no others.
func showFields(fields, others []trailField) (json.RawMessage, error) {
	if fields == nil {
		return nil, nil
	}
	shown := map[string]any{}
	for i, f := range fields {
		if others != nil {
			a, err := json.Marshal(f.what)
			if err != nil {
				return nil, err
			}
			b, err := json.Marshal(others[i].what)
			if err != nil {
				return nil, err
			}
			if string(a) == string(b) {
				continue
			}
		}
		shown[f.name] = f.shown
	}
	return told(shown)
}
