package contract

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

//go:embed standard.yaml
var standardYAML []byte //nolint:gochecknoglobals // because go:embed needs a variable; nothing writes it

// Builtin names of contracts that come with the product.
const Standard = "standard"

// MaxTimeout is the longest time-out a contract may have (N7).
const MaxTimeout = 60 * time.Second

// Builtin returns a built-in contract by name; false if there is none.
func Builtin(name string) (*Contract, bool) {
	if name != Standard {
		return nil, false
	}
	c, err := Parse(standardYAML)
	if err != nil {
		return nil, false // TestBuiltin_Parses proves that this can't be
	}
	return c, true
}

// Parse reads one contract from YAML (apiVersion 1) and validates it. Unknown
// fields are refused.
func Parse(text []byte) (*Contract, error) {
	var c Contract
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil {
		return nil, fmt.Errorf("reading a contract: %w", err)
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &c, nil
}

// Revision is a short hash of the contract's meaning: equal for equal promises,
// whatever the layout or comments of the file.
func (c *Contract) Revision() string {
	canonical, err := yaml.Marshal(c)
	if err != nil {
		return "" // marshalling a parsed contract can't fail: no field is a func or channel
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:6])
}

// Validate reports every fault of the contract, joined.
func (c *Contract) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(c.APIVersion == 1, "apiVersion must be 1")
	check(c.Name != "", "name is missing")
	check(len(c.URL.Schemes) > 0, "url.schemes is empty")
	for _, s := range c.URL.Schemes {
		check(s == "https" || s == "http", "url.schemes: only https and http are possible")
	}
	check(c.WebhookID == PerEvent || c.WebhookID == PerDelivery, "webhook_id must be event or delivery")
	check(c.Timeout > 0 && c.Timeout.Std() <= MaxTimeout, "timeout must lie between 1ms and 60s")
	check(len(c.Success) > 0, "success is empty")
	check(c.Response.Read >= c.Response.Keep && c.Response.Keep >= 0, "response.keep must not exceed response.read")
	check(len(c.Schedule.Waits) > 0, "schedule.waits is empty")
	check(c.Schedule.Jitter >= 0 && c.Schedule.Jitter < 1, "schedule.jitter must be at least 0 and below 1")
	check(c.Exhausted.Status == StatusFailed || c.Exhausted.Status == StatusDead, "exhausted.status must be failed or dead")
	for i, s := range c.Stop {
		check(slices.Contains(FailureKinds(), s.On), "stop[%d].on is no failure kind", i)
		check(s.Status == StatusFailed || s.Status == StatusDead, "stop[%d].status must be failed or dead", i)
	}
	c.validateFields(check)
	return errors.Join(faults...)
}

func (c *Contract) validateFields(check func(bool, string, ...any)) {
	inBody := []Source{FromEventID, FromEventType, FromEventCreatedAt, FromEventData, FromTenantID, FromWebhookID}
	inHeader := []Source{FromWebhookID, FromAttempt, FromTimestamp}
	check(len(c.Body.Fields) > 0, "body.fields is empty")
	for i, f := range c.Body.Fields {
		check(f.Name != "" && slices.Contains(inBody, f.From), "body.fields[%d] needs a name and a known source", i)
	}
	for i, f := range c.Headers {
		check(f.Name != "" && slices.Contains(inHeader, f.From), "headers[%d] needs a name and a known source", i)
	}
	check(c.Signature.Header != "", "signature.header is missing")
	check(slices.Contains([]string{"standard", "timestamped-hex"}, c.Signature.Form), "signature.form must be standard or timestamped-hex")
	check(strings.Contains(c.Signature.Signed, "{body}"), "signature.signed must contain {body}")
	check(slices.Contains([]string{"text", "base64"}, c.Signature.Key), "signature.key must be text or base64")
	check(c.Secret.Bytes >= c.Secret.MinBytes && c.Secret.Bytes <= c.Secret.MaxBytes, "secret.bytes must lie between min_bytes and max_bytes")
}
