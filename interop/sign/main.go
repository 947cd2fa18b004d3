// Command sign prints requests that the package signature has signed, a JSON
// object per line, for official SDKs of other makers to verify: scheme, secret,
// headers and the body in base64. The secrets are of no use anywhere. Start
// reading at cases.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/posthorn/posthorn/signature"
)

// Signing secrets for these checks only.
const (
	secret      = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	otherSecret = "whsec_Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA="
)

// signed is a request as a receiver would get it.
type signed struct {
	Scheme  string            `json:"scheme"`
	Secret  string            `json:"secret"`
	Headers map[string]string `json:"headers"`
	Body    []byte            `json:"body"`
}

func main() {
	if err := run(os.Stdout, time.Now()); err != nil {
		fmt.Fprintln(os.Stderr, "sign:", err)
		os.Exit(1)
	}
}

// bodies are such as a receiver's framework likes to change on the way.
func bodies() []string {
	return []string{
		`{"type":"order.paid","timestamp":"2026-01-01T00:00:00.000Z","data":{"id":1}}`,
		`{ "z":1, "a":"<b>&é ☂ \/ \u2028","n":1.0,"e":1e3,"big":12345678901234567890 }` + "\n",
		`"a bare string"`,
		`[]`,
		`{"data":"` + strings.Repeat("x", 64<<10) + `"}`,
	}
}

func run(out io.Writer, now time.Time) error {
	lines := json.NewEncoder(out)
	for _, name := range []string{"standardwebhooks", "svix", "stripe"} {
		scheme, ok := signature.Lookup(name, "")
		if !ok {
			return fmt.Errorf("no scheme %s", name)
		}
		for i, body := range bodies() {
			// Every other request is one in the middle of a rotation: the secret
			// that the receiver knows stands second.
			texts := []string{secret}
			if i%2 == 1 {
				texts = []string{otherSecret, secret}
			}
			s, err := sign(scheme, texts, fmt.Sprintf("evt_%d", i), body, now)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if err := lines.Encode(s); err != nil {
				return fmt.Errorf("write: %w", err)
			}
		}
	}
	return nil
}

func sign(scheme signature.Scheme, secrets []string, id, body string, now time.Time) (signed, error) {
	keys := make([]signature.Key, len(secrets))
	for i, text := range secrets {
		key, err := scheme.ParseKey(text)
		if err != nil {
			return signed{}, fmt.Errorf("parse the secret: %w", err)
		}
		keys[i] = key
	}
	header := http.Header{}
	msg := signature.Message{ID: id, Timestamp: now.Unix(), Body: []byte(body)}
	if err := scheme.SetHeaders(header, msg, keys...); err != nil {
		return signed{}, err
	}
	flat := make(map[string]string, len(header))
	for name := range header {
		flat[strings.ToLower(name)] = header.Get(name)
	}
	return signed{Scheme: scheme.Name, Secret: secret, Headers: flat, Body: []byte(body)}, nil
}
