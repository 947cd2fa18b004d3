package contract

import (
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// anyContract draws a contract that Validate takes, from all over its limits.
func anyContract() *rapid.Generator[*Contract] {
	return rapid.Custom(func(r *rapid.T) *Contract {
		c := &Contract{APIVersion: 1}
		drawIdentity(r, c)
		drawSigning(r, c)
		drawAttempts(r, c)
		drawHealth(r, c)
		drawOff(r, c)
		drawAgain(r, c)
		if rapid.Bool().Draw(r, "memory") {
			c.ReceiverMemory = Duration(c.LongestSpan()) + Duration(time.Second)
		}
		if err := c.Validate(); err != nil {
			r.Fatalf("the generator draws what Validate refuses: %v\n%s", err, c.Canonical())
		}
		c.settle()
		return c
	})
}

// anyPromise is a built-in contract or any other.
func anyPromise() *rapid.Generator[*Contract] {
	built := make([]*Contract, 0, len(BuiltinNames()))
	for _, name := range BuiltinNames() {
		c, _ := Builtin(name)
		built = append(built, c)
	}
	return rapid.OneOf(rapid.SampledFrom(built), anyContract())
}

func pick[T any](r *rapid.T, label string, of ...T) T { return rapid.SampledFrom(of).Draw(r, label) }

// some draws a part of a set, in any order.
func some[T comparable](r *rapid.T, label string, of ...T) []T {
	n := rapid.IntRange(0, len(of)).Draw(r, label)
	if n == 0 {
		return nil
	}
	return rapid.Permutation(of).Draw(r, label)[:n]
}

// span draws a duration: round, or to the nanosecond.
func span(r *rapid.T, label string, low, high time.Duration) Duration {
	v := time.Duration(rapid.Int64Range(int64(low), int64(high)).Draw(r, label))
	step := pick(r, label+" step", time.Nanosecond, time.Millisecond, time.Second, time.Minute, time.Hour, 24*time.Hour)
	if rounded := v.Truncate(step); rounded >= low {
		v = rounded
	}
	return Duration(v)
}

func waits(r *rapid.T, label string, most int) []Duration {
	all := []Duration{0}
	for range rapid.IntRange(0, most-1).Draw(r, label) {
		all = append(all, span(r, label, 0, maxWait))
	}
	return all
}

func drawIdentity(r *rapid.T, c *Contract) {
	// Words that YAML could take for something else.
	odd := rapid.SampledFrom([]string{"yes", "null", "~", "1", "1.5", "0x1f", "2001-01-01", "true", "no", "off", "1e3", "12:30"})
	c.Name = rapid.OneOf(odd.Filter(func(s string) bool { return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789") == "" }),
		rapid.StringMatching(`[a-z0-9][a-z0-9_-]{0,63}`)).Draw(r, "name")
	c.Operator = rapid.OneOf(odd, rapid.StringMatching(`[ -~äあ테]{0,30}`)).Draw(r, "operator")
	c.URL.Schemes = pick(r, "schemes", []string{"https"}, []string{"https", "http"}, []string{"http"})
	c.Delivers = pick(r, "delivers", DeliversEvent, DeliversRun)
	c.WebhookID = pick(r, "webhook_id", PerEvent, PerDelivery)
	sources := some(r, "body", FromEventID, FromEventType, FromEventCreatedAt, FromTenantID, FromWebhookID, FromRunID, FromRunCounts, FromPageURL, FromSentAt)
	sources = append(sources, FromEventData)
	if c.Delivers == DeliversRun {
		sources = append(sources, FromPageToken)
		c.Run.TokenFor = span(r, "token_for", time.Nanosecond, maxKeep)
	}
	names := rapid.SliceOfNDistinct(rapid.OneOf(odd, rapid.StringMatching(`[ -~äあ테]{1,20}`)), len(sources), len(sources), rapid.ID).Draw(r, "members")
	for i, source := range sources {
		c.Body.Fields = append(c.Body.Fields, Field{names[i], source})
	}
}

func drawSigning(r *rapid.T, c *Contract) {
	c.Signature = Signature{
		Header: "X-" + rapid.StringMatching(`[A-Za-z0-9!#$%&'*+.^_|~-]{0,20}`).Draw(r, "header"),
		Form:   pick(r, "form", "standard", "timestamped-hex"), Algorithms: []string{"hmac-sha256"},
		Signed: pick(r, "signed", "{t}.{body}", "{id}.{t}.{body}", "{body}|{t}|{id}", "v0:{t}:{body}"),
		Key:    pick(r, "key", "text", "base64"), Tolerance: span(r, "tolerance", time.Second, time.Hour), Overlap: span(r, "overlap", 0, maxWait),
	}
	sources := some(r, "headers", FromAttempt)
	if strings.Contains(c.Signature.Signed, "{id}") || rapid.Bool().Draw(r, "id") {
		sources = append(sources, FromWebhookID)
	}
	if c.Signature.Form == "standard" {
		sources = append(sources, FromTimestamp)
		c.Signature.Algorithms = pick(r, "algorithms", []string{"hmac-sha256"}, []string{"ed25519"}, []string{"ed25519", "hmac-sha256"})
	}
	for i, source := range sources {
		c.Headers = append(c.Headers, Field{"Y" + string(rune('a'+i)) + rapid.StringMatching(`[A-Za-z0-9-]{0,20}`).Draw(r, "name"), source})
	}
	c.Secret.MinBytes = rapid.IntRange(16, 256).Draw(r, "min")
	c.Secret.Bytes = rapid.IntRange(c.Secret.MinBytes, 256).Draw(r, "bytes")
	c.Secret.MaxBytes = rapid.IntRange(c.Secret.Bytes, 256).Draw(r, "max")
	c.Secret.Prefix = rapid.StringMatching(`[A-Za-z0-9_-]{0,32}`).Draw(r, "prefix")
	c.Secret.From = pick(r, "from", "made", "caller", "either")
}

func drawAttempts(r *rapid.T, c *Contract) {
	c.Timeout = span(r, "timeout", time.Millisecond, MaxTimeout)
	for range rapid.IntRange(1, 3).Draw(r, "ranges") {
		from := rapid.IntRange(100, 599).Draw(r, "from")
		c.Success = append(c.Success, StatusRange{from, rapid.IntRange(from, 599).Draw(r, "to")})
	}
	c.Response.Read = rapid.IntRange(0, maxResponse).Draw(r, "read")
	c.Response.Keep = rapid.IntRange(0, c.Response.Read).Draw(r, "keep")
	c.Schedule = Schedule{waits(r, "wait", maxAttempts), rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 0.999)).Draw(r, "jitter")}
	if heeds := pick(r, "retry-after", "none", "any", "some"); heeds != "none" {
		c.RetryAfter = RetryAfter{Any: heeds == "any", Mode: pick(r, "mode", "", "longer", "replace"), Max: span(r, "most", time.Second, maxWait)}
		if heeds == "some" {
			c.RetryAfter.On = rapid.SliceOfNDistinct(rapid.IntRange(100, 599), 1, 5, rapid.ID).Draw(r, "on")
		}
	}
	for _, kind := range some(r, "stop", FailureKinds()...) {
		c.Stop = append(c.Stop, Stop{kind, pick(r, "stopped", StatusFailed, StatusDead), rapid.Bool().Draw(r, "disable")})
	}
	c.Exhausted = Exhausted{pick(r, "exhausted", StatusFailed, StatusDead), some(r, "emit", "webhook.failed")}
	switch pick(r, "gate", "none", "any", "some") {
	case "any":
		c.Gate = Gate{Any: true, Scope: pick(r, "scope", "url", "endpoint"), PassedBy: some(r, "passed_by", Triggers()...)}
	case "some":
		c.Gate = Gate{On: []int{429, 502}, Scope: pick(r, "scope", "url", "endpoint")}
	}
}

func drawHealth(r *rapid.T, c *Contract) {
	c.Health.Counts = some(r, "counts", TriggerEvent, TriggerResend, TriggerRedelivery, TriggerReplay, TriggerPoll)
	if rapid.Bool().Draw(r, "degrades") {
		c.Degrade = Degrade{rapid.IntRange(1, 10).Draw(r, "degrade after"), span(r, "mark", time.Second, maxWait), waits(r, "degraded wait", len(c.Schedule.Waits))}
	}
	if rapid.Bool().Draw(r, "pauses") {
		c.Pause.After = rapid.IntRange(1, 60).Draw(r, "pause after")
	}
	if rapid.Bool().Draw(r, "disables") {
		c.Disable.NoSuccessFor = span(r, "no success", time.Nanosecond, 30*24*time.Hour)
	}
	c.TellOwner = some(r, "tell", BecameDisabled, BecamePaused, BecameDegraded)
	c.Order.Mode = pick(r, "order", "", "none", "strict")
	if c.Order.Mode == "strict" {
		c.Order.Key = rapid.SliceOfN(rapid.StringMatching(`data(\.[A-Za-z0-9_-]{1,5}){1,8}`), 0, 3).Draw(r, "key")
	}
}

func drawOff(r *rapid.T, c *Contract) {
	fates := []Fate{FateHold, FateSkip}
	c.Off = Off{pick(r, "new", fates...), pick(r, "waiting", fates...), pick(r, "in flight", fates...)}
	held := []string{"backlog", "none"}
	if c.Off.New == FateSkip {
		held = []string{"none"}
	}
	c.OnResume = OnResume{pick(r, "resume", held...), pick(r, "dead", "", "leave", "redeliver")}
	c.OnEnable = OnEnable{pick(r, "enable", held...), rapid.Bool().Draw(r, "may skip"), pick(r, "dead", "", "leave", "redeliver")}
}

func drawAgain(r *rapid.T, c *Contract) {
	ended := []Status{StatusDelivered, StatusFailed, StatusDead, StatusSkipped, StatusCanceled}
	c.Resend = Resend{
		From: some(r, "resend", ended...), Attempts: pick(r, "resent", "schedule", "once"), NeedsOn: rapid.Bool().Draw(r, "needs on"),
		Batch: rapid.IntRange(0, 100).Draw(r, "batch"), AllOrNone: rapid.Bool().Draw(r, "all"),
	}
	c.Redeliver = Redeliver{some(r, "redeliver", ended...), pick(r, "marks", "redelivered", "unchanged")}
	if c.OnResume.Dead == deadRedeliver || c.OnEnable.Dead == deadRedeliver {
		c.Redeliver.MarksOld = string(StatusRedelivered)
		if !slices.Contains(c.Redeliver.From, StatusDead) {
			c.Redeliver.From = append(c.Redeliver.From, StatusDead)
		}
	}
	if !slices.Contains(c.Resend.From, StatusDead) && !slices.Contains(c.Redeliver.From, StatusDead) {
		c.Redeliver.From = append(c.Redeliver.From, StatusDead)
	}
	c.Test = Test{
		Type: rapid.StringMatching(`[A-Za-z0-9_-]{1,9}(\.[A-Za-z0-9_-]{1,9}){0,3}`).Draw(r, "type"),
		Data: pick(r, "data", "{}", "null", `"테스트"`, " [1,\n 2] ", `{"a":"'\"\\: #"}`), WhileOff: rapid.Bool().Draw(r, "while off"), Logged: rapid.Bool().Draw(r, "logged"),
	}
	c.History = History{Keep: span(r, "keep", time.Hour, maxKeep), OnEndpointDelete: pick(r, "deleted", "keep", "delete")}
	for _, s := range some(r, "shown", Statuses()...) {
		if c.History.Statuses == nil {
			c.History.Statuses = map[Status]Status{}
		}
		c.History.Statuses[s] = pick(r, "as", Statuses()...)
	}
}
