package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/posthorn/posthorn/internal/webhook"
)

// object is a part of the document.
type object map[string]any

// paths print in the order of the table.
type paths []struct {
	path string
	item object
}

func (p *paths) item(path string) object {
	for _, one := range *p {
		if one.path == path {
			return one.item
		}
	}
	*p = append(*p, struct {
		path string
		item object
	}{path, object{}})
	return (*p)[len(*p)-1].item
}

// MarshalJSON implements json.Marshaler.
func (p paths) MarshalJSON() ([]byte, error) {
	return marshalInOrder(len(p), func(i int) (string, any) { return p[i].path, p[i].item })
}

// describe makes the OpenAPI 3.1 document of the operations.
func (a *API) describe(operations []*operation) ([]byte, error) {
	problem := a.schemas.of(reflect.TypeFor[wireProblem]())
	var described paths
	for _, op := range operations {
		described.item(op.path)[strings.ToLower(op.method)] = a.describeOperation(op, problem)
	}
	var problems, groups []object
	for _, row := range refusals() {
		problems = append(problems, object{"code": row.Code, "status": row.Status, "title": row.Title, "meaning": row.Meaning})
	}
	for _, tag := range tags() {
		groups = append(groups, object{"name": tag[0], "description": tag[1]})
	}
	document := object{
		"openapi":           "3.1.0",
		"jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
		"info": object{
			"title": "Posthorn", "version": a.cfg.Version, "license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"summary": "Webhooks, sent durably.", "description": introduction(),
		},
		"tags":       groups,
		"x-problems": problems,
		"paths":      described,
		"security":   []object{{"key": []string{}}},
		"components": object{
			"schemas": a.schemas.components,
			"securitySchemes": object{"key": object{
				"type": "http", "scheme": "bearer", "description": "An API key: Authorization: Bearer KEY. Scopes: publish, read, manage, operator.",
			}},
		},
	}
	if a.cfg.PublicURL != "" {
		document["servers"] = []object{{"url": a.cfg.PublicURL}}
	}
	text, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("describing the operations: %w", err)
	}
	return append(text, '\n'), nil
}

func introduction() string {
	return "JSON over HTTP. Times are RFC 3339 in UTC with milliseconds. New fields and new values of enumerations may be added at any time: accept what you don't know.\n\n" +
		"Errors are problem documents (RFC 9457) with a stable code; errors lists the fields concerned by JSON pointer. Unknown fields and parameters are refused.\n\n" +
		"Lists follow the order of acceptance. next and prev lead on as cursor; a page may be short while next is set.\n\n" +
		"An operator's key names the tenant by the header Posthorn-Tenant; without it, the tenant is default as long as no other exists. Bodies are taken uncompressed."
}

func (a *API) describeOperation(op *operation, problem *schema) object {
	out := object{
		"operationId": op.id, "tags": []string{op.tag}, "summary": op.summary,
		"responses": a.describeAnswers(op, problem),
	}
	text := op.description
	if op.scope == "" {
		out["security"] = []object{}
	} else {
		text = strings.TrimSpace(text + " Needs the scope " + string(op.scope) + ".")
		out["x-scope"] = op.scope
	}
	if text != "" {
		out["description"] = text
	}
	if params := describeParams(op); len(params) > 0 {
		out["parameters"] = params
	}
	if op.body != nil {
		out["requestBody"] = describeBody(op.body)
	}
	return out
}

func describeParams(op *operation) []object {
	var out []object
	for segment := range strings.SplitSeq(op.path, "/") {
		if strings.HasPrefix(segment, "{") {
			out = append(out, pathParam(op, strings.Trim(segment, "{}")))
		}
	}
	if op.tenancy == tenantOne || op.tenancy == tenantAcross {
		text := "The tenant, with an operator's key. Absent: default, as long as no other tenant exists."
		if op.tenancy == tenantAcross {
			text += " * reads across all tenants."
		}
		out = append(out, object{"name": tenantHeader, "in": "header", "description": text, "schema": &schema{Type: types{typeString}}, "example": webhook.DefaultTenant})
	}
	for _, p := range op.params {
		one := object{"name": p.name, "in": p.in, "schema": p.schema}
		if p.description != "" {
			one["description"] = p.description
		}
		if p.many {
			one["schema"] = &schema{Type: types{typeArray}, Items: p.schema, MinItems: 1}
			one["style"], one["explode"] = "form", false
		}
		switch {
		case p.example != "" && p.many:
			one["example"] = []string{p.example}
		case p.example != "":
			one["example"] = p.example
		}
		out = append(out, one)
	}
	return out
}

