package cli

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help implements kong.HelpProvider.
func (completionCommand) Help() string {
	return `For this session, or for all that follow:

    source <(posthorn completion bash)
    posthorn completion bash > /etc/bash_completion.d/posthorn
    posthorn completion zsh > "${fpath[1]}/_posthorn"
    posthorn completion fish > ~/.config/fish/completions/posthorn.fish`
}

// Run prints the script.
func (c *completionCommand) Run(p *Process, app *kong.Kong) error {
	words := completionWords(app.Model.Node)
	switch c.Shell {
	case "bash":
		p.printf("%s", bashCompletion(words))
	case "zsh":
		p.printf("#compdef posthorn\nautoload -U +X bashcompinit && bashcompinit\n%s", bashCompletion(words))
	case "fish":
		p.printf("%s", fishCompletion(words))
	}
	return nil
}

// completion is what can follow a command: its subcommands, then its flags.
type completion struct {
	path  string // "events send"; "" for the program itself
	words []candidate
}

// candidate is a word and what it is for.
type candidate struct{ word, help string }

// completionWords walks the grammar.
func completionWords(node *kong.Node) []completion {
	at := completion{path: commandPath(node)}
	var out []completion
	for _, child := range node.Children {
		at.words = append(at.words, candidate{child.Name, child.Help})
		out = append(out, completionWords(child)...)
	}
	for _, level := range node.AllFlags(true) {
		for _, flag := range level {
			at.words = append(at.words, candidate{"--" + flag.Name, flag.Help})
		}
	}
	for _, arg := range node.Positional {
		for _, value := range arg.EnumSlice() {
			if value != "" {
				at.words = append(at.words, candidate{value, arg.Help})
			}
		}
	}
	return append([]completion{at}, out...)
}

// commandPath is the command's words without the program's name.
func commandPath(node *kong.Node) string {
	if node.Parent == nil {
		return ""
	}
	return strings.TrimSpace(commandPath(node.Parent) + " " + node.Name)
}

// bashCompletion looks the words before the cursor up, longest command first.
func bashCompletion(all []completion) string {
	var b strings.Builder
	b.WriteString("_posthorn() {\n    local path=\"\" word\n")
	b.WriteString("    for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n")
	b.WriteString("        case \"$path $word\" in\n")
	for _, c := range all {
		if c.path != "" {
			fmt.Fprintf(&b, "            %q) path=%q ;;\n", " "+c.path, " "+c.path)
		}
	}
	b.WriteString("        esac\n    done\n    case \"$path\" in\n")
	for _, c := range all {
		words := make([]string, len(c.words))
		for i, w := range c.words {
			words[i] = w.word
		}
		path := c.path
		if path != "" {
			path = " " + path
		}
		fmt.Fprintf(&b, "        %q) COMPREPLY=($(compgen -W %q -- \"${COMP_WORDS[COMP_CWORD]}\")) ;;\n", path, strings.Join(words, " "))
	}
	b.WriteString("    esac\n}\ncomplete -o default -F _posthorn posthorn\n")
	return b.String()
}

// fishCompletion tells fish each command's words and when they fit.
func fishCompletion(all []completion) string {
	var b strings.Builder
	b.WriteString("complete -c posthorn -f\n")
	children := map[string][]string{}
	for _, c := range all {
		for _, w := range c.words {
			if !strings.HasPrefix(w.word, "-") {
				children[c.path] = append(children[c.path], w.word)
			}
		}
	}
	for _, c := range all {
		condition := fishCondition(c.path, children[c.path])
		for _, w := range c.words {
			flag, isFlag := strings.CutPrefix(w.word, "--")
			kind := "-a " + flag
			if isFlag {
				kind = "-l " + flag
			}
			fmt.Fprintf(&b, "complete -c posthorn -n %s %s -d %s\n", fishQuote(condition), kind, fishQuote(w.help))
		}
	}
	return b.String()
}

// fishCondition holds while the command is this one and none below it.
func fishCondition(path string, children []string) string {
	var parts []string
	for word := range strings.FieldsSeq(path) {
		parts = append(parts, "__fish_seen_subcommand_from "+word)
	}
	if len(children) > 0 {
		parts = append(parts, "not __fish_seen_subcommand_from "+strings.Join(children, " "))
	}
	return strings.Join(parts, "; and ")
}

func fishQuote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}
