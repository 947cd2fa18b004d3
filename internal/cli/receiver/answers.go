package receiver

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/posthorn/posthorn/internal/simulate"
)

// Answer is what a receiver does with a request. How lists of answers are written
// is what contract simulate takes too.
type Answer = simulate.Answer

// Kind is what becomes of a request.
type Kind = simulate.Kind

// The kinds. Those below KindTimeout can't be given by a receiver.
const (
	KindStatus  = simulate.KindStatus
	KindTimeout = simulate.KindTimeout
	KindRefused = simulate.KindRefused
	KindDNS     = simulate.KindDNS
	KindTLS     = simulate.KindTLS
	KindUnsafe  = simulate.KindUnsafe
)

// ParseAnswers reads a list such as "500*3,429:retry-after=120,timeout,302,200".
func ParseAnswers(list string) ([]Answer, error) { return simulate.ParseAnswers(list) }

// CheckGivable refuses answers that no receiver can give.
func CheckGivable(answers []Answer) error {
	for _, a := range answers {
		switch a.Kind {
		case KindTimeout:
		case KindStatus:
			if a.Status < 200 {
				return fmt.Errorf("%d is no final answer: statuses from 200 to 599 can be given", a.Status)
			}
		case KindRefused, KindDNS, KindTLS, KindUnsafe:
			return fmt.Errorf("%s happens before a receiver is reached, so it can't be given; statuses and timeout can", a.Kind)
		}
	}
	return nil
}

// Sequence hands answers out one by one; the last one repeats for ever. It is
// safe for concurrent use.
type Sequence struct {
	mu      sync.Mutex
	answers []Answer
	next    int
}

// NewSequence makes a sequence; without answers it is 200 for ever.
func NewSequence(answers []Answer) *Sequence {
	if len(answers) == 0 {
		answers = []Answer{{Kind: KindStatus, Status: http.StatusOK}}
	}
	return &Sequence{answers: answers}
}

// Next returns the next answer.
func (s *Sequence) Next() Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.answers[s.next]
	if s.next < len(s.answers)-1 {
		s.next++
	}
	return a
}
