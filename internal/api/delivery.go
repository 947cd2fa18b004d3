package api

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// wireDelivery is a delivery as callers see it in lists.
type wireDelivery struct {
	ID               string                `json:"id" example:"dlv_01k8x3m5t2f4v9z7q1c6b8n0da"`
	Tenant           string                `json:"tenant" example:"default"`
	Endpoint         string                `json:"endpoint" doc:"The endpoint's ID; it may have been deleted since." example:"ep_01k8x3m5t2f4v9z7q1c6b8n0da"`
	Event            string                `json:"event" example:"evt_01k8x3m5t2f4v9z7q1c6b8n0da"`
	Run              *string               `json:"run" doc:"The run that it tells of; null for a plain event." example:"null"`
	Type             string                `json:"type" example:"link.created"`
	WebhookID        string                `json:"webhook_id" doc:"What the receiver sees as the message's ID, the same in every attempt." example:"evt_01k8x3m5t2f4v9z7q1c6b8n0da"`
	Contract         string                `json:"contract" example:"standard"`
	ContractRevision string                `json:"contract_revision" example:"5f0c2d9a7b31"`
	Trigger          contract.Trigger      `json:"trigger" doc:"What made it." example:"event"`
	Status           contract.Status       `json:"status" doc:"As its contract shows it. pending: it waits. sending: a request of over a second is under way. The others are final." example:"delivered"`
	Reason           *webhook.Reason       `json:"reason" doc:"Why it waits or ended otherwise than by an answer; may stand beside failure_kind. More reasons may come." example:"null"`
	FailureKind      *contract.FailureKind `json:"failure_kind" doc:"Why the last attempt failed; null when none did, and after a success." example:"null"`
	Round            int                   `json:"round" doc:"1 for the first sending; each resend starts another." example:"1"`
	Degraded         bool                  `json:"degraded" doc:"The round has the fewer attempts that the contract gives to endpoints marked as degraded." example:"false"`
	AttemptCount     int                   `json:"attempt_count" doc:"Attempts of this round that counted." example:"1"`
	StatusCode       *int                  `json:"status_code" doc:"HTTP status of the last attempt; null when it got none." example:"200"`
	DurationMS       *float64              `json:"duration_ms" doc:"Duration of the last attempt in milliseconds." example:"34.2"`
	NextAttemptAt    *stamp                `json:"next_attempt_at" doc:"When it is tried next; null once it is final, and while it stands in line behind another one of its ordering key." example:"null"`
	OrderingKey      *string               `json:"ordering_key" example:"null"`
	ExpiresAt        *stamp                `json:"expires_at" example:"null"`
	CreatedAt        stamp                 `json:"created_at" example:"2026-05-22T14:32:18.851Z"`
	FinishedAt       *stamp                `json:"finished_at" example:"2026-05-22T14:32:18.912Z"`
	Replaces         *string               `json:"replaces" doc:"The delivery that this one was made from, by a redelivery or a replay." example:"null"`
	ReplacedBy       *string               `json:"replaced_by" doc:"The delivery that took this one's place, of one that was redelivered." example:"null"`
}

// wireDeliveryDetail is one delivery with what was sent and what came back.
type wireDeliveryDetail struct {
	wireDelivery
	Body           *string           `json:"body" doc:"What is sent, byte for byte; null once the payload was erased." example:"{\"type\":\"link.created\",\"timestamp\":\"2026-05-22T14:32:18.847Z\",\"data\":{}}"`
	BodyEncoding   *string           `json:"body_encoding" doc:"utf8 or base64." example:"utf8"`
	ContentType    *string           `json:"content_type" doc:"The request's content type." example:"application/json"`
	RequestHeaders map[string]string `json:"request_headers" doc:"The headers of its requests as the endpoint is now; secret ones are masked." example:"{\"webhook-id\":\"evt_01k8x3m5t2f4v9z7q1c6b8n0da\",\"X-Api-Key\":\"[redacted]\"}"`
	Attempts       []wireAttempt     `json:"attempts" doc:"Every attempt, oldest first."`
}

