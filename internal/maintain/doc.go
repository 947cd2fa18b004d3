// Package maintain has what a server does beside delivering: it removes what was
// kept for as long as it was promised (Retention, N22), works replays off
// (Replays, B91), and tells tenants' owners what became of their endpoints
// (Owners, N19), over their URL and by mail (SMTP).
//
// Each is a service of its own with Start, Stop and Run. All that lasts lies in
// the store, so each can be cut at any moment and started again. Each works in
// small slices and rests between them, because the store's writer belongs to
// publishing and delivering first.
//
// The package decides nothing about deliveries: how one is sent again and what an
// endpoint takes come in as functions, and so does the guarded way to an owner's
// URL. Start reading at service.go, then retention.go.
package maintain
