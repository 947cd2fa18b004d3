package signature

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
)

// Prefixes of Ed25519 keys (Standard Webhooks).
const (
	prefixPrivate = "whsk_"
	prefixPublic  = "whpk_"
)

// Key is a parsed secret, ready to sign and verify again and again; parse a
// secret once and keep the Key. It is safe for concurrent use and small to
// copy. However it is printed, logged or encoded, it never shows the secret.
// The zero Key signs and verifies nothing.
type Key struct{ material *material }

// material is what a Key was parsed into. Exactly one of hmac and public is set.
type material struct {
	hmac    *hmacKey
	private ed25519.PrivateKey // nil if only the public key is known
	public  ed25519.PublicKey
	size    int
}

// ParseKey reads the text of a secret as this scheme writes it: for HMAC in
// the scheme's [KeyForm]; if the scheme also uses Ed25519, "whsk_" and base64
// of a private key (the 32 bytes of the seed or the 64 bytes of seed and public
// key) or "whpk_" and base64 of a public key. Errors tell what is wrong and
// never contain a part of the secret.
func (s Scheme) ParseKey(secret string) (Key, error) {
	// Where a secret is plain text, it may begin in any way.
	prefixed := s.KeyForm == KeyBase64 || s.allows(Ed25519)
	if text, ok := strings.CutPrefix(secret, prefixPrivate); ok && prefixed {
		return s.parseEd25519(text, privateKey)
	}
	if text, ok := strings.CutPrefix(secret, prefixPublic); ok && prefixed {
		return s.parseEd25519(text, publicKey)
	}
	if !s.allows(HMACSHA256) {
		return Key{}, fmt.Errorf("signing secret: this scheme takes an Ed25519 key (%s… or %s…)", prefixPrivate, prefixPublic)
	}
	raw, err := s.decodeSecret(secret)
	if err != nil {
		return Key{}, fmt.Errorf("signing secret: %w", err)
	}
	if len(raw) == 0 {
		return Key{}, errors.New("signing secret: it is empty")
	}
	return Key{&material{hmac: &hmacKey{secret: raw}, size: len(raw)}}, nil
}

func (s Scheme) parseEd25519(text string, parse func([]byte) (*material, error)) (Key, error) {
	if !s.allows(Ed25519) {
		return Key{}, errors.New("signing secret: this scheme takes no Ed25519 key")
	}
	raw, err := decodeBase64(text)
	if err != nil {
		return Key{}, fmt.Errorf("signing secret: %w", err)
	}
	m, err := parse(raw)
	if err != nil {
		return Key{}, fmt.Errorf("signing secret: %w", err)
	}
	return Key{m}, nil
}

func privateKey(raw []byte) (*material, error) {
	if len(raw) != ed25519.SeedSize && len(raw) != ed25519.PrivateKeySize {
		return nil, fmt.Errorf("an Ed25519 private key has 32 or 64 bytes, this one has %d", len(raw))
	}
	private := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
	// A public half that belongs to another seed would make signatures that
	// leak the private key.
	if len(raw) == ed25519.PrivateKeySize && !bytes.Equal(private, raw) {
		return nil, errors.New("the two halves of the Ed25519 private key do not belong together")
	}
	public := private[ed25519.SeedSize:]
	return &material{private: private, public: ed25519.PublicKey(public), size: ed25519.SeedSize}, nil
}

func publicKey(raw []byte) (*material, error) {
	if len(raw) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("an Ed25519 public key has 32 bytes, this one has %d", len(raw))
	}
	return &material{public: raw, size: ed25519.PublicKeySize}, nil
}

// decodeSecret returns the bytes of an HMAC key.
func (s Scheme) decodeSecret(secret string) ([]byte, error) {
	switch s.KeyForm {
	case KeyText:
		return []byte(secret), nil
	case KeyBase64:
		return decodeBase64(strings.TrimPrefix(secret, s.SecretPrefix))
	default:
		return nil, fmt.Errorf("key form %q is not known", s.KeyForm)
	}
}

// decodeBase64 accepts the one canonical text of some bytes: the standard
// alphabet, with padding. Receivers' libraries differ in what else they read,
// so anything else would verify at some and fail at others.
func decodeBase64(text string) ([]byte, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || base64.StdEncoding.EncodeToString(raw) != text {
		return nil, errors.New("it must be standard base64 with padding, without spaces or line breaks")
	}
	return raw, nil
}

// Algorithm returns what the key signs with; "" for the zero Key.
func (k Key) Algorithm() Algorithm {
	switch {
	case k.material == nil:
		return ""
	case k.material.hmac != nil:
		return HMACSHA256
	default:
		return Ed25519
	}
}

// Len returns the number of bytes of the HMAC key, or of the Ed25519 seed or
// public key. Standard Webhooks asks for 24 to 64 bytes with HMAC; ParseKey
// does not insist, for providers themselves issue shorter ones.
func (k Key) Len() int {
	if k.material == nil {
		return 0
	}
	return k.material.size
}

// PublicText returns the "whpk_…" text of an Ed25519 key, which receivers
// verify with, and "" for any other key.
func (k Key) PublicText() string {
	if k.Algorithm() != Ed25519 {
		return ""
	}
	return prefixPublic + base64.StdEncoding.EncodeToString(k.material.public)
}

// String tells the algorithm, not the key.
func (k Key) String() string {
	if k.material == nil {
		return "signature.Key(none)"
	}
	return "signature.Key(" + string(k.Algorithm()) + ", redacted)"
}

// Format keeps every verb of package fmt, %#v and %x included, from the key.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// LogValue keeps package slog from the key.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText keeps encoders (JSON, XML, YAML) from the key.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// hmacKey computes HMAC-SHA256 without preparing the key each time.
type hmacKey struct {
	secret []byte // never written to
	// idle keeps one state for reuse. A sync.Pool would do it for several at
	// once, but each pool costs time while the collector stops the world, and
	// there is one key for each endpoint and secret.
	idle atomic.Pointer[hmacState]
}

// hmacState is what one computation needs for itself.
type hmacState struct {
	mac  hash.Hash // reset
	text []byte    // the signed text around the body
	sum  []byte
}

func (k *hmacKey) take() *hmacState {
	if state := k.idle.Swap(nil); state != nil {
		return state
	}
	return &hmacState{mac: hmac.New(sha256.New, k.secret)}
}

// give takes the state back. The first Reset also stores what the hash is after
// the key, so that the key is never fed to it again.
func (k *hmacKey) give(state *hmacState) {
	state.mac.Reset()
	k.idle.Store(state)
}
