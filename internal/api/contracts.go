package api

import (
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Media types of contracts. The first one is what answers bear.
const (
	mediaYAML      = "application/yaml"
	mediaYAMLOld   = "application/x-yaml"
	mediaYAMLPlain = "text/yaml"
)

// readOnly are the members that an answer has beside those of the contract itself.
// They are taken back without a look, so that what was read can be put.
func readOnly() []string { return []string{"revision", "builtin", "created_at"} }

func (a *API) contractOperations() []*operation {
	one := a.schemas.contract()
	name := func(op *operation) *operation {
		op.tag, op.path = "contracts", "/v1/contracts/{name}"+op.path
		return op
	}
	answers := func(status int, text string) []answer {
		return []answer{
			{status: status, description: text, schema: one},
			{status: status, schema: &schema{Type: types{typeString}, Description: "The contract's file."}, mediaType: mediaYAML},
		}
	}
	adopt := param{
		name: "under_way", in: "query", schema: &schema{Type: types{typeString}, Enum: []string{"keep", "adopt"}, Default: "keep"},
		description: "What becomes of deliveries that were promised under an earlier revision and have not ended: they keep that promise, or go on under the new one.",
	}
	return []*operation{
		{
			id: "listContracts", method: http.MethodGet, path: "/v1/contracts", tag: "contracts", scope: webhook.ScopeRead,
			summary: "List contracts", handle: a.listContracts,
			answers: []answer{{status: 200, description: "All contracts.", schema: a.schemas.listOf(one, "ContractList")}},
		},
		name(&operation{
			id: "getContract", method: http.MethodGet, scope: webhook.ScopeRead, summary: "Read a contract", handle: a.getContract,
			description: "As JSON, or with Accept: application/yaml as the file that it was made of.",
			answers:     answers(200, "The contract."),
		}),
		name(&operation{
			id: "putContract", method: http.MethodPut, scope: webhook.ScopeOperator, summary: "Store a contract", handle: a.putContract,
			description: "YAML or JSON, the whole contract; the name in it is that of the path. Storing another wording makes a revision: new deliveries follow it, those under way keep what they were promised unless asked otherwise. " +
				"Storing the present one again changes nothing. Contracts that come with the server can't be changed, and none to a wording under which the secrets of an endpoint that follows it can't sign.",
			params: []param{adopt}, refusals: []webhook.Code{webhook.CodeConflict},
			body: &body{
				types: []string{mediaYAML, mediaYAMLOld, mediaYAMLPlain, mediaJSON}, limit: controlBodyLimit, timeout: controlBodyTimeout, bound: boundContract, lines: one,
			},
			answers: append(answers(200, "The contract, as it stands now."), answers(201, "The contract; there was none of this name before.")...),
		}),
		name(&operation{
			id: "deleteContract", method: http.MethodDelete, scope: webhook.ScopeOperator, summary: "Delete a contract", handle: a.deleteContract,
			description: "Only one that no endpoint follows and that is no tenant's default. Deliveries under way keep what they were promised.",
			refusals:    []webhook.Code{webhook.CodeConflict},
			answers:     []answer{{status: 204, description: "The contract is deleted."}},
		}),
		a.revisionOperation(),
		a.simulateOperation(),
	}
}

func (a *API) listContracts(c *call) (reply, error) {
	var all store.Listed[Contract]
	for _, name := range a.cfg.Contracts.Names() {
		if found, ok := a.cfg.Contracts.Lookup(name); ok {
			all.Items = append(all.Items, found)
		}
	}
	return pageOf(a, c, all, showContract), nil
}

func (a *API) getContract(c *call) (reply, error) {
	found, ok := a.cfg.Contracts.Lookup(c.r.PathValue("name"))
	if !ok {
		return reply{}, store.ErrNotFound
	}
	return contractReply(c, http.StatusOK, found), nil
}

func contractReply(c *call, status int, found Contract) reply {
	if prefersYAML(c.r.Header.Get("Accept")) {
		return reply{status: status, raw: []byte(textOf(found)), mediaType: mediaYAML}
	}
	return reply{status: status, value: showContract(found)}
}

// prefersYAML tells whether a header Accept asks for YAML. Whoever names both gets
// what stands first.
func prefersYAML(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		media, _, err := mime.ParseMediaType(part)
		switch {
		case err != nil:
		case media == mediaJSON || media == "application/*" || media == "*/*":
			return false
		case media == mediaYAML || media == mediaYAMLOld || media == mediaYAMLPlain:
			return true
		}
	}
	return false
}

// textOf is a contract's file.
func textOf(found Contract) string {
	if found.Text != "" {
		return found.Text
	}
	if text, ok := contract.BuiltinYAML(found.Contract.Name); ok && found.Builtin {
		return string(text)
	}
	return string(found.Contract.Canonical())
}

