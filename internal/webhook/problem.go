package webhook

import (
	"errors"
	"strings"
)

// Code is a stable name for what went wrong, part of the API's promise.
type Code string

// The codes that requests can meet; the HTTP edge gives each its status.
const (
	CodeInvalidBody      Code = "invalid_body"
	CodeInvalidField     Code = "invalid_field"
	CodeUnknownField     Code = "unknown_field"
	CodeTenantRequired   Code = "tenant_required"
	CodeUnauthorized     Code = "unauthorized"
	CodeForbidden        Code = "forbidden"
	CodeNotFound         Code = "not_found"
	CodeConflict         Code = "conflict"
	CodeConflictID       Code = "conflict_id"
	CodeNotResendable    Code = "not_resendable"
	CodeEndpointOff      Code = "endpoint_off"
	CodeGone             Code = "gone"
	CodeRunGone          Code = "run_gone"
	CodeTooLarge         Code = "too_large"
	CodeUnsupportedType  Code = "unsupported_type"
	CodeRateLimited      Code = "rate_limited"
	CodeQuota            Code = "quota"
	CodePageTokenInvalid Code = "page_token_invalid"
	CodeOverloaded       Code = "overloaded"
	CodeNotReady         Code = "not_ready"
	CodeInternal         Code = "internal"
)

// FieldFault is what is wrong with one field of a request. It never holds the
// offending value.
type FieldFault struct {
	// Pointer is an RFC 6901 JSON pointer into the body, or the name of a query
	// parameter or header.
	Pointer string
	// Code is CodeInvalidField, CodeUnknownField, or the name of a limit.
	Code Code
	// Detail says what was wrong; Allowed what would be right, may be "".
	Detail  string
	Allowed string
}

// Problem is an error that a caller may see: a code, a text that is kind and
// precise, and the fields concerned. Whatever is no Problem is internal and
// shown as such, without its text.
type Problem struct {
	Code   Code
	Detail string
	Fields []FieldFault
}

// NewProblem makes a problem without fields.
func NewProblem(code Code, detail string) *Problem { return &Problem{Code: code, Detail: detail} }

// InvalidField makes a problem about one field.
func InvalidField(pointer, detail, allowed string) *Problem {
	return &Problem{
		Code:   CodeInvalidField,
		Detail: detail,
		Fields: []FieldFault{{Pointer: pointer, Code: CodeInvalidField, Detail: detail, Allowed: allowed}},
	}
}

// Error implements error.
func (p *Problem) Error() string {
	if len(p.Fields) == 0 {
		return p.Detail
	}
	parts := make([]string, len(p.Fields))
	for i, f := range p.Fields {
		parts[i] = f.Pointer + ": " + f.Detail
	}
	return strings.Join(parts, "; ")
}

// AsProblem finds a Problem in err's chain.
func AsProblem(err error) (*Problem, bool) {
	var p *Problem
	ok := errors.As(err, &p)
	return p, ok
}
