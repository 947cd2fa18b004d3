package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
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
	k.that(len(c.Operator) <= 100 && strings.IndexFunc(c.Operator, unicode.IsControl) < 0, "operator", "must be a name of at most 100 bytes on one line")
	oneOf(k, "delivers", c.Delivers, DeliversEvent, DeliversRun)
	oneOf(k, "webhook_id", c.WebhookID, PerEvent, PerDelivery)
}

func (c *Contract) checkFields(k *checks) {
	inBody := []Source{
		FromEventID, FromEventType, FromEventCreatedAt, FromEventData, FromTenantID, FromWebhookID,
		FromRunID, FromRunCounts, FromPageToken, FromPageURL, FromSentAt,
	}
	inHeader := []Source{FromWebhookID, FromAttempt, FromTimestamp}
	k.that(len(c.Body.Fields) > 0, "body.fields", "must have a member")
	seen := map[string]bool{}
	for i, f := range c.Body.Fields {
		path := fmt.Sprintf("body.fields[%d]", i)
		k.that(f.Name != "" && !seen[f.Name], path+".name", "must be a name of its own")
		oneOf(k, path+".from", f.From, inBody...)
		seen[f.Name] = true
	}
	k.that(freeHeader(c.Signature.Header), "signature.header", headerRule)
	seen = map[string]bool{strings.ToLower(c.Signature.Header): true}
	for i, f := range c.Headers {
		path := fmt.Sprintf("headers[%d]", i)
		k.that(freeHeader(f.Name), path+".name", headerRule)
		k.that(!seen[strings.ToLower(f.Name)], path+".name", "must be a name of its own; upper and lower case are the same")
		oneOf(k, path+".from", f.From, inHeader...)
		seen[strings.ToLower(f.Name)] = true
	}
}

const headerRule = "must be the name of an HTTP header that neither frames the request nor is the sender's own"