func (a *API) putContract(c *call) (reply, error) {
	name := c.r.PathValue("name")
	if _, ok := contract.BuiltinYAML(name); ok {
		return reply{}, errBuiltin()
	}
	r, parsed, err := a.readContract(c, name)
	if err != nil {
		return reply{}, err
	}
	if err := a.checkFollowers(c, parsed); err != nil {
		return reply{}, err
	}
	_, had := a.cfg.Contracts.Lookup(name)
	if _, err := a.cfg.Store.PutContract(c.r.Context(), r, c.query.Get("under_way") == "adopt"); err != nil {
		return reply{}, err
	}
	// Another request may have changed or deleted it meanwhile: the answer is what
	// stands now, or else what was stored.
	stored, ok := a.cfg.Contracts.Lookup(name)
	if !ok || stored.Revision != r.Revision {
		stored = Contract{Contract: parsed, Revision: r.Revision, Text: r.Text, CreatedAt: r.CreatedAt}
	}
	status := http.StatusCreated
	if had {
		status = http.StatusOK
	}
	return contractReply(c, status, stored), nil
}

func boundContract(*http.Request) (int64, error) {
	return controlBodyLimit, errTooLarge(controlBodyLimit, limitContract)
}

func errBuiltin() error {
	return webhook.NewProblem(webhook.CodeConflict, "contracts that come with the server can't be changed; store yours under a name of its own")
}

// readContract makes a revision of the body.
func (a *API) readContract(c *call, name string) (r store.ContractRevision, parsed *contract.Contract, err error) {
	text := c.body
	isJSON := strings.HasPrefix(strings.TrimSpace(c.r.Header.Get("Content-Type")), mediaJSON)
	if isJSON {
		if text, err = jsonContract(text); err != nil {
			return r, nil, err
		}
	}
	if parsed, err = contract.Parse(text); err != nil {
		return r, nil, contractProblem(err, "")
	}
	if parsed.Name != name {
		return r, nil, webhook.InvalidField("/name", "it is not the name in the path", "the name in the path, or the path of this name")
	}
	if isJSON {
		text = parsed.Canonical() // what is kept is YAML
	}
	r = store.ContractRevision{Name: name, Revision: parsed.Revision(), Text: string(text), Current: true, CreatedAt: c.now}
	return r, parsed, nil
}

// jsonContract checks a JSON document and makes YAML of it, of which it nearly is a
// part: all but tabs between the members, and characters written as two escapes.
// Lines stay where they are.
func jsonContract(text []byte) ([]byte, error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, syntaxProblem(err)
	}
	given := len(members)
	for _, name := range readOnly() {
		delete(members, name)
	}
	if len(members) < given || strings.Contains(string(text), `\u`) {
		// Written anew: faults are found by their path then, on line 1.
		return json.Marshal(members, json.Deterministic(true))
	}
	return []byte(strings.ReplaceAll(string(text), "\t", " ")), nil
}

// mostFaults bounds the faults of a file in one answer, the first ones.
const mostFaults = 100

// contractProblem shows what is wrong with a contract's file. below is the pointer
// of the file within the body.
func contractProblem(err error, below string) error {
	invalid, ok := errors.AsType[*contract.InvalidError](err)
	if !ok {
		return err
	}
	shown := invalid.Faults[:min(len(invalid.Faults), mostFaults)]
	found := make([]webhook.FieldFault, len(shown))
	for i, f := range shown {
		found[i] = webhook.FieldFault{
			Pointer: below + pointerOfPath(f.Path), Code: webhook.CodeInvalidField, Detail: "line " + strconv.Itoa(f.Line) + ": " + f.Text,
			Allowed: "what the schema Contract of /openapi.json describes; posthorn contract check explains a file",
		}
	}
	detail := "The contract can't be taken: one fault."
	if all := len(invalid.Faults); all > 1 {
		detail = "The contract can't be taken: " + strconv.Itoa(all) + " faults."
	}
	return &webhook.Problem{Code: webhook.CodeInvalidField, Detail: detail, Fields: found}
}

// pointerOfPath writes a path such as schedule.waits[2] as a JSON pointer. Where it
// would hold a name of the caller's that is too long, it points to what is around.
func pointerOfPath(path string) string {
	pointer := ""
	for step := range strings.SplitSeq(strings.NewReplacer("[", ".", "]", "").Replace(path), ".") {
		if step != "" {
			pointer = pointerTo(pointer, step)
		}
	}
	return pointer
}

func (a *API) deleteContract(c *call) (reply, error) {
	name := c.r.PathValue("name")
	found, ok := a.cfg.Contracts.Lookup(name)
	switch {
	case !ok:
		return reply{}, store.ErrNotFound
	case found.Builtin:
		return reply{}, errBuiltin()
	case name == a.cfg.DefaultContract:
		return reply{}, webhook.NewProblem(webhook.CodeConflict, "the contract is the server's default: endpoints of tenants that name none follow it")
	}
	err := a.cfg.Store.DeleteContract(c.r.Context(), name, c.now)
	if errors.Is(err, store.ErrNotEmpty) {
		return reply{}, webhook.NewProblem(webhook.CodeConflict, "the contract is in use: an endpoint follows it, or it is a tenant's default; give those another one first")
	}
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusNoContent}, nil
}
