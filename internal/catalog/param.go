package catalog

import (
	"strconv"
	"strings"
	"time"

	"github.com/posthorn/posthorn/contract"
)

// param is a place in a text that a contract fills: {timeout}.
type param string

// The parameters, with what they become under some contract.
const (
	paramTimeout       param = "timeout"         // 10 seconds
	paramAttempts      param = "attempts"        // 9 attempts
	paramSuccess       param = "success"         // 2xx
	paramResponseKept  param = "response_kept"   // 1 KB
	paramOperator      param = "operator"        // a name
	paramFailures      param = "failures"        // 50 attempts
	paramDegradedFor   param = "degraded_for"    // 24 hours
	paramNoSuccessFor  param = "no_success_for"  // 3 days
	paramRetryAfterOn  param = "retry_after_on"  // 429, 503
	paramRetryAfterMax param = "retry_after_max" // 1 hour
)

func params() []param {
	return []param{
		paramTimeout, paramAttempts, paramSuccess, paramResponseKept, paramOperator, paramFailures, paramDegradedFor,
		paramNoSuccessFor, paramRetryAfterOn, paramRetryAfterMax,
	}
}

// filledUnder tells whether every contract of which f holds has a value for p, so
// that a text for those contracts may use it.
func (p param) filledUnder(f fact) bool {
	switch p {
	case paramTimeout, paramAttempts, paramSuccess:
		return true // every contract has them, and a fact needs one
	case paramResponseKept:
		return f == keepsResponse
	case paramOperator:
		return f == operatorNamed
	case paramFailures:
		return f == pauses
	case paramDegradedFor:
		return f == degrades
	case paramNoSuccessFor:
		return f == wantsSuccess
	case paramRetryAfterOn:
		return f == heedsSome
	case paramRetryAfterMax:
		return f == heedsAny || f == heedsSome || f == replacesWait || f == lengthensWait
	}
	return false
}

// value says a contract's value in the words of the language.
func (l *language) value(p param, c *contract.Contract) string {
	switch p {
	case paramTimeout:
		return l.duration(c.Timeout.Std())
	case paramAttempts:
		return l.count(unitAttempt, len(c.Schedule.Waits))
	case paramSuccess:
		return ranges(c.Success)
	case paramResponseKept:
		return l.size(c.Response.Keep)
	case paramOperator:
		return c.Operator
	case paramFailures:
		return l.count(unitAttempt, c.Pause.After)
	case paramDegradedFor:
		return l.duration(c.Degrade.For.Std())
	case paramNoSuccessFor:
		return l.duration(c.Disable.NoSuccessFor.Std())
	case paramRetryAfterOn:
		return numbers(c.RetryAfter.On)
	case paramRetryAfterMax:
		return l.duration(c.RetryAfter.Max.Std())
	}
	return ""
}

// ranges writes ranges of statuses: "2xx", "200-204, 206".
func ranges(all []contract.StatusRange) string {
	parts := make([]string, len(all))
	for i, r := range all {
		switch {
		case r.From%100 == 0 && r.To == r.From+99:
			parts[i] = strconv.Itoa(r.From/100) + "xx"
		case r.From == r.To:
			parts[i] = strconv.Itoa(r.From)
		default:
			parts[i] = strconv.Itoa(r.From) + "-" + strconv.Itoa(r.To)
		}
	}
	return strings.Join(parts, ", ")
}

func numbers(all []int) string {
	parts := make([]string, len(all))
	for i, n := range all {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, ", ")
}

// unit is what a number counts.
type unit string

// The units.
const (
	unitMillisecond unit = "millisecond"
	unitSecond      unit = "second"
	unitMinute      unit = "minute"
	unitHour        unit = "hour"
	unitDay         unit = "day"
	unitAttempt     unit = "attempt"
	unitByte        unit = "byte"
	unitKilobyte    unit = "kilobyte"
)

func units() []unit {
	return []unit{unitMillisecond, unitSecond, unitMinute, unitHour, unitDay, unitAttempt, unitByte, unitKilobyte}
}

// forms are how a unit is written after a number, with {n} in its place. Only
// languages that tell one from many have one.
type forms struct{ one, other string }

// number stands in forms where the number goes.
const number = "{n}"

func (l *language) count(u unit, n int) string {
	form := l.units[u].other
	if one := l.units[u].one; n == 1 && one != "" {
		form = one
	}
	return strings.Replace(form, number, strconv.Itoa(n), 1)
}

// duration says whole days from two on in days, so that the day of a schedule
// stays "24 hours", and all else in hours and less.
func (l *language) duration(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 2*day && d%day == 0 {
		return l.count(unitDay, int(d/day))
	}
	var parts []string
	for _, step := range []struct {
		unit unit
		of   time.Duration
	}{{unitHour, time.Hour}, {unitMinute, time.Minute}, {unitSecond, time.Second}, {unitMillisecond, time.Millisecond}} {
		if n := d / step.of; n > 0 {
			parts = append(parts, l.count(step.unit, int(n)))
			d %= step.of
		}
	}
	if len(parts) == 0 {
		return l.count(unitSecond, 0)
	}
	return strings.Join(parts, " ")
}

// size says a number of bytes, in KB of 1,024 where it comes out even.
func (l *language) size(n int) string {
	const kilobyte = 1 << 10
	if n >= kilobyte && n%kilobyte == 0 {
		return l.count(unitKilobyte, n/kilobyte)
	}
	return l.count(unitByte, n)
}
