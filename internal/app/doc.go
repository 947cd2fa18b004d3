// Package app puts a server together: New reads what it needs of the machine,
// Start opens storage, lanes and listeners in that order, Stop drains and closes
// them in the opposite one. It is the only importer of storage drivers, and the
// only place where verbs meet.
//
// Start with app.go; delivery.go joins lanes to requests, keys.go holds what the
// data folder keeps beside the database.
package app
