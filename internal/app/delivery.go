package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"sync"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/api"
	"github.com/posthorn/posthorn/internal/clock"
	"github.com/posthorn/posthorn/internal/dispatch"
	"github.com/posthorn/posthorn/internal/pagetoken"
	"github.com/posthorn/posthorn/internal/send"
	"github.com/posthorn/posthorn/internal/webhook"
)

// deliverer joins lanes to requests: it composes what a lane wants sent and
// gives it to the sender. It implements dispatch.Sender.
type deliverer struct {
	sender    *send.Sender
	clock     *clock.Clock
	userAgent string
	contracts *contracts
	// tokens and pages are for contracts that deliver runs: pages is where page
	// addresses begin.
	tokens    *pagetoken.Codec
	pages     string
	composers sync.Map // composerKey → *composed
}

type composerKey struct {
	endpoint webhook.EndpointKey
	contract string
	revision string
}

// composed is a composer, and the version of the endpoint and the promise that it
// was made for.
type composed struct {
	endpoint *webhook.Endpoint
	contract *contract.Contract
	composer *send.Composer
}

// Attempt implements dispatch.Sender.
func (d *deliverer) Attempt(ctx context.Context, s dispatch.Shot) webhook.Outcome {
	composer, err := d.composer(s)
	if err != nil {
		return d.unprepared()
	}
	now := d.clock.Wall()
	webhookID := webhookIDOf(s.Contract, s.Work.EventID, s.Work.DeliveryID)
	parts := send.Parts{
		TenantID: s.Work.Tenant, EventID: s.Work.EventID, EventType: s.Work.Type, CreatedAt: s.Work.CreatedAt,
		Data: s.Work.Data, WebhookID: webhookID, SentAt: now,
	}
	if s.Contract.Delivers == contract.DeliversRun {
		d.addRun(&parts, s.Work.Ref, s.Work.Run, s.Work.RunCounts)
	}
	body := send.AppendBody(nil, s.Contract, parts)
	header, err := composer.Header(webhookID, s.Try, now, body)
	if err != nil {
		return d.unprepared()
	}
	return d.sender.Send(ctx, send.Request{
		URL: s.Endpoint.URL, Header: header, Body: body, Timeout: s.Contract.Timeout.Std(),
		Read: s.Contract.Response.Read, Keep: s.Contract.Response.Keep, Contract: s.Contract,
	})
}

// addRun fills in what a run's notice says (S3). A plain event is a run of one:
// its ID is the run's. Everything is the same in all attempts of a delivery.
func (d *deliverer) addRun(p *send.Parts, ref webhook.Ref, run string, counts []byte) {
	if run == "" {
		run = p.EventID
		counts, _ = json.Marshal(webhook.RunCounts{Total: 1, ByType: map[string]int{p.EventType: 1}}) // numbers and words always marshal
	}
	p.RunID, p.RunCounts = run, counts
	p.PageToken = d.tokens.Issue(ref)
	p.PageURL = d.pages + "/v1/runs/" + url.PathEscape(run) + "/events"
}

// countsOf reads a run's counts out of the event that finishing it published.
func countsOf(event *webhook.Event) []byte {
	var data struct {
		Counts json.RawMessage `json:"counts"`
	}
	if err := json.Unmarshal(event.Data, &data); err != nil || len(data.Counts) == 0 {
		return []byte("null")
	}
	return data.Counts
}

// webhookIDOf is the message's ID as the contract means it.
func webhookIDOf(c *contract.Contract, event, delivery string) string {
	if c.WebhookID == contract.PerDelivery {
		return delivery
	}
	return event
}

// render shows what a delivery sends. What changes with each attempt, the time
// and the signature, is left out.
func (d *deliverer) render(v *webhook.Delivery, event *webhook.Event, endpoint *webhook.Endpoint) (api.Sent, error) {
	c := d.contracts.Promised(v.Contract, v.ContractRevision)
	if c == nil {
		return api.Sent{}, fmt.Errorf("rendering delivery %s: contract %s is unknown", v.ID, v.Contract)
	}
	webhookID := webhookIDOf(c, v.Event, v.ID)
	var sent api.Sent
	if event != nil && !event.Erased {
		parts := send.Parts{
			TenantID: event.Tenant, EventID: event.ID, EventType: event.Type, CreatedAt: event.CreatedAt, Data: event.Data, WebhookID: webhookID,
		}
		if c.Delivers == contract.DeliversRun {
			d.addRun(&parts, v.Ref, event.Run, countsOf(event))
		}
		sent.Body = send.AppendBody(nil, c, parts)
	}
	add := func(name, value string) {
		sent.Headers = append(sent.Headers, api.SentHeader{Header: webhook.Header{Name: name, Value: webhook.NewSecretText(value)}})
	}
	add("Content-Type", "application/json")
	add("User-Agent", d.userAgent)
	for _, field := range c.Headers {
		if field.From == contract.FromWebhookID {
			add(field.Name, webhookID)
		}
	}
	if endpoint != nil {
		for _, h := range endpoint.Headers {
			sent.Headers = append(sent.Headers, api.SentHeader{Header: h, Secret: true})
		}
	}
	return sent, nil
}

// composer returns what prepares an endpoint's requests under a contract, made
// once per version of the endpoint.
func (d *deliverer) composer(s dispatch.Shot) (*send.Composer, error) {
	key := composerKey{s.Endpoint.Key, s.Work.Contract, s.Work.ContractRevision}
	if have, ok := d.composers.Load(key); ok {
		if c := have.(*composed); c.endpoint == s.Endpoint && c.contract == s.Contract {
			return c.composer, nil
		}
	}
	made, err := send.NewComposer(s.Contract, d.userAgent, s.Endpoint.Headers, s.Endpoint.Secrets)
	if err != nil {
		return nil, err
	}
	d.composers.Store(key, &composed{endpoint: s.Endpoint, contract: s.Contract, composer: made})
	return made, nil
}

// forget drops what was prepared for an endpoint that is no more.
func (d *deliverer) forget(key webhook.EndpointKey) {
	d.composers.Range(func(k, _ any) bool {
		if k.(composerKey).endpoint == key {
			d.composers.Delete(k)
		}
		return true
	})
}

func (d *deliverer) unprepared() webhook.Outcome {
	return webhook.Outcome{
		Fault: webhook.FaultPrepare, Phase: webhook.PhaseInternal, StartedAt: d.clock.Wall(), Duration: 1000,
		Message: "The request could not be put together: what is stored for this endpoint (its headers or its signing secret) is damaged.",
	}
}
