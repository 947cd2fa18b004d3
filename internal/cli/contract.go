package cli

import (
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

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
	for _, name := range builtinContracts() {
		k, ok := contract.Builtin(name)
		if !ok {
			return fmt.Errorf("the built-in contract %s can't be read", name)
		}
		if c.JSON {
			if err := p.printJSON(map[string]string{"name": k.Name, "revision": k.Revision()}); err != nil {
				return err
			}
			continue
		}
		t.row(k.Name, k.Revision(), fmt.Sprint(k.Attempts()), k.Timeout.Std().String())
	}
	return nil
}

func builtinContracts() []string { return []string{contract.Standard} }

type contractShow struct {
	Name string `arg:"" help:"Its name, as contract list shows it."`
	JSON bool   `name:"json" help:"Print JSON in place of YAML."`
}

// Help implements kong.HelpProvider.
func (contractShow) Help() string {
	return `    posthorn contract show standard`
}

// Run shows a contract.
func (c *contractShow) Run(p *Process) error {
	k, ok := contract.Builtin(c.Name)
	if !ok {
		return fmt.Errorf("there is no contract named %s; there are: %s", c.Name, strings.Join(builtinContracts(), ", "))
	}
	text, err := yaml.Marshal(k)
	if err != nil {
		return fmt.Errorf("encode the contract: %w", err)
	}
	if c.JSON {
		var document any
		if err := yaml.Unmarshal(text, &document); err != nil {
			return fmt.Errorf("encode the contract: %w", err)
		}
		return p.printJSON(document)
	}
	p.printf("# %s\n%s", scheduleText(k), text)
	return nil
}

// scheduleText says in a line when attempts are made.
func scheduleText(k *contract.Contract) string {
	var waits []string
	var total time.Duration
	for _, wait := range k.Schedule.Waits {
		total += wait.Std()
		text, err := wait.MarshalText()
		if err != nil {
			continue // a duration always has a text
		}
		waits = append(waits, string(text))
	}
	return fmt.Sprintf("%d attempts, waiting %s: %s in all", len(waits), strings.Join(waits, ", "), total)
}
