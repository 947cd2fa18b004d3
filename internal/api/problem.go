package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// Codes that only HTTP can raise; they stand beside those of package webhook.
const (
	codeMethodNotAllowed webhook.Code = "method_not_allowed"
	codeRequestTimeout   webhook.Code = "request_timeout"
)

// retryAfter is what refused callers are asked to wait when we are overloaded or
// not ready.
const retryAfter = time.Second

// refusal is what a code means over HTTP.
type refusal struct {
	Code    webhook.Code
	Status  int
	Title   string
	Meaning string
}

// refusals is the one table of codes and statuses. Codes whose mechanism has no
// operation yet are in it too: the promise about them holds already.
func refusals() []refusal {
	return []refusal{
		{webhook.CodeInvalidBody, 400, "The body can't be read", "The body is no valid JSON: broken, cut off, not UTF-8, or a member stands in it twice."},
		{webhook.CodeTenantRequired, 400, "No tenant is named", "The key may act for several tenants; the header Posthorn-Tenant has to name one."},
		{webhook.CodeUnauthorized, 401, "The key is missing or not valid", "Send Authorization: Bearer KEY with a key that exists, has not been revoked and has not expired."},
		{webhook.CodePageTokenInvalid, 401, "The page token is not valid", "The token for reading a run's events is unknown or over its time."},
		{webhook.CodeForbidden, 403, "The key may not do this", "The key is valid but lacks the scope that the operation needs."},
		{webhook.CodeNotFound, 404, "There is no such thing", "The path, or what it names, does not exist for this tenant. What belongs to another tenant looks the same."},
		{codeMethodNotAllowed, 405, "The path does not take this method", "The header Allow lists the methods that it takes."},
		{codeRequestTimeout, 408, "The body came too slowly", "The body did not arrive within its time. Nothing was done."},
		{webhook.CodeConflict, 409, "It contradicts what is there", "The thing exists already, was changed meanwhile, or is in a state that does not allow this."},
		{webhook.CodeConflictID, 409, "The event ID is taken", "An event with this ID but with other content was accepted before, at first_accepted_at."},
		{webhook.CodeNotResendable, 409, "It can't be sent again", "The delivery's status does not allow sending it again."},
		{webhook.CodeEndpointOff, 409, "The endpoint is off", "The endpoint is paused or disabled."},
		{webhook.CodeGone, 410, "It is gone", "It existed but was deleted."},
		{webhook.CodeRunGone, 410, "The run is gone", "The run existed but was deleted."},
		{webhook.CodeTooLarge, 413, "The body is too large", "The body, or a part of it that has a limit of its own, is over its limit. See GET /v1/limits."},
		{webhook.CodeUnsupportedType, 415, "The body has a type that is not taken here", "Content-Type or Content-Encoding is missing or not one that the operation takes."},
		{webhook.CodeInvalidField, 422, "A field can't be taken", "errors lists each field with what was wrong and what is allowed."},
		{webhook.CodeUnknownField, 422, "A field is not known", "errors lists the fields, query parameters or headers that the operation does not know."},
		{webhook.CodeRateLimited, 429, "Too many requests", "Wait as long as Retry-After says."},
		{webhook.CodeQuota, 429, "The quota is used up", "The tenant's quota is used up."},
		{webhook.CodeInternal, 500, "Something went wrong here", "The fault is ours. Repeating the request is safe where the operation says so."},
		{webhook.CodeOverloaded, 503, "Too much to do", "Nothing was done, unless detail says otherwise. Repeat the request after Retry-After."},
		{webhook.CodeNotReady, 503, "Not ready", "The server is starting, stopping, or can't reach its store. Repeat after Retry-After."},
	}
}

// refusalOf finds a code's row. Codes outside the table are internal faults.
func (a *API) refusalOf(code webhook.Code) refusal {
	if row, ok := a.refusals[code]; ok {
		return row
	}
	return a.refusals[webhook.CodeInternal]
}

// wireProblem is the error document (RFC 9457).
type wireProblem struct {
	Type   string       `json:"type" doc:"A link to the code's explanation, relative to the server." example:"/docs#invalid_field"`
	Title  string       `json:"title" doc:"What the code means, the same for every problem of this code." example:"A field can't be taken"`
	Status int          `json:"status" doc:"The HTTP status." example:"422"`
	Detail string       `json:"detail" doc:"What was wrong this time." example:"One field of the request can't be taken."`
	Code   webhook.Code `json:"code" doc:"Stable name of the problem. More codes may come." example:"invalid_field"`
	Errors []wireFault  `json:"errors" doc:"The fields concerned, each with what is wrong with it. Values are never repeated here."`
	// FirstAcceptedAt stands only in conflict_id.
	FirstAcceptedAt *stamp `json:"first_accepted_at,omitempty" doc:"With conflict_id: when the event that has the ID was accepted." example:"2026-05-22T14:32:18.847Z"`
	// Checks stands only in the answer of /readyz.
	Checks map[string]string `json:"checks,omitempty" doc:"With not_ready from /readyz: each check, ok or failed."`
}

