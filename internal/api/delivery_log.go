package api

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"time"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

const (
	// logPage is how many deliveries one step of a summary or an export reads.
	logPage = 250
	// summaryMost and summaryTime bound a summary: it is no COUNT over everything.
	summaryMost = 10_000
	summaryTime = 2 * time.Second
	// exportStall ends an export whose reader takes nothing for this long.
	exportStall = time.Minute
)

// wireSummary counts deliveries.
type wireSummary struct {
	Total         int            `json:"total" doc:"How many were counted." example:"3"`
	ByStatus      map[string]int `json:"by_status" doc:"How many of them show which status." example:"{\"delivered\":2,\"failed\":1}"`
	ByFailureKind map[string]int `json:"by_failure_kind" doc:"How many of them have which failure kind; those without one are left out." example:"{\"timeout\":1}"`
	Complete      bool           `json:"complete" doc:"false: there are more than were counted; those are the newest. Narrow the filter, by since for example." example:"true"`
	OldestAt      *stamp         `json:"oldest_at" doc:"When the oldest one that was counted was made; null when none was." example:"2026-05-22T14:32:18.851Z"`
}

func (a *API) deliveryLogOperations() []*operation {
	order := listParams()[2:]
	return []*operation{
		{
			id: "summarizeDeliveries", method: http.MethodGet, path: "/v1/deliveries/summary", tag: "deliveries", scope: webhook.ScopeRead, tenancy: tenantAcross,
			summary: "Count deliveries by status and failure kind", params: deliveryParams(), handle: a.summarizeDeliveries,
			description: "Takes the filters of the list. The newest are counted, 10000 at most; complete tells whether that was all.",
			answers:     []answer{{status: 200, description: "The counts.", schema: a.schemas.of(reflect.TypeFor[wireSummary]())}},
		},
		{
			id: "exportDeliveries", method: http.MethodGet, path: "/v1/deliveries/export", tag: "deliveries", scope: webhook.ScopeRead, tenancy: tenantAcross,
			summary: "Export deliveries as NDJSON", params: append(order, deliveryParams()...), handle: a.exportDeliveries,
			description: "All that the filters choose, a line each, without bodies and attempts. An export that can't be finished ends by breaking the connection: what came whole is whole.",
			answers:     []answer{{status: 200, description: "A delivery a line.", schema: a.schemas.of(reflect.TypeFor[wireDelivery]()), mediaType: mediaLines}},
		},
	}
}

func (a *API) summarizeDeliveries(c *call) (reply, error) {
	filter, start := deliveryFilter(c), a.cfg.Clock.Now()
	out := wireSummary{ByStatus: map[string]int{}, ByFailureKind: map[string]int{}}
	for page := (store.Page{Limit: logPage}); ; {
		listed, err := a.cfg.Store.ListDeliveries(c.r.Context(), c.tenant, filter, page)
		if err != nil {
			return reply{}, err
		}
		for _, d := range listed.Items {
			out.Total++
			out.ByStatus[string(a.shownStatus(d))]++
			if d.FailureKind != webhook.KindNone {
				out.ByFailureKind[string(d.FailureKind)]++
			}
			out.OldestAt = stampOrNull(d.CreatedAt)
		}
		page.After = listed.Next
		if out.Complete = listed.Next == 0; out.Complete || out.Total >= summaryMost || a.cfg.Clock.Now().Sub(start) > summaryTime {
			return reply{status: http.StatusOK, value: out}, nil
		}
	}
}

// exportDeliveries reads the first page before it answers, so that what goes
// wrong at once is a refusal. It holds one page at a time.
func (a *API) exportDeliveries(c *call) (reply, error) {
	filter, page := deliveryFilter(c), store.Page{Limit: logPage, Ascending: c.query.Get("order") == "asc"}
	ctx := c.r.Context()
	first, err := a.cfg.Store.ListDeliveries(ctx, c.tenant, filter, page)
	if err != nil {
		return reply{}, err
	}
	control := http.NewResponseController(c.w)
	return reply{status: http.StatusOK, mediaType: mediaLines, stream: func(w io.Writer) error {
		for listed := first; ; {
			// What does not know deadlines, a test's recorder, needs none.
			_ = control.SetWriteDeadline(a.cfg.Clock.Wall().Add(exportStall))
			if err := a.writeDeliveries(ctx, w, listed.Items); err != nil {
				return err
			}
			_ = control.Flush()
			if listed.Next == 0 {
				return nil
			}
			page.After = listed.Next
			if listed, err = a.cfg.Store.ListDeliveries(ctx, c.tenant, filter, page); err != nil {
				return err
			}
		}
	}}, nil
}

func (a *API) writeDeliveries(ctx context.Context, w io.Writer, all []*webhook.Delivery) error {
	for _, d := range all {
		line, err := encode(a.showDelivery(d))
		if err != nil {
			return err
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return ctx.Err()
}
