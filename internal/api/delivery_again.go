package api

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/again"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// resendManyInput is what resending several takes.
type resendManyInput struct {
	IDs []string `json:"ids" doc:"The deliveries. A contract may take fewer at once." min:"1" max:"100" limit:"resend_ids" items:"min=1;max=128" example:"[\"dlv_01k8x3m5t2f4v9z7q1c6b8n0da\"]"`
}

// wireResent is a delivery that will be sent.
type wireResent struct {
	wireDelivery
	Warning string `json:"warning,omitempty" doc:"What its receiver may make of it, where that is to be minded." example:"The event is older than the 14 days for which receivers are told to remember IDs: this receiver may take it for a new one."`
}

// wireResentMany is what came of resending several.
type wireResentMany struct {
	Data   []wireResent `json:"data" doc:"The deliveries that will be sent."`
	Errors []wireFault  `json:"errors,omitempty" doc:"Those that can't be sent again, under contracts that send the others all the same."`
}

func (a *API) againOperations() []*operation {
	resent := a.schemas.of(reflect.TypeFor[wireResent]())
	refusals := []webhook.Code{webhook.CodeNotResendable, webhook.CodeEndpointOff}
	return []*operation{
		{
			id: "resendDelivery", method: http.MethodPost, path: "/v1/deliveries/{id}/resend", tag: "deliveries", scope: webhook.ScopeManage, tenancy: tenantOne,
			summary: "Send a delivery again", body: a.schemas.emptyBody(), handle: a.resendDelivery, refusals: refusals,
			description: "As its contract promises: the same delivery in another round, or a new one. What still waits can't be sent again.",
			answers:     []answer{{status: 202, description: "The delivery that will be sent; a new ID where it is a new one.", schema: resent}},
		},
		{
			id: "resendDeliveries", method: http.MethodPost, path: "/v1/deliveries/resend", tag: "deliveries", scope: webhook.ScopeManage, tenancy: tenantOne,
			summary: "Send several deliveries again", handle: a.resendDeliveries, refusals: refusals,
			body:        a.schemas.bodyOf(reflect.TypeFor[resendManyInput](), map[string]any{"ids": []string{"dlv_01k8x3m5t2f4v9z7q1c6b8n0da"}}),
			description: "All of them or none: one that can't be sent again keeps all from it, and errors says of each such one why.",
			answers:     []answer{{status: 202, description: "The deliveries that will be sent, in the order of ids.", schema: a.schemas.of(reflect.TypeFor[wireResentMany]())}},
		},
		{
			id: "replayEvent", method: http.MethodPost, path: "/v1/endpoints/{id}/events/{event}/replay", tag: "endpoints", scope: webhook.ScopeManage, tenancy: tenantOne,
			summary: "Send an event to an endpoint again", body: a.schemas.emptyBody(), handle: a.replayEvent, refusals: refusals,
			description: "A new delivery, with the whole schedule, of an event that the endpoint has a delivery of; under contracts that make no new deliveries the resend of theirs.",
			answers:     []answer{{status: 202, description: "The delivery that will be sent.", schema: resent}},
		},
	}
}

// present lets package again find what new deliveries are promised.
type present struct{ Contracts }

// Current implements again.Contracts.
func (p present) Current(name string) (*contract.Contract, string) {
	found, ok := p.Lookup(name)
	if !ok {
		return nil, ""
	}
	return found.Contract, found.Revision
}

func (a *API) resendDelivery(c *call) (reply, error) {
	sent, err := a.sendAgain(c, store.SendAgainParams{IDs: []string{c.id()}, Decide: again.Resend(present{a.cfg.Contracts}, c.now)})
	if err != nil {
		return reply{}, err
	}
	return a.resentReply(c, sent[0])
}

// resendDeliveries sends all or none (P7), except under contracts that say
// otherwise.
func (a *API) resendDeliveries(c *call) (reply, error) {
	in, err := bodyAs[resendManyInput](c)
	if err != nil {
		return reply{}, err
	}
	if err := a.checkBatch(c, in.IDs); err != nil {
		return reply{}, err
	}
	p := store.SendAgainParams{IDs: in.IDs, Decide: again.Resend(present{a.cfg.Contracts}, c.now)}
	sent, err := a.sendTogether(c, p)
	if err != nil {
		return reply{}, err
	}
	refused := refusedOf(sent)
	out := wireResentMany{Data: []wireResent{}, Errors: wireFaults(refused)}
	if len(refused) > 0 {
		if !a.sendsTheOthers(c, in.IDs, sent) {
			return reply{}, refusedTogether(refused, len(in.IDs))
		}
		p.IDs = willing(in.IDs, sent)
		if sent, err = a.sendAgain(c, p); err != nil {
			return reply{}, err
		}
	}
	for _, one := range sent {
		shown, err := a.showResent(c, one)
		if err != nil {
			return reply{}, err
		}
		out.Data = append(out.Data, shown)
	}
	return reply{status: http.StatusAccepted, value: out}, nil
}

