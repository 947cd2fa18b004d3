package contract

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

//go:embed standard.yaml signals.yaml elido.yaml petify.yaml schema.json
var builtinFiles embed.FS

// Standard is the name of the default contract.
const Standard = "standard"

// BuiltinNames lists the contracts that come with the product.
func BuiltinNames() []string { return []string{"elido", "petify", "signals", Standard} }

// BuiltinYAML returns the file of a built-in contract; false if there is none.
func BuiltinYAML(name string) ([]byte, bool) {
	if !slices.Contains(BuiltinNames(), name) {
		return nil, false
	}
	text, err := builtinFiles.ReadFile(name + ".yaml")
	return text, err == nil
}

// Builtin returns a built-in contract by name; false if there is none.
func Builtin(name string) (*Contract, bool) {
	text, ok := BuiltinYAML(name)
	if !ok {
		return nil, false
	}
	c, err := Parse(text)
	return c, err == nil // TestBuiltin_Parses proves that they parse
}

// Schema returns the JSON Schema (2020-12) of a contract's file, which editors
// complete and explain fields by. Whatever it refuses, Parse refuses; what
// contradicts itself between two fields, only Parse finds.
func Schema() []byte {
	text, err := builtinFiles.ReadFile("schema.json")
	if err != nil {
		return nil // it is built in
	}
	return text
}

// Fault is one thing that is wrong with a contract's file.
type Fault struct {
	// Path names the field, such as schedule.waits[2]; "" for the file.
	Path string
	// Line in the file, from 1; 0 from Validate, which knows no file.
	Line int
	// Text says what is wrong and what is allowed.
	Text string
}

// InvalidError lists every fault of a contract's file.
type InvalidError struct{ Faults []Fault }

// Error implements error: one line for each fault.
func (e *InvalidError) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		if f.Line > 0 {
			lines[i] = fmt.Sprintf("line %d: ", f.Line)
		}
		if f.Path != "" {
			lines[i] += f.Path + ": "
		}
		lines[i] += f.Text
	}
	return strings.Join(lines, "\n")
}

// maxFile bounds a contract's file in bytes.
const maxFile = 256 << 10

