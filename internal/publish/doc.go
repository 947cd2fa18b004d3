// Package publish takes events in: it parses what callers post without changing
// a byte of the payload, matches it with the subscriptions held in memory, and
// hands events and deliveries to the store's group commit (ENGINE N1–N5).
//
// It does not know HTTP, and it does not know lanes: fresh deliveries go to a
// function that the wiring gives. It reads no request and sends none.
//
// Start with publisher.go (the flow); event.go says what a posted event may be,
// scan.go is the strict JSON scanner under it, registry.go the subscriptions,
// asked.go what filters and ordering keys ask of one event. What evaluates filters
// is given by the wiring.
package publish
