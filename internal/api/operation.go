package api

import (
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// tenancy says where an operation takes its tenant from.
type tenancy int

const (
	// tenantNone: the operation belongs to no tenant.
	tenantNone tenancy = iota
	// tenantOne: the key's, or the one that Posthorn-Tenant names.
	tenantOne
	// tenantAcross: as tenantOne, and an operator may read all of them with *.
	tenantAcross
	// tenantPath: {id} in the path, for operators.
	tenantPath
)

// operation is one row of the table.
type operation struct {
	// id is the operation's stable name (operationId).
	id     string
	method string
	path   string
	tag    string
	// summary is a line, description may have several sentences.
	summary     string
	description string
	// scope that the key needs; "" needs no key at all. A receiver's page token may
	// stand in the place of the key where pageToken is set.
	scope     webhook.Scope
	pageToken bool
	tenancy   tenancy
	// params are the query parameters and headers; those of the path follow from
	// path and are described in pathParam.
	params []param
	// list marks operations that answer with a page and take the list parameters.
	list bool
	body *body
	// answers are the successes; refusals the codes beyond those that follow from
	// the other fields.
	answers  []answer
	refusals []webhook.Code
	handle   func(*call) (reply, error)
	// handler answers in place of handle, once the request was let in.
	handler http.Handler
}

// param is a query parameter or a header.
type param struct {
	name   string
	in     string // "query" or "header"
	schema *schema
	// many takes several values, separated by commas.
	many        bool
	description string
	example     string
}

// body is what an operation takes as its request's body.
type body struct {
	// schema of the JSON document.
	schema *schema
	// types are the media types that are taken; the first is the usual one.
	types []string
	// limit in bytes, timeout for the arrival of the whole.
	limit   int64
	timeout time.Duration
	// bound, if set, gives a request's limit and the refusal of what is over it.
	bound func(*http.Request) (limit int64, refusal error)
	// optional is true when {}, and so no body at all, is a right one.
	optional bool
	example  any
	// lines describes a line of an NDJSON body, for the document only.
	lines *schema
}

// answer is a success that an operation can have.
type answer struct {
	status      int
	description string
	schema      *schema // nil for no body
	// mediaType, if it is not application/json.
	mediaType string
	headers   []answerHeader
	example   any
}

type answerHeader struct {
	name        string
	description string
	schema      *schema
}

// reply is what a handler answers with.
type reply struct {
	status int
	// value is written as JSON; raw is written as it is, of the type mediaType, and
	// so is what stream writes after the head.
	value     any
	raw       []byte
	stream    func(io.Writer) error
	mediaType string
	header    http.Header
}

// Limits of control plane bodies. The largest one that is right (50 patterns,
// 32 headers, 50 entries of metadata) has less than 64 KiB.
const (
	controlBodyLimit   = 256 << 10
	controlBodyTimeout = 15 * time.Second
)

// bodyOf makes the body of an operation out of the Go type that it is decoded
// into.
func (g *registry) bodyOf(t reflect.Type, example any) *body {
	s := g.request(t)
	return &body{
		schema: s, types: []string{"application/json"}, limit: controlBodyLimit, timeout: controlBodyTimeout,
		optional: len(s.deref().Required) == 0, example: example,
	}
}

// emptyBody is that of operations that take nothing: absent, or {}.
func (g *registry) emptyBody() *body { return g.bodyOf(reflect.TypeFor[wireNothing](), nil) }

// wireNothing is the body of operations that take no fields.
type wireNothing struct{}

// operations is the table, in the order of the document.
func (a *API) operations() []*operation {
	var all []*operation
	for _, of := range []func() []*operation{
		a.eventOperations, a.endpointOperations, a.endpointSwitches, a.testOperations, a.jwksOperations, a.filterOperations, a.deliveryOperations, a.replayOperations, a.runOperations,
		a.contractOperations, a.tenantOperations, a.keyOperations, a.auditOperations, a.serverOperations,
	} {
		all = append(all, of()...)
	}
	for _, op := range all {
		op.nameMissing()
	}
	return all
}

// nameMissing makes the handler say which kind of thing is not there. The answer
// is the same for what is missing and for what belongs to another tenant.
func (op *operation) nameMissing() {
	detail, handle := op.missing(), op.handle
	if detail == "" || handle == nil {
		return
	}
	op.handle = func(c *call) (reply, error) {
		answer, err := handle(c)
		if errors.Is(err, store.ErrNotFound) {
			err = webhook.NewProblem(webhook.CodeNotFound, detail)
		}
		return answer, err
	}
}

// missing says that what the last {…} of the path names is not there; "" for a
// path without one.
func (op *operation) missing() string {
	named := strings.LastIndex(op.path, "/{")
	if named < 0 {
		return ""
	}
	switch collection := op.path[:named]; collection {
	case "/v1/tenants":
		return "There is no tenant of this ID for this key."
	case "/jwks/{tenant}":
		return "There is no endpoint of this ID for this tenant."
	case "/v1/contracts":
		return "There is no contract of this name."
	default:
		noun := map[string]string{
			"/v1/events": "event", "/v1/endpoints": "endpoint", "/v1/deliveries": "delivery", "/v1/tenants/{id}/keys": "key",
			"/v1/endpoints/{id}/events": "event", "/v1/replays": "replay", "/v1/runs": "run", "/v1/projects": "project",
		}[collection]
		return "There is no " + noun + " of this ID for this tenant."
	}
}

// tags are the groups of operations, in the order of the page.
func tags() [][2]string {
	return [][2]string{
		{"events", "An event is one fact that you publish. It becomes one delivery for each endpoint that asked for its type."},
		{"endpoints", "An endpoint is a URL that events are delivered to, with the patterns that choose them, its secrets and its contract. The same routes answer below /v1/webhooks and /api/public/v1/webhooks."},
		{"deliveries", "A delivery is one event for one endpoint: its schedule, its attempts, and how it ended."},
		{"replays", "A replay sends what an endpoint got, or should have got, again: a job that can be previewed, followed and canceled, and that goes on after a restart."},
		{"runs", "A run is a batch of events that is delivered as one thin notice; its receiver fetches the events page by page."},
		{"contracts", "A contract says how deliveries are made: schedule, headers, signature, what each answer means."},
		{"tenants", "A tenant owns endpoints, events and keys. These operations need an operator's key."},
		{"server", "The server itself."},
	}
}
