package demo

import (
	"net/http"

	"github.com/posthorn/posthorn/internal/cli/receiver"
)

// TimeLapse is how much faster the server's waits must pass, so that one can
// watch the second retry of the contract standard, five minutes, in three
// seconds.
const TimeLapse = 100

// station is one endpoint of the demo and how its receiver behaves.
type station struct {
	name   string
	about  string
	events []string
	// arrives tells whether its deliveries get through while one watches.
	arrives bool
	// answer to the n-th request for one delivery, from 1.
	answer func(n int) receiver.Answer
}

func status(code int) receiver.Answer {
	return receiver.Answer{Kind: receiver.KindStatus, Status: code}
}

// stations are the receivers. Together they take every event type.
func stations() []station {
	always := func(a receiver.Answer) func(int) receiver.Answer {
		return func(int) receiver.Answer { return a }
	}
	return []station{
		{name: "healthy", about: "200", events: []string{"*"}, arrives: true, answer: always(status(http.StatusOK))},
		{name: "flaky", about: "500, 500, then 200", events: []string{typeClick}, arrives: true, answer: func(n int) receiver.Answer {
			if n <= 2 {
				return status(http.StatusInternalServerError)
			}
			return status(http.StatusOK)
		}},
		{name: "busy", about: "429 Retry-After, 200", events: []string{typeConversion}, arrives: true, answer: func(n int) receiver.Answer {
			if n == 1 {
				return receiver.Answer{Kind: receiver.KindStatus, Status: http.StatusTooManyRequests, RetryAfter: "120"}
			}
			return status(http.StatusOK)
		}},
		{name: "moved", about: "302, never followed", events: []string{typeLinkCreated}, answer: always(status(http.StatusFound))},
		{name: "silent", about: "no answer", events: []string{typeLinkCreated}, answer: always(receiver.Answer{Kind: receiver.KindTimeout})},
	}
}

// refusers names the stations that take nothing.
func refusers() []string {
	var names []string
	for _, s := range stations() {
		if !s.arrives {
			names = append(names, s.name)
		}
	}
	return names
}
