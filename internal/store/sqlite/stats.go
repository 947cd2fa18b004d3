package sqlite

import "crypto/sha256"

// Stats is what metrics show of the database.
type Stats struct {
	// WALPages is the write-ahead log's size after the last commit, in pages.
	WALPages int64
	// Commits counts transactions since the start, Ops what they took.
	Commits, Ops int64
}

// Stats reads counters; it does not touch the database.
func (d *DB) Stats() Stats {
	return Stats{WALPages: d.checks.pages.Load(), Commits: d.writer.commits.Load(), Ops: d.writer.ops.Load()}
}

// DeriveKey makes a key for a purpose from the installation's own key: the same
// at each start, of no use for another purpose.
func (d *DB) DeriveKey(purpose string) []byte {
	sum := sha256.Sum256(append([]byte("posthorn "+purpose+"\x00"), d.idKey...))
	return sum[:]
}

// OwnsID tells whether an event ID was made by this installation.
func (d *DB) OwnsID(id string) bool { return d.ids.Owns(id) }
