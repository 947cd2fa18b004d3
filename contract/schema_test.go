package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"
)

// node is a schema as JSON, and the root that its references point into.
type node struct {
	own, root map[string]any
}

func schemaRoot(t testing.TB) node {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	return node{root, root}
}

// get is a keyword of the schema, or of what it refers to.
func (n node) get(keyword string) any {
	if v, ok := n.own[keyword]; ok {
		return v
	}
	ref, _ := n.own["$ref"].(string)
	name, ok := strings.CutPrefix(ref, "#/$defs/")
	if !ok {
		return nil
	}
	return n.under(n.root["$defs"], name).get(keyword)
}

func (n node) under(of any, name string) node {
	object, _ := of.(map[string]any)
	own, _ := object[name].(map[string]any)
	return node{own, n.root}
}

// at is the schema of a member or an item.
func (n node) at(step any) node {
	if _, isItem := step.(int); isItem {
		items, _ := n.get("items").(map[string]any)
		return node{items, n.root}
	}
	return n.under(n.get("properties"), step.(string))
}

func (n node) members() []string {
	properties, _ := n.get("properties").(map[string]any)
	return slices.Sorted(maps.Keys(properties))
}

// words lists strings of a keyword such as enum, sorted.
func (n node) words(keyword string) []string {
	list, _ := n.get(keyword).([]any)
	var words []string
	for _, v := range list {
		words = append(words, fmt.Sprint(v))
	}
	slices.Sort(words)
	return words
}

