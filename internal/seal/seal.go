package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// KeySize is the size of a key in bytes.
const KeySize = 32

// A sealed text is: version (1 byte), key ID (8), nonce (12), ciphertext, tag
// (16). Version and key ID are authenticated along with the caller's data.
const (
	version         = 1
	idSize          = 8
	headSize        = 1 + idSize
	fingerprintSize = 16
)

// Errors of Open.
var (
	// ErrUnknownKey: no key at hand has sealed this.
	ErrUnknownKey = errors.New("sealed with a key that is not at hand")
	// ErrDamaged: it was changed, cut, or belongs to another row.
	ErrDamaged = errors.New("sealed text is damaged or belongs elsewhere")
)

// ParseKey reads a key from its text: 32 bytes in base64, the standard or the URL
// alphabet, padded or not, white space around it allowed. The error holds none of
// the text.
func ParseKey(text string) ([]byte, error) {
	text = strings.TrimRight(strings.TrimSpace(text), "=")
	text = strings.NewReplacer("-", "+", "_", "/").Replace(text)
	key, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || len(key) != KeySize || strings.ContainsAny(text, "\r\n") {
		return nil, fmt.Errorf("a key must be %d bytes in base64", KeySize)
	}
	return key, nil
}

// Keyring seals with one key and opens with several. It is safe for concurrent
// use.
type Keyring struct {
	keys []key // the current one first
}

// key is what is derived from one key: nothing else of it is kept.
type key struct {
	id          [idSize]byte
	fingerprint [fingerprintSize]byte
	aead        cipher.AEAD
}

// New makes a keyring of keys of KeySize bytes: current seals, old ones only open.
func New(current []byte, old ...[]byte) (*Keyring, error) {
	r := &Keyring{}
	for _, raw := range append([][]byte{current}, old...) {
		k, err := newKey(raw)
		if err != nil {
			return nil, fmt.Errorf("making a keyring: %w", err)
		}
		r.keys = append(r.keys, k)
	}
	return r, nil
}

// newKey derives what is used from a key (HKDF, RFC 5869), so that ID and
// fingerprint, which lie in the database, tell nothing of the encryption.
func newKey(raw []byte) (key, error) {
	if len(raw) != KeySize {
		return key{}, fmt.Errorf("a key must have %d bytes", KeySize)
	}
	derived, err := hkdf.Key(sha256.New, raw, nil, "posthorn seal 1", KeySize+idSize+fingerprintSize)
	if err != nil {
		return key{}, fmt.Errorf("deriving a key: %w", err)
	}
	block, err := aes.NewCipher(derived[:KeySize])
	if err != nil {
		return key{}, fmt.Errorf("deriving a key: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return key{}, fmt.Errorf("deriving a key: %w", err)
	}
	k := key{aead: aead}
	copy(k.id[:], derived[KeySize:])
	copy(k.fingerprint[:], derived[KeySize+idSize:])
	return k, nil
}

// Seal encrypts plain with the current key. associated names the row that it
// will stand in, such as "endpoint-secret|acme|ep_1|sec_1": it is not stored, and
// only opens there. Without one a sealed text could be moved, so that is an
// error.
func (r *Keyring) Seal(plain, associated []byte) ([]byte, error) {
	if len(associated) == 0 {
		return nil, errors.New("sealing needs the row that the secret stands in")
	}
	k := &r.keys[0]
	sealed := make([]byte, headSize, headSize+len(plain)+k.aead.Overhead())
	sealed[0] = version
	copy(sealed[1:], k.id[:])
	return k.aead.Seal(sealed, nil, plain, bind(sealed[:headSize], associated)), nil
}

// Open decrypts what Seal made with any key of the ring for the same associated
// data. ErrUnknownKey and ErrDamaged tell why it could not.
func (r *Keyring) Open(sealed, associated []byte) ([]byte, error) {
	if len(sealed) < headSize || sealed[0] != version {
		return nil, ErrDamaged
	}
	head := sealed[:headSize]
	for i := range r.keys {
		k := &r.keys[i]
		if !bytes.Equal(head[1:], k.id[:]) {
			continue
		}
		plain, err := k.aead.Open(nil, nil, sealed[headSize:], bind(head, associated))
		if err != nil {
			return nil, ErrDamaged
		}
		return plain, nil
	}
	return nil, ErrUnknownKey
}

// bind puts the head, whose size is fixed, before the associated data.
func bind(head, associated []byte) []byte {
	return append(bytes.Clone(head), associated...)
}

// Fingerprint identifies the current key, 16 bytes. Stored in the database it
// lets a wrong key be refused at the start.
func (r *Keyring) Fingerprint() []byte { return bytes.Clone(r.keys[0].fingerprint[:]) }

// Matches tells whether a fingerprint is that of a key of the ring, current or
// old.
func (r *Keyring) Matches(fingerprint []byte) bool {
	for i := range r.keys {
		if subtle.ConstantTimeCompare(fingerprint, r.keys[i].fingerprint[:]) == 1 {
			return true
		}
	}
	return false
}

// NeedsReseal tells whether sealed was made with another key than the current
// one.
func (r *Keyring) NeedsReseal(sealed []byte) bool {
	return len(sealed) < headSize || sealed[0] != version || !bytes.Equal(sealed[1:headSize], r.keys[0].id[:])
}
