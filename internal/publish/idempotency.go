package publish

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/posthorn/posthorn/internal/webhook"
)

// maxKeyLength bounds an Idempotency-Key in bytes.
const maxKeyLength = 1024

// CheckKey tells whether the value of an Idempotency-Key header can be used: 1
// to 1,024 bytes without control characters. More than visible ASCII is taken,
// since the key is only ever hashed. The error is a *Problem (invalid_field).
func CheckKey(key string) error {
	isControl := func(r rune) bool { return r < 0x20 || r == 0x7F }
	if key == "" || len(key) > maxKeyLength || strings.ContainsFunc(key, isControl) {
		return webhook.InvalidField("Idempotency-Key", "The header Idempotency-Key is empty, too long or has control characters.",
			fmt.Sprintf("1 to %d bytes without control characters", maxKeyLength))
	}
	return nil
}

// DeriveID makes the ID of an event that came without one under an
// Idempotency-Key (N3): the same for the same tenant, key and line, and in the
// form of callers' IDs. line is 1 for a single event, else Line.Number.
func DeriveID(tenant, key string, line int) string {
	text := make([]byte, 0, 128)
	text = appendSized(text, tenant)
	text = appendSized(text, key)
	text = binary.BigEndian.AppendUint64(text, uint64(line))
	sum := sha256.Sum256(text)
	return "key-" + base64.RawURLEncoding.EncodeToString(sum[:])
}
