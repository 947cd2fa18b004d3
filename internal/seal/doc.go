// Package seal encrypts secrets at rest: signing secrets and header values, each
// bound to the row that it stands in, under a key that can be replaced while the
// old ones still open what they sealed.
//
// It knows neither rows nor where keys come from. What it gives is AES-256-GCM
// with a random nonce; errors and fingerprints tell nothing of keys or secrets.
// Start with Keyring.
package seal
