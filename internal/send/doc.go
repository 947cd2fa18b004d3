// Package send makes one attempt over HTTP and says what came of it: a
// [Request] goes in, a [webhook.Outcome] comes out, never an error. It owns the
// guarded dialler (which addresses may be called), the pooled connections, the
// texts that tell an endpoint's owner what went wrong, and how body and headers
// of a request are put together and signed.
//
// It knows nothing of deliveries, schedules or the store, and decides nothing:
// what an outcome means is the contract's to say.
//
// Start with [Sender.Send] in sender.go, then guard.go; [Composer] in compose.go
// makes what is sent.
package send
