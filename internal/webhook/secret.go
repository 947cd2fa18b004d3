package webhook

import (
	"fmt"
	"log/slog"
)

// Redacted stands wherever a secret would be printed.
const Redacted = "[redacted]"

// SecretText is a secret in clear: a signing secret or a header's value. It
// prints as [redacted] in every form; Reveal is the only way to its text, so
// that each use can be found.
type SecretText struct{ text string }

// NewSecretText wraps a secret.
func NewSecretText(text string) SecretText { return SecretText{text: text} }

// Reveal returns the secret in clear.
func (s SecretText) Reveal() string { return s.text }

// IsZero tells whether there is no secret.
func (s SecretText) IsZero() bool { return s.text == "" }

// String implements fmt.Stringer.
func (SecretText) String() string { return Redacted }

// GoString implements fmt.GoStringer.
func (SecretText) GoString() string { return Redacted }

// Format implements fmt.Formatter, so that no verb prints the text.
func (SecretText) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(Redacted)) }

// LogValue implements slog.LogValuer.
func (SecretText) LogValue() slog.Value { return slog.StringValue(Redacted) }

// MarshalText implements encoding.TextMarshaler, which encoding/json uses too.
func (SecretText) MarshalText() ([]byte, error) { return []byte(Redacted), nil }
