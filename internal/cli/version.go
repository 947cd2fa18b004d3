package cli

import (
	"runtime/debug"

	"github.com/alecthomas/kong"
)

type versionCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Help implements kong.HelpProvider.
func (versionCommand) Help() string {
	return `    posthorn version --json`
}

// versionFlag is --version, which many try first.
type versionFlag bool

// BeforeReset prints the version in place of whatever else was asked for.
func (versionFlag) BeforeReset(app *kong.Kong, p *Process) error {
	err := new(versionCommand).Run(p)
	app.Exit(exitOK)
	return err
}

// build says what this program was made from.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // the working tree had changes
	Go       string `json:"go"`
}

// Run prints the version.
func (c *versionCommand) Run(p *Process) error {
	b := readBuild()
	if c.JSON {
		return p.printJSON(b)
	}
	text := "posthorn " + b.Version
	if b.Commit != "" {
		text += " " + b.Commit
	}
	if b.Modified {
		text += " (modified)"
	}
	p.printf("%s %s\n", text, b.Go)
	return nil
}

func readBuild() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return build{Version: "devel"}
	}
	b := build{Version: info.Main.Version, Go: info.GoVersion}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel" // fit for a User-Agent, where brackets begin a comment
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}
