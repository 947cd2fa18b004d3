package webhook

import (
	"regexp"
	"time"
)

// DefaultTenant exists from the first start.
const DefaultTenant = "default"

// Tenant owns endpoints, events and keys. Its ID is the caller's and never
// changes.
type Tenant struct {
	ID string
	// Name is free text for people, 200 bytes at most.
	Name string
	// DefaultContract names the contract of endpoints that name none.
	DefaultContract string
	// OwnerURL and OwnerEmail say where the tenant's owner is told of a
	// disabled or paused endpoint; "" for nowhere.
	OwnerURL   string
	OwnerEmail string
	CreatedAt  time.Time
}

// callerID is the form of the IDs that callers give: tenants, and endpoints
// created by PUT.
var callerID = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// CallerIDForm describes the form that ValidCallerID checks, for error texts.
const CallerIDForm = "1 to 64 of a-z, 0-9, _ and -, beginning with a letter or digit"

// ValidCallerID tells whether id may name a tenant or an endpoint.
func ValidCallerID(id string) bool { return callerID.MatchString(id) }
