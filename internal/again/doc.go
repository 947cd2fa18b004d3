// Package again says how a finished delivery is sent once more: as a resend of
// the same one or as a new one, on which terms, and why not. Each function makes
// the decision that the store asks for inside its transaction; the rules are the
// contract's (S11, P7, E11), here they meet the delivery and its endpoint.
//
// The API asks for one delivery or a hundred, the worker of replays for each that
// a replay chose. The package must not know how anything is stored or shown.
// Start with Resend in again.go.
package again
