package publish

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// MatchFunc fills in which endpoints an event goes to, from its tenant, type, data
// and ordering key, and how it is matched again; Registry.Match is one.
type MatchFunc func(p *store.AcceptParams)

// Operational prepares an event of the engine's own, to be accepted in the
// transaction that causes it (N19): it has no ID of a caller's, and only
// patterns that write its type or family out match it. data becomes JSON. now
// stamps it by the wall clock; ready is the same moment on the clock that due
// times run by (N20).
// With no targets it is worth accepting all the same: the log shows it.
func Operational(match MatchFunc, tenant, eventType string, data any, now, ready time.Time) (store.AcceptParams, error) {
	if !webhook.Operational(eventType) {
		return store.AcceptParams{}, fmt.Errorf("preparing an operational event: %q is not one of their types", eventType)
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(data); err != nil {
		return store.AcceptParams{}, fmt.Errorf("encoding the operational event %s: %w", eventType, err)
	}
	p := store.AcceptParams{
		Tenant:      tenant,
		Type:        eventType,
		Data:        bytes.TrimRight(text.Bytes(), "\n"),
		ContentType: ContentTypeJSON,
		Now:         now,
		Ready:       ready,
	}
	match(&p)
	return p, nil
}