func compiled(t testing.TB) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("mem:///schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("mem:///schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func document(t testing.TB, text []byte) any {
	t.Helper()
	var doc any
	if err := yaml.Load(text, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// The schema has every field of the Go types, and no other.
func TestSchema_HasTheFieldsOfTheType(t *testing.T) {
	t.Parallel()
	sameFields(t, schemaRoot(t), reflect.TypeFor[Contract](), "contract")
}

func sameFields(t *testing.T, n node, goType reflect.Type, path string) {
	t.Helper()
	types := strings.Join(n.words("type"), " ")
	if fromText := reflect.PointerTo(goType).Implements(reflect.TypeFor[interface{ UnmarshalText([]byte) error }]()); fromText {
		if types != "integer string" || n.get("pattern") == nil {
			t.Errorf("%s: %q, want a text of a pattern, or an integer", path, types)
		}
		return
	}
	if one, ok := n.get("type").(string); ok {
		types = one
	}
	switch goType.Kind() { //nolint:exhaustive // because the other kinds have one case
	case reflect.Struct:
		var tags []string
		for field := range goType.Fields() {
			tag, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			tags = append(tags, tag)
			sameFields(t, n.at(tag), field.Type, path+"."+tag)
		}
		slices.Sort(tags)
		if got := n.members(); types != "object" || n.get("additionalProperties") != false || !slices.Equal(got, tags) {
			t.Errorf("%s: the schema has %v, the type %v", path, got, tags)
		}
	case reflect.Map:
		var keys []string
		for _, s := range Statuses() {
			keys = append(keys, string(s))
			sameFields(t, n.at(string(s)), goType.Elem(), path+"."+string(s))
		}
		slices.Sort(keys)
		if got := n.members(); types != "object" || n.get("additionalProperties") != false || !slices.Equal(got, keys) {
			t.Errorf("%s: the schema has %v, the statuses are %v", path, got, keys)
		}
	case reflect.Slice:
		if types != "array" {
			t.Errorf("%s: %q, want array", path, types)
		}
		sameFields(t, n.at(0), goType.Elem(), path+"[]")
	default:
		want := map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer", reflect.Float64: "number"}
		if n.get("const") == nil && types != want[goType.Kind()] {
			t.Errorf("%s: %q, want %q", path, types, want[goType.Kind()])
		}
	}
}

// An editor has something to say about every field.
func TestSchema_ExplainsEveryField(t *testing.T) {
	t.Parallel()
	var walk func(n node, path string)
	walk = func(n node, path string) {
		for _, name := range n.members() {
			member := n.at(name)
			if title, _ := member.get("title").(string); title == "" && !strings.HasSuffix(path, ".statuses") {
				t.Errorf("%s.%s has no title", path, name)
			}
			explained := member.get("enum") != nil || member.get("description") != nil || member.get("examples") != nil || member.get("default") != nil
			if !explained && member.get("type") != "object" && member.get("type") != "array" {
				t.Errorf("%s.%s: neither words, nor a description, nor an example", path, name)
			}
			walk(member, path+"."+name)
		}
		if items := n.at(0); items.own != nil {
			walk(items, path+"[]")
		}
	}
	walk(schemaRoot(t), "")
}

func TestSchema_TakesWhatParseTakes(t *testing.T) {
	t.Parallel()
	schema := compiled(t)
	texts := map[string][]byte{"harbor": []byte(harbor)}
	for _, name := range BuiltinNames() {
		texts[name], _ = BuiltinYAML(name)
	}
	for name, text := range texts {
		if err := schema.Validate(document(t, text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := schema.Validate(document(t, parsed(t, string(text)).Canonical())); err != nil {
			t.Errorf("%s in its canonical form: %v", name, err)
		}
	}
}

// Examples and defaults are what the schema itself takes.
func TestSchema_ItsExamplesAreRight(t *testing.T) {
	t.Parallel()
	schema, root, doc := compiled(t), schemaRoot(t), document(t, []byte(harbor))
	tried := 0
	for _, path := range paths(doc, nil) {
		n := root
		for _, step := range path {
			n = n.at(step)
		}
		examples, _ := n.get("examples").([]any)
		if standard := n.get("default"); standard != nil {
			examples = append(examples, standard)
		}
		for _, example := range examples {
			tried++
			if err := schema.Validate(with(doc, path, example)); err != nil {
				t.Errorf("%v: %v: %v", path, example, err)
			}
		}
	}
	if tried < 30 {
		t.Errorf("only %d examples tried", tried)
	}
}

// paths lists the paths of everything inside a document, of a list's items the
// first: all have one schema.
func paths(doc any, to []any) [][]any {
	var all [][]any
	add := func(step, value any) {
		path := append(slices.Clone(to), step)
		all = append(append(all, path), paths(value, path)...)
	}
	switch v := doc.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			add(name, v[name])
		}
	case []any:
		if len(v) > 0 {
			add(0, v[0])
		}
	}
	return all
}

// gone stands for the absence of a value.
type gone struct{}

// with is a copy of the document with another value at a path.
func with(doc any, path []any, value any) any {
	if len(path) == 0 {
		return value
	}
	switch v := doc.(type) {
	case map[string]any:
		copied := maps.Clone(v)
		name := path[0].(string)
		if copied[name] = with(v[name], path[1:], value); copied[name] == (gone{}) {
			delete(copied, name)
		}
		return copied
	case []any:
		copied := slices.Clone(v)
		i := path[0].(int)
		if copied[i] = with(v[i], path[1:], value); copied[i] == (gone{}) {
			copied = slices.Delete(copied, i, i+1)
		}
		return copied
	}
	return doc
}

func dump(t testing.TB, doc any) []byte {
	t.Helper()
	text, err := yaml.Dump(doc)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// isText tells whether a field takes nothing but text: YAML reads a number there
// as text, which is more than a schema can say.
func isText(n node) bool { return n.get("type") == "string" }

// Whatever is put in the place of any part of a contract: what the schema
// refuses, Parse refuses.
func TestSchema_RefusesNothingThatParseTakes(t *testing.T) {
	t.Parallel()
	schema, root, doc := compiled(t), schemaRoot(t), document(t, []byte(harbor))
	wrong := []any{gone{}, []any{}, []any{"x"}, map[string]any{"bogus": 1}, "no such thing!", -7, 1.5, true, 100000}
	refused := 0
	for _, path := range paths(doc, nil) {
		n := root
		for _, step := range path {
			n = n.at(step)
		}
		for _, value := range wrong {
			switch value.(type) {
			case int, float64, bool:
				if isText(n) {
					continue
				}
			}
			changed := with(doc, path, value)
			err := schema.Validate(changed)
			if err == nil {
				continue
			}
			refused++
			text, jsonErr := json.Marshal(changed)
			if jsonErr != nil {
				t.Fatal(jsonErr)
			}
			if _, parseErr := Parse(text); parseErr == nil {
				t.Errorf("%v as %v: Parse takes it, the schema says %v", path, value, err)
			}
		}
	}
	if refused < 500 {
		t.Errorf("only %d changes were refused", refused)
	}
}

// Files that are plainly wrong are refused by both, so that an editor marks them.
func TestSchema_RefusesWhatIsPlainlyWrong(t *testing.T) {
	t.Parallel()
	schema := compiled(t)
	yaml, _ := BuiltinYAML(Standard)
	for name, test := range map[string]struct{ from, to string }{
		"unknown field":         {"timeout: 15s", "timeout: 15s\ntimeot: 3s"},
		"unknown field inside":  {"mode: longer", "mode: longer\n  least: 3s"},
		"no time-out":           {"timeout: 15s", ""},
		"a time-out in words":   {"timeout: 15s", "timeout: soon"},
		"a number of seconds":   {"timeout: 15s", "timeout: 15"},
		"a wait below zero":     {"waits: [0, 5s,", "waits: [0, -5s,"},
		"no wait":               {"waits: [0, 5s, 5m, 30m, 2h, 5h, 10h, 14h, 20h, 24h]", "waits: []"},
		"statuses upside down":  {`success: ["200-299"]`, `success: ["2xx"]`},
		"unknown source":        {"from: event.type", "from: event.kind"},
		"body source in header": {"from: timestamp", "from: event.id"},
		"unknown kind":          {"on: gone", "on: lost"},
		"another version":       {"apiVersion: 1", "apiVersion: 2"},
		"jitter of all":         {"jitter: 0.10", "jitter: 1"},
		"a name in capitals":    {"name: standard", "name: Standard"},
		"no event to end":       {"status: failed\n  emit", "status: delivered\n  emit"},
		"too short a secret":    {"min_bytes: 24", "min_bytes: 4"},
		"another scheme":        {"[https, http]", "[https, gopher]"},
		"tests that count":      {"counts: [event,", "counts: [event, test,"},
		"a status of no HTTP":   {"on: [429, 502, 504]", "on: [429, 5020]"},
		"an order of its own":   {"mode: none", "mode: perhaps"},
		"batch too large":       {"batch: 100", "batch: 101"},
		"a section of no value": {"order:\n  mode: none", "order:"},
		"header with a space":   {"name: webhook-id", "name: webhook id"},
		"signs no body":         {`signed: "{id}.{t}.{body}"`, `signed: "{id}.{t}"`},
	} {
		changed := strings.Replace(string(yaml), test.from, test.to, 1)
		if changed == string(yaml) {
			t.Fatalf("%s changes nothing", name)
		}
		if _, err := Parse([]byte(changed)); err == nil {
			t.Errorf("%s: Parse takes it", name)
		}
		if schema.Validate(document(t, []byte(changed))) == nil {
			t.Errorf("%s: the schema takes it", name)
		}
	}
}

// The words that the schema allows for a field are those that Validate names.
func TestSchema_EnumsAreTheClosedSets(t *testing.T) {
	t.Parallel()
	root, doc := schemaRoot(t), document(t, []byte(harbor))
	found := 0
	for _, path := range paths(doc, nil) {
		n := root
		for _, step := range path {
			n = n.at(step)
		}
		want := n.words("enum")
		if want == nil {
			continue
		}
		found++
		_, err := Parse(dump(t, with(doc, path, "no-such-word")))
		if got := allowed(err); !slices.Equal(got, want) {
			t.Errorf("%v: the schema has %v, Validate %v", path, want, got)
		}
	}
	if found < 30 {
		t.Errorf("only %d fields with a closed set", found)
	}
}

// allowed reads the words of the fault "must be a or b".
func allowed(err error) []string {
	invalid, _ := err.(*InvalidError) //nolint:errorlint // because Parse returns it as it is
	if invalid == nil {
		return nil
	}
	for _, f := range invalid.Faults {
		if list, ok := strings.CutPrefix(f.Text, "must be "); ok {
			words := strings.Split(list, " or ")
			slices.Sort(words)
			return words
		}
	}
	return nil
}

// The files that come with the product say where editors find the schema.
func TestBuiltin_NamesItsSchema(t *testing.T) {
	t.Parallel()
	for _, name := range BuiltinNames() {
		text, _ := BuiltinYAML(name)
		if !bytes.HasPrefix(text, []byte("# yaml-language-server: $schema=schema.json\n")) {
			t.Errorf("%s does not begin with the schema's line", name)
		}
	}
}