type wireAttempt struct {
	ID                string                `json:"id" example:"att_01k8x3m5t2f4v9z7q1c6b8n0da"`
	Round             int                   `json:"round" example:"1"`
	Number            int                   `json:"number" doc:"Counts the rows of the log over the delivery's life." example:"1"`
	Try               int                   `json:"try" doc:"Counts the attempts of the round; it repeats after one that did not count." example:"1"`
	At                stamp                 `json:"at" example:"2026-05-22T14:32:18.870Z"`
	DurationMS        *float64              `json:"duration_ms" doc:"null for an attempt whose end was lost." example:"34.2"`
	StatusCode        *int                  `json:"status_code" example:"200"`
	FailureKind       *contract.FailureKind `json:"failure_kind" example:"null"`
	Error             *string               `json:"error" doc:"What happened, in words; null for a success." example:"null"`
	Address           *string               `json:"address" doc:"The address that was dialled." example:"203.0.113.7:443"`
	Response          *string               `json:"response" doc:"The beginning of the answer's body." example:"ok"`
	ResponseEncoding  *string               `json:"response_encoding" doc:"utf8 or base64." example:"utf8"`
	ResponseTruncated bool                  `json:"response_truncated" doc:"The answer's body was longer, or broke off." example:"false"`
	Superseded        bool                  `json:"superseded" doc:"The result came after the delivery had moved on." example:"false"`
}

func (a *API) deliveryOperations() []*operation {
	detail := a.schemas.of(reflect.TypeFor[wireDeliveryDetail]())
	all := []*operation{
		{
			id: "listDeliveries", method: http.MethodGet, path: "/v1/deliveries", tag: "deliveries", scope: webhook.ScopeRead, tenancy: tenantAcross,
			summary: "List deliveries", description: "Several values of one filter are alternatives; filters combine.", list: true, params: append(listParams(), deliveryParams()...), handle: a.listDeliveries,
			answers: []answer{{status: 200, description: "A page of deliveries.", schema: a.schemas.listOf(a.schemas.of(reflect.TypeFor[wireDelivery]()), "DeliveryList")}},
		},
		{
			id: "getDelivery", method: http.MethodGet, path: "/v1/deliveries/{id}", tag: "deliveries", scope: webhook.ScopeRead, tenancy: tenantOne,
			summary: "Read a delivery", handle: a.getDelivery,
			answers: []answer{{status: 200, description: "The delivery with its body, headers and attempts.", schema: detail}},
		},
		{
			id: "cancelDelivery", method: http.MethodPost, path: "/v1/deliveries/{id}/cancel", tag: "deliveries", scope: webhook.ScopeManage, tenancy: tenantOne,
			summary: "Cancel a delivery", body: a.schemas.emptyBody(), handle: a.cancelDelivery, refusals: []webhook.Code{webhook.CodeConflict},
			description: "It is not sent any more; a request under way may still deliver. Canceling a canceled one changes nothing; one that ended otherwise is refused.",
			answers:     []answer{{status: 200, description: "The canceled delivery.", schema: detail}},
		},
	}
	return append(append(all, a.deliveryLogOperations()...), a.againOperations()...)
}

func (a *API) getDelivery(c *call) (reply, error) {
	d, err := a.cfg.Store.GetDelivery(c.r.Context(), c.tenant, c.id())
	if err != nil {
		return reply{}, err
	}
	return a.deliveryReply(c, d)
}

func (a *API) cancelDelivery(c *call) (reply, error) {
	canceled, err := a.cfg.Store.CancelDelivery(c.r.Context(), c.tenant, c.id(), c.now)
	if err != nil {
		return reply{}, err
	}
	d, err := a.cfg.Store.GetDelivery(c.r.Context(), c.tenant, c.id())
	if err != nil {
		return reply{}, err
	}
	if !canceled && d.Status != webhook.StatusCanceled {
		return reply{}, webhook.NewProblem(webhook.CodeConflict, "the delivery has ended already; its status is "+string(a.shownStatus(d)))
	}
	return a.deliveryReply(c, d)
}

