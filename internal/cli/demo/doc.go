// Package demo shows a server at work: it creates endpoints at a receiver that
// fails in interesting ways, publishes a link shortener's events at a few a
// second, and says at the end whether all that should have arrived arrived.
//
// It talks to the server through package client alone and checks every
// signature itself, so that it would notice a server that only claims.
//
// Start reading at Run in run.go; stations.go says what fails how, ledger.go
// what counts as arrived.
package demo
