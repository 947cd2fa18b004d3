package client

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ErrorCode names what went wrong; codes are part of the API's promise. An
// ErrorCode is itself an error that [*Error] wraps:
// errors.Is(err, client.CodeNotFound) works.
type ErrorCode string

// The codes. A server may know more.
const (
	CodeInvalidBody      ErrorCode = "invalid_body"
	CodeInvalidField     ErrorCode = "invalid_field"
	CodeUnknownField     ErrorCode = "unknown_field"
	CodeTenantRequired   ErrorCode = "tenant_required"
	CodeUnauthorized     ErrorCode = "unauthorized"
	CodeForbidden        ErrorCode = "forbidden"
	CodeNotFound         ErrorCode = "not_found"
	CodeConflict         ErrorCode = "conflict"
	CodeConflictID       ErrorCode = "conflict_id"
	CodeNotResendable    ErrorCode = "not_resendable"
	CodeEndpointOff      ErrorCode = "endpoint_off"
	CodeGone             ErrorCode = "gone"
	CodeRunGone          ErrorCode = "run_gone"
	CodeTooLarge         ErrorCode = "too_large"
	CodeUnsupportedType  ErrorCode = "unsupported_type"
	CodeRateLimited      ErrorCode = "rate_limited"
	CodeQuota            ErrorCode = "quota"
	CodePageTokenInvalid ErrorCode = "page_token_invalid"
	CodeOverloaded       ErrorCode = "overloaded"
	CodeNotReady         ErrorCode = "not_ready"
	CodeInternal         ErrorCode = "internal"
)

// Error implements error.
func (c ErrorCode) Error() string { return strings.ReplaceAll(string(c), "_", " ") }

// Error is a refusal by the server, read from its problem document (RFC 9457).
type Error struct {
	Type   string    `json:"type"`
	Title  string    `json:"title"`
	Status int       `json:"status"` // the HTTP status
	Detail string    `json:"detail"`
	Code   ErrorCode `json:"code"` // "" if the answer was no problem document
	// Fields says what is wrong with single fields.
	Fields []FieldError `json:"errors"`
	// FirstAcceptedAt tells with CodeConflictID when the ID was used before.
	FirstAcceptedAt time.Time `json:"first_accepted_at"`
	// RetryAfter is the header of that name in seconds; 0 when there was none.
	RetryAfter time.Duration `json:"-"`
}

// FieldError is what is wrong with one field. It never holds the value.
type FieldError struct {
	// Pointer is an RFC 6901 JSON pointer into the body, or the name of a query
	// parameter or header.
	Pointer string    `json:"pointer"`
	Code    ErrorCode `json:"code"`
	Detail  string    `json:"detail"`
	// Allowed says what would be right.
	Allowed string `json:"allowed"`
}

// Error implements error: the detail and each field on one line.
func (e *Error) Error() string {
	text := e.Detail
	if text == "" {
		text = e.Title
	}
	if text == "" {
		text = http.StatusText(e.Status)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%d", text, e.Status)
	if e.Code != "" {
		fmt.Fprintf(&b, " %s", string(e.Code))
	}
	b.WriteByte(')')
	for _, f := range e.Fields {
		fmt.Fprintf(&b, "; %s: %s", f.Pointer, f.Detail)
	}
	return b.String()
}

// Unwrap returns the code.
func (e *Error) Unwrap() error {
	if e.Code == "" {
		return nil
	}
	return e.Code
}

// readError makes an Error of any answer that is no success. What is no problem
// document (a proxy's page, say) is not quoted: it may be long and in HTML.
func (c *Client) readError(resp *http.Response, body []byte) *Error {
	e := &Error{}
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	isJSON := mediaType == "application/problem+json" || mediaType == "application/json"
	if !isJSON || json.Unmarshal(body, e) != nil {
		*e = Error{Detail: "the answer is no problem document: is " + c.base() + " a Posthorn server?"}
	}
	e.Status = resp.StatusCode
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}
