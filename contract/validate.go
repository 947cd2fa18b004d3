package contract

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Limits of a contract.
const (
	// MaxTimeout is the longest time-out a contract may have (N7).
	MaxTimeout  = 60 * time.Second
	maxAttempts = 50
	maxWait     = 30 * 24 * time.Hour
	maxKeep     = 3650 * 24 * time.Hour
	maxResponse = 64 << 10
)

// Validate reports every fault of the contract as an *InvalidError, without
// lines.
func (c *Contract) Validate() error {
	if faults := c.faults(); len(faults) > 0 {
		return &InvalidError{faults}
	}
	return nil
}

// checks collects faults.
type checks []Fault

// that notes a fault unless ok.
func (k *checks) that(ok bool, path, format string, args ...any) {
	if !ok {
		*k = append(*k, Fault{Path: path, Text: fmt.Sprintf(format, args...)})
	}
}

// oneOf notes a fault unless v is one of the words allowed.
func oneOf[T ~string](k *checks, path string, v T, allowed ...T) {
	if slices.Contains(allowed, v) {
		return
	}
	names := make([]string, 0, len(allowed))
	for _, a := range allowed {
		if a != "" {
			names = append(names, string(a))
		}
	}
	k.that(false, path, "must be %s", strings.Join(names, " or "))
}

func (c *Contract) faults() []Fault {
	var k checks
	c.checkIdentity(&k)
	c.checkFields(&k)
	c.checkSigning(&k)
	c.checkAttempts(&k)
	c.checkStops(&k)
	c.checkHealth(&k)
	c.checkOff(&k)
	c.checkAgain(&k)
	c.checkTogether(&k)
	return k
}

func (c *Contract) checkIdentity(k *checks) {
	name := regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	k.that(c.APIVersion == 1, "apiVersion", "must be 1")
	k.that(name.MatchString(c.Name), "name", "must be 1 to 64 of a-z, 0-9, _ and -, beginning with a letter or digit")
	k.that(len(c.URL.Schemes) > 0, "url.schemes", "must list https, or https and http")
	for i, s := range c.URL.Schemes {
		oneOf(k, fmt.Sprintf("url.schemes[%d]", i), s, "https", "http")
	}
	oneOf(k, "delivers", c.Delivers, DeliversEvent, DeliversRun)
	oneOf(k, "webhook_id", c.WebhookID, PerEvent, PerDelivery)
}

func (c *Contract) checkFields(k *checks) {
	inBody := []Source{
		FromEventID, FromEventType, FromEventCreatedAt, FromEventData, FromTenantID, FromWebhookID,
		FromRunID, FromRunCounts, FromPageToken, FromPageURL, FromSentAt,
	}
	inHeader := []Source{FromWebhookID, FromAttempt, FromTimestamp}
	token := regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$")
	k.that(len(c.Body.Fields) > 0, "body.fields", "must have a member")
	seen := map[string]bool{}
	for i, f := range c.Body.Fields {
		path := fmt.Sprintf("body.fields[%d]", i)
		k.that(f.Name != "" && !seen[f.Name], path, "needs a name of its own")
		oneOf(k, path, f.From, inBody...)
		seen[f.Name] = true
	}
	seen = map[string]bool{strings.ToLower(c.Signature.Header): true}
	for i, f := range c.Headers {
		path := fmt.Sprintf("headers[%d]", i)
		k.that(token.MatchString(f.Name) && !seen[strings.ToLower(f.Name)], path, "needs a header name of its own")
		oneOf(k, path, f.From, inHeader...)
		seen[strings.ToLower(f.Name)] = true
	}
}

func (c *Contract) checkSigning(k *checks) {
	s := &c.Signature
	k.that(s.Header != "", "signature.header", "is missing")
	oneOf(k, "signature.form", s.Form, "standard", "timestamped-hex")
	k.that(strings.Contains(s.Signed, "{body}") && strings.Contains(s.Signed, "{t}"), "signature.signed", "must contain {t} and {body}")
	k.that(len(s.Algorithms) > 0, "signature.algorithms", "must list hmac-sha256, or hmac-sha256 and ed25519")
	for i, a := range s.Algorithms {
		oneOf(k, fmt.Sprintf("signature.algorithms[%d]", i), a, "hmac-sha256", "ed25519")
	}
	oneOf(k, "signature.key", s.Key, "text", "base64")
	k.that(s.Tolerance > 0 && s.Tolerance.Std() <= time.Hour, "signature.tolerance", "must lie between 1s and 1h")
	k.that(s.Overlap.Std() <= maxWait, "signature.overlap", "must be at most 30d")
	k.that(c.Secret.MinBytes >= 16 && c.Secret.MaxBytes >= c.Secret.MinBytes && c.Secret.MaxBytes <= 256, "secret.min_bytes", "and max_bytes must lie between 16 and 256")
	k.that(c.Secret.Bytes >= c.Secret.MinBytes && c.Secret.Bytes <= c.Secret.MaxBytes, "secret.bytes", "must lie between min_bytes and max_bytes")
	oneOf(k, "secret.from", c.Secret.From, "made", "caller", "either")
}

