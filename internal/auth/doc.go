// Package auth says who asks: it makes and checks API keys and the admin key,
// and settles which tenant a request is about.
//
// It does not know HTTP: it is given header values and answers with an Identity
// or a Problem. What an operation needs is the edge's to say. Keys are kept as
// SHA-256 only; no key and no part of its secret reaches an error or a log.
//
// Start with authenticator.go; key.go has the form of keys, tenant.go the rules
// about tenants, usage.go the service that writes when keys were last used.
package auth
