// Package dispatch sends what is due: it owns the lanes. There is one lane per
// endpoint; a lane keeps a bounded window of its due deliveries in memory, knows
// when the next one becomes due, and reads the store again when its window runs
// low. Cost grows with lanes that have something to do, never with backlog.
//
// The life of one delivery here: Offer or a window read (offer.go, read.go) →
// pick by turns over ready lanes (schedule.go) → attempt (attempt.go) → judgement
// by the contract (judge.go) → record (record.go) → out of the out-set.
//
// It knows neither HTTP nor SQL: a Sender makes the request, store.Lanes keeps
// the truth. What it holds may be thrown away at any moment; the store has it.
// Start with dispatch.go for the state, then schedule.go.
package dispatch
