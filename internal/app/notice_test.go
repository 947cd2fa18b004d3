package app

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/posthorn/posthorn/internal/publish"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// The log tells once that an endpoint went off by itself, and never its URL.
func TestNotice_DisabledOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	a := &App{registry: publish.NewRegistry(newContracts(slog.New(slog.DiscardHandler))), log: slog.New(slog.NewTextHandler(&log, nil))}
	becomes := func(state webhook.EndpointState, reason webhook.StateReason) string {
		log.Reset()
		e := &webhook.Endpoint{Key: 1, ID: "ep_1", Tenant: "acme", URL: "https://example.com/?token=x", State: state, StateReason: reason}
		a.tellOff(e)
		a.registry.Apply(store.Change{Tenant: "acme", Endpoint: e})
		return log.String()
	}
	a.tellOff(nil)
	steps := []struct {
		state  webhook.EndpointState
		reason webhook.StateReason
		told   bool
	}{
		{webhook.EndpointActive, webhook.ReasonActive, false},
		{webhook.EndpointPaused, webhook.ReasonPerson, false},
		{webhook.EndpointDisabled, webhook.ReasonGone, true},
		{webhook.EndpointDisabled, webhook.ReasonGone, false}, // changed while it is off
		{webhook.EndpointDisabled, webhook.ReasonStaff, false},
		{webhook.EndpointActive, webhook.ReasonActive, false},
		{webhook.EndpointDisabled, webhook.ReasonStaff, false}, // whoever did it knows
		{webhook.EndpointActive, webhook.ReasonActive, false},
		{webhook.EndpointDisabled, webhook.ReasonNoSuccess, true},
		{webhook.EndpointActive, webhook.ReasonActive, false},
		{webhook.EndpointPaused, webhook.ReasonFailuresInRow, true},
	}
	for i, s := range steps {
		text := becomes(s.state, s.reason)
		want := "level=INFO msg=\"an endpoint is off because of its receiver's answers\" tenant=acme endpoint=ep_1 state=" + string(s.state) + " reason=" + string(s.reason)
		if told := strings.Contains(text, want); told != s.told || (!s.told && text != "") || strings.Contains(text, "example.com") {
			t.Errorf("step %d: %q", i, text)
		}
	}
}
