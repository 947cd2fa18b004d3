package webhook

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"strings"
	"time"
)

// IDs of events, deliveries and attempts are 128 bits in TypeID's text form:
//
//	48 bits  acceptance time, Unix milliseconds: IDs sort by time
//	32 bits  tag: authenticates kind, time and position
//	48 bits  position in the store, hidden by a mask that only the key knows
//
// The position inside makes a look-up a read by the clustered key, with no index
// on the ID; the mask keeps an installation's volume from its receivers; the tag
// refuses made-up IDs before the store is touched. The construction is a
// synthetic-IV one: the mask depends on the tag, the tag on everything.

// IDKeySize is the size of an IDCodec's key in bytes.
const IDKeySize = 32

const (
	idAlphabet   = "0123456789abcdefghjkmnpqrstvwxyz" // Crockford's base 32 in lower case
	idTextLength = 26
	maxPosition  = 1<<48 - 1
)

// ErrForeignID tells that a text is no ID made by this installation.
var ErrForeignID = errors.New("not an ID of this installation")

// IDCodec makes and reads IDs. It is safe for concurrent use.
type IDCodec struct {
	tag, mask cipher.Block
}

// NewIDCodec makes a codec from an installation's ID key, which must never
// change while IDs made with it are in use.
func NewIDCodec(key []byte) (*IDCodec, error) {
	if len(key) != IDKeySize {
		return nil, errors.New("the ID key must have 32 bytes")
	}
	tag, err := aes.NewCipher(key[:16])
	if err != nil {
		return nil, err
	}
	mask, err := aes.NewCipher(key[16:])
	if err != nil {
		return nil, err
	}
	return &IDCodec{tag: tag, mask: mask}, nil
}

// Encode makes the ID of a thing of the kind that prefix names, at a position.
func (c *IDCodec) Encode(prefix string, at time.Time, position int64) string {
	raw := c.seal(prefix, uint64(at.UnixMilli())&maxPosition, uint64(position)&maxPosition)
	text := make([]byte, 0, len(prefix)+1+idTextLength)
	text = append(text, prefix...)
	text = append(text, '_')
	return string(appendBase32(text, raw))
}

// Decode reads the position out of an ID of the kind that prefix names.
// ErrForeignID for anything that Encode did not make.
func (c *IDCodec) Decode(prefix, id string) (int64, error) {
	text, ok := strings.CutPrefix(id, prefix)
	if !ok || len(text) != 1+idTextLength || text[0] != '_' {
		return 0, ErrForeignID
	}
	raw, ok := parseBase32(text[1:])
	if !ok {
		return 0, ErrForeignID
	}
	ms := binary.BigEndian.Uint64(raw[:8]) >> 16
	hidden := binary.BigEndian.Uint64(raw[8:]) & maxPosition
	position := hidden ^ c.maskFor(prefix, ms, binary.BigEndian.Uint32(raw[6:10]))
	want := c.seal(prefix, ms, position)
	if subtle.ConstantTimeCompare(raw[:], want[:]) != 1 {
		return 0, ErrForeignID
	}
	return int64(position), nil
}

// Owns tells whether id is an event ID that this installation made.
func (c *IDCodec) Owns(id string) bool {
	_, err := c.Decode(PrefixEvent, id)
	return err == nil
}

func (c *IDCodec) seal(prefix string, ms, position uint64) (raw [16]byte) {
	var in, out [16]byte
	copy(in[:4], prefix)
	putUint48(in[4:10], ms)
	putUint48(in[10:16], position)
	c.tag.Encrypt(out[:], in[:])
	tag := binary.BigEndian.Uint32(out[:4])
	putUint48(raw[:6], ms)
	binary.BigEndian.PutUint32(raw[6:10], tag)
	putUint48(raw[10:], position^c.maskFor(prefix, ms, tag))
	return raw
}

func (c *IDCodec) maskFor(prefix string, ms uint64, tag uint32) uint64 {
	var in, out [16]byte
	copy(in[:4], prefix)
	putUint48(in[4:10], ms)
	binary.BigEndian.PutUint32(in[10:14], tag)
	c.mask.Encrypt(out[:], in[:])
	return binary.BigEndian.Uint64(out[:8]) & maxPosition
}

func putUint48(b []byte, v uint64) {
	_ = b[5]
	b[0], b[1], b[2] = byte(v>>40), byte(v>>32), byte(v>>24)
	b[3], b[4], b[5] = byte(v>>16), byte(v>>8), byte(v)
}

// appendBase32 writes 128 bits as 26 digits, two zero bits in front.
func appendBase32(dst []byte, raw [16]byte) []byte {
	hi, lo := binary.BigEndian.Uint64(raw[:8]), binary.BigEndian.Uint64(raw[8:])
	for shift := 125; shift >= 0; shift -= 5 {
		var v uint64
		switch {
		case shift >= 64:
			v = hi >> (shift - 64)
		case shift > 59:
			v = hi<<(64-shift) | lo>>shift
		default:
			v = lo >> shift
		}
		dst = append(dst, idAlphabet[v&31])
	}
	return dst
}

func parseBase32(text string) (raw [16]byte, ok bool) {
	if len(text) != idTextLength || text[0] > '7' {
		return raw, false
	}
	var hi, lo uint64
	for i := range len(text) {
		v := strings.IndexByte(idAlphabet, text[i])
		if v < 0 {
			return raw, false
		}
		hi = hi<<5 | lo>>59
		lo = lo<<5 | uint64(v)
	}
	binary.BigEndian.PutUint64(raw[:8], hi)
	binary.BigEndian.PutUint64(raw[8:], lo)
	return raw, true
}

// RandomID makes an ID of small tables (endpoints, secrets, keys), where an index
// on it costs nothing: 48 bits of time and 80 random bits.
func RandomID(prefix string, at time.Time, random [10]byte) string {
	var raw [16]byte
	putUint48(raw[:6], uint64(at.UnixMilli())&maxPosition)
	copy(raw[6:], random[:])
	return string(appendBase32(append([]byte(prefix), '_'), raw))
}
