package contract

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Contract is one platform's promise. The zero value promises nothing; read one
// from YAML with Parse, or take a built-in one with Builtin.
type Contract struct {
	APIVersion int    `yaml:"apiVersion"`
	Name       string `yaml:"name"`
	// Operator stands in texts that name who runs the platform; may be empty.
	Operator string `yaml:"operator,omitempty"`
	URL      URL    `yaml:"url"`
	Body     Body   `yaml:"body"`
	// WebhookID says what the receiver's message ID identifies.
	WebhookID WebhookID     `yaml:"webhook_id"`
	Headers   []Field       `yaml:"headers"`
	Signature Signature     `yaml:"signature"`
	Secret    Secret        `yaml:"secret"`
	Timeout   Duration      `yaml:"timeout"` // start to complete headers; 60 s at most (N7)
	Success   []StatusRange `yaml:"success"`
	Response  Response      `yaml:"response"`
	Schedule  Schedule      `yaml:"schedule"`
	// RetryAfter says which answers' Retry-After counts and how (S4, E7).
	RetryAfter RetryAfter `yaml:"retry_after"`
	Stop       []Stop     `yaml:"stop,omitempty"`
	Exhausted  Exhausted  `yaml:"exhausted"`
	History    History    `yaml:"history"`
}

// URL says which URLs endpoints may have.
type URL struct {
	Schemes []string `yaml:"schemes"`
}

// Body is the envelope: members in this order.
type Body struct {
	Fields []Field `yaml:"fields"`
}

// Field is a named member of the body or a header, and where its value is from.
type Field struct {
	Name string `yaml:"name"`
	From Source `yaml:"from"`
}

// Source names what fills a field.
type Source string

// Sources of body members and headers.
const (
	FromEventID        Source = "event.id"
	FromEventType      Source = "event.type"
	FromEventCreatedAt Source = "event.created_at"
	FromEventData      Source = "event.data"
	FromTenantID       Source = "tenant.id"
	FromWebhookID      Source = "webhook_id"
	FromAttempt        Source = "attempt"   // header only: the counted number within the round
	FromTimestamp      Source = "timestamp" // header only: the attempt's Unix seconds
)

// WebhookID says what the message ID identifies.
type WebhookID string

// Kinds of message ID.
const (
	PerEvent    WebhookID = "event"
	PerDelivery WebhookID = "delivery"
)

// Signature says how requests are signed; the names are those of the package
// signature.
type Signature struct {
	Header     string   `yaml:"header"`
	Form       string   `yaml:"form"`   // standard | timestamped-hex
	Signed     string   `yaml:"signed"` // such as {id}.{t}.{body}
	Algorithms []string `yaml:"algorithms"`
	Key        string   `yaml:"key"` // text | base64
	Tolerance  Duration `yaml:"tolerance"`
}

// Secret says what signing secrets look like and who makes them.
type Secret struct {
	Prefix string `yaml:"prefix"`
	// Bytes is the number of random bytes in a secret that we make; MinBytes and
	// MaxBytes bound one that a caller gives.
	Bytes    int    `yaml:"bytes"`
	MinBytes int    `yaml:"min_bytes"`
	MaxBytes int    `yaml:"max_bytes"`
	From     string `yaml:"from"` // made | caller | either
}

// Response bounds what is read of an answer's body and what the log keeps, in
// bytes.
type Response struct {
	Read int `yaml:"read"`
	Keep int `yaml:"keep"`
}

// Schedule is when attempts are made. The number of waits is the number of
// attempts; each wait is counted from the end of the attempt before, the first
// from when the delivery is due.
type Schedule struct {
	Waits  []Duration `yaml:"waits"`
	Jitter float64    `yaml:"jitter"` // 0.10: each wait is off by up to ±10 %, evenly
}

// RetryAfter says what a Retry-After header does.
type RetryAfter struct {
	// On lists the statuses whose header counts; Any takes every failed answer.
	On  []int `yaml:"on,omitempty"`
	Any bool  `yaml:"any,omitempty"`
	// Max is what a longer one counts as.
	Max Duration `yaml:"max,omitempty"`
}

// Stop is an answer that ends a delivery at once.
type Stop struct {
	On      FailureKind `yaml:"on"`
	Status  Status      `yaml:"status"`
	Disable bool        `yaml:"disable,omitempty"` // the endpoint too
}

// Exhausted says what happens when no attempt is left.
type Exhausted struct {
	Status Status   `yaml:"status"` // failed | dead
	Emit   []string `yaml:"emit,omitempty"`
}

// History says how long the log is kept, from the end of a delivery.
type History struct {
	Keep Duration `yaml:"keep"`
}

// StatusRange is a range of HTTP statuses, both ends included: "200-299".
type StatusRange struct{ From, To int }

// Contains tells whether status lies in the range.
func (r StatusRange) Contains(status int) bool { return status >= r.From && status <= r.To }

// MarshalText implements encoding.TextMarshaler.
func (r StatusRange) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%d-%d", r.From, r.To), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *StatusRange) UnmarshalText(text []byte) error {
	from, to, isRange := strings.Cut(string(text), "-")
	if !isRange {
		to = from
	}
	lo, errLo := strconv.Atoi(from)
	hi, errHi := strconv.Atoi(to)
	if errLo != nil || errHi != nil || lo < 100 || hi > 599 || lo > hi {
		return fmt.Errorf("%q is no range of statuses such as 200-299", text)
	}
	r.From, r.To = lo, hi
	return nil
}

// Duration is a time.Duration that reads "30s", "5m", "2h", "30d".
type Duration time.Duration

// Std returns the duration as the standard type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) {
	const day = 24 * time.Hour
	if v := time.Duration(d); v != 0 && v%day == 0 {
		return fmt.Appendf(nil, "%dd", v/day), nil
	}
	return []byte(time.Duration(d).String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	s := string(text)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 0 || n > 36500 {
			return fmt.Errorf("%q is no number of days", s)
		}
		*d = Duration(time.Duration(n) * 24 * time.Hour)
		return nil
	}
	if s == "0" {
		*d = 0
		return nil
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 {
		return fmt.Errorf("%q is no duration such as 30s, 5m, 2h or 30d", s)
	}
	*d = Duration(v)
	return nil
}
