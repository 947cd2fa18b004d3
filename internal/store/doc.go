// Package store is the seam to durable storage: narrow role interfaces whose
// methods are guarded transitions, not create-read-update-delete. A driver
// (store/sqlite) implements all of them; the shared suite store/storetest says
// what they owe.
//
// What every method keeps: tenant first wherever a caller's request leads here,
// and another tenant's ID is ErrNotFound like a missing one; now is a parameter,
// never SQL's; a method that returned without an error is durable (ENGINE N1);
// one that returned an error changed nothing, except ErrUnknown, after which the
// change may or may not stand.
//
// Start with accept.go (events come in) and lane.go (deliveries go out).
package store
