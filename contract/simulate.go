package contract

import "time"

// Simulated is one answer to play to a contract.
type Simulated struct {
	Answer Answer
	// Text is how the answer was written, for the step.
	Text string
	// Takes is how long the try lasts.
	Takes time.Duration
}

// Step is what a contract makes of one answer.
type Step struct {
	Attempt int
	// At is when the attempt began, from the first one.
	At     time.Duration
	Answer string
	// StatusCode is 0 without an answer.
	StatusCode  int
	FailureKind FailureKind
	// Status is the delivery's after the attempt.
	Status Status
	// NextAt is when the next attempt begins; Ended is true when there is none.
	NextAt time.Duration
	Ended  bool
	// EndpointOff is what the endpoint became: disabled, paused, or "" while it
	// stays on.
	EndpointOff Transition
	Degraded    bool
	// Events are the operational events that the attempt raises.
	Events []string
}

// Simulate plays answers to one delivery of an endpoint in good health, by the
// decisions that a server makes: After and Judge. It ends when the answers are
// used up, the delivery is final or the endpoint is off. random gives numbers in
// [0,1) for the jitter; nil leaves it out.
func (c *Contract) Simulate(answers []Simulated, random func() float64) []Step {
	return c.play(Terms{Trigger: TriggerEvent}, Standing{On: true}, answers, random)
}

// simulationStart is when the first attempt of a simulation begins, in Unix
// seconds; dates in Retry-After headers are compared with it.
const simulationStart = 1_700_000_000

func (c *Contract) play(terms Terms, health Standing, answers []Simulated, random func() float64) []Step {
	if random == nil {
		random = func() float64 { return 0.5 }
	}
	var steps []Step
	start := time.Unix(simulationStart, 0).UTC()
	begins := start
	for i, a := range answers {
		ended := begins.Add(a.Takes)
		d := c.After(Tried{
			Terms: terms, Try: i + 1, Answer: a.Answer, EndpointOn: true, EndedAt: ended,
		}, random())
		turn := Turn{After: health}
		if d.Health {
			turn = c.Judge(health, d.Status == StatusDelivered, ended, 1)
		}
		health = turn.After
		s := Step{
			Attempt: i + 1, At: begins.Sub(start), Answer: a.Text, StatusCode: a.Answer.StatusCode, FailureKind: d.Kind,
			Status: d.Status, Ended: true, EndpointOff: off(d, turn), Degraded: health.Degraded(ended), Events: eventsOf(d, turn),
		}
		if d.Status == StatusPending && s.EndpointOff == "" {
			s.Ended = false
			begins = ended.Add(d.Wait)
			s.NextAt = begins.Sub(start)
		}
		steps = append(steps, s)
		if s.Ended {
			break
		}
	}
	return steps
}

// off is the transition that switches the endpoint off, if there is one.
func off(d Decision, t Turn) Transition {
	switch {
	case d.Disable, t.Became == BecameDisabled:
		return BecameDisabled
	case t.Became == BecamePaused:
		return BecamePaused
	default:
		return ""
	}
}

// eventsOf lists the operational events of a decision and a turn, the
// delivery's first.
func eventsOf(d Decision, t Turn) []string {
	events := append([]string(nil), d.Emit...)
	switch became := off(d, t); {
	case became != "":
		events = append(events, "endpoint."+string(became))
	case t.Became == BecameDegraded:
		events = append(events, "endpoint."+string(t.Became))
	}
	if t.Recovered {
		events = append(events, "endpoint.recovered")
	}
	return events
}
