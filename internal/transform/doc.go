// Package transform evaluates the filters of endpoints: expressions in CEL over
// an event's type, its other fields and its data. Their texts are checked when an
// endpoint is made, and their work is bounded, for one expression and for one
// event over all its endpoints, so that no filter can hold a server up.
//
// It does not know endpoints, subscriptions or stores: publish asks it, by plain
// functions. Nothing of cel-go leaves it.
//
// Start with filters.go; check.go says what an expression may be, event.go what
// it sees, cost.go what bounds it.
package transform
