package send

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/webhook"
	"github.com/posthorn/posthorn/signature"
)

// timeLayout is RFC 3339 in UTC with exactly three decimals (E3).
const timeLayout = "2006-01-02T15:04:05.000Z"

// Parts are what a request's body is made of.
type Parts struct {
	TenantID  string
	EventID   string
	EventType string
	CreatedAt time.Time
	// Data is the bytes as posted, any JSON value; they are copied, never read.
	Data      []byte
	WebhookID string

	// The rest is for contracts that deliver runs (S3). RunCounts is a JSON value.
	RunID     string
	RunCounts []byte
	PageToken string
	PageURL   string
	// SentAt is the attempt's own time; zero shows null.
	SentAt time.Time
}

// AppendBody appends the contract's envelope: its members in its order, put
// together around the bytes of the data (B22).
func AppendBody(dst []byte, c *contract.Contract, p Parts) []byte {
	const perField = 64
	dst = slices.Grow(dst, len(p.Data)+len(p.EventID)+len(p.WebhookID)+perField*len(c.Body.Fields))
	for i, field := range c.Body.Fields {
		separator := byte(',')
		if i == 0 {
			separator = '{'
		}
		dst = appendString(append(dst, separator), field.Name)
		dst = appendValue(append(dst, ':'), field.From, p)
	}
	return append(dst, '}')
}

func appendValue(dst []byte, from contract.Source, p Parts) []byte {
	switch from {
	case contract.FromEventID:
		return appendString(dst, p.EventID)
	case contract.FromEventType:
		return appendString(dst, p.EventType)
	case contract.FromEventCreatedAt:
		return appendTime(dst, p.CreatedAt)
	case contract.FromEventData:
		return append(dst, p.Data...)
	case contract.FromTenantID:
		return appendString(dst, p.TenantID)
	case contract.FromWebhookID:
		return appendString(dst, p.WebhookID)
	case contract.FromRunID:
		return appendString(dst, p.RunID)
	case contract.FromRunCounts:
		return append(dst, p.RunCounts...)
	case contract.FromPageToken:
		return appendString(dst, p.PageToken)
	case contract.FromPageURL:
		return appendString(dst, p.PageURL)
	case contract.FromSentAt:
		if !p.SentAt.IsZero() {
			return appendTime(dst, p.SentAt)
		}
	case contract.FromAttempt, contract.FromTimestamp: // headers only, as Contract.Validate knows
	}
	return append(dst, "null"...)
}

func appendTime(dst []byte, t time.Time) []byte {
	dst = append(dst, '"')
	dst = t.UTC().AppendFormat(dst, timeLayout)
	return append(dst, '"')
}

// appendString appends a JSON string; bytes that are no UTF-8 become U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s) // its error reports just that
	return dst
}

// Composer makes the headers of one endpoint's requests. It is made anew for each
// version of the endpoint, shared by all its attempts, and safe for concurrent
// use.
type Composer struct {
	contract *contract.Contract
	scheme   signature.Scheme
	keys     []signingKey
	// same holds what each request bears alike; its values are never written.
	same http.Header
}

type signingKey struct {
	key signature.Key
	// expiresAt ends an overlap; zero for never.
	expiresAt time.Time
}

var (
	errNoSecret = errors.New("compose: no signing secret is valid at this time")
	errHeaders  = errors.New("compose: the endpoint's own headers are not valid")
)

// NewComposer checks and prepares what does not change between attempts. own are
// the endpoint's headers: they stand as they were written, except that one whose
// name the contract has come to use since gives way. An error means that what is
// stored is bad (webhook.FaultPrepare); it holds no secret.
func NewComposer(c *contract.Contract, userAgent string, own []webhook.Header, secrets []webhook.SigningSecret) (*Composer, error) {
	scheme, err := SchemeOf(c)
	if err != nil {
		return nil, err
	}
	m := &Composer{contract: c, scheme: scheme, same: http.Header{
		"Content-Type": {"application/json"},
		"User-Agent":   {userAgent},
	}}
	for _, secret := range secrets {
		key, err := scheme.ParseKey(secret.Text.Reveal())
		if err != nil {
			return nil, fmt.Errorf("compose: secret %s: %w", secret.ID, err)
		}
		m.keys = append(m.keys, signingKey{key, secret.ExpiresAt})
	}
	reserved := c.ReservedHeaders()
	own = slices.DeleteFunc(slices.Clone(own), func(h webhook.Header) bool {
		return slices.ContainsFunc(reserved, func(r string) bool { return strings.EqualFold(r, h.Name) })
	})
	if webhook.ValidateHeaders(own, nil) != nil {
		return nil, errHeaders
	}
	for _, h := range own {
		name := h.Name
		if strings.EqualFold(name, "User-Agent") {
			name = "User-Agent" // or the transport would add its own
		}
		m.same[name] = []string{h.Value.Reveal()}
	}
	return m, nil
}

