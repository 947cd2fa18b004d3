package webhook

import (
	"slices"
	"strconv"
	"strings"
)

// Limits of an endpoint's own headers.
const (
	MaxHeaders = 32
	// MaxHeaderBytes bounds all names and values together.
	MaxHeaderBytes = 8 << 10
)

// HeaderReason says which rule a header breaks.
type HeaderReason string

// The closed list of reasons.
const (
	HeaderName      HeaderReason = "name"      // no HTTP token
	HeaderProtected HeaderReason = "protected" // the request's own, or the contract's
	HeaderRepeated  HeaderReason = "repeated"  // a name that stood before, in any case
	HeaderValue     HeaderReason = "value"     // empty, or more than printable ASCII
	HeadersTooMany  HeaderReason = "too_many"  // over MaxHeaders
	HeadersTooLarge HeaderReason = "too_large" // over MaxHeaderBytes
)

// AllHeaders is the Index of a fault that concerns the headers as a whole.
const AllHeaders = -1

// HeaderFault tells what is wrong with one header, or with all. Its texts hold
// neither name nor value.
type HeaderFault struct {
	// Index of the header in the list, or AllHeaders.
	Index   int
	Reason  HeaderReason
	Detail  string
	Allowed string
}

// ValidateHeaders reports every fault of an endpoint's own headers, nil if there
// is none (B84). reserved are the names that the contract sets.
//
// Names are HTTP tokens, each once in any case; values are printable ASCII with
// spaces and tabs inside (RFC 9110, section 5). Names that frame the request or
// that the platform speaks for itself are refused. User-Agent is the endpoint's
// to choose.
func ValidateHeaders(headers []Header, reserved []string) []HeaderFault {
	var faults []HeaderFault
	if len(headers) > MaxHeaders {
		faults = append(faults, HeaderFault{AllHeaders, HeadersTooMany, "there are too many headers", "at most " + strconv.Itoa(MaxHeaders)})
	}
	size := 0
	seen := make(map[string]bool, len(headers))
	for i, h := range headers {
		name, value := strings.ToLower(h.Name), h.Value.Reveal()
		size += len(name) + len(value)
		if f, bad := checkHeaderName(h.Name, reserved); bad {
			f.Index = i
			faults = append(faults, f)
		}
		if seen[name] {
			faults = append(faults, HeaderFault{i, HeaderRepeated, "a header of this name stands before it", "each name once; upper and lower case are the same"})
		}
		seen[name] = true
		if !validHeaderValue(value) {
			faults = append(faults, HeaderFault{i, HeaderValue, "its value is empty or holds something else than printable ASCII", "printable ASCII, with spaces and tabs inside but no line breaks"})
		}
	}
	if size > MaxHeaderBytes {
		faults = append(faults, HeaderFault{AllHeaders, HeadersTooLarge, "names and values are too long together", "at most " + strconv.Itoa(MaxHeaderBytes) + " bytes"})
	}
	return faults
}

// checkHeaderName judges the name as given: lower-casing first would turn some
// letters outside ASCII, such as the Kelvin sign, into tokens.
func checkHeaderName(name string, reserved []string) (HeaderFault, bool) {
	if !isToken(name) {
		return HeaderFault{Reason: HeaderName, Detail: "its name is no HTTP header name", Allowed: "letters, digits and any of !#$%&'*+-.^_`|~"}, true
	}
	if protectedHeader(strings.ToLower(name)) || slices.ContainsFunc(reserved, func(r string) bool { return strings.EqualFold(r, name) }) {
		return HeaderFault{Reason: HeaderProtected, Detail: "a header of this name is set by the platform", Allowed: "any name that neither HTTP framing nor the contract uses"}, true
	}
	return HeaderFault{}, false
}

// protectedHeader tells whether the name, in lower case, decides how the request
// is framed, routed or verified.
func protectedHeader(name string) bool {
	switch name {
	case "host", "content-length", "transfer-encoding", "content-type", "content-encoding", "connection",
		"keep-alive", "upgrade", "http2-settings", "te", "trailer", "expect":
		return true
	}
	return strings.HasPrefix(name, "proxy-") || strings.HasPrefix(name, "webhook-")
}

// isToken tells whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && !isDigit(c) && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

func validHeaderValue(v string) bool {
	if v == "" || strings.Trim(v, " \t") != v {
		return false
	}
	for i := range len(v) {
		if c := v[i]; c != '\t' && (c < ' ' || c > '~') {
			return false
		}
	}
	return true
}
