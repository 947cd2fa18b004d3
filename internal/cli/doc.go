// Package cli is the command line: a file per command, the flags and their
// layers, help, exit codes, and what people read in a terminal.
//
// Commands that talk to a server do so only through package client. The server
// itself comes in as [NewServer], so that nothing here knows how it is wired or
// where it stores things. The environment, the clock and the standard streams
// come in as [Process], so that tests can run commands in one process.
//
// Exit codes: 0 done, 1 failed, 2 used wrongly.
//
// Start reading at Run in run.go, then commands.go and a command of your choice.
package cli

//go:generate go run ./reference ../../docs
