package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/posthorn/posthorn/client"
	"github.com/posthorn/posthorn/contract"
)

type contractStored struct {
	connection `embed:""`
}

// Help implements kong.HelpProvider.
func (contractStored) Help() string {
	return `    posthorn contract stored`
}

// Run lists a server's contracts.
func (c *contractStored) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	all, err := api.ListContracts(ctx)
	if err != nil {
		return err
	}
	return printList(p, c.JSON, 0, each(all), []string{"NAME", "REVISION", "BUILT IN", "STORED"}, func(found client.Contract) []string {
		return []string{found.Name, found.Revision, yesOrNo(found.Builtin), showTime(found.CreatedAt)}
	})
}

// each iterates over what is there already.
func each[T any](items []T) func(func(T, error) bool) {
	return func(yield func(T, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

func yesOrNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

type contractPut struct {
	connection `embed:""`
	File       string          `arg:"" help:"A contract's YAML file."`
	UnderWay   client.UnderWay `name:"under-way" enum:"keep,adopt" default:"keep" placeholder:"HOW" help:"keep lets deliveries under way go on as they were promised; adopt lets them follow the new revision."`
}

// Help implements kong.HelpProvider.
func (contractPut) Help() string {
	return `The name is that in the file. Endpoints and tenants' defaults can name it from then on; storing another wording makes a new revision.

    posthorn contract show standard --yaml > ours.yaml
    posthorn contract put ours.yaml`
}

// Run stores a contract.
func (c *contractPut) Run(ctx context.Context, p *Process) error {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return fmt.Errorf("%s can't be read", c.File)
	}
	parsed, err := contract.Parse(text)
	if err != nil {
		return fmt.Errorf("%s is no contract; posthorn contract check %s says why", c.File, c.File)
	}
	api, err := c.client(p)
	if err != nil {
		return err
	}
	before, err := api.GetContract(ctx, parsed.Name)
	known := err == nil // else it is new, or the key may not read: storing tells
	stored, err := api.PutContract(ctx, parsed.Name, text, c.UnderWay)
	if err != nil {
		return err
	}
	if c.JSON {
		return p.printJSON(stored)
	}
	switch {
	case !known || before.Revision != stored.Revision:
		p.printf("%s is stored as revision %s\n", stored.Name, stored.Revision)
	case c.UnderWay == client.AdoptNew:
		p.printf("%s is unchanged, revision %s; deliveries under way follow it\n", stored.Name, stored.Revision)
	default:
		p.printf("%s is unchanged, revision %s\n", stored.Name, stored.Revision)
	}
	return nil
}

type contractDelete struct {
	connection `embed:""`
	Name       string `arg:"" help:"The contract's name."`
}

// Help implements kong.HelpProvider.
func (contractDelete) Help() string {
	return `Deliveries under way keep what they were promised.

    posthorn contract delete ours`
}

// Run deletes a contract.
func (c *contractDelete) Run(ctx context.Context, p *Process) error {
	return c.act(ctx, p, c.Name, "deleted", (*client.Client).DeleteContract)
}

type contractRevisions struct {
	connection `embed:""`
	Name       string `arg:"" help:"The contract's name."`
}

// Help implements kong.HelpProvider.
func (contractRevisions) Help() string {
	return `Newest first; --json has their files.

    posthorn contract revisions ours
    posthorn contract revisions ours --json | jq -r 'select(.current).yaml' > ours.yaml`
}

// Run lists revisions.
func (c *contractRevisions) Run(ctx context.Context, p *Process) error {
	api, err := c.client(p)
	if err != nil {
		return err
	}
	all, err := api.ContractRevisions(ctx, c.Name)
	if err != nil {
		return err
	}
	return printList(p, c.JSON, 0, each(all), []string{"REVISION", "CURRENT", "FOLLOWS", "STORED"}, func(r client.ContractRevision) []string {
		return []string{r.Revision, yesOrNo(r.Current), r.Follows, showTime(r.CreatedAt)}
	})
}
