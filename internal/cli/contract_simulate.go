package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/simulate"
)

// findContract finds a contract by its name or its file's path.
func findContract(name string) (*contract.Contract, []byte, error) {
	if text, ok := contract.BuiltinYAML(name); ok {
		c, err := contract.Parse(text)
		return c, text, err
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, nil, fmt.Errorf("there is no contract named %s, and no such file; there are: %s%s", name, strings.Join(contract.BuiltinNames(), ", "), storedHint(name))
	}
	c, err := contract.Parse(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s is no contract; posthorn contract check %s says why", name, name)
	}
	return c, text, nil
}

// storedHint says how to get at a contract that only a server has; "" where the
// name is a path.
func storedHint(name string) string {
	if strings.ContainsAny(name, `./\`) {
		return ""
	}
	return fmt.Sprintf(". This command asks no server: if one has it, posthorn contract revisions %s --json prints its file, and POST /v1/contracts/simulate plays it", name)
}

type contractCheck struct {
	File string `arg:"" help:"A contract's YAML file."`
	JSON bool   `name:"json" help:"Print JSON: valid, and the faults with their lines."`
}

// Help implements kong.HelpProvider.
func (contractCheck) Help() string {
	return `Reports every fault of the file with its line; exit code 1 if there is one.

    posthorn contract show standard --yaml > ours.yaml
    posthorn contract check ours.yaml`
}

// faultRow is the JSON form of a fault.
type faultRow struct {
	Path string `json:"path"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

// Run checks a file.
func (c *contractCheck) Run(p *Process) error {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return fmt.Errorf("%s can't be read", c.File)
	}
	found, err := contract.Parse(text)
	faults := []faultRow{}
	if invalid, ok := errors.AsType[*contract.InvalidError](err); ok {
		for _, f := range invalid.Faults {
			faults = append(faults, faultRow(f))
		}
	}
	switch {
	case c.JSON:
		if err := p.printJSON(map[string]any{"valid": err == nil, "faults": faults}); err != nil {
			return err
		}
	case err == nil:
		p.printf("%s is a valid contract: %s, revision %s\n", c.File, found.Name, found.Revision())
	default:
		for _, f := range faults {
			p.printf("%s:%d: %s\n", c.File, f.Line, strings.TrimPrefix(f.Path+": "+f.Text, ": "))
		}
	}
	if err != nil {
		return fmt.Errorf("%s has %s", c.File, count(len(faults), "fault", "faults"))
	}
	return nil
}

type contractSimulate struct {
	Name     string  `arg:"" help:"A contract's name, or its YAML file."`
	Answers  string  `name:"answers" required:"" placeholder:"LIST" help:"What the receiver answers, try by try: statuses, timeout, refused, dns, tls, unsafe; *N repeats, :retry-after=SECONDS adds the header."`
	Seed     *uint64 `name:"seed" placeholder:"N" help:"Seed of the jitter: the same seed gives the same waits. Without one, each run differs."`
	NoJitter bool    `name:"no-jitter" help:"Wait exactly as scheduled."`
	JSON     bool    `name:"json" help:"Print JSON, an object for each attempt. This is how it prints anyway."`
}

// Help implements kong.HelpProvider.
func (contractSimulate) Help() string {
	return `Plays answers to one delivery by the decisions that a server makes, and prints a JSON object for each attempt. Nothing is sent.

    posthorn contract simulate standard --answers '500*3,429:retry-after=120,timeout,200' --no-jitter
    posthorn contract simulate ours.yaml --answers '500*50' --seed 7`
}

// Run simulates.
func (c *contractSimulate) Run(p *Process) error {
	found, _, err := findContract(c.Name)
	if err != nil {
		return err
	}
	answers, err := simulate.ParseAnswers(c.Answers)
	if err != nil {
		return usagef("--answers: %s", err)
	}
	var random func() float64
	if !c.NoJitter {
		random = simulate.Random(c.Seed)
	}
	for _, step := range simulate.Play(found, answers, random) {
		if err := p.printJSON(step); err != nil {
			return err
		}
	}
	return nil
}
