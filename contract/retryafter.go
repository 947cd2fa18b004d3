package contract

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ParseRetryAfter reads a Retry-After header: seconds, or an HTTP date in any of
// its three forms (RFC 9110 section 10.2.3). Past or unreadable counts as absent.
func ParseRetryAfter(value string, now time.Time) (time.Duration, bool) {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0, false
	}
	if strings.Trim(value, "0123456789") == "" {
		return retryAfterSeconds(value)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	wait := at.Sub(now)
	return wait, wait > 0
}

// retryAfterSeconds takes any number of digits: what is too long for a Duration
// is as long as one can be.
func retryAfterSeconds(digits string) (time.Duration, bool) {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > int64(math.MaxInt64/time.Second) {
		return math.MaxInt64, true
	}
	return time.Duration(n) * time.Second, n > 0
}
