// Package contract is a platform's promise to its webhook receivers, as data:
// the schedule of attempts, what each answer means, headers and signature, what
// is kept. All decisions about a delivery are pure functions of a contract, the
// facts at hand, the time and a random number; nothing here reads a clock,
// a store or a socket.
//
// Start with Contract in contract.go, then Before (the order of rules before a
// try) and After (the order of rules after it) in decide.go. The built-in
// contracts are the YAML files beside this one.
//
// Compatibility: exported names and the YAML of apiVersion 1 change only by
// addition.
package contract
