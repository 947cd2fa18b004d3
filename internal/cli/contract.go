package cli

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/catalog"
)

type contractCommand struct {
	List      contractList      `cmd:"" help:"List the built-in contracts."`
	Show      contractShow      `cmd:"" help:"Show one contract."`
	Check     contractCheck     `cmd:"" help:"Check a contract's file."`
	Simulate  contractSimulate  `cmd:"" help:"Play answers to a contract."`
	Schema    contractSchema    `cmd:"" help:"Print the JSON Schema of contracts' files."`
	Stored    contractStored    `cmd:"" help:"List the contracts that a server knows."`
	Put       contractPut       `cmd:"" help:"Store a contract's file in a server (with an operator's key)."`
	Delete    contractDelete    `cmd:"" help:"Delete a stored contract that nothing uses (with an operator's key)."`
	Revisions contractRevisions `cmd:"" help:"List a contract's revisions in a server."`
}

// Help implements kong.HelpProvider.
func (contractCommand) Help() string {
	return `A contract is a promise to receivers: when attempts are made, what each answer means, how requests are signed.`
}

// contractRow is the JSON form of a contract.
type contractRow struct {
	Name     string  `json:"name"`
	Revision string  `json:"revision"`
	Attempts int     `json:"attempts"`
	Timeout  float64 `json:"timeout_seconds"`
	YAML     string  `json:"yaml,omitempty"`
}

func rowOf(c *contract.Contract) contractRow {
	return contractRow{
		Name: c.Name, Revision: c.Revision(), Attempts: c.Attempts(contract.Terms{}), Timeout: c.Timeout.Std().Seconds(),
	}
}

type contractList struct {
	JSON bool `name:"json" help:"Print JSON, an object on each line."`
}

// Help implements kong.HelpProvider.
func (contractList) Help() string {
	return `Every server has them; contract stored lists those of one server, with its own.

    posthorn contract list`
}

// Run lists the contracts.
func (c *contractList) Run(p *Process) error {
	var t *table
	if !c.JSON {
		t = newTable(p, "NAME", "REVISION", "ATTEMPTS", "TIME-OUT")
		defer t.flush()
	}
	for _, name := range contract.BuiltinNames() {
		found, _, err := findContract(name)
		if err != nil {
			return err
		}
		row := rowOf(found)
		if c.JSON {
			err = p.printJSON(row)
		} else {
			t.row(row.Name, row.Revision, fmt.Sprint(row.Attempts), fmt.Sprintf("%gs", row.Timeout))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type contractShow struct {
	Name string `arg:"" help:"Its name, as contract list shows it, or its YAML file."`
	YAML bool   `name:"yaml" help:"Print the YAML, with the comments that explain it."`
	JSON bool   `name:"json" help:"Print JSON, with the YAML as one text."`
}

// Help implements kong.HelpProvider.
func (contractShow) Help() string {
	return `Prints when attempts are made and what each answer does; --yaml prints the file, to begin one of your own.

    posthorn contract show standard
    posthorn contract show standard --yaml > ours.yaml`
}

// Run shows a contract.
func (c *contractShow) Run(p *Process) error {
	found, text, err := findContract(c.Name)
	if err != nil {
		return err
	}
	switch {
	case c.JSON:
		row := rowOf(found)
		row.YAML = string(text)
		return p.printJSON(row)
	case c.YAML:
		p.printf("%s", text)
		return nil
	default:
		return printContract(p, found)
	}
}

// printContract prints the schedule with cumulative times, then the answers.
func printContract(p *Process, c *contract.Contract) error {
	texts, err := catalog.Load()
	if err != nil {
		return err
	}
	english := texts.For("en")
	p.printf("%s, revision %s: at most %d attempts, each with %s to answer\n\n", c.Name, c.Revision(), c.Attempts(contract.Terms{}), english.Duration(c.Timeout.Std()))
	t := newTable(p, "ATTEMPT", "WAIT", "AT")
	at := time.Duration(0)
	for i, wait := range c.Schedule.Waits {
		at += wait.Std()
		t.row(strconv.Itoa(i+1), waitText(english, i, wait.Std(), c.Schedule.Jitter), atText(english, at))
	}
	t.flush()
	p.printf("\n")
	t = newTable(p, "ANSWER", "WHAT IT DOES")
	for _, answer := range catalog.Answers() {
		label, effect := english.Answer(c, answer)
		t.row(label, effect)
	}
	t.flush()
	return nil
}

func waitText(texts catalog.Texts, i int, wait time.Duration, jitter float64) string {
	if i == 0 {
		return "at once"
	}
	return fmt.Sprintf("%s ±%g%%", texts.Duration(wait), math.Round(jitter*1000)/10)
}

func atText(texts catalog.Texts, at time.Duration) string {
	if at == 0 {
		return "0"
	}
	return texts.Duration(at)
}

type contractSchema struct{}

// Help implements kong.HelpProvider.
func (contractSchema) Help() string {
	return `Editors complete and explain a contract's fields by it. The built-in contracts begin with a line that looks for schema.json beside them; contract check finds what a schema can't, such as fields that contradict each other.

    posthorn contract show standard --yaml > ours.yaml
    posthorn contract schema > schema.json`
}

// Run prints the schema.
func (contractSchema) Run(p *Process) error {
	p.printf("%s", contract.Schema())
	return nil
}
