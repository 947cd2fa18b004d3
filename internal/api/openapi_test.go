package api

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/webhook"
)

// everything is a server that has all parts that may be left out, but the metrics.
func everything(c *Config) {
	c.Filters = &filters{}
	c.Test = func(context.Context, *webhook.Endpoint, *contract.Contract) (TestResult, error) {
		return TestResult{}, nil
	}
}

var update = flag.Bool("update", false, "write the golden files anew")

// TestOpenAPI_GoldenOperations: the list of operations, with what each needs and
// can answer, changes only on purpose.
func TestOpenAPI_GoldenOperations(t *testing.T) {
	t.Parallel()
	f := newFixture(t, everything)
	var lines strings.Builder
	for _, op := range f.api.operations() {
		described := f.operationFor(to(op.method, op.path, ""))
		statuses := slices.Sorted(maps.Keys(described["responses"].(map[string]any)))
		scope := string(op.scope)
		if scope == "" {
			scope = "-"
		}
		fmt.Fprintf(&lines, "%-6s %-34s %-22s %-8s %s\n", op.method, op.path, op.id, scope, strings.Join(statuses, " "))
	}
	const golden = "testdata/operations.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(lines.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if lines.String() != string(want) {
		t.Errorf("operations are now:\n%s\nwant:\n%s", lines.String(), want)
	}
}

// TestOpenAPI_IsValid: the document is consistent in itself. Schemas compile,
// examples fit them, references lead somewhere, path parameters are described,
// names are unique.
func TestOpenAPI_IsValid(t *testing.T) {
	t.Parallel()
	f := newFixture(t, everything)
	if f.document["openapi"] != "3.1.0" {
		t.Errorf("openapi is %v", f.document["openapi"])
	}
	seen := map[string]bool{}
	for path, item := range f.document["paths"].(map[string]any) {
		for method, one := range item.(map[string]any) {
			op := one.(map[string]any)
			id := op["operationId"].(string)
			if seen[id] {
				t.Errorf("operationId %s stands twice", id)
			}
			seen[id] = true
			f.checkOperation(path, method, op)
		}
	}
	for name := range f.document["components"].(map[string]any)["schemas"].(map[string]any) {
		f.checkExamples("/components/schemas/" + name)
	}
	f.walkRefs(f.document)
}

func (f *fixture) checkOperation(path, method string, op map[string]any) {
	described := map[string]bool{}
	base := "/paths/" + strings.ReplaceAll(path, "/", "~1") + "/" + method
	params, _ := op["parameters"].([]any)
	for i, one := range params {
		p := one.(map[string]any)
		described[fmt.Sprint(p["in"], " ", p["name"])] = true
		if example, ok := p["example"]; ok {
			f.fits(fmt.Sprintf("%s/parameters/%d/schema", base, i), example)
		}
	}
	for segment := range strings.SplitSeq(path, "/") {
		if strings.HasPrefix(segment, "{") && !described["path "+strings.Trim(segment, "{}")] {
			f.Errorf("%s %s: %s is not described", method, path, segment)
		}
	}
	if taken, ok := op["requestBody"].(map[string]any); ok {
		for media, one := range taken["content"].(map[string]any) {
			if example, ok := one.(map[string]any)["example"]; ok {
				f.fits(base+"/requestBody/content/"+strings.ReplaceAll(media, "/", "~1")+"/schema", example)
			}
		}
	}
	for status, one := range op["responses"].(map[string]any) {
		response := one.(map[string]any)
		if response["description"] == "" {
			f.Errorf("%s %s: %s has no description", method, path, status)
		}
		content, _ := response["content"].(map[string]any)
		for media := range content {
			pointer := base + "/responses/" + status + "/content/" + strings.ReplaceAll(media, "/", "~1") + "/schema"
			if _, err := f.compiler.Compile("mem:///openapi.json#" + pointer); err != nil {
				f.Errorf("%s: %v", pointer, err)
			}
		}
	}
}

// checkExamples: each example fits the schema that it stands in.
func (f *fixture) checkExamples(pointer string) {
	at := lookUp(f.document, pointer).(map[string]any)
	examples, _ := at["examples"].([]any)
	for _, example := range examples {
		f.fits(pointer, example)
	}
	members, _ := at["properties"].(map[string]any)
	for name := range members {
		f.checkExamples(pointer + "/properties/" + name)
	}
}

// walkRefs: no reference leads nowhere.
func (f *fixture) walkRefs(v any) {
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok && lookUp(f.document, strings.TrimPrefix(ref, "#")) == nil {
			f.Errorf("%s leads nowhere", ref)
		}
		for _, inner := range v {
			f.walkRefs(inner)
		}
	case []any:
		for _, inner := range v {
			f.walkRefs(inner)
		}
	}
}

func lookUp(document map[string]any, pointer string) any {
	var at any = document
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		inner, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = inner[strings.ReplaceAll(step, "~1", "/")]
	}
	return at
}

// TestOpenAPI_IsServed: the document needs no key and is what was described.
func TestOpenAPI_IsServed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	out := f.send(to("GET", "/openapi.json", "").with("Authorization", "")).is(200)
	if out.json["servers"].([]any)[0].(map[string]any)["url"] != "http://127.0.0.1:8080" {
		t.Errorf("servers are %v", out.json["servers"])
	}
	for path := range out.json["paths"].(map[string]any) {
		if strings.Contains(path, "webhooks") {
			t.Errorf("the alias %s is described as an operation", path)
		}
	}
	// A field or route whose mechanism isn't built is absent.
	unbuilt := []string{
		"rate_limit", "transform", "card", "source", "lease",
	}
	for name, one := range out.json["components"].(map[string]any)["schemas"].(map[string]any) {
		members, _ := one.(map[string]any)["properties"].(map[string]any)
		for _, field := range unbuilt {
			if members[field] != nil {
				t.Errorf("%s of %s is described, but its mechanism does not exist", field, name)
			}
		}
	}
	for _, route := range []string{
		"/v1/endpoints/ep_1/stats", "/v1/sources", "/v1/poll/ep_1", "/v1/event-types/x", "/v1/streams", "/v1/audit/x", "/v1/tenants/default/portal",
	} {
		f.send(to("POST", route, "{}")).problem(404, "not_found")
	}
}
