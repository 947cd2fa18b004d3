// Package webhook holds the nouns of the product: tenant, API key, endpoint,
// event, delivery, attempt, failure kind, outcome, and the form of their IDs.
//
// It is a leaf. It validates what a noun may be, and knows neither how nouns are
// stored nor how they travel: no SQL, no JSON tags, no clock of its own. Every
// closed set (states, reasons, triggers, scopes) lives here once, as typed
// constants. Start with delivery.go, then endpoint.go.
package webhook