// deliveryReply adds what was or would be sent, and the attempts. The endpoint
// and the event may be gone by now: the log outlives both.
func (a *API) deliveryReply(c *call, d *webhook.Delivery) (reply, error) {
	ctx := c.r.Context()
	attempts, err := a.cfg.Store.ListAttempts(ctx, d.Tenant, d.ID)
	if err != nil {
		return reply{}, err
	}
	detail := wireDeliveryDetail{wireDelivery: a.showDelivery(d), RequestHeaders: map[string]string{}, Attempts: make([]wireAttempt, len(attempts))}
	for i := range attempts {
		detail.Attempts[i] = showAttempt(&attempts[i])
	}
	ev, err := a.cfg.Store.GetEvent(ctx, d.Tenant, d.Event)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return reply{}, err
	}
	e, err := a.cfg.Store.GetEndpoint(ctx, d.Tenant, d.Endpoint)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return reply{}, err
	}
	if err := a.addRequest(&detail, d, ev, e); err != nil {
		return reply{}, fmt.Errorf("rendering delivery %s: %w", d.ID, err)
	}
	return reply{status: http.StatusOK, value: detail}, nil
}

func (a *API) addRequest(detail *wireDeliveryDetail, d *webhook.Delivery, ev *webhook.Event, e *webhook.Endpoint) error {
	if ev != nil && ev.Erased {
		ev = nil
	}
	sent, err := a.cfg.Render(d, ev, e)
	if err != nil {
		return err
	}
	for _, h := range sent.Headers {
		value := h.Value.Reveal()
		if h.Secret {
			value = webhook.Redacted
		}
		detail.RequestHeaders[h.Name] = value
		if strings.EqualFold(h.Name, "Content-Type") {
			detail.ContentType = &value
		}
	}
	if ev != nil {
		text, encoding := asText(sent.Body)
		detail.Body, detail.BodyEncoding = &text, &encoding
	}
	return nil
}

func (a *API) showDelivery(d *webhook.Delivery) wireDelivery {
	return wireDelivery{
		ID: d.ID, Tenant: d.Tenant, Endpoint: d.Endpoint, Event: d.Event, Run: orNull(d.Run), Type: d.Type, WebhookID: d.WebhookID,
		Contract: d.Contract, ContractRevision: d.ContractRevision, Trigger: d.Trigger, Status: a.shownStatus(d), Reason: orNull(d.Reason),
		FailureKind: orNull(d.FailureKind), Round: d.Round, Degraded: d.Degraded, AttemptCount: d.AttemptCount, StatusCode: orNull(d.StatusCode),
		DurationMS: milliseconds(d.Duration), NextAttemptAt: stampOrNull(d.NextAttemptAt), OrderingKey: orNull(d.OrderingKey),
		ExpiresAt: stampOrNull(d.ExpiresAt), CreatedAt: stamp(d.CreatedAt), FinishedAt: stampOrNull(d.FinishedAt),
		Replaces: orNull(d.Replaces), ReplacedBy: orNull(d.ReplacedBy),
	}
}

// shownStatus is a delivery's status as its own contract shows it (P6).
func (a *API) shownStatus(d *webhook.Delivery) contract.Status {
	if own := a.cfg.Contracts.Promised(d.Contract, d.ContractRevision); own != nil {
		return own.Shown(d.Status)
	}
	return d.Status
}

func showAttempt(t *webhook.Attempt) wireAttempt {
	shown := wireAttempt{
		ID: t.ID, Round: t.Round, Number: t.Number, Try: t.Try, At: stamp(t.At), DurationMS: milliseconds(t.Duration),
		StatusCode: orNull(t.StatusCode), FailureKind: orNull(t.FailureKind), Error: orNull(t.Error), Address: orNull(t.Address),
		ResponseTruncated: t.Truncated, Superseded: t.Superseded,
	}
	if t.StatusCode != 0 {
		text, encoding := asText(t.Response)
		shown.Response, shown.ResponseEncoding = &text, &encoding
	}
	return shown
}
