package signature

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"io"
)

// What Standard Webhooks asks of an HMAC key, in bytes.
const (
	minSecretLen = 24
	maxSecretLen = 64
)

// GenerateSecret makes a secret for HMAC: the prefix and the base64 of n random
// bytes, 24 to 64. The random reader is crypto/rand.Reader outside tests.
func GenerateSecret(random io.Reader, prefix string, n int) (string, error) {
	if n < minSecretLen || n > maxSecretLen {
		return "", fmt.Errorf("a generated secret has %d to %d bytes, not %d", minSecretLen, maxSecretLen, n)
	}
	raw := make([]byte, n)
	if _, err := io.ReadFull(random, raw); err != nil {
		return "", fmt.Errorf("read random bytes: %w", err)
	}
	return prefix + base64.StdEncoding.EncodeToString(raw), nil
}

// GenerateEd25519 makes a pair of keys: the secret "whsk_…" (64 bytes: seed and
// public key) that signs, and the public "whpk_…" that receivers verify with.
func GenerateEd25519(random io.Reader) (secret, public string, err error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(random, seed); err != nil {
		return "", "", fmt.Errorf("read random bytes: %w", err)
	}
	private := ed25519.NewKeyFromSeed(seed)
	secret = prefixPrivate + base64.StdEncoding.EncodeToString(private)
	public = prefixPublic + base64.StdEncoding.EncodeToString(private[ed25519.SeedSize:])
	return secret, public, nil
}