// Header makes the headers of one attempt, signed with all secrets that are valid
// at now, newest first; now is the wall time, whose Unix seconds are signed (B25).
// try is the counted number within the round. The names stand as the contract
// and the endpoint write them, so http.Header.Get may miss some.
func (m *Composer) Header(webhookID string, try int, now time.Time, body []byte) (http.Header, error) {
	var room [4]signature.Key
	keys := room[:0]
	for _, k := range m.keys {
		if k.expiresAt.IsZero() || now.Before(k.expiresAt) {
			keys = append(keys, k.key)
		}
	}
	if len(keys) == 0 {
		return nil, errNoSecret
	}
	msg := signature.Message{ID: webhookID, Timestamp: now.Unix(), Body: body}
	var text [256]byte
	signed, err := m.scheme.AppendSignature(text[:0], msg, keys...)
	if err != nil {
		return nil, fmt.Errorf("compose: %w", err)
	}
	h := maps.Clone(m.same)
	values := make([]string, len(m.contract.Headers)+1)
	set := func(i int, name, value string) {
		values[i] = value
		h[name] = values[i : i+1 : i+1]
	}
	for i, field := range m.contract.Headers {
		set(i, field.Name, headerValue(field.From, msg, try))
	}
	set(len(values)-1, m.contract.Signature.Header, string(signed))
	return h, nil
}

func headerValue(from contract.Source, msg signature.Message, try int) string {
	switch from {
	case contract.FromWebhookID:
		return msg.ID
	case contract.FromTimestamp:
		return strconv.FormatInt(msg.Timestamp, 10)
	case contract.FromAttempt:
		return strconv.Itoa(try)
	case contract.FromEventID, contract.FromEventType, contract.FromEventCreatedAt, contract.FromEventData,
		contract.FromTenantID, contract.FromRunID, contract.FromRunCounts, contract.FromPageToken, contract.FromPageURL,
		contract.FromSentAt: // body only, as Contract.Validate knows
	}
	return ""
}

// SchemeOf is the contract's way of signing as package signature knows it. Which
// headers bear a signed ID or timestamp follows from what the contract's headers
// are filled from.
func SchemeOf(c *contract.Contract) (signature.Scheme, error) {
	s := signature.Scheme{
		Name:            c.Name,
		Signed:          c.Signature.Signed,
		KeyForm:         signature.KeyForm(c.Signature.Key),
		SecretPrefix:    c.Secret.Prefix,
		SignatureHeader: c.Signature.Header,
		Form:            signature.Form(c.Signature.Form),
		Tolerance:       c.Signature.Tolerance.Std(),
	}
	for _, a := range c.Signature.Algorithms {
		s.Algorithms = append(s.Algorithms, signature.Algorithm(a))
	}
	if strings.Contains(s.Signed, "{id}") {
		s.IDHeader = headerFrom(c, contract.FromWebhookID)
	}
	if s.Form == signature.FormStandard && strings.Contains(s.Signed, "{t}") {
		s.TimestampHeader = headerFrom(c, contract.FromTimestamp)
	}
	if err := s.Validate(); err != nil {
		return signature.Scheme{}, fmt.Errorf("contract %s: signature: %w", c.Name, err)
	}
	return s, nil
}

func headerFrom(c *contract.Contract, from contract.Source) string {
	for _, field := range c.Headers {
		if field.From == from {
			return field.Name
		}
	}
	return ""
}