func (c *Contract) checkAttempts(k *checks) {
	k.that(c.Timeout > 0 && c.Timeout.Std() <= MaxTimeout, "timeout", "must lie between 1ms and 60s")
	k.that(len(c.Success) > 0, "success", "must have a range such as 200-299")
	k.that(c.Response.Read >= c.Response.Keep && c.Response.Keep >= 0 && c.Response.Read <= maxResponse, "response",
		"keep must not exceed read, and read not %d", maxResponse)
	checkWaits(k, "schedule.waits", c.Schedule.Waits)
	k.that(len(c.Schedule.Waits) > 0, "schedule.waits", "must have a wait")
	k.that(c.Schedule.Jitter >= 0 && c.Schedule.Jitter < 1 && !math.IsNaN(c.Schedule.Jitter), "schedule.jitter", "must be at least 0 and below 1")
	oneOf(k, "retry_after.mode", c.RetryAfter.Mode, "", "longer", "replace")
	k.that(!c.heedsAny() || c.RetryAfter.Max > 0 && c.RetryAfter.Max.Std() <= maxWait, "retry_after.max", "must lie between 1s and 30d")
	k.that(!c.RetryAfter.Any || len(c.RetryAfter.On) == 0, "retry_after.on", "says nothing beside any")
}

func (c *Contract) heedsAny() bool { return c.RetryAfter.Any || len(c.RetryAfter.On) > 0 }

func checkWaits(k *checks, path string, waits []Duration) {
	k.that(len(waits) <= maxAttempts, path, "must have at most %d waits", maxAttempts)
	for i, w := range waits {
		k.that(w.Std() <= maxWait, fmt.Sprintf("%s[%d]", path, i), "must be at most 30d")
	}
}

func (c *Contract) checkStops(k *checks) {
	seen := map[FailureKind]bool{}
	for i, s := range c.Stop {
		path := fmt.Sprintf("stop[%d]", i)
		oneOf(k, path+".on", s.On, FailureKinds()...)
		oneOf(k, path+".status", s.Status, StatusFailed, StatusDead)
		k.that(!seen[s.On], path+".on", "stands twice")
		seen[s.On] = true
	}
	oneOf(k, "exhausted.status", c.Exhausted.Status, StatusFailed, StatusDead)
	for i, e := range c.Exhausted.Emit {
		oneOf(k, fmt.Sprintf("exhausted.emit[%d]", i), e, "webhook.failed")
	}
	k.that(!c.Gate.Any || len(c.Gate.On) == 0, "gate.on", "says nothing beside any")
	if c.Gate.Closes() {
		oneOf(k, "gate.scope", c.Gate.Scope, "url", "endpoint")
	}
	checkTriggers(k, "gate.passed_by", c.Gate.PassedBy)
}

// Closes tells whether there is a gate at all.
func (g *Gate) Closes() bool { return g.Any || len(g.On) > 0 }

func checkTriggers(k *checks, path string, all []Trigger) {
	for i, t := range all {
		oneOf(k, fmt.Sprintf("%s[%d]", path, i), t, Triggers()...)
	}
}

func (c *Contract) checkHealth(k *checks) {
	checkTriggers(k, "health.counts", c.Health.Counts)
	k.that(!slices.Contains(c.Health.Counts, TriggerTest), "health.counts", "can't have test: tests count for nothing")
	k.that(c.Degrade.After >= 0 && c.Pause.After >= 0, "degrade.after", "and pause.after must not be negative")
	if c.Degrade.After > 0 {
		k.that(c.Degrade.For > 0 && c.Degrade.For.Std() <= maxWait, "degrade.for", "must lie between 1s and 30d")
		k.that(len(c.Degrade.Waits) > 0 && len(c.Degrade.Waits) <= len(c.Schedule.Waits), "degrade.waits", "must have at least one wait and no more than schedule.waits")
		checkWaits(k, "degrade.waits", c.Degrade.Waits)
	}
	k.that(c.Disable.NoSuccessFor.Std() <= maxKeep, "disable.no_success_for", "must be at most 3650d")
	for i, t := range c.TellOwner {
		oneOf(k, fmt.Sprintf("tell_owner[%d]", i), t, BecameDisabled, BecamePaused, BecameDegraded)
	}
	oneOf(k, "order.mode", c.Order.Mode, "", "none", "strict")
	k.that(len(c.Order.Key) == 0 || c.Order.Mode == "strict", "order.key", "needs order.mode: strict")
	path := regexp.MustCompile(`^data(\.[A-Za-z0-9_-]+){1,8}$`)
	for i, p := range c.Order.Key {
		k.that(path.MatchString(p), fmt.Sprintf("order.key[%d]", i), "must be a path into the data such as data.link_id")
	}
}

