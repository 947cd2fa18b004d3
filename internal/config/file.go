package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// File is what a configuration file says: by key, the value as a flag would
// have it. Several values are joined by commas.
type File map[string]string

// ReadFile reads a configuration file. Whatever is wrong with it is a *Fault
// that names the file and the line.
func ReadFile(path string) (File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, &Fault{Setting: "--config", Text: "can't be read: " + reason(err), Cause: err}
	}
	f, err := parseFile(text)
	if err != nil {
		return nil, &Fault{Setting: path, Text: err.Error(), Cause: err}
	}
	return f, nil
}

// reason is the part of a file's error that says why, without the operation.
func reason(err error) string {
	if pathErr, ok := errors.AsType[*os.PathError](err); ok {
		return pathErr.Path + ": " + pathErr.Err.Error()
	}
	return err.Error()
}

func parseFile(text []byte) (File, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("is no YAML: %w", err)
	}
	if len(doc.Content) == 0 { // empty, or comments only
		return File{}, nil
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return File{}, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: must hold settings, one `key: value` on each line", root.Line)
	}
	known := map[string]Setting{}
	for _, s := range Settings() {
		if s.Key != "" {
			known[s.Key] = s
		}
	}
	f := File{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		name, value := root.Content[i], root.Content[i+1]
		setting, ok := known[name.Value]
		if !ok {
			return nil, unknownKey(name, known)
		}
		if _, twice := f[name.Value]; twice {
			return nil, fmt.Errorf("line %d: %s is given a second time", name.Line, name.Value)
		}
		v, err := fileValue(setting, value)
		if err != nil {
			return nil, err
		}
		f[name.Value] = v
	}
	return f, nil
}

func unknownKey(name *yaml.Node, known map[string]Setting) error {
	if secret := "POSTHORN_" + strings.ToUpper(name.Value); isSecret(secret) {
		return fmt.Errorf("line %d: %s is not taken from a file: set %s in the environment", name.Line, name.Value, secret)
	}
	keys := make([]string, 0, len(known))
	for key := range known {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return fmt.Errorf("line %d: unknown key %q; known are %s", name.Line, name.Value, strings.Join(keys, ", "))
}

func isSecret(environ string) bool {
	return slices.ContainsFunc(Settings(), func(s Setting) bool { return s.Key == "" && s.Environ == environ })
}

// fileValue returns a value's text. Whether it suits the setting is found out
// where flags are parsed, for all layers alike.
func fileValue(s Setting, value *yaml.Node) (string, error) {
	if value.Kind == yaml.AliasNode {
		value = value.Alias
	}
	switch value.Kind {
	case yaml.ScalarNode:
		if value.Tag == "!!null" {
			return "", fmt.Errorf("line %d: %s has no value", value.Line, s.Key)
		}
		return value.Value, nil
	case yaml.SequenceNode:
		if !s.Many {
			return "", fmt.Errorf("line %d: %s takes one value, not a list", value.Line, s.Key)
		}
		parts := make([]string, len(value.Content))
		for i, item := range value.Content {
			if item.Kind != yaml.ScalarNode {
				return "", fmt.Errorf("line %d: %s is a list of plain values", item.Line, s.Key)
			}
			parts[i] = item.Value
		}
		return strings.Join(parts, ","), nil
	case yaml.MappingNode, yaml.AliasNode, yaml.DocumentNode, yaml.StreamNode:
	}
	return "", fmt.Errorf("line %d: %s takes a plain value", value.Line, s.Key)
}