// Parse reads one contract from YAML or JSON (apiVersion 1) and validates it.
// Unknown fields and fields without a value are refused. The error is an
// *InvalidError with all faults, each with its line.
func Parse(text []byte) (*Contract, error) {
	if len(text) > maxFile {
		return nil, &InvalidError{[]Fault{{Line: 1, Text: fmt.Sprintf("the file is larger than %d bytes", maxFile)}}}
	}
	var c Contract
	faults := read(text, &c)
	if len(faults) == 0 {
		c.settle()
		return &c, nil
	}
	lines := 1 + bytes.Count(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	for i := range faults {
		faults[i].Line = min(max(faults[i].Line, 1), lines)
	}
	return nil, &InvalidError{faults}
}

// read fills c and returns what is wrong, some of it without lines.
func read(text []byte, c *Contract) []Fault {
	var root yaml.Node
	if err := yaml.Load(text, &root); err != nil {
		return readFaults(err)
	}
	if empty := nulls(&root, ""); len(empty) > 0 {
		return empty
	}
	faults := readFaults(root.Load(c, yaml.WithKnownFields(), yaml.WithUniqueKeys()))
	unread := map[int]bool{}
	for _, f := range faults {
		if strings.Contains(f.Text, "already defined") {
			return faults // which of the two is meant nobody knows
		}
		unread[f.Line] = true
	}
	for _, f := range c.faults() {
		line, whole := lineOf(&root, f.Path)
		// Beside what can't be read, only what stands there and was read says anything.
		if f.Line = line; len(unread) == 0 || whole && !unread[line] {
			faults = append(faults, f)
		}
	}
	slices.SortStableFunc(faults, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
	return faults
}

// nulls finds what stands in the file without a value: it would count as zero,
// which is rarely what was meant.
func nulls(n *yaml.Node, path string) []Fault {
	var faults []Fault
	switch n.Kind {
	case yaml.ScalarNode:
		if n.ShortTag() == "!!null" {
			return []Fault{{Path: path, Line: n.Line, Text: "has no value"}}
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			faults = append(faults, nulls(n.Content[i+1], strings.TrimPrefix(path+"."+n.Content[i].Value, "."))...)
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			faults = append(faults, nulls(item, fmt.Sprintf("%s[%d]", path, i))...)
		}
	case yaml.DocumentNode:
		for _, item := range n.Content {
			faults = append(faults, nulls(item, path)...)
		}
	case yaml.AliasNode, yaml.StreamNode: // what an alias repeats is looked at where it stands
	}
	return faults
}

// readFaults turns the YAML library's errors into faults.
func readFaults(err error) []Fault {
	if many, ok := errors.AsType[*yaml.LoadErrors](err); ok {
		faults := make([]Fault, len(many.Errors))
		for i, e := range many.Errors {
			faults[i] = Fault{Line: e.Mark.Line, Text: plain(e.Message)}
		}
		return faults
	}
	if one, ok := errors.AsType[*yaml.LoadError](err); ok {
		return []Fault{{Line: one.Mark.Line, Text: plain(one.Message)}}
	}
	if err != nil {
		return []Fault{{Text: plain(err.Error())}}
	}
	return nil
}

// plain puts the YAML library's messages into words without Go's types.
func plain(message string) string {
	if field, _, unknown := strings.Cut(message, " not found in type "); unknown {
		return field + " is not known"
	}
	misfit, ok := strings.CutPrefix(message, "cannot construct ")
	if !ok {
		return strings.Replace(strings.TrimPrefix(message, "yaml: "), "no documents in stream", "the file is empty", 1)
	}
	found, into, _ := strings.Cut(misfit, " into ")
	tag, value, _ := strings.Cut(found, " ") // such as !!str `soon`
	if name, ok := map[string]string{"!!seq": "a list", "!!map": "a mapping"}[tag]; ok {
		value = name
	}
	if name, ok := map[string]string{"string": "a text", "int": "a whole number", "float64": "a number", "bool": "true or false"}[into]; ok {
		return value + " is not " + name
	}
	return value + " can't stand here"
}

// lineOf follows a path such as schedule.waits[2] as far as it exists; whole tells
// whether all of it does.
func lineOf(n *yaml.Node, path string) (line int, whole bool) {
	if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		n = n.Content[0]
	}
	line = max(n.Line, 1)
	for _, step := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		next := child(n, step)
		if next == nil {
			return line, false
		}
		n, line = next, next.Line
	}
	return line, true
}

func child(n *yaml.Node, step string) *yaml.Node {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		var i int
		if _, err := fmt.Sscanf(step, "%d", &i); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i]
		}
	case yaml.DocumentNode, yaml.ScalarNode, yaml.AliasNode, yaml.StreamNode:
	}
	return nil
}

// Canonical returns the contract's YAML in one form: equal promises have equal
// bytes, whatever the layout, order or comments of their files.
func (c *Contract) Canonical() []byte {
	text, err := yaml.Dump(c)
	if err != nil {
		return nil // no field of a parsed contract can fail to be written
	}
	return text
}

// settle leaves out what says no more than leaving it out does, so that equal
// promises are equal.
func (c *Contract) settle() {
	for _, word := range []struct {
		field *string
		usual string
	}{
		{&c.RetryAfter.Mode, "longer"}, {&c.Order.Mode, "none"}, {&c.OnResume.Dead, "leave"}, {&c.OnEnable.Dead, "leave"},
	} {
		if *word.field == word.usual {
			*word.field = ""
		}
	}
	if !c.Gate.Closes() {
		c.Gate.Scope = ""
	}
}

// Revision is a short hash of the contract's meaning.
func (c *Contract) Revision() string {
	sum := sha256.Sum256(c.Canonical())
	return hex.EncodeToString(sum[:6])
}
