package app

import (
	"log/slog"

	"github.com/posthorn/posthorn/internal/webhook"
)

// tellDisabled logs that an endpoint is off from now on because of what its
// receiver answered: nobody asked for it, so nobody else would notice. It is
// called with what a commit made of the endpoint, before the registry knows it.
// The URL is left out, since it may bear credentials (B81).
func (a *App) tellDisabled(now *webhook.Endpoint) {
	if now == nil || now.State != webhook.EndpointDisabled || now.StateReason == webhook.ReasonStaff {
		return
	}
	if before, known := a.registry.Endpoint(now.Key); known && before.State == webhook.EndpointDisabled {
		return
	}
	a.log.Info("an endpoint was disabled by its receiver's answers",
		slog.String("tenant", now.Tenant), slog.String("endpoint", now.ID), slog.String("reason", string(now.StateReason)))
}
