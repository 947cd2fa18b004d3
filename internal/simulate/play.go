package simulate

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/posthorn/posthorn/contract"
)

// Step is what a contract makes of one answer, as it is shown. Times are seconds
// since the first attempt, to the millisecond.
type Step struct {
	Attempt       int      `json:"attempt" doc:"Counts from 1." example:"1"`
	At            float64  `json:"at" doc:"When it begins, in seconds since the first attempt." example:"0"`
	Answer        string   `json:"answer" doc:"The answer as it was written." example:"500"`
	StatusCode    *int     `json:"status_code" doc:"null without an answer." example:"500"`
	FailureKind   *string  `json:"failure_kind" doc:"null for a success." example:"http_status"`
	Status        string   `json:"status" doc:"The delivery's status afterwards." example:"pending"`
	NextAt        *float64 `json:"next_at" doc:"When the next attempt begins, in seconds since the first one; null when there is none." example:"5"`
	EndpointState string   `json:"endpoint_state" doc:"The endpoint's state afterwards." example:"active"`
	Degraded      bool     `json:"degraded" doc:"Whether the endpoint is marked as degraded afterwards." example:"false"`
	Events        []string `json:"events" doc:"The operational events that the attempt raises." example:"[]"`
}

// Play plays answers to one delivery of an endpoint in good health. random gives
// numbers in [0,1) for the jitter; nil leaves it out.
func Play(c *contract.Contract, answers []Answer, random func() float64) []Step {
	// A schedule has no use for more, however long a list is written.
	answers = answers[:min(len(answers), c.Attempts(contract.Terms{}))]
	steps := c.Simulate(played(c, answers), random)
	out := make([]Step, len(steps))
	for i := range steps {
		out[i] = shown(&steps[i])
	}
	return out
}

// Random gives the numbers for Play's jitter: the same seed gives the same ones.
func Random(seed *uint64) func() float64 {
	if seed == nil {
		return rand.Float64
	}
	return rand.New(rand.NewPCG(*seed, 0)).Float64 //nolint:gosec // because jitter is no secret
}

func played(c *contract.Contract, answers []Answer) []contract.Simulated {
	out := make([]contract.Simulated, len(answers))
	for i, a := range answers {
		s := contract.Simulated{Text: a.String()}
		switch a.Kind {
		case KindStatus:
			s.Answer = contract.Answer{Kind: c.Classify(a.Status), StatusCode: a.Status, RetryAfter: a.RetryAfter}
		case KindTimeout:
			s.Answer.Kind, s.Takes = contract.KindTimeout, c.Timeout.Std()
		case KindRefused, KindDNS, KindTLS:
			s.Answer.Kind = contract.KindNetwork
		case KindUnsafe:
			s.Answer.Kind = contract.KindUnsafeURL
		}
		out[i] = s
	}
	return out
}

func shown(s *contract.Step) Step {
	row := Step{
		Attempt: s.Attempt, At: seconds(s.At), Answer: s.Answer, Status: string(s.Status),
		EndpointState: "active", Degraded: s.Degraded, Events: s.Events,
	}
	if s.StatusCode != 0 {
		row.StatusCode = &s.StatusCode
	}
	if kind := string(s.FailureKind); kind != "" {
		row.FailureKind = &kind
	}
	if !s.Ended {
		next := seconds(s.NextAt)
		row.NextAt = &next
	}
	if s.EndpointOff != "" {
		row.EndpointState = string(s.EndpointOff)
	}
	if row.Events == nil {
		row.Events = []string{}
	}
	return row
}

// seconds rounds to milliseconds.
func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }
