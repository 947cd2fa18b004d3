// Package sqlite is the store inside the binary: one SQLite file with one writer.
//
// Everything that changes the database is an operation in the writer's queue; the
// writer commits whatever waits together and only then tells the callers (ENGINE
// N1, N25). Readers have connections of their own. Secrets are sealed on their
// way in and opened on their way out; nothing above sees a sealed one, nothing
// below one in clear.
//
// Start with writer.go, then accept.go and record.go. Tables: migrations/.
package sqlite