// freeHeader tells whether a contract may name a header so: it is a token (RFC
// 9110 section 5.6.2), and HTTP and the sender have no use of their own for it.
func freeHeader(name string) bool {
	const token = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+.^_`|~-"
	if name == "" || len(name) > 128 || strings.Trim(name, token) != "" {
		return false
	}
	name = strings.ToLower(name)
	return !strings.HasPrefix(name, "proxy-") && !slices.Contains([]string{
		"connection", "content-encoding", "content-length", "content-type", "expect", "host", "http2-settings",
		"keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "user-agent",
	}, name)
}

func (c *Contract) checkSigning(k *checks) {
	s := &c.Signature
	oneOf(k, "signature.form", s.Form, "standard", "timestamped-hex")
	c.checkSignedText(k)
	k.that(len(s.Algorithms) > 0, "signature.algorithms", "must list hmac-sha256, or hmac-sha256 and ed25519")
	for i, a := range s.Algorithms {
		oneOf(k, fmt.Sprintf("signature.algorithms[%d]", i), a, "hmac-sha256", "ed25519")
	}
	k.that(s.Form == "standard" || !slices.Contains(s.Algorithms, "ed25519"), "signature.algorithms", "ed25519 needs the form standard")
	oneOf(k, "signature.key", s.Key, "text", "base64")
	k.that(within(s.Tolerance, time.Second, time.Hour), "signature.tolerance", "must lie between 1s and 1h")
	k.that(s.Overlap.Std() <= maxWait, "signature.overlap", "must be at most 30d")
	k.that(c.Secret.MinBytes >= 16 && c.Secret.MaxBytes >= c.Secret.MinBytes && c.Secret.MaxBytes <= 256, "secret.min_bytes", "and max_bytes must lie between 16 and 256")
	k.that(c.Secret.Bytes >= c.Secret.MinBytes && c.Secret.Bytes <= c.Secret.MaxBytes, "secret.bytes", "must lie between min_bytes and max_bytes")
	oneOf(k, "secret.from", c.Secret.From, "made", "caller", "either")
	prefix := regexp.MustCompile(`^[A-Za-z0-9_-]{0,32}$`)
	k.that(prefix.MatchString(c.Secret.Prefix), "secret.prefix", "must be at most 32 of a-z, A-Z, 0-9, _ and -")
}

// checkSignedText finds what would leave receivers without the means to check a
// signature, or let two requests share one.
func (c *Contract) checkSignedText(k *checks) {
	const path = "signature.signed"
	signed, rest := c.Signature.Signed, c.Signature.Signed
	once := true
	for _, part := range []string{"{id}", "{t}", "{body}"} {
		n := strings.Count(signed, part)
		once = once && (n == 1 || n == 0 && part == "{id}")
		rest = strings.ReplaceAll(rest, part, "")
	}
	k.that(once && !strings.ContainsAny(rest, "{}"), path, "must contain {t} and {body} once, {id} once or not, and nothing else in braces")
	k.that(!strings.Contains(signed, "}{"), path, "must have something between its parts, such as a dot: else two requests could share a signature")
	from := func(source Source) bool {
		return slices.ContainsFunc(c.Headers, func(f Field) bool { return f.From == source })
	}
	k.that(!strings.Contains(signed, "{id}") || from(FromWebhookID), path, "with {id} needs a header from webhook_id: receivers could not check it")
	k.that(c.Signature.Form != "standard" || from(FromTimestamp), "signature.form", "standard needs a header from timestamp: receivers could not check it")
}

func within(d Duration, low, high time.Duration) bool { return d.Std() >= low && d.Std() <= high }

func (c *Contract) checkAttempts(k *checks) {
	k.that(within(c.Timeout, time.Millisecond, MaxTimeout), "timeout", "must lie between 1ms and 60s")
	k.that(len(c.Success) > 0, "success", "must have a range such as 200-299")
	k.that(c.Response.Read >= c.Response.Keep && c.Response.Keep >= 0 && c.Response.Read <= maxResponse, "response",
		"keep must not exceed read, and read not %d", maxResponse)
	checkWaits(k, "schedule.waits", c.Schedule.Waits)
	k.that(len(c.Schedule.Waits) > 0, "schedule.waits", "must have a wait")
	k.that(c.Schedule.Jitter >= 0 && c.Schedule.Jitter < 1 && !math.IsNaN(c.Schedule.Jitter), "schedule.jitter", "must be at least 0 and below 1")
	oneOf(k, "retry_after.mode", c.RetryAfter.Mode, "", "longer", "replace")
	k.that(!c.heedsAny() || within(c.RetryAfter.Max, time.Second, maxWait), "retry_after.max", "must lie between 1s and 30d")
	k.that(!c.RetryAfter.Any || len(c.RetryAfter.On) == 0, "retry_after.on", "says nothing beside any")
	checkStatuses(k, "retry_after.on", c.RetryAfter.On)
}

func checkStatuses(k *checks, path string, all []int) {
	for i, status := range all {
		k.that(status >= 100 && status <= 599, fmt.Sprintf("%s[%d]", path, i), "must be an HTTP status from 100 to 599")
	}
}

func (c *Contract) heedsAny() bool { return c.RetryAfter.Any || len(c.RetryAfter.On) > 0 }

func checkWaits(k *checks, path string, waits []Duration) {
	k.that(len(waits) <= maxAttempts, path, "must have at most %d waits", maxAttempts)
	k.that(len(waits) == 0 || waits[0] == 0, path+"[0]", "must be 0: the first attempt is made at once")
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
	checkStatuses(k, "gate.on", c.Gate.On)
	if c.Gate.Closes() {
		oneOf(k, "gate.scope", c.Gate.Scope, "url", "endpoint")
	} else {
		oneOf(k, "gate.scope", c.Gate.Scope, "url", "endpoint", "")
	}
	checkTriggers(k, "gate.passed_by", c.Gate.PassedBy, Triggers())
}

// Closes tells whether there is a gate at all.
func (g *Gate) Closes() bool { return g.Any || len(g.On) > 0 }

func checkTriggers(k *checks, path string, all, allowed []Trigger) {
	for i, t := range all {
		oneOf(k, fmt.Sprintf("%s[%d]", path, i), t, allowed...)
	}
}

func (c *Contract) checkHealth(k *checks) {
	counted := slices.DeleteFunc(Triggers(), func(t Trigger) bool { return t == TriggerTest })
	checkTriggers(k, "health.counts", c.Health.Counts, counted)
	k.that(!slices.Contains(c.Health.Counts, TriggerTest), "health.counts", "can't have test: tests count for nothing")
	k.that(c.Degrade.After >= 0 && c.Pause.After >= 0, "degrade.after", "and pause.after must not be negative")
	if c.Degrade.After > 0 {
		k.that(within(c.Degrade.For, time.Second, maxWait), "degrade.for", "must lie between 1s and 30d")
		k.that(len(c.Degrade.Waits) > 0 && len(c.Degrade.Waits) <= len(c.Schedule.Waits), "degrade.waits", "must have at least one wait and no more than schedule.waits")
	}
	checkWaits(k, "degrade.waits", c.Degrade.Waits)
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
	eventType := regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
	k.that(len(c.Test.Type) <= 128 && eventType.MatchString(c.Test.Type), "test.type", "must be words of A-Z, a-z, 0-9, _ and -, joined by dots, 128 bytes at most")
	k.that(json.Valid([]byte(c.Test.Data)), "test.data", "must be JSON")
	k.that(within(c.History.Keep, time.Hour, maxKeep), "history.keep", "must lie between 1h and 3650d")
	oneOf(k, "history.on_endpoint_delete", c.History.OnEndpointDelete, "keep", "delete")
	for _, from := range slices.Sorted(maps.Keys(c.History.Statuses)) {
		path := "history.statuses." + string(from)
		k.that(slices.Contains(Statuses(), from), path, "is no status")
		oneOf(k, path, c.History.Statuses[from], Statuses()...)
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
	for path, dead := range map[string]string{"on_resume.dead": c.OnResume.Dead, "on_enable.dead": c.OnEnable.Dead} {
		if dead == deadRedeliver {
			k.that(slices.Contains(c.Redeliver.From, StatusDead) && c.Redeliver.MarksOld == string(StatusRedelivered), path,
				"needs dead in redeliver.from, and redeliver.marks_old: redelivered")
		}
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
// its last, by the schedule or by that of a degraded endpoint: each wait with its
// jitter, or what Retry-After may make of it.
func (c *Contract) LongestSpan() time.Duration {
	return max(c.longest(c.Schedule.Waits), c.longest(c.Degrade.Waits))
}

func (c *Contract) longest(waits []Duration) time.Duration {
	total := time.Duration(0)
	for i, w := range waits {
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
