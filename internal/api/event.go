package api

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// wireEvent is an event as callers see it. data is not among its fields here:
// its bytes are put in as they were posted (showEvent).
type wireEvent struct {
	ID          string        `json:"id" example:"evt_01k8x3m5t2f4v9z7q1c6b8n0da"`
	Tenant      string        `json:"tenant" example:"default"`
	Type        string        `json:"type" example:"link.created"`
	CreatedAt   stamp         `json:"created_at" doc:"When it happened: the publisher's, else accepted_at." example:"2026-05-22T14:32:18.847Z"`
	AcceptedAt  stamp         `json:"accepted_at" doc:"When it was stored." example:"2026-05-22T14:32:18.851Z"`
	OrderingKey *string       `json:"ordering_key" example:"null"`
	DeliverAt   *stamp        `json:"deliver_at" doc:"Not sent before this time." example:"null"`
	ExpiresAt   *stamp        `json:"expires_at" doc:"Not sent from this time on." example:"null"`
	Run         *string       `json:"run" doc:"The run that it tells of; null for a plain event." example:"null"`
	ContentType string        `json:"content_type" example:"application/json"`
	Erased      bool          `json:"erased" doc:"true once the payload was erased; data is null then." example:"false"`
	Deliveries  wireEventSent `json:"deliveries"`
}

type wireEventSent struct {
	Total    int            `json:"total" doc:"How many deliveries it became." example:"2"`
	ByStatus map[string]int `json:"by_status,omitempty" doc:"How many of them stand at which status. Absent in lists: read the event itself." example:"{\"delivered\":2}"`
}

// wireEventWithData is an event with its payload, for the document.
type wireEventWithData struct {
	wireEvent
	Data json.RawMessage `json:"data" doc:"The payload, byte for byte as posted." example:"{\"link_id\":\"lnk_2g3jQpRyXz4Mn8VbF7Hkl\"}"`
}

func (a *API) eventOperations() []*operation {
	listed := a.schemas.of(reflect.TypeFor[wireEvent]())
	one := a.schemas.of(reflect.TypeFor[wireEventWithData]())
	params := append(listParams(),
		param{name: "type", in: "query", many: true, schema: typeSchema(), description: "Only these types.", example: "link.created"},
		param{name: "ordering_key", in: "query", schema: keySchema(), description: "Only events with this ordering key.", example: "lnk_2g3jQpRyXz4Mn8VbF7Hkl"},
	)
	params = append(params, spanParams()...)
	return []*operation{
		a.publishOperation(),
		{
			id: "listEvents", method: http.MethodGet, path: "/v1/events", tag: "events", scope: webhook.ScopeRead, tenancy: tenantAcross,
			summary: "List events", description: "Without their payload.", list: true, params: params, handle: a.listEvents,
			answers: []answer{{status: 200, description: "A page of events.", schema: a.schemas.listOf(listed, "EventList")}},
		},
		{
			id: "getEvent", method: http.MethodGet, path: "/v1/events/{id}", tag: "events", scope: webhook.ScopeRead, tenancy: tenantOne,
			summary: "Read an event", handle: a.getEvent,
			answers: []answer{{status: 200, description: "The event with its payload.", schema: one}},
		},
		a.traceOperation(),
		{
			id: "cancelEvent", method: http.MethodDelete, path: "/v1/events/{id}", tag: "events", scope: webhook.ScopeManage, tenancy: tenantOne,
			summary: "Cancel an event's deliveries", handle: a.cancelEvent,
			description: "Deliveries that wait end as canceled; one request under way may still deliver. The event and its log stay. Safe to repeat.",
			answers:     []answer{{status: 204, description: "Nothing of the event waits any more."}},
		},
		{
			id: "eraseEventData", method: http.MethodDelete, path: "/v1/events/{id}/data", tag: "events", scope: webhook.ScopeManage, tenancy: tenantOne,
			summary: "Erase an event's payload", handle: a.eraseEventData,
			description: "The payload is deleted for good; the log stays. Deliveries that still wait end as failed with event_missing. Safe to repeat.",
			answers:     []answer{{status: 204, description: "The payload is gone."}},
		},
	}
}

// typeSchema is for filters: what was published has a type, never a pattern.
func typeSchema() *schema {
	s := &schema{
		Type: types{typeString}, MinLength: 1, MaxLength: webhook.MaxTypeLength, Pattern: `^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`,
		form: "whole event types such as link.created, several by commas; a pattern such as link.* chooses nothing here",
	}
	s.compile()
	return s
}

func keySchema() *schema {
	return &schema{Type: types{typeString}, MinLength: 1, MaxLength: webhook.MaxOrderingKeyLength}
}

func (a *API) listEvents(c *call) (reply, error) {
	page, err := a.page(c)
	if err != nil {
		return reply{}, err
	}
	filter := store.EventFilter{Types: many[string](c, "type"), OrderingKey: c.query.Get("ordering_key"), Span: c.span()}
	listed, err := a.cfg.Store.ListEvents(c.r.Context(), c.tenant, filter, page)
	if err != nil {
		return reply{}, err
	}
	return pageOf(a, c, listed, describeEvent), nil
}

func (a *API) getEvent(c *call) (reply, error) {
	e, err := a.cfg.Store.GetEvent(c.r.Context(), c.tenant, c.id())
	if err != nil {
		return reply{}, err
	}
	text, err := a.showEvent(c.r.Context(), e)
	return reply{status: http.StatusOK, raw: text, mediaType: "application/json"}, err
}

// showEvent writes an event with its payload, whose bytes go into the answer as
// they are: an encoder would lay them out anew.
func (a *API) showEvent(ctx context.Context, e *webhook.Event) ([]byte, error) {
	counts, err := a.cfg.Store.CountDeliveries(ctx, e.Tenant, e.ID)
	if err != nil {
		return nil, err
	}
	shown := describeEvent(e)
	shown.Deliveries.Total, shown.Deliveries.ByStatus = 0, make(map[string]int, len(counts))
	for status, n := range counts {
		shown.Deliveries.Total += n
		shown.Deliveries.ByStatus[string(status)] = n
	}
	head, err := encode(shown)
	if err != nil {
		return nil, err
	}
	data := e.Data
	if e.Erased || data == nil {
		data = []byte("null")
	}
	text := make([]byte, 0, len(head)+len(data)+16)
	text = append(text, head[:len(head)-1]...)
	text = append(text, `,"data":`...)
	text = append(text, data...)
	return append(text, "}\n"...), nil
}

func describeEvent(e *webhook.Event) wireEvent {
	return wireEvent{
		ID: e.ID, Tenant: e.Tenant, Type: e.Type, CreatedAt: stamp(e.CreatedAt), AcceptedAt: stamp(e.AcceptedAt),
		OrderingKey: orNull(e.OrderingKey), DeliverAt: stampOrNull(e.DeliverAt), ExpiresAt: stampOrNull(e.ExpiresAt),
		Run: orNull(e.Run), ContentType: e.ContentType, Erased: e.Erased, Deliveries: wireEventSent{Total: e.Deliveries},
	}
}

func (a *API) cancelEvent(c *call) (reply, error) {
	if _, err := a.cfg.Store.CancelEvent(c.r.Context(), c.tenant, c.id(), c.now); err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusNoContent}, nil
}

func (a *API) eraseEventData(c *call) (reply, error) {
	if err := a.cfg.Store.EraseEventData(c.r.Context(), c.tenant, c.id(), c.now); err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusNoContent}, nil
}
