package contract

import (
	"fmt"
	"slices"
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
	// Delivers says what one delivery carries.
	Delivers Unit `yaml:"delivers"`
	Body     Body `yaml:"body"`
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
	RetryAfter RetryAfter `yaml:"retry_after,omitempty"`
	Stop       []Stop     `yaml:"stop,omitempty"`
	Exhausted  Exhausted  `yaml:"exhausted"`
	// Gate holds an endpoint's other deliveries back after a failure (S5).
	Gate Gate `yaml:"gate,omitempty"`
	// Order keeps deliveries of one key in the order of acceptance (E9).
	Order Order `yaml:"order,omitempty"`
	// Health says which triggers count for the health rules; tests never do.
	Health  Health  `yaml:"health,omitempty"`
	Degrade Degrade `yaml:"degrade,omitempty"`
	Pause   Pause   `yaml:"pause,omitempty"`
	Disable Disable `yaml:"disable,omitempty"`
	// TellOwner lists the transitions that the tenant's owner is told of.
	TellOwner []Transition `yaml:"tell_owner,omitempty"`
	Off       Off          `yaml:"off"`
	OnResume  OnResume     `yaml:"on_resume"`
	OnEnable  OnEnable     `yaml:"on_enable"`
	Resend    Resend       `yaml:"resend"`
	Redeliver Redeliver    `yaml:"redeliver,omitempty"`
	Test      Test         `yaml:"test"`
	History   History      `yaml:"history"`
	Run       Run          `yaml:"run,omitempty"`
	// ReceiverMemory is how long receivers are told to remember message IDs; zero
	// promises nothing (a unique index for ever).
	ReceiverMemory Duration `yaml:"receiver_memory,omitempty"`
}

// URL says which URLs endpoints may have.
type URL struct {
	Schemes []string `yaml:"schemes"`
}

// Unit is what a delivery carries.
type Unit string

// Units.
const (
	DeliversEvent Unit = "event"
	DeliversRun   Unit = "run" // a thin notice of a run, whose events are fetched (S3)
)

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
	FromRunID          Source = "run.id"
	FromRunCounts      Source = "run.counts"
	FromPageToken      Source = "page.token"
	FromPageURL        Source = "page.url"
	FromSentAt         Source = "attempt.sent_at" // changes with each attempt
	FromAttempt        Source = "attempt"         // header only: the counted number within the round
	FromTimestamp      Source = "timestamp"       // header only: the attempt's Unix seconds
)

// WebhookID says what the message ID identifies (S3, P4).
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
	// Overlap is how long both secrets sign after a rotation.
	Overlap Duration `yaml:"overlap"`
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
// bytes (S1, P8).
type Response struct {
	Read int `yaml:"read"`
	Keep int `yaml:"keep"`
}

// Schedule is when attempts are made. The number of waits is the number of
// attempts; the first is 0, for at once, and each other one is counted from the
// end of the attempt before.
type Schedule struct {
	Waits  []Duration `yaml:"waits"`
	Jitter float64    `yaml:"jitter"` // 0.10: each wait is off by up to ±10 %, evenly
}

