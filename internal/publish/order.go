package publish

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/posthorn/posthorn/internal/webhook"
)

// keyAt is the ordering key that a path such as link.id finds in data (E9): a
// text, or a number as it is written; "" where there is neither. Of repeated names
// the last counts, as for filters and most receivers. A key that is longer than a
// publisher's may be is its SHA-256, which orders as well.
func keyAt(data []byte, path string) string {
	value, ok := valueAt(data, path)
	if !ok {
		return ""
	}
	key := value
	switch c := value[0]; {
	case c == '"':
		text, err := unquote(value)
		if err != nil { // a lone surrogate: the bytes as posted are a key too
			text = value[1 : len(value)-1]
		}
		key = text
	case c != '-' && !isDigit(c):
		return ""
	}
	if len(key) > webhook.MaxOrderingKeyLength {
		sum := sha256.Sum256(key)
		return "sha256:" + hex.EncodeToString(sum[:])
	}
	return string(key)
}

// valueAt finds the bytes of the value that a path of members leads to. It walks
// over the data and decodes none of it.
func valueAt(data []byte, path string) (value []byte, ok bool) {
	for value = data; ; {
		name, rest, more := strings.Cut(path, ".")
		if value, ok = memberAt(value, name); !ok || !more {
			return value, ok
		}
		path = rest
	}
}

// memberAt finds the value of an object's last member of a name. Data that is no
// object, or no JSON at all, has none.
func memberAt(object []byte, name string) (value []byte, ok bool) {
	s := scanner{text: object}
	if s.space() != '{' {
		return nil, false
	}
	s.at++
	if s.space() == '}' {
		return nil, false
	}
	for {
		from := s.at
		if s.name() != nil {
			return nil, false
		}
		quoted := s.text[from : bytes.LastIndexByte(s.text[:s.at], '"')+1]
		s.space()
		start := s.at
		if s.value() != nil {
			return nil, false
		}
		if isName(quoted, name) {
			value, ok = s.text[start:s.at], true
		}
		switch s.space() {
		case ',':
			s.at++
			s.space()
		case '}':
			return value, ok
		default:
			return nil, false
		}
	}
}

// isName compares a member's name, as it stands in quotes, with another.
func isName(quoted []byte, name string) bool {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1:len(quoted)-1]) == name
	}
	text, err := unquote(quoted)
	return err == nil && string(text) == name
}
