// Package signature signs and verifies webhooks. How a provider signs is a
// value of type [Scheme]: the text that is signed, the algorithms, the form of
// the key, the headers. A further provider is a further row in [Schemes], not
// a further code path.
//
// The package owns the bytes that are signed and the rules by which a receiver
// accepts them. It knows nothing of endpoints, storage, HTTP clients or the
// clock: the time comes in as an argument, randomness as an [io.Reader]. It
// needs the standard library only.
//
// Start reading at [Scheme]; then [Scheme.AppendSignature] for senders and
// [Scheme.Verify] for receivers.
//
// Compatibility: exported names and the bytes they produce stay as they are
// within a major version of the module. New reasons, forms and schemes may be
// added.
package signature
