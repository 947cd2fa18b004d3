package simulate

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind is what becomes of a request. The set is closed.
type Kind string

// The kinds. Those below KindTimeout end before an answer and can only be
// simulated, not given by a receiver.
const (
	KindStatus  Kind = "status"  // an answer with a status
	KindTimeout Kind = "timeout" // no answer in time
	KindRefused Kind = "refused" // nobody accepts the connection
	KindDNS     Kind = "dns"     // the name does not resolve
	KindTLS     Kind = "tls"     // no trusted connection
	KindUnsafe  Kind = "unsafe"  // the address is not public
)

// Answer is one answer.
type Answer struct {
	Kind   Kind
	Status int // 100 to 599, for KindStatus
	// RetryAfter is the header of that name, "" for none.
	RetryAfter string
}

// String writes the answer as ParseAnswers reads it.
func (a Answer) String() string {
	if a.Kind != KindStatus {
		return string(a.Kind)
	}
	text := strconv.Itoa(a.Status)
	if a.RetryAfter != "" {
		text += ":retry-after=" + a.RetryAfter
	}
	return text
}

// maxAnswers bounds a list that a repetition makes long.
const maxAnswers = 100_000

// ParseAnswers reads a list such as "500*3,429:retry-after=120,timeout,302,200":
// statuses and kinds separated by commas, each with *N for N in a row.
func ParseAnswers(list string) ([]Answer, error) {
	var out []Answer
	for i, item := range strings.Split(list, ",") {
		item = strings.TrimSpace(item)
		text, times, err := cutTimes(item)
		if err != nil {
			return nil, fmt.Errorf("answer %d, %q: %w", i+1, item, err)
		}
		a, err := parseAnswer(text)
		if err != nil {
			return nil, fmt.Errorf("answer %d, %q: %w", i+1, item, err)
		}
		if len(out)+times > maxAnswers {
			return nil, fmt.Errorf("the list has over %d answers", maxAnswers)
		}
		for range times {
			out = append(out, a)
		}
	}
	return out, nil
}

func cutTimes(item string) (string, int, error) {
	text, times, repeated := strings.Cut(item, "*")
	if !repeated {
		return text, 1, nil
	}
	n, err := strconv.Atoi(times)
	if err != nil || n < 1 || n > maxAnswers {
		return "", 0, fmt.Errorf("after * stands how often, a whole number from 1 to %d", maxAnswers)
	}
	return text, n, nil
}

func parseAnswer(text string) (Answer, error) {
	name, options, hasOptions := strings.Cut(text, ":")
	if status, err := strconv.Atoi(name); err == nil {
		if len(name) != 3 || status < 100 || status > 599 {
			return Answer{}, fmt.Errorf("a status has three digits, from 100 to 599")
		}
		a := Answer{Kind: KindStatus, Status: status}
		if !hasOptions {
			return a, nil
		}
		key, value, ok := strings.Cut(options, "=")
		if !ok || key != "retry-after" || value == "" {
			return Answer{}, fmt.Errorf("behind the status can stand :retry-after=SECONDS only")
		}
		a.RetryAfter = value
		return a, nil
	}
	switch kind := Kind(name); kind {
	case KindTimeout, KindRefused, KindDNS, KindTLS, KindUnsafe:
		if hasOptions {
			return Answer{}, fmt.Errorf("%s takes no option", kind)
		}
		return Answer{Kind: kind}, nil
	case KindStatus:
	}
	return Answer{}, fmt.Errorf("it is neither a status nor timeout, refused, dns, tls or unsafe")
}