// RetryAfter says what a Retry-After header does.
type RetryAfter struct {
	// On lists the statuses whose header counts; Any takes every failed answer.
	On  []int `yaml:"on,omitempty"`
	Any bool  `yaml:"any,omitempty"`
	// Mode is longer (the default: never shortens a wait) or replace.
	Mode string `yaml:"mode,omitempty"`
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

// Gate says which failures hold back the other deliveries of a scope until the
// failed one's next attempt.
type Gate struct {
	// On lists the statuses that close it; Any takes every failure. Neither: no
	// gate.
	On  []int `yaml:"on,omitempty"`
	Any bool  `yaml:"any,omitempty"`
	// Scope is url or endpoint, always inside one tenant.
	Scope string `yaml:"scope,omitempty"`
	// PassedBy lists triggers that go out in spite of it, one at a time.
	PassedBy []Trigger `yaml:"passed_by,omitempty"`
}

// Order says how deliveries of one key wait for each other.
type Order struct {
	// Key lists JSON paths into the data; the first one present is the key where
	// the publisher gives none.
	Key []string `yaml:"key,omitempty"`
	// Mode is none or strict: the next goes out only when the one before ended.
	Mode string `yaml:"mode,omitempty"`
}

// Health says what counts for the health rules.
type Health struct {
	Counts []Trigger `yaml:"counts,omitempty"`
}

// Degrade marks an endpoint after failures in a row; deliveries made while it is
// marked get other waits.
type Degrade struct {
	After int        `yaml:"after,omitempty"` // attempts in a row; 0: never
	For   Duration   `yaml:"for,omitempty"`
	Waits []Duration `yaml:"waits,omitempty"`
}

// Pause pauses an endpoint after failures in a row.
type Pause struct {
	After int `yaml:"after,omitempty"` // attempts in a row; 0: never
}

// Disable disables an endpoint that has had no success for long.
type Disable struct {
	// NoSuccessFor runs from the first failure after the last success, enabling or
	// resuming; 0: never. At least three failures are needed (N20).
	NoSuccessFor Duration `yaml:"no_success_for,omitempty"`
}

// Transition is a change of an endpoint that owners can be told of.
type Transition string

// Transitions.
const (
	BecameDisabled Transition = "disabled"
	BecamePaused   Transition = "paused"
	BecameDegraded Transition = "degraded"
)

// Fate is what happens to deliveries of an endpoint that is off.
type Fate string

// Fates.
const (
	FateHold Fate = "hold" // they wait until it is on again
	FateSkip Fate = "skip" // they end as skipped, in the log
)

// Off says what being off does.
type Off struct {
	New      Fate `yaml:"new"`       // events that come meanwhile
	Waiting  Fate `yaml:"waiting"`   // deliveries that were waiting
	InFlight Fate `yaml:"in_flight"` // a request under way that then fails; a 2xx always counts
}

// OnResume says what resuming after a pause does.
type OnResume struct {
	Held string `yaml:"held"`           // backlog | none
	Dead string `yaml:"dead,omitempty"` // leave | redeliver
}

// OnEnable says what enabling after a disabling does.
type OnEnable struct {
	Held    string `yaml:"held"` // backlog | none
	MaySkip bool   `yaml:"may_skip,omitempty"`
	Dead    string `yaml:"dead,omitempty"` // leave | redeliver
}

// Resend says what sending the same delivery again means.
type Resend struct {
	From     []Status `yaml:"from,omitempty"`
	Attempts string   `yaml:"attempts,omitempty"` // schedule | once
	NeedsOn  bool     `yaml:"needs_on,omitempty"`
	// Batch is the most deliveries in one request; AllOrNone: one that can't be
	// resent keeps all from it.
	Batch     int  `yaml:"batch,omitempty"`
	AllOrNone bool `yaml:"all_or_none,omitempty"`
}

// Redeliver says what a new delivery of the same event or run means.
type Redeliver struct {
	From []Status `yaml:"from,omitempty"`
	// MarksOld is redelivered or unchanged: what the old row becomes.
	MarksOld string `yaml:"marks_old,omitempty"`
}

// Test says what a test event is. It is one try and counts for nothing.
type Test struct {
	Type     string `yaml:"type"`
	Data     string `yaml:"data"` // JSON
	WhileOff bool   `yaml:"while_off"`
	Logged   bool   `yaml:"logged"`
}

// History says how long the log is kept, and how it is shown.
type History struct {
	Keep Duration `yaml:"keep"` // from the end of a delivery
	// Statuses shows some of the engine's statuses under another name.
	Statuses map[Status]Status `yaml:"statuses,omitempty"`
	// OnEndpointDelete is keep or delete.
	OnEndpointDelete string `yaml:"on_endpoint_delete"`
}

// Run says how runs are read.
type Run struct {
	// TokenFor is how long a page token is valid, from the first attempt and never
	// before its delivery has ended.
	TokenFor Duration `yaml:"token_for,omitempty"`
}

// Shown is the status as the contract shows it (P6).
func (c *Contract) Shown(s Status) Status {
	if shown, ok := c.History.Statuses[s]; ok {
		return shown
	}
	return s
}

// ReservedHeaders lists the names that requests under the contract bear, which no
// endpoint may set itself: the signature's first, then those of Headers.
func (c *Contract) ReservedHeaders() []string {
	names := []string{c.Signature.Header}
	for _, field := range c.Headers {
		names = append(names, field.Name)
	}
	return names
}

// BodyChanges tells whether the body differs between attempts.
func (c *Contract) BodyChanges() bool {
	return slices.ContainsFunc(c.Body.Fields, func(f Field) bool { return f.From == FromSentAt })
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
