package signature

// Reason says why a request was refused. The set is closed, so that reasons
// can be counted. A Reason is itself the error that [VerifyError] wraps:
// errors.Is(err, ReasonTooOld) works, and so does errors.As.
type Reason string

// The reasons.
const (
	// ReasonBadScheme: the scheme does not pass [Scheme.Validate].
	ReasonBadScheme Reason = "bad_scheme"
	// ReasonNoKey: the receiver has no key of an algorithm that the scheme uses.
	ReasonNoKey Reason = "no_key"
	// ReasonMissingHeader: a header that the signature needs is absent or empty.
	ReasonMissingHeader Reason = "missing_header"
	// ReasonRepeatedHeader: the header occurs more than once (rule R3).
	ReasonRepeatedHeader Reason = "repeated_header"
	// ReasonTooLarge: the header is longer, or holds more signatures, than is read.
	ReasonTooLarge Reason = "too_large"
	// ReasonMalformedID: the ID holds the character that ends it in the signed text.
	ReasonMalformedID Reason = "malformed_id"
	// ReasonMalformedTimestamp: the timestamp is not 1 to 12 digits, or not given once.
	ReasonMalformedTimestamp Reason = "malformed_timestamp"
	// ReasonNoSignature: nothing in the header is a signature that could match.
	ReasonNoSignature Reason = "no_signature"
	// ReasonTooOld: the timestamp is older than the tolerance.
	ReasonTooOld Reason = "too_old"
	// ReasonTooNew: the timestamp is further in the future than the tolerance.
	ReasonTooNew Reason = "too_new"
	// ReasonNoMatch: no signature was made over these bytes with one of the keys.
	ReasonNoMatch Reason = "no_match"
)

// Error returns a fixed text for the reason, fit to be shown to anyone: what
// was computed or received, and the secrets, are no part of it (fault B93).
func (r Reason) Error() string {
	switch r {
	case ReasonBadScheme:
		return "the signature scheme is not valid"
	case ReasonNoKey:
		return "no signing secret is configured that this scheme can use"
	case ReasonMissingHeader:
		return "the header is missing or empty"
	case ReasonRepeatedHeader:
		return "the header is there more than once"
	case ReasonTooLarge:
		return "the header is too long or holds too many signatures"
	case ReasonMalformedID:
		return "the ID contains a character that would make the signed text ambiguous"
	case ReasonMalformedTimestamp:
		return "the timestamp must be there once, as 1 to 12 digits (Unix seconds)"
	case ReasonNoSignature:
		return "the header holds no well-formed signature of a known version"
	case ReasonTooOld:
		return "the timestamp is too old"
	case ReasonTooNew:
		return "the timestamp is too far in the future"
	case ReasonNoMatch:
		return "no signature matches: the secret is another one, or the body, ID or timestamp was changed"
	default:
		return "the signature was refused"
	}
}

// VerifyError is what [Scheme.Verify] returns: the reason and, where there is
// one, the name of the header that is at fault.
type VerifyError struct {
	Reason Reason
	Header string
}

// Error returns the header's name and the reason's fixed text.
func (e *VerifyError) Error() string {
	if e.Header == "" {
		return e.Reason.Error()
	}
	return e.Header + ": " + e.Reason.Error()
}

// Unwrap returns the reason.
func (e *VerifyError) Unwrap() error { return e.Reason }
