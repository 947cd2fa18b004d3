package api

import (
	"net/http"
	"reflect"
	"strings"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/simulate"
	"github.com/posthorn/posthorn/internal/webhook"
)

type simulateInput struct {
	Contract string `json:"contract" min:"1" max:"262144" doc:"A contract's name, or the text of its file, in YAML or JSON." example:"standard"`
	Answers  string `json:"answers" min:"1" max:"4096" form:"a list such as 500*3,429:retry-after=120,timeout,200" doc:"What the receiver answers, try by try: statuses, timeout, refused, dns, tls, unsafe; *N repeats, :retry-after=SECONDS adds the header." example:"500*3,200"`
	Seed     *int   `json:"seed,omitempty" min:"0" max:"9007199254740991" doc:"Seed of the jitter: the same one gives the same waits. Absent: each answer differs." example:"7"`
	Jitter   *bool  `json:"jitter,omitempty" doc:"false: waits are exactly as scheduled." example:"false"`
}

type wireSimulation struct {
	Steps []simulate.Step `json:"steps" doc:"What the contract makes of each answer, until the delivery has ended or the endpoint is off."`
}

func (a *API) simulateOperation() *operation {
	return &operation{
		id: "simulateContract", method: http.MethodPost, path: "/v1/contracts/simulate", tag: "contracts", scope: webhook.ScopeRead,
		summary: "Play answers to a contract", handle: a.simulateContract,
		description: "Plays answers to one delivery of an endpoint in good health, by the decisions that the server makes. Nothing is sent. The contract may be one that is not stored.",
		body:        a.schemas.bodyOf(reflect.TypeFor[simulateInput](), map[string]any{"contract": "standard", "answers": "500*3,200", "jitter": false}),
		answers:     []answer{{status: 200, description: "What would happen.", schema: a.schemas.of(reflect.TypeFor[wireSimulation]())}},
	}
}

func (a *API) simulateContract(c *call) (reply, error) {
	in, err := bodyAs[simulateInput](c)
	if err != nil {
		return reply{}, err
	}
	promise, err := a.contractOf(in.Contract)
	if err != nil {
		return reply{}, err
	}
	answers, err := simulate.ParseAnswers(in.Answers)
	if err != nil {
		return reply{}, webhook.InvalidField("/answers", "it is no list of answers",
			"statuses, timeout, refused, dns, tls and unsafe, separated by commas, each with *N for N in a row, such as 500*3,429:retry-after=120,timeout,200")
	}
	var random func() float64
	if in.Jitter == nil || *in.Jitter {
		var seed *uint64
		if in.Seed != nil {
			seed = new(uint64(*in.Seed))
		}
		random = simulate.Random(seed)
	}
	return reply{status: http.StatusOK, value: wireSimulation{simulate.Play(promise, answers, random)}}, nil
}

// contractOf finds a contract by its name, or reads its file. No name has a colon
// in it, no contract's file has none.
func (a *API) contractOf(text string) (*contract.Contract, error) {
	if !strings.Contains(text, ":") {
		found, ok := a.cfg.Contracts.Lookup(text)
		if !ok {
			return nil, webhook.InvalidField("/contract", "there is no contract of this name", "one of "+strings.Join(a.cfg.Contracts.Names(), ", ")+", or the text of a contract's file")
		}
		return found.Contract, nil
	}
	promise, err := contract.Parse([]byte(text))
	if err != nil {
		return nil, contractProblem(err, "/contract")
	}
	return promise, nil
}