func pathParam(op *operation, name string) object {
	s := &schema{Type: types{typeString}, MinLength: 1, MaxLength: 128}
	if op.method == http.MethodPut {
		s = &schema{Type: types{typeString}, Pattern: "^[a-z0-9][a-z0-9_-]{0,63}$"}
	}
	description := "Its ID."
	switch {
	case name != "id":
		description = "Its " + name + "."
	case strings.HasPrefix(op.path, "/v1/tenants/"):
		description = "The tenant's ID."
	}
	return object{"name": name, "in": "path", "required": true, "description": description, "schema": s}
}

func describeBody(b *body) object {
	content := object{}
	for _, media := range b.types {
		entry := object{"schema": b.schema}
		if b.lines != nil {
			entry["schema"] = b.lines
		}
		if media == mediaLines {
			// A line's schema can't be said of a text of lines.
			entry["schema"] = &schema{Type: types{typeString}, Description: "An event a line, each as in application/json."}
		} else if b.example != nil {
			entry["example"] = b.example
		}
		content[media] = entry
	}
	return object{"required": !b.optional, "content": content}
}

// describeAnswers lists every status that the operation can answer with:
// successes, the refusals of its own, and those that follow from its form.
func (a *API) describeAnswers(op *operation, problem *schema) map[string]object {
	out := map[string]object{}
	for _, one := range op.answers {
		describeAnswer(out, op, one)
	}
	codes := map[int][]webhook.Code{}
	for _, code := range slices.Concat(op.refusals, impliedRefusals(op)) {
		row := a.refusalOf(code)
		if !slices.Contains(codes[row.Status], code) {
			codes[row.Status] = append(codes[row.Status], code)
		}
	}
	for _, status := range slices.Sorted(maps.Keys(codes)) {
		var meanings []string
		for _, code := range codes[status] {
			meanings = append(meanings, string(code)+": "+a.refusalOf(code).Meaning)
		}
		entry := object{
			"description": strings.Join(meanings, " "),
			"content":     object{"application/problem+json": object{"schema": problem}},
			"x-codes":     codes[status],
		}
		if status == http.StatusServiceUnavailable {
			entry["headers"] = object{"Retry-After": object{"description": "Seconds to wait.", "schema": &schema{Type: types{typeInteger}}}}
		}
		out[strconv.Itoa(status)] = entry
	}
	return out
}

func describeAnswer(out map[string]object, op *operation, one answer) {
	key := strconv.Itoa(one.status)
	entry := out[key]
	if entry == nil {
		entry = object{"description": one.description}
		out[key] = entry
	}
	if one.schema != nil {
		media := one.mediaType
		if media == "" {
			media = mediaJSON
		}
		content, _ := entry["content"].(object)
		if content == nil {
			content = object{}
			entry["content"] = content
		}
		described := one.schema
		if media == mediaLines {
			described = &schema{Type: types{typeString}, Description: "Lines, each as the schema " + strings.TrimPrefix(one.schema.Ref, "#/components/schemas/") + "."}
		}
		content[media] = object{"schema": described}
	}
	headers, _ := entry["headers"].(object)
	if headers == nil {
		headers = object{}
	}
	for _, h := range one.headers {
		headers[h.name] = object{"description": h.description, "schema": h.schema}
	}
	if op.tenancy != tenantNone {
		headers[tenantHeader] = object{"description": "The tenant that the answer belongs to.", "schema": &schema{Type: types{typeString}}}
	}
	if len(headers) > 0 {
		entry["headers"] = headers
	}
}

// impliedRefusals follow from an operation's form.
func impliedRefusals(op *operation) []webhook.Code {
	codes := []webhook.Code{webhook.CodeUnknownField, webhook.CodeInternal}
	if op.scope != "" {
		codes = append(codes, webhook.CodeUnauthorized, webhook.CodeForbidden, webhook.CodeOverloaded, webhook.CodeNotReady)
	}
	if op.tenancy == tenantOne || op.tenancy == tenantAcross {
		codes = append(codes, webhook.CodeTenantRequired, webhook.CodeNotFound)
	}
	if strings.Contains(op.path, "{") {
		codes = append(codes, webhook.CodeNotFound)
	}
	if len(op.params) > 0 || op.body != nil || op.method == http.MethodPut {
		codes = append(codes, webhook.CodeInvalidField)
	}
	if op.body != nil {
		codes = append(codes, webhook.CodeInvalidBody, webhook.CodeTooLarge, webhook.CodeUnsupportedType, codeRequestTimeout)
	}
	return codes
}
