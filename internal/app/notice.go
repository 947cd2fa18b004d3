package app

import (
	"log/slog"

	"github.com/posthorn/posthorn/internal/webhook"
)

// tellOff logs that an endpoint is off from now on because of what its receiver
// answered: nobody asked for it, so nobody else would notice. It is called with
// what a commit made of the endpoint, before the registry knows it. The URL is
// left out, since it may bear credentials (B81).
func (a *App) tellOff(now *webhook.Endpoint) {
	if now == nil {
		return
	}
	switch now.StateReason {
	case webhook.ReasonGone, webhook.ReasonNoSuccess, webhook.ReasonFailuresInRow:
	case webhook.ReasonActive, webhook.ReasonPerson, webhook.ReasonStaff, webhook.ReasonSwitchedOff:
		return
	}
	if before, known := a.registry.Endpoint(now.Key); known && before.State == now.State {
		return
	}
	a.log.Info("an endpoint is off because of its receiver's answers", slog.String("tenant", now.Tenant), slog.String("endpoint", now.ID),
		slog.String("state", string(now.State)), slog.String("reason", string(now.StateReason)))
}
