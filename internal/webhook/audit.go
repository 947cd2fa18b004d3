package webhook

import (
	"context"
	"encoding/json"
	"time"
)

// Actor is who changes something: a key, or the engine itself.
type Actor struct {
	// Kind is key, admin (the admin key), engine or file.
	Kind string
	// ID of the key; "" else.
	ID string
}

// Kinds of actors.
const (
	ActorKey    = "key"
	ActorAdmin  = "admin"
	ActorEngine = "engine"
)

type actorKey struct{}

// WithActor notes in a request's context who makes it. The store writes it into
// the audit trail beside what the request changed.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// ActorOf returns who makes a request; the engine where nobody is noted.
func ActorOf(ctx context.Context) Actor {
	if a, ok := ctx.Value(actorKey{}).(Actor); ok {
		return a
	}
	return Actor{Kind: ActorEngine}
}

// AuditEntry is one change: who, when, what, and why.
type AuditEntry struct {
	// Pos is the entry's place in the trail, rising.
	Pos    int64
	At     time.Time
	Tenant string // "" for what belongs to the whole installation
	Actor  Actor
	// Action is what happened, such as endpoint.paused or contract.put.
	Action string
	// Kind and Target name what was changed, such as endpoint and its ID.
	Kind, Target string
	// Why is the reason given, or the engine's (a StateReason); may be "".
	Why string
	// Before and After are JSON objects of what changed, without secrets; nil
	// where there is none.
	Before, After json.RawMessage
}
