package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// keyPrefix begins API keys: a bearer that has it is never meant as a page token.
const keyPrefix = "phk_"

// wireRunEvent is an event of a run. Its names are those of the receivers' side
// (S13). It is for the document alone: data is put in as it was posted.
type wireRunEvent struct {
	EventID   string          `json:"eventId" doc:"The same in every reading, and in every redelivery." example:"evt_01k8x3m5t2f4v9z7q1c6b8n0da"`
	Type      string          `json:"type" example:"link.created"`
	CreatedAt stamp           `json:"createdAt" example:"2026-05-22T14:32:18.847Z"`
	Data      json.RawMessage `json:"data" doc:"The payload, byte for byte as posted." example:"{\"link_id\":\"lnk_2g3jQpRyXz4Mn8VbF7Hkl\"}"`
}

// wireRunPage is a page of a run, for the document.
type wireRunPage struct {
	Data []wireRunEvent `json:"data" doc:"The events, in the order in which they were added. A page of large events has fewer than asked for."`
	Next *string        `json:"next" doc:"The cursor of the page behind this one; null at the end."`
}

func (a *API) readRunEventsOperation() *operation {
	return &operation{
		id: "readRunEvents", method: http.MethodGet, path: "/v1/runs/{id}/events", tag: "runs", scope: webhook.ScopeRead, pageToken: true, tenancy: tenantOne,
		summary: "Read a run's events", list: true, params: listParams()[:2], handle: a.readRunEvents,
		description: "For receivers, with the page token of their notice as bearer; a key that may read can do it too. A plain event that was delivered as a run is read by its own ID, as its only event. " +
			"A token is valid for as long as its contract says from the first attempt on, and for as long as its delivery goes on.",
		refusals: []webhook.Code{webhook.CodePageTokenInvalid, webhook.CodeRunGone},
		answers:  []answer{{status: 200, description: "A page of the run.", schema: a.schemas.of(reflect.TypeFor[wireRunPage]())}},
	}
}

// admitReader lets in who bears a page token of this run. admitted is false for
// one who came with a key, and for one who came with nothing.
func (a *API) admitReader(c *call) (admitted bool, err error) {
	scheme, token, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" || strings.HasPrefix(token, keyPrefix) {
		return false, nil
	}
	if a.cfg.PageTokens == nil {
		return false, nil
	}
	ref, ok := a.cfg.PageTokens.Parse(token)
	if !ok {
		// It may be the admin key, which has no form of its own.
		if _, err := a.cfg.Auth.Authenticate(c.r.Context(), c.r.Header.Get("Authorization")); err == nil {
			return false, nil
		} else if p, refused := webhook.AsProblem(err); !refused || p.Code != webhook.CodeUnauthorized {
			return false, err
		}
		return false, badPageToken()
	}
	grant, err := a.cfg.Store.ReadPageGrant(c.r.Context(), ref)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false, badPageToken()
	case err != nil:
		return false, err
	case c.id() != runOf(&grant) || !a.grantValid(&grant, c.now):
		return false, badPageToken()
	case grant.Gone:
		return false, runGone()
	}
	c.grant = &grant
	return true, nil
}

// badPageToken is one refusal for whatever is wrong with a token.
func badPageToken() error {
	return webhook.NewProblem(webhook.CodePageTokenInvalid, "The page token is not one of this run, or its time is over. A redelivery brings a new one.")
}

// runOf is the run that a grant opens: a plain event is a run of one.
func runOf(g *webhook.PageGrant) string {
	if g.Run != "" {
		return g.Run
	}
	return g.Event
}

// grantValid tells whether a token is within its time, which begins with its
// delivery's first attempt and does not end before the delivery has.
func (a *API) grantValid(g *webhook.PageGrant, now time.Time) bool {
	promise := a.cfg.Contracts.Promised(g.Contract, g.ContractRevision)
	switch {
	case promise == nil || promise.Run.TokenFor == 0:
		return false
	case !g.Finished:
		return true
	default:
		return !g.FirstAttemptAt.IsZero() && now.Before(g.FirstAttemptAt.Add(promise.Run.TokenFor.Std()))
	}
}

func (a *API) readRunEvents(c *call) (reply, error) {
	page, err := a.page(c)
	if err != nil {
		return reply{}, err
	}
	tenant := c.tenant
	if c.grant != nil {
		tenant = c.grant.Tenant
	}
	var events []webhook.RunEvent
	var next int64
	if c.grant == nil || c.grant.Run != "" {
		events, next, err = a.cfg.Store.ReadRunEvents(c.r.Context(), tenant, c.id(), page.After, page.Limit)
	} else {
		err = store.ErrNotFound
	}
	if errors.Is(err, store.ErrNotFound) {
		events, err = a.runOfOne(c, tenant)
	}
	if err != nil {
		return reply{}, err
	}
	text, err := a.showRunPage(c, events, next)
	return reply{status: http.StatusOK, raw: text, mediaType: mediaJSON}, err
}

// runOfOne reads a plain event as a run, or says what became of a run whose events
// can't be read.
func (a *API) runOfOne(c *call, tenant string) ([]webhook.RunEvent, error) {
	ctx := c.r.Context()
	r, err := a.cfg.Store.GetRun(ctx, tenant, c.id())
	if err == nil && r.State == webhook.RunDeleted {
		return nil, runGone()
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	e, err := a.cfg.Store.GetEvent(ctx, tenant, c.id())
	switch {
	case err != nil:
		return nil, err
	case e.Erased:
		return nil, runGone()
	}
	return []webhook.RunEvent{{ID: e.ID, Type: e.Type, CreatedAt: e.CreatedAt, Data: e.Data}}, nil
}

// showRunPage writes the events around the bytes of their data.
func (a *API) showRunPage(c *call, events []webhook.RunEvent, next int64) ([]byte, error) {
	text := []byte(`{"data":[`)
	for i := range events {
		e := &events[i]
		head, err := encode(struct {
			EventID   string `json:"eventId"`
			Type      string `json:"type"`
			CreatedAt stamp  `json:"createdAt"`
		}{e.ID, e.Type, stamp(e.CreatedAt)})
		if err != nil {
			return nil, err
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, head[:len(head)-1]...)
		text = append(text, `,"data":`...)
		text = append(append(text, e.Data...), '}')
	}
	cursor, err := encode(a.cursor(c, next, false))
	if err != nil {
		return nil, err
	}
	text = append(append(text, `],"next":`...), cursor...)
	return append(text, "}\n"...), nil
}
