package api

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/posthorn/posthorn/contract"
)

// wireContract is a contract as callers see it: the members of its file, then what
// the server knows about it.
type wireContract struct{ text []byte }

// wireContractRest is what stands behind the contract's own members.
type wireContractRest struct {
	Revision  string `json:"revision" doc:"Changes exactly when the promise does." example:"5f0c2d9a7b31"`
	Builtin   bool   `json:"builtin" doc:"It comes with the server and can't be changed." example:"true"`
	CreatedAt *stamp `json:"created_at" doc:"When this revision was stored; null for one that comes with the server." example:"null"`
}

// MarshalJSON implements json.Marshaler.
func (w wireContract) MarshalJSON() ([]byte, error) { return w.text, nil }

func showContract(found Contract) wireContract {
	rest, err := encode(wireContractRest{Revision: found.Revision, Builtin: found.Builtin, CreatedAt: stampOrNull(found.CreatedAt)})
	if err != nil {
		panic(err) // our own types always encode
	}
	text := appendFile(nil, reflect.ValueOf(found.Contract).Elem())
	return wireContract{append(append(text[:len(text)-1], ','), rest[1:]...)}
}

// appendFile writes a part of a contract in the JSON that stands for its YAML: the
// same names, the same words for durations and ranges, the same parts left out.
func appendFile(out []byte, v reflect.Value) []byte {
	if _, ok := reflect.TypeAssert[encoding.TextMarshaler](v); ok {
		return appendPlain(out, v)
	}
	switch v.Kind() { //nolint:exhaustive // because all other kinds are plain
	case reflect.Struct:
		return appendMembers(out, v)
	case reflect.Slice:
		out = append(out, '[')
		for i := range v.Len() {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendFile(out, v.Index(i))
		}
		return append(out, ']')
	default:
		return appendPlain(out, v)
	}
}

func appendMembers(out []byte, v reflect.Value) []byte {
	out = append(out, '{')
	begin := len(out)
	for field, value := range v.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if strings.Contains(options, "omitempty") && (value.IsZero() || value.Kind() == reflect.Slice && value.Len() == 0) {
			continue
		}
		if len(out) > begin {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, "%q:", name)
		out = appendFile(out, value)
	}
	return append(out, '}')
}

// appendPlain writes what JSON has the same words for.
func appendPlain(out []byte, v reflect.Value) []byte {
	text, err := encode(v.Interface())
	if err != nil {
		panic(err) // texts, numbers and maps of texts always encode
	}
	return append(out, text...)
}

// contract is the schema of a contract: that of its file, which editors use too, and
// the members of the answer.
func (g *registry) contract() *schema {
	var file map[string]any
	if err := json.Unmarshal(contract.Schema(), &file); err != nil {
		panic("api: the schema of contracts is no JSON: " + err.Error())
	}
	delete(file, "$schema")
	parts, _ := file["$defs"].(map[string]any)
	delete(file, "$defs")
	members, _ := file["properties"].(map[string]any)
	rest := g.of(reflect.TypeFor[wireContractRest]()).deref()
	delete(g.components, "ContractRest")
	for _, member := range rest.Properties {
		members[member.name] = member.schema
	}
	for name, part := range parts {
		g.components[partName(name)] = raw(part)
	}
	g.components["Contract"] = raw(file)
	return &schema{Ref: "#/components/schemas/Contract", target: g.components["Contract"]}
}

// partName is the component of a part of the file's schema.
func partName(part string) string { return "Contract" + strings.ToUpper(part[:1]) + part[1:] }

// raw makes a schema that is only printed. References within the file become those
// of the document.
func raw(v any) *schema {
	text, err := json.Marshal(moved(v))
	if err != nil {
		panic("api: the schema of contracts can't be written: " + err.Error())
	}
	return &schema{raw: text}
}

func moved(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		for name, inner := range v {
			out[name] = moved(inner)
		}
		if ref, ok := v["$ref"].(string); ok {
			out["$ref"] = "#/components/schemas/" + partName(strings.TrimPrefix(ref, "#/$defs/"))
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = moved(inner)
		}
		return out
	default:
		return v
	}
}
