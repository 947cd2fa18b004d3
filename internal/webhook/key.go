package webhook

import (
	"strings"
	"time"
)

// Scope is what an API key may do.
type Scope string

// Scopes. A key may have several; operator includes every other one and all
// tenants.
const (
	ScopePublish  Scope = "publish"  // accept events
	ScopeRead     Scope = "read"     // read everything of the tenant but secrets
	ScopeManage   Scope = "manage"   // create, change and delete the tenant's things
	ScopeOperator Scope = "operator" // act for any tenant, and on tenants themselves
)

// Scopes lists every scope, in rising power.
func Scopes() []Scope { return []Scope{ScopePublish, ScopeRead, ScopeManage, ScopeOperator} }

// APIKey is a bearer key. Its secret part is shown once and kept only as a hash.
type APIKey struct {
	// ID is the public part, as in phk_<id>_<secret>.
	ID string
	// Tenant the key belongs to; "" for an operator's key.
	Tenant string
	Name   string
	Scopes []Scope
	// Hash is SHA-256 of the whole key text.
	Hash      [32]byte
	CreatedAt time.Time
	// ExpiresAt is zero for a key without an end.
	ExpiresAt time.Time
	// LastUsedAt is written at most once a minute; zero when never used.
	LastUsedAt time.Time
}

// Live tells whether the key is valid at now.
func (k *APIKey) Live(now time.Time) bool {
	return k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt)
}

// AdminKeyForm describes what ValidAdminKey takes.
const AdminKeyForm = "32 to 256 printable ASCII characters, the first and last of them no spaces"

// ValidAdminKey tells whether text can be the admin key. A space at an end would
// not survive in a header.
func ValidAdminKey(text string) bool {
	if len(text) < 32 || len(text) > 256 || text != strings.TrimSpace(text) {
		return false
	}
	return !strings.ContainsFunc(text, func(r rune) bool { return r < 0x20 || r > 0x7E })
}
