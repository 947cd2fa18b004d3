package client

import (
	"context"
	"encoding/json"
	"iter"
	"time"
)

// AuditEntry is one change: who, when, what, and why.
type AuditEntry struct {
	ID     string     `json:"id"`
	At     time.Time  `json:"at"`
	Tenant string     `json:"tenant,omitempty"` // "" for what belongs to the whole installation
	Actor  AuditActor `json:"actor"`
	// Action is what happened, such as endpoint.paused or contract.put.
	Action string `json:"action"`
	// Kind and Target name what was changed, such as endpoint and its ID.
	Kind   string `json:"kind"`
	Target string `json:"target"`
	Why    string `json:"why,omitempty"`
	// Before and After are what changed, without secrets; nil for what was not
	// there.
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// AuditActor is who made a change: an API key (kind key, with its ID), the admin
// key (admin), or the server by its own rules (engine).
type AuditActor struct {
	Kind string `json:"kind"`
	ID   string `json:"id,omitempty"`
}

// AuditFilter chooses entries; empty fields do not filter.
type AuditFilter struct {
	Kind, Target string
	Actions      []string
	// Since is inclusive, Until exclusive.
	Since, Until time.Time
}

func (f AuditFilter) query() filter {
	q := filter{}
	q.set("kind", f.Kind)
	q.set("target", f.Target)
	q.set("action", join(f.Actions))
	q.span(f.Since, f.Until)
	return q
}

func (e AuditEntry) lacks() string { return lacksID(e.ID) }

// ListAudit returns one page of the trail of changes.
func (c *Client) ListAudit(ctx context.Context, f AuditFilter, p PageOptions) (Page[AuditEntry], error) {
	return listPage[AuditEntry](ctx, c, f.query(), p, "audit")
}

// AllAudit iterates over the trail of changes, page by page from p on.
func (c *Client) AllAudit(ctx context.Context, f AuditFilter, p PageOptions) iter.Seq2[AuditEntry, error] {
	return listAll[AuditEntry](ctx, c, f.query(), p, "audit")
}
