package pagetoken

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"

	"github.com/posthorn/posthorn/internal/webhook"
)

// A token is 25 bytes in base64url, without padding:
//
//	 1 byte   version
//	 8 bytes  position of the delivery, hidden by a mask that hangs on the tag
//	16 bytes  tag: HMAC-SHA256 over the version and the position, cut
//
// The mask keeps an installation's volume from its receivers, as IDs do.
const (
	version      = 1
	positionSize = 8
	tagSize      = 16
	size         = 1 + positionSize + tagSize

	minKey = 32
)

// Codec makes and reads tokens. It is safe for concurrent use.
type Codec struct {
	key []byte
}

// New makes a codec from at least 32 random bytes. With another key, tokens that
// are in use end.
func New(key []byte) (*Codec, error) {
	if len(key) < minKey {
		return nil, errors.New("the key of page tokens needs 32 bytes")
	}
	return &Codec{key: key}, nil
}

// Issue makes the token of a delivery: the same for the same delivery, always.
func (c *Codec) Issue(ref webhook.Ref) string {
	raw := c.seal(ref)
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

// Parse reads the delivery out of a token; ok is false for anything that Issue did
// not make. The time that it takes does not tell how much of a tag was right.
func (c *Codec) Parse(token string) (ref webhook.Ref, ok bool) {
	// The decoder passes over line breaks; a token has none.
	if len(token) != base64.RawURLEncoding.EncodedLen(size) {
		return 0, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) != size {
		return 0, false
	}
	position := binary.BigEndian.Uint64(raw[1:]) ^ c.mask(raw[1+positionSize:])
	made := c.seal(webhook.Ref(position))
	if !hmac.Equal(raw, made[:]) {
		return 0, false
	}
	return webhook.Ref(position), true
}

func (c *Codec) seal(ref webhook.Ref) (raw [size]byte) {
	raw[0] = version
	binary.BigEndian.PutUint64(raw[1:], uint64(ref))
	tag := c.sum('t', raw[:1+positionSize])
	copy(raw[1+positionSize:], tag[:tagSize])
	binary.BigEndian.PutUint64(raw[1:], uint64(ref)^c.mask(raw[1+positionSize:]))
	return raw
}

func (c *Codec) mask(tag []byte) uint64 {
	sum := c.sum('m', tag)
	return binary.BigEndian.Uint64(sum[:])
}

// sum is an HMAC for one purpose.
func (c *Codec) sum(purpose byte, text []byte) (out [sha256.Size]byte) {
	mac := hmac.New(sha256.New, c.key)
	mac.Write([]byte{purpose})
	mac.Write(text)
	mac.Sum(out[:0])
	return out
}
