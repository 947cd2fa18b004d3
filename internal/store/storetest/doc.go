// Package storetest is the suite that every driver of internal/store passes. It
// says in tests what the seam says in words: behaviour, concurrency, benchmarks,
// a file per role, each test named by the rule it proves.
//
// It knows no driver. A driver's own tests call Run with a Factory and add what
// only they can see: files, locks, power loss. Start with suite.go, then
// record.go.
package storetest
