package auth

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/posthorn/posthorn/internal/webhook"
)

// Keys are phk_<id>_<secret>: 16 characters that name the key, then 59 of which
// the last 7 are a checksum (CRC-32 over all before it), so that a typing error
// is told from a wrong key without a look-up. Both parts are lower-case base 32
// (RFC 4648): a double click selects the whole, and nothing needs escaping.
const (
	keyPrefix    = "phk_"
	keyIDBytes   = 10
	secretBytes  = 32
	keyIDLength  = 16
	sumLength    = 7
	secretLength = 52 + sumLength
	keyLength    = len(keyPrefix) + keyIDLength + 1 + secretLength
)

const keyAlphabet = "abcdefghijklmnopqrstuvwxyz234567"

func encodeBase32(raw []byte) string {
	return base32.NewEncoding(keyAlphabet).WithPadding(base32.NoPadding).EncodeToString(raw)
}

// maxKeyName bounds a key's name in bytes.
const maxKeyName = 200

// NewKey makes a key. Its text is shown once; only the returned APIKey is kept.
// tenant is "" for an operator's key. The error is a *Problem about /scopes,
// /name or /expires_at, or that random could not be read.
func NewKey(random io.Reader, tenant string, scopes []webhook.Scope, name string, now, expiresAt time.Time) (text string, key webhook.APIKey, err error) {
	if err := checkKey(tenant, scopes, name, now, expiresAt); err != nil {
		return "", webhook.APIKey{}, err
	}
	var raw [keyIDBytes + secretBytes]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return "", webhook.APIKey{}, fmt.Errorf("making a key: %w", err)
	}
	id := encodeBase32(raw[:keyIDBytes])
	body := keyPrefix + id + "_" + encodeBase32(raw[keyIDBytes:])
	text = body + checksum(body)
	key = webhook.APIKey{
		ID: id, Tenant: tenant, Name: name, Scopes: slices.Clone(scopes), Hash: sha256.Sum256([]byte(text)),
		CreatedAt: now, ExpiresAt: expiresAt,
	}
	return text, key, nil
}

// checkKey holds a new key against the rules: operator stands alone and only
// outside of tenants, since it acts for all of them.
func checkKey(tenant string, scopes []webhook.Scope, name string, now, expiresAt time.Time) error {
	const allowed = "one or more of publish, read and manage, each once"
	if tenant == "" {
		if !slices.Equal(scopes, []webhook.Scope{webhook.ScopeOperator}) {
			return webhook.InvalidField("/scopes", "A key that belongs to no tenant has the scope operator and no other.", "operator")
		}
	} else if len(scopes) == 0 {
		return webhook.InvalidField("/scopes", "A key needs a scope.", allowed)
	}
	for i, s := range scopes {
		if !slices.Contains(webhook.Scopes(), s) || slices.Contains(scopes[:i], s) || tenant != "" && s == webhook.ScopeOperator {
			return webhook.InvalidField("/scopes", "A scope is unknown, given twice, or not one that a tenant's key can have.", allowed)
		}
	}
	if len(name) > maxKeyName || !utf8.ValidString(name) {
		return webhook.InvalidField("/name", "The key's name is too long.", fmt.Sprintf("at most %d bytes", maxKeyName))
	}
	if !expiresAt.IsZero() && !expiresAt.After(now) {
		return webhook.InvalidField("/expires_at", "The key would have expired already.", "a time in the future")
	}
	return nil
}

func checksum(body string) string {
	return encodeBase32(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(body))))
}

// keyForm says what a bearer text looks like.
type keyForm int

const (
	formOther   keyForm = iota // not one of our keys
	formMistake                // begins like one, but has another length or a wrong checksum
	formKey
)

// readKey finds a key's ID without looking it up.
func readKey(text string) (id string, form keyForm) {
	if !strings.HasPrefix(text, keyPrefix) {
		return "", formOther
	}
	if len(text) != keyLength || text[len(keyPrefix)+keyIDLength] != '_' || !sumFits(text) {
		return "", formMistake
	}
	return text[len(keyPrefix) : len(keyPrefix)+keyIDLength], formKey
}

// sumFits compares the checksum, without allocating: this runs at each request.
func sumFits(text string) bool {
	body, tail := text[:len(text)-sumLength], text[len(text)-sumLength:]
	var sum uint64
	for i := range len(tail) {
		digit := strings.IndexByte(keyAlphabet, tail[i])
		if digit < 0 {
			return false
		}
		sum = sum<<5 | uint64(digit)
	}
	const spare = sumLength*5 - 32
	return sum&(1<<spare-1) == 0 && uint32(sum>>spare) == crc32.ChecksumIEEE([]byte(body))
}

// NewAdminKey makes an admin key of 256 random bits.
func NewAdminKey(random io.Reader) (string, error) {
	var raw [secretBytes]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return "", fmt.Errorf("making the admin key: %w", err)
	}
	return "pha_" + encodeBase32(raw[:]), nil
}