// wireFault is what is wrong with one field.
type wireFault struct {
	Pointer string       `json:"pointer" doc:"JSON pointer (RFC 6901) into the body, or the name of a query parameter or header." example:"/events/0"`
	Code    webhook.Code `json:"code" doc:"invalid_field, unknown_field, or the name of the limit that was passed." example:"invalid_field"`
	Detail  string       `json:"detail" doc:"What is wrong." example:"it does not have the form that is asked for"`
	Allowed string       `json:"allowed" doc:"What would be right." example:"a type such as link.created, a family such as link.*, or *"`
}

func wireFaults(fields []webhook.FieldFault) []wireFault {
	out := make([]wireFault, len(fields))
	for i, f := range fields {
		out[i] = wireFault{Pointer: f.Pointer, Code: f.Code, Detail: f.Detail, Allowed: f.Allowed}
	}
	return out
}

// problemOf turns any error into what the caller may see of it. Only internal
// ones are logged: the others are the caller's to read.
func (a *API) problemOf(ctx context.Context, op string, err error) wireProblem {
	p, ok := webhook.AsProblem(err)
	if !ok {
		p = storeProblem(err)
	}
	if p.Code == webhook.CodeInternal {
		a.cfg.Log.LogAttrs(ctx, slog.LevelError, "request failed", slog.String("operation", op), slog.Any("error", err))
	}
	row := a.refusalOf(p.Code)
	doc := wireProblem{
		Type: "/docs#" + string(row.Code), Title: row.Title, Status: row.Status, Detail: sentence(p.Detail), Code: row.Code,
		Errors: wireFaults(p.Fields), FirstAcceptedAt: firstAccepted(err),
	}
	if unready, ok := errors.AsType[*notReady](err); ok {
		doc.Checks = unready.checks
	}
	return doc
}

// sentence writes a detail as a sentence; where it is made, it may be a part of
// another text.
func sentence(detail string) string {
	if detail == "" {
		return detail
	}
	first, size := utf8.DecodeRuneInString(detail)
	out := string(unicode.ToUpper(first)) + detail[size:]
	if !strings.HasSuffix(out, ".") {
		out += "."
	}
	return out
}

// storeProblem gives the store's errors their codes.
func storeProblem(err error) *webhook.Problem {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return webhook.NewProblem(webhook.CodeNotFound, "There is nothing here for this tenant.") // no path named it
	case errors.Is(err, store.ErrExists):
		return webhook.NewProblem(webhook.CodeConflict, "The ID is taken.")
	case errors.Is(err, store.ErrNotEmpty):
		return webhook.NewProblem(webhook.CodeConflict, "The tenant still has endpoints. Delete them first.")
	case errors.Is(err, store.ErrOverloaded), errors.Is(err, context.DeadlineExceeded):
		return webhook.NewProblem(webhook.CodeOverloaded, "There is more to do than the server can take now. Nothing was changed.")
	case errors.Is(err, store.ErrStale):
		return webhook.NewProblem(webhook.CodeOverloaded, "It was being changed by others at the same time. Nothing was changed.")
	case errors.Is(err, store.ErrUnknown):
		return webhook.NewProblem(webhook.CodeOverloaded, "The connection to the store broke while the change was being written: it may stand or not. Repeating the request is safe for events with an ID.")
	case errors.Is(err, store.ErrClosed), errors.Is(err, context.Canceled):
		return webhook.NewProblem(webhook.CodeNotReady, "The server is stopping, or has lost its store.")
	default:
		return webhook.NewProblem(webhook.CodeInternal, "The fault is ours, and was logged.")
	}
}

// refuse answers with a problem document.
func (a *API) refuse(w http.ResponseWriter, doc wireProblem) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	switch doc.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="posthorn"`)
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		h.Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
	}
	writeJSON(w, doc.Status, doc)
}

// panicked answers for a handler that panicked. Of the panic's value only a
// runtime error's text is logged: other values may hold what a caller sent (B81).
func (a *API) panicked(w http.ResponseWriter, r *http.Request, cause any) {
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(cause)
	}
	what := "not shown"
	if err, ok := cause.(runtime.Error); ok {
		what = err.Error()
	}
	a.cfg.Log.LogAttrs(r.Context(), slog.LevelError, "request panicked", slog.String("panic", what), slog.String("stack", string(debug.Stack())))
	a.refuse(w, a.problemOf(r.Context(), "", webhook.NewProblem(webhook.CodeInternal, "The fault is ours, and was logged.")))
}
