package cli

import (
	"fmt"
	"strings"

	"github.com/posthorn/posthorn/contract"
)

type contractCommand struct {
	List contractList `cmd:"" help:"List the built-in contracts."`
	Show contractShow `cmd:"" help:"Show one contract."`
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

func rowOf(name string) (contractRow, error) {
	c, ok := contract.Builtin(name)
	if !ok {
		return contractRow{}, fmt.Errorf("there is no contract named %s; there are: %s", name, strings.Join(contract.BuiltinNames(), ", "))
	}
	return contractRow{Name: c.Name, Revision: c.Revision(), Attempts: c.Attempts(contract.Terms{}), Timeout: c.Timeout.Std().Seconds()}, nil
}

type contractList struct {
	JSON bool `name:"json" help:"Print JSON, an object on each line."`
}

// Help implements kong.HelpProvider.
func (contractList) Help() string {
	return `    posthorn contract list`
}

// Run lists the contracts.
func (c *contractList) Run(p *Process) error {
	var t *table
	if !c.JSON {
		t = newTable(p, "NAME", "REVISION", "ATTEMPTS", "TIME-OUT")
		defer t.flush()
	}
	for _, name := range contract.BuiltinNames() {
		row, err := rowOf(name)
		if err == nil && c.JSON {
			err = p.printJSON(row)
		}
		if err != nil {
			return err
		}
		if t != nil {
			t.row(row.Name, row.Revision, fmt.Sprint(row.Attempts), fmt.Sprintf("%gs", row.Timeout))
		}
	}
	return nil
}

type contractShow struct {
	Name string `arg:"" help:"Its name, as contract list shows it."`
	JSON bool   `name:"json" help:"Print JSON, with the YAML as one text."`
}

// Help implements kong.HelpProvider.
func (contractShow) Help() string {
	return `Prints the contract as YAML, with the comments that explain it.

    posthorn contract show standard`
}

// Run shows a contract.
func (c *contractShow) Run(p *Process) error {
	row, err := rowOf(c.Name)
	if err != nil {
		return err
	}
	text, _ := contract.BuiltinYAML(c.Name) // rowOf has found it
	if c.JSON {
		row.YAML = string(text)
		return p.printJSON(row)
	}
	p.printf("%s", text)
	return nil
}
