package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// span is a duration on the command line: 30s, 5m, 2h, 7d, or seconds without a
// unit.
type span time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *span) UnmarshalText(text []byte) error {
	d, err := parseSpan(string(text))
	*s = span(d)
	return err
}

func (s span) std() time.Duration { return time.Duration(s) }

// longest is the longest duration that is taken.
const longest = 36500 * 24 * time.Hour

func parseSpan(text string) (time.Duration, error) {
	wrong := fmt.Errorf("%q is no duration such as 30s, 5m, 2h or 7d", text)
	unit := time.Second
	number, isDays := strings.CutSuffix(text, "d")
	if isDays {
		unit = 24 * time.Hour
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		if n < 0 || n > int64(longest/unit) {
			return 0, wrong
		}
		return time.Duration(n) * unit, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > longest {
		return 0, wrong
	}
	return d, nil
}

// moment is a time on the command line: RFC 3339, or how long ago, such as 15m,
// 2h or 7d.
type moment struct {
	set bool
	ago time.Duration
	at  time.Time // zero if it is an ago
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *moment) UnmarshalText(text []byte) error {
	*m = moment{set: true}
	var err error
	if m.ago, err = parseSpan(string(text)); err == nil {
		return nil
	}
	if m.at, err = time.Parse(time.RFC3339, string(text)); err != nil || m.at.IsZero() {
		return fmt.Errorf("%q is no time such as 2026-05-22T14:00:00Z, and no time ago such as 15m, 2h or 7d", text)
	}
	return nil
}

// time is the moment seen from now; zero if none was given.
func (m *moment) time(now time.Time) time.Time {
	if m.set && m.at.IsZero() {
		return now.Add(-m.ago)
	}
	return m.at
}

// instant is a point in time on the command line: RFC 3339.
type instant time.Time

// UnmarshalText implements encoding.TextUnmarshaler.
func (i *instant) UnmarshalText(text []byte) error {
	at, err := time.Parse(time.RFC3339, string(text))
	if err != nil || at.IsZero() {
		return fmt.Errorf("%q is no time such as 2026-05-22T14:00:00Z or 2026-05-22T14:00:00+02:00", text)
	}
	*i = instant(at)
	return nil
}