// checkBatch refuses more deliveries of one contract than it sends again at once.
func (a *API) checkBatch(c *call, ids []string) error {
	if !a.batchesUnder(len(ids)) {
		return nil
	}
	var found faults
	taken := map[string]int{}
	for i, id := range ids {
		own, err := a.promised(c.r.Context(), c.tenant, id)
		if err != nil {
			return err
		}
		if own == nil || own.Resend.Batch == 0 {
			continue
		}
		if taken[own.Name]++; taken[own.Name] > own.Resend.Batch {
			most := strconv.Itoa(own.Resend.Batch)
			found.add("/ids/"+strconv.Itoa(i), limitResend, "its contract sends no more than "+most+" again at once", "at most "+most+" deliveries of this contract")
		}
	}
	return found.problem()
}

// batchesUnder tells whether any contract takes fewer than n at once.
func (a *API) batchesUnder(n int) bool {
	return slices.ContainsFunc(a.cfg.Contracts.Names(), func(name string) bool {
		found, ok := a.cfg.Contracts.Lookup(name)
		return ok && found.Contract.Resend.Batch > 0 && found.Contract.Resend.Batch < n
	})
}

// promised is what a delivery was promised under; nil where there is no such one.
func (a *API) promised(ctx context.Context, tenant, id string) (*contract.Contract, error) {
	d, err := a.cfg.Store.GetDelivery(ctx, tenant, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return a.cfg.Contracts.Promised(d.Contract, d.ContractRevision), nil
}

// sendsTheOthers tells whether the contract of each refused delivery lets the
// others go out without it, and there are others.
func (a *API) sendsTheOthers(c *call, ids []string, sent []store.SentAgain) bool {
	others := false
	for i, one := range sent {
		if one.Err == nil {
			others = true
			continue
		}
		own, err := a.promised(c.r.Context(), c.tenant, ids[i])
		if err != nil || own == nil || own.Resend.AllOrNone {
			return false
		}
	}
	return others
}

// willing are the IDs that were not refused.
func willing(ids []string, sent []store.SentAgain) []string {
	var out []string
	for i, id := range ids {
		if sent[i].Err == nil {
			out = append(out, id)
		}
	}
	return out
}

// sendTogether asks the store; what is refused is in the results. What is wrong
// with us is an error.
func (a *API) sendTogether(c *call, p store.SendAgainParams) ([]store.SentAgain, error) {
	p.Tenant, p.Now, p.Ready = c.tenant, c.now, a.cfg.Clock.Now()
	sent, err := a.cfg.Store.SendAgain(c.r.Context(), p)
	if err != nil {
		return nil, err
	}
	for _, one := range sent {
		if _, kind := whyNot(one.Err); one.Err != nil && !kind {
			return nil, one.Err
		}
	}
	return sent, nil
}

// sendAgain is sendTogether for what is refused as a whole.
func (a *API) sendAgain(c *call, p store.SendAgainParams) ([]store.SentAgain, error) {
	sent, err := a.sendTogether(c, p)
	if err != nil {
		return nil, err
	}
	for _, one := range sent {
		if fault, _ := whyNot(one.Err); one.Err != nil {
			if fault.Code == webhook.CodeNotFound {
				return nil, one.Err
			}
			return nil, webhook.NewProblem(fault.Code, "the delivery can't be sent again: "+fault.Detail)
		}
	}
	return sent, nil
}

// whyNot puts a refusal of the store's into the terms of a fault; ok is false for
// an error that is not the caller's to read.
func whyNot(err error) (fault webhook.FieldFault, ok bool) {
	if errors.Is(err, store.ErrNotFound) {
		return webhook.FieldFault{Code: webhook.CodeNotFound, Detail: "there is no delivery of this ID for this tenant", Allowed: "the ID of one of the tenant's deliveries"}, true
	}
	refused, ok := errors.AsType[again.Refused](err)
	if !ok {
		return fault, false
	}
	fault = webhook.FieldFault{Code: webhook.CodeNotResendable, Detail: refused.Error(), Allowed: "deliveries that have ended in a status from which their contract sends them again"}
	if refused == again.RefusedOff {
		fault.Code, fault.Allowed = webhook.CodeEndpointOff, "deliveries of endpoints that are on"
	}
	return fault, true
}

// refusedOf lists what can't be sent again, by its place.
func refusedOf(sent []store.SentAgain) []webhook.FieldFault {
	var out []webhook.FieldFault
	for i, one := range sent {
		if one.Err == nil {
			continue
		}
		fault, _ := whyNot(one.Err)
		fault.Pointer = "/ids/" + strconv.Itoa(i)
		out = append(out, fault)
	}
	return out
}

// refusedTogether is the problem of several; where only switched off endpoints
// stand in the way, it says that.
func refusedTogether(refused []webhook.FieldFault, of int) error {
	code := webhook.CodeNotResendable
	if !slices.ContainsFunc(refused, func(f webhook.FieldFault) bool { return f.Code != webhook.CodeEndpointOff }) {
		code = webhook.CodeEndpointOff
	}
	detail := strconv.Itoa(len(refused)) + " of " + strconv.Itoa(of) + " deliveries can't be sent again. None of them is."
	return &webhook.Problem{Code: code, Detail: detail, Fields: refused}
}

// replayEvent sends one event to one endpoint again (E11).
func (a *API) replayEvent(c *call) (reply, error) {
	ctx, event := c.r.Context(), c.r.PathValue("event")
	if _, err := a.cfg.Store.GetEndpoint(ctx, c.tenant, c.id()); err != nil {
		return reply{}, orMissing(err, "There is no endpoint of this ID for this tenant.")
	}
	sent, err := a.sendAgain(c, store.SendAgainParams{Event: event, Endpoint: c.id(), Decide: again.Event(present{a.cfg.Contracts}, c.now)})
	if errors.Is(err, store.ErrNotFound) || err == nil && len(sent) == 0 {
		return reply{}, a.whyNoReplay(c, event)
	}
	if err != nil {
		return reply{}, err
	}
	return a.resentReply(c, sent[0])
}

// whyNoReplay says what is missing where no finished delivery is.
func (a *API) whyNoReplay(c *call, event string) error {
	listed, err := a.cfg.Store.ListDeliveries(c.r.Context(), c.tenant, store.DeliveryFilter{Event: event, Endpoint: c.id()}, store.Page{Limit: 1})
	switch {
	case err != nil:
		return err
	case len(listed.Items) > 0:
		return webhook.NewProblem(webhook.CodeNotResendable, "the event's delivery to this endpoint can't be sent again: "+again.RefusedUnfinished.Error())
	}
	if _, err := a.cfg.Store.GetEvent(c.r.Context(), c.tenant, event); err != nil {
		return orMissing(err, "There is no event of this ID for this tenant.")
	}
	return webhook.NewProblem(webhook.CodeNotFound, "The event has no delivery at this endpoint, whether or not the endpoint subscribes to its type now. A replay of the endpoint with events: missing takes what it would get now and has none of.")
}

func orMissing(err error, detail string) error {
	if errors.Is(err, store.ErrNotFound) {
		return webhook.NewProblem(webhook.CodeNotFound, detail)
	}
	return err
}

func (a *API) resentReply(c *call, sent store.SentAgain) (reply, error) {
	shown, err := a.showResent(c, sent)
	return reply{status: http.StatusAccepted, value: shown}, err
}

// showResent shows a delivery that will be sent. It is committed: what can't be
// read of it any more does not make that undone.
func (a *API) showResent(c *call, sent store.SentAgain) (wireResent, error) {
	d, err := a.cfg.Store.GetDelivery(c.r.Context(), c.tenant, sent.ID)
	if err != nil {
		return wireResent{}, err
	}
	out := wireResent{wireDelivery: a.showDelivery(d)}
	memory := a.receiverMemory(d)
	if memory == 0 {
		return out, nil
	}
	event, err := a.cfg.Store.GetEvent(c.r.Context(), d.Tenant, d.Event)
	if err == nil && c.now.Sub(event.AcceptedAt) > memory {
		out.Warning = forgotten(memory)
	}
	return out, nil
}

// receiverMemory is how long receivers under a delivery's contract are told to
// remember its message ID; 0 for no such promise.
func (a *API) receiverMemory(d *webhook.Delivery) time.Duration {
	own := a.cfg.Contracts.Promised(d.Contract, d.ContractRevision)
	if own == nil {
		return 0
	}
	return own.ReceiverMemory.Std()
}

// forgotten warns that an event is older than its receiver's memory (E10).
func forgotten(memory time.Duration) string {
	return "The event is older than the " + daysOf(memory) + " for which receivers are told to remember IDs: this receiver may take it for a new one."
}

func daysOf(span time.Duration) string {
	const day = 24 * time.Hour
	if span%day != 0 {
		return span.String()
	}
	if span == day {
		return "day"
	}
	return strconv.Itoa(int(span/day)) + " days"
}
