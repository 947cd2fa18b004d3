package api

import (
	"context"
	"errors"
	"net/http"
	"reflect"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/publish"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Explained says what became of an event at an endpoint.
type Explained string

// What can become of an event at an endpoint. What waits has the reason for which
// it waits, where that is the endpoint's; the rest has the first one that holds.
const (
	ExplainedSent          Explained = "sent"                // it has deliveries: their statuses say how far they are
	ExplainedGated         Explained = "gated"               // its delivery waits until the URL answers again
	ExplainedOff           Explained = "off"                 // its delivery waits or was skipped, because the endpoint is or was off
	ExplainedExpanding     Explained = "expanding"           // its delivery is still being written
	ExplainedDeleted       Explained = "deleted"             // the endpoint was deleted since
	ExplainedNotSubscribed Explained = "type_not_subscribed" // none of its patterns takes the type
	ExplainedFilteredOut   Explained = "filtered_out"        // its filter does not take the event
	ExplainedNoValue       Explained = "filter_no_value"     // its filter has no value for the event
	ExplainedCreatedAfter  Explained = "created_after"       // the endpoint was made after the event
	ExplainedChangedAfter  Explained = "changed_after"       // it would take it now, and did not then
)

// explanations lists them in the order above, but for expanding: no delivery is
// written apart from its acceptance yet.
func explanations() []Explained {
	return []Explained{
		ExplainedSent, ExplainedGated, ExplainedOff, ExplainedDeleted, ExplainedNotSubscribed,
		ExplainedFilteredOut, ExplainedNoValue, ExplainedCreatedAfter, ExplainedChangedAfter,
	}
}

// traceMost bounds the deliveries of one event that a trace reads; an event has
// no more from its acceptance (N4), and few from what was sent again.
const traceMost = 10_000

// wireTraced is what became of an event at one endpoint.
type wireTraced struct {
	Endpoint   string         `json:"endpoint" example:"ep_01k8x3m5t2f4v9z7q1c6b8n0da"`
	Reason     Explained      `json:"reason" doc:"sent: it has deliveries. gated, off: its delivery waits or was skipped for this. deleted: the endpoint was deleted since. The others say why it has none. type_not_subscribed: none of its patterns takes the type. filtered_out: its filter does not take the event. filter_no_value: its filter reads what the event does not have, or has in another type. created_after: it was made after the event. changed_after: it would take the event now, and did not then. More reasons may come." example:"sent"`
	Deliveries []wireDelivery `json:"deliveries" doc:"The event's deliveries to it, newest first."`
}

// wireTrace is a page of endpoints with what became of an event at each.
type wireTrace struct {
	Event string       `json:"event" example:"evt_01k8x3m5t2f4v9z7q1c6b8n0da"`
	Type  string       `json:"type" example:"link.created"`
	Data  []wireTraced `json:"data" doc:"The tenant's endpoints. Deleted ones stand on the last page, if the event has deliveries to them."`
	Next  *string      `json:"next" doc:"The cursor of the page behind this one; null at the end."`
	Prev  *string      `json:"prev" doc:"The cursor of the page before this one; null at the beginning."`
}

func (a *API) traceOperation() *operation {
	return &operation{
		id: "traceEvent", method: http.MethodGet, path: "/v1/events/{id}/trace", tag: "events", scope: webhook.ScopeRead, tenancy: tenantOne,
		summary: "Follow an event to every endpoint", list: true, params: listParams(), handle: a.traceEvent,
		description: "Every endpoint of the tenant, with the event's deliveries to it or the reason why it has none.",
		answers:     []answer{{status: 200, description: "A page of endpoints.", schema: a.schemas.of(reflect.TypeFor[wireTrace]())}},
	}
}

func (a *API) traceEvent(c *call) (reply, error) {
	page, err := a.page(c)
	if err != nil {
		return reply{}, err
	}
	ctx := c.r.Context()
	event, err := a.cfg.Store.GetEvent(ctx, c.tenant, c.id())
	if err != nil {
		return reply{}, err
	}
	listed, err := a.cfg.Store.ListEndpoints(ctx, event.Tenant, page)
	if err != nil {
		return reply{}, err
	}
	sent, err := a.deliveriesOf(ctx, event)
	if err != nil {
		return reply{}, err
	}
	why := a.explain(event)
	out := wireTrace{Event: event.ID, Type: event.Type, Data: []wireTraced{}, Next: a.cursor(c, listed.Next, false), Prev: a.cursor(c, listed.Prev, true)}
	for _, e := range listed.Items {
		out.Data = append(out.Data, a.traceOf(e, sent.at[e.ID], why))
	}
	if listed.Next == 0 {
		gone, err := a.tracedDeleted(ctx, event, sent)
		if err != nil {
			return reply{}, err
		}
		out.Data = append(out.Data, gone...)
	}
	return reply{status: http.StatusOK, value: out}, nil
}

// sentTo is an event's deliveries by endpoint; endpoints are in the order in which
// they were met.
type sentTo struct {
	at        map[string][]*webhook.Delivery
	endpoints []string
}

func (a *API) deliveriesOf(ctx context.Context, event *webhook.Event) (sentTo, error) {
	out := sentTo{at: map[string][]*webhook.Delivery{}}
	page := store.Page{Limit: logPage}
	for n := 0; n < traceMost; n += logPage {
		listed, err := a.cfg.Store.ListDeliveries(ctx, event.Tenant, store.DeliveryFilter{Event: event.ID}, page)
		if err != nil {
			return out, err
		}
		for _, d := range listed.Items {
			if out.at[d.Endpoint] == nil {
				out.endpoints = append(out.endpoints, d.Endpoint)
			}
			out.at[d.Endpoint] = append(out.at[d.Endpoint], d)
		}
		if page.After = listed.Next; listed.Next == 0 {
			break
		}
	}
	return out, nil
}

func (a *API) traceOf(e *webhook.Endpoint, sent []*webhook.Delivery, why func(*webhook.Endpoint) Explained) wireTraced {
	out := wireTraced{Endpoint: e.ID, Deliveries: []wireDelivery{}}
	for _, d := range sent {
		out.Deliveries = append(out.Deliveries, a.showDelivery(d))
	}
	if len(sent) > 0 {
		out.Reason = whyWaits(sent[0])
	} else {
		out.Reason = why(e)
	}
	return out
}

// whyWaits says of the newest delivery to an endpoint whether the endpoint holds
// it up.
func whyWaits(d *webhook.Delivery) Explained {
	if d.Status == contract.StatusDelivered {
		return ExplainedSent
	}
	switch d.Reason { //nolint:exhaustive // because the other reasons are the delivery's own, and it tells them itself
	case webhook.WhyGated:
		return ExplainedGated
	case webhook.WhyPaused, webhook.WhyDisabled, webhook.WhySwitchedOff, webhook.WhyResumedNow:
		return ExplainedOff
	case webhook.WhyExpanding:
		return ExplainedExpanding
	default:
		return ExplainedSent
	}
}

// explain makes what says why an endpoint has no delivery of an event.
func (a *API) explain(event *webhook.Event) func(*webhook.Endpoint) Explained {
	now := map[webhook.EndpointKey]publish.Why{}
	if a.cfg.Explain != nil {
		for _, one := range a.cfg.Explain(event.Tenant, event) {
			now[one.Endpoint.Key] = one.Why
		}
	}
	return func(e *webhook.Endpoint) Explained {
		why, known := now[e.Key]
		if !known {
			why = a.wouldTake(event, e)
		}
		switch {
		case why == publish.WhyNotSubscribed:
			return ExplainedNotSubscribed
		case e.CreatedAt.After(event.AcceptedAt):
			return ExplainedCreatedAfter
		case why == publish.WhyFilteredOut:
			return ExplainedFilteredOut
		case why == publish.WhyNoValue:
			return ExplainedNoValue
		default:
			return ExplainedChangedAfter
		}
	}
}

func (a *API) wouldTake(event *webhook.Event, e *webhook.Endpoint) publish.Why {
	if !webhook.MatchAny(e.Events, event.Type) {
		return publish.WhyNotSubscribed
	}
	if _, _, ok := a.matches(event, e); !ok {
		return publish.WhyFilteredOut
	}
	return publish.WhyMatched
}

// matches tells whether an endpoint would take an event now.
func (a *API) matches(event *webhook.Event, e *webhook.Endpoint) (store.Target, string, bool) {
	if a.cfg.Matches == nil {
		return store.Target{}, "", webhook.MatchAny(e.Events, event.Type)
	}
	return a.cfg.Matches(event, e)
}

// tracedDeleted are the endpoints that the event has deliveries to and that are
// no more.
func (a *API) tracedDeleted(ctx context.Context, event *webhook.Event, sent sentTo) ([]wireTraced, error) {
	var out []wireTraced
	for _, id := range sent.endpoints {
		_, err := a.cfg.Store.GetEndpoint(ctx, event.Tenant, id)
		if err == nil {
			continue
		}
		if !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		one := wireTraced{Endpoint: id, Reason: ExplainedDeleted, Deliveries: []wireDelivery{}}
		for _, d := range sent.at[id] {
			one.Deliveries = append(one.Deliveries, a.showDelivery(d))
		}
		out = append(out, one)
	}
	return out, nil
}