func (c *Contract) checkOff(k *checks) {
	oneOf(k, "off.new", c.Off.New, FateHold, FateSkip)
	oneOf(k, "off.waiting", c.Off.Waiting, FateHold, FateSkip)
	oneOf(k, "off.in_flight", c.Off.InFlight, FateHold, FateSkip)
	oneOf(k, "on_resume.held", c.OnResume.Held, "backlog", "none")
	oneOf(k, "on_resume.dead", c.OnResume.Dead, "", "leave", "redeliver")
	oneOf(k, "on_enable.held", c.OnEnable.Held, "backlog", "none")
	oneOf(k, "on_enable.dead", c.OnEnable.Dead, "", "leave", "redeliver")
	k.that(c.Off.New != FateSkip || c.OnEnable.Held == "none", "on_enable.held", "must be none where off.new is skip: nothing was held")
	k.that(c.Off.New != FateSkip || c.OnResume.Held == "none", "on_resume.held", "must be none where off.new is skip: nothing was held")
}

func (c *Contract) checkAgain(k *checks) {
	final := []Status{StatusDelivered, StatusFailed, StatusDead, StatusSkipped, StatusCanceled}
	for i, s := range c.Resend.From {
		oneOf(k, fmt.Sprintf("resend.from[%d]", i), s, final...)
	}
	for i, s := range c.Redeliver.From {
		oneOf(k, fmt.Sprintf("redeliver.from[%d]", i), s, final...)
	}
	oneOf(k, "resend.attempts", c.Resend.Attempts, "", "schedule", "once")
	k.that(len(c.Resend.From) == 0 || c.Resend.Attempts != "", "resend.attempts", "must be schedule or once")
	k.that(c.Resend.Batch >= 0 && c.Resend.Batch <= 100, "resend.batch", "must be at most 100")
	oneOf(k, "redeliver.marks_old", c.Redeliver.MarksOld, "", "redelivered", "unchanged")
	k.that(len(c.Redeliver.From) == 0 || c.Redeliver.MarksOld != "", "redeliver.marks_old", "must be redelivered or unchanged")
	k.that(c.Test.Type != "", "test.type", "is missing")
	k.that(json.Valid([]byte(c.Test.Data)), "test.data", "must be JSON")
	k.that(c.History.Keep.Std() >= time.Hour && c.History.Keep.Std() <= maxKeep, "history.keep", "must lie between 1h and 3650d")
	oneOf(k, "history.on_endpoint_delete", c.History.OnEndpointDelete, "keep", "delete")
	for from, to := range c.History.Statuses {
		oneOf(k, "history.statuses", from, Statuses()...)
		oneOf(k, "history.statuses", to, Statuses()...)
	}
	k.that(c.Run.TokenFor.Std() <= maxKeep, "run.token_for", "must be at most 3650d")
}

// checkTogether finds promises that contradict each other.
func (c *Contract) checkTogether(k *checks) {
	if c.Delivers == DeliversRun {
		k.that(slices.ContainsFunc(c.Body.Fields, func(f Field) bool { return f.From == FromPageToken }), "body.fields",
			"must have a member from page.token where delivers is run: the receiver could not read the run")
		k.that(c.Run.TokenFor > 0, "run.token_for", "is missing where delivers is run")
	}
	endsDead := c.Exhausted.Status == StatusDead || slices.ContainsFunc(c.Stop, func(s Stop) bool { return s.Status == StatusDead })
	wayBack := slices.Contains(c.Redeliver.From, StatusDead) || slices.Contains(c.Resend.From, StatusDead)
	k.that(!endsDead || wayBack, "exhausted.status", "dead needs a way back: dead in redeliver.from or resend.from")
	if c.ReceiverMemory > 0 {
		k.that(c.LongestSpan() <= c.ReceiverMemory.Std(), "receiver_memory",
			"%s is shorter than the longest span of retries (%s with jitter and Retry-After): receivers would take a late retry for new", c.ReceiverMemory.Std(), c.LongestSpan())
	}
}

// LongestSpan is the longest that a delivery can take from its first attempt to
// its last: each wait with its jitter, or what Retry-After may make of it.
func (c *Contract) LongestSpan() time.Duration {
	total := time.Duration(0)
	for i, w := range c.Schedule.Waits {
		if i == 0 {
			continue
		}
		longest := time.Duration(float64(w) * (1 + c.Schedule.Jitter))
		if c.heedsAny() {
			longest = max(longest, c.RetryAfter.Max.Std())
		}
		total += longest
	}
	return total
}
