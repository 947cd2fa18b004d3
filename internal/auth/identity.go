package auth

import (
	"slices"

	"github.com/posthorn/posthorn/internal/webhook"
)

// AdminKeyID is the KeyID of who came with the admin key.
const AdminKeyID = "admin"

// Identity is who asks.
type Identity struct {
	// Tenant that the key belongs to; "" for an operator.
	Tenant string
	// KeyID is the public part of the key, or AdminKeyID.
	KeyID string
	// Scopes of the key. They are shared and must not be changed.
	Scopes []webhook.Scope
}

// Can tells whether the key has a scope. Scopes are independent of each other
// (one that may manage may not read by that), except that operator includes all.
func (i Identity) Can(scope webhook.Scope) bool {
	return i.Operator() || scope != webhook.ScopeOperator && slices.Contains(i.Scopes, scope)
}

// Operator tells whether the key acts for every tenant. One that belongs to a
// tenant never does, whatever its scopes say.
func (i Identity) Operator() bool {
	return i.Tenant == "" && slices.Contains(i.Scopes, webhook.ScopeOperator)
}

// Require returns nil when the key has a scope, else a *Problem (forbidden).
func (i Identity) Require(scope webhook.Scope) error {
	if i.Can(scope) {
		return nil
	}
	return webhook.NewProblem(webhook.CodeForbidden, "The key lacks the scope "+string(scope)+".")
}
