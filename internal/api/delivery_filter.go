package api

import (
	"slices"
	"strings"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// deliveryParams are the filters of deliveries.
func deliveryParams() []param {
	filter := func(name string, many bool, s *schema, example, description string) param {
		return param{name: name, in: "query", many: many, schema: s, example: example, description: description}
	}
	id := func() *schema { return &schema{Type: types{typeString}, MinLength: 1, MaxLength: 128} }
	oneOf := func(values []string) *schema { return &schema{Type: types{typeString}, Enum: values} }
	params := []param{
		filter("endpoint", false, id(), "ep_01k8x3m5t2f4v9z7q1c6b8n0da", "Only those of this endpoint."),
		filter("event", false, id(), "evt_01k8x3m5t2f4v9z7q1c6b8n0da", "Only those of this event."),
		filter("run", false, id(), "run_01k8x3m5t2f4v9z7q1c6b8n0da", "Only those of this run."),
		filter("status", true, oneOf(texts(contract.Statuses())), "failed", "Only these statuses, as each delivery's contract shows them."),
		filter("type", true, typeSchema(), "link.created", "Only events of these types."),
		filter("failure_kind", true, oneOf(texts(contract.FailureKinds())), "timeout", "Only those whose last failure was one of these."),
		filter("reason", true, oneOf(texts(webhook.Reasons())), "exhausted", "Only those that wait or ended for one of these reasons. "+reservedText()),
		filter("trigger", true, oneOf(texts(contract.Triggers())), "event", "Only those made by one of these."),
		filter("ordering_key", false, keySchema(), "lnk_2g3jQpRyXz4Mn8VbF7Hkl", "Only events with this ordering key."),
	}
	return append(params, spanParams()...)
}

// reservedReasons are names that no delivery has yet: what would set them is still to
// come. Filters take them and find nothing.
func reservedReasons() []webhook.Reason {
	return []webhook.Reason{webhook.WhyLimited, webhook.WhyExpanding, webhook.WhyTransformError, webhook.WhyProxyError, webhook.WhyFilterBudget}
}

// metReasons are those that readers meet.
func metReasons() []webhook.Reason {
	return slices.DeleteFunc(webhook.Reasons(), func(r webhook.Reason) bool { return slices.Contains(reservedReasons(), r) })
}

func reservedText() string {
	return strings.Join(texts(reservedReasons()), ", ") + " are names for what may come later and find nothing yet."
}

// deliveryFilter reads the filters of deliveries. The store compares statuses as
// each delivery's contract shows them (P6).
func deliveryFilter(c *call) store.DeliveryFilter {
	return store.DeliveryFilter{
		Endpoint: c.query.Get("endpoint"), Event: c.query.Get("event"), Run: c.query.Get("run"), Statuses: many[contract.Status](c, "status"),
		Types: many[string](c, "type"), FailureKinds: many[contract.FailureKind](c, "failure_kind"), Reasons: many[webhook.Reason](c, "reason"),
		Triggers: many[contract.Trigger](c, "trigger"), OrderingKey: c.query.Get("ordering_key"), Span: c.span(),
	}
}

func (a *API) listDeliveries(c *call) (reply, error) {
	page, err := a.page(c)
	if err != nil {
		return reply{}, err
	}
	listed, err := a.cfg.Store.ListDeliveries(c.r.Context(), c.tenant, deliveryFilter(c), page)
	if err != nil {
		return reply{}, err
	}
	return pageOf(a, c, listed, a.showDelivery), nil
}
