package webhook

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// MaxURLLength bounds an endpoint's URL, in bytes, as given and as stored.
const MaxURLLength = 2048

// Limits of host names (RFC 1035, section 2.3.4).
const (
	maxHostLength  = 253
	maxLabelLength = 63
)

// URLReason says which rule a text breaks that should have been a URL.
type URLReason string

// The closed list of reasons.
const (
	URLMissing     URLReason = "missing"      // the text is empty
	URLTooLong     URLReason = "too_long"     // over MaxURLLength
	URLCharacter   URLReason = "character"    // a byte that no URL can hold
	URLScheme      URLReason = "scheme"       // none, or one that may not be used
	URLCredentials URLReason = "credentials"  // user:password@
	URLHost        URLReason = "host"         // none, or no host name
	URLTrailingDot URLReason = "trailing_dot" // host.
	URLAddress     URLReason = "address"      // an IP address in an odd form
	URLPort        URLReason = "port"         // not 1 to 65535
	URLEscape      URLReason = "escape"       // a % without two hex digits in the path
)

// URLError tells what is wrong with a URL. Neither text holds any part of it, for
// URLs bear credentials (B81).
type URLError struct {
	Reason URLReason
	// Detail says what was wrong, Allowed what would be right.
	Detail  string
	Allowed string
}

// Error implements error.
func (e *URLError) Error() string { return "url: " + e.Detail }

// ParseEndpointURL checks raw and returns the one form in which it is stored,
// compared and sent; parsing that form again gives the same. The error is always
// a *URLError. schemes are those of the contract; allowPlainLoopback also takes
// http for localhost and loopback addresses (P1, --dev).
//
// Made uniform: scheme and host in lower case, the scheme's own port and the
// fragment dropped, an empty path is "/", international names in their ASCII form
// (IDNA for look-ups, non-transitional, strict: letters, digits and hyphens),
// IPv6 as in RFC 5952. Path and query stay byte for byte (B76).
//
// Refused, where a lenient reading would be possible:
//   - user:password@ — it would end up in logs; a header does the same (B81);
//   - a dot at the end of the host: the same server under a second name (B80);
//   - addresses in any form but four decimal numbers or brackets: 127.1, 0x7f.1,
//     2130706433, leading zeros, fullwidth digits, ::ffff:1.2.3.4, zones
//     (B15, B17). A host whose last label is a number is an address;
//   - spaces, control characters and backslashes anywhere, non-ASCII in path or
//     query, a stray % in the path (B78).
//
// Whether a host may be called is not asked here: localhost and private
// addresses pass, and the guard judges every address when it is dialled (R12).
func ParseEndpointURL(raw string, schemes []string, allowPlainLoopback bool) (string, error) {
	if err := checkURLText(raw); err != nil {
		return "", err
	}
	scheme, rest, found := strings.Cut(raw, "://")
	scheme = strings.ToLower(scheme)
	if !found || scheme != "https" && scheme != "http" {
		return "", schemeError(schemes)
	}
	rest, _, _ = strings.Cut(rest, "#")
	authority, target := rest, "/"
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		authority, target = rest[:end], rest[end:]
	}
	host, port, err := parseAuthority(authority, scheme)
	if err != nil {
		return "", err
	}
	if !slices.Contains(schemes, scheme) && (!allowPlainLoopback || !loopbackHost(host)) {
		return "", schemeError(schemes)
	}
	if target[0] == '?' {
		target = "/" + target
	}
	if err := checkTarget(target); err != nil {
		return "", err
	}
	canonical := scheme + "://" + host + port + target
	if len(canonical) > MaxURLLength {
		return "", errURLTooLong()
	}
	return canonical, nil
}

func schemeError(schemes []string) error {
	starts := make([]string, len(schemes))
	for i, s := range schemes {
		starts[i] = s + "://"
	}
	allowed := "a URL that begins with " + strings.Join(starts, " or ")
	return &URLError{URLScheme, "its scheme is missing or can't be used here", allowed}
}

func errURLTooLong() error {
	return &URLError{URLTooLong, "it is too long", "at most " + strconv.Itoa(MaxURLLength) + " bytes"}
}

// checkURLText refuses what can stand nowhere in a URL.
func checkURLText(raw string) error {
	if raw == "" {
		return &URLError{URLMissing, "it is empty", "a URL such as https://example.com/webhooks"}
	}
	if len(raw) > MaxURLLength {
		return errURLTooLong()
	}
	if !utf8.ValidString(raw) {
		return &URLError{URLCharacter, "it is not valid UTF-8", "ASCII; the host may hold letters of any script"}
	}
	for _, r := range raw {
		if unicode.IsSpace(r) || unicode.IsControl(r) {
			return &URLError{URLCharacter, "it holds a space or a control character", "a URL without spaces; a space in path or query is written %20"}
		}
		if r == '\\' {
			return &URLError{URLCharacter, "it holds a backslash", "slashes, or %5C for a backslash in path or query"}
		}
	}
	return nil
}

// checkTarget judges path and query. A stray % is refused in the path only: there
// it has no meaning, while queries with one are in use.
func checkTarget(target string) error {
	for i := range len(target) {
		if target[i] >= utf8.RuneSelf {
			return &URLError{URLCharacter, "path or query holds a letter outside ASCII", "its UTF-8 bytes in percent-encoding, such as %C3%A9"}
		}
	}
	path, _, _ := strings.Cut(target, "?")
	for {
		_, after, found := strings.Cut(path, "%")
		if !found {
			return nil
		}
		if len(after) < 2 || !isHex(after[0]) || !isHex(after[1]) {
			return &URLError{URLEscape, "its path holds a % that two hexadecimal digits don't follow", "%25 for a percent sign"}
		}
		path = after[2:]
	}
}

func isHex(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// parseAuthority returns the host in its stored form, IPv6 in brackets, and the
// port as ":8443", or "" for the scheme's own.
func parseAuthority(authority, scheme string) (host, port string, err error) {
	if strings.Contains(authority, "@") {
		return "", "", &URLError{URLCredentials, "it holds a user name or password", "a URL without them; an Authorization header among the endpoint's headers does the same"}
	}
	inner, bracketed := strings.CutPrefix(authority, "[")
	if bracketed {
		literal, after, closed := strings.Cut(inner, "]")
		if host, err = parseIPv6Literal(literal, closed); err != nil {
			return "", "", err
		}
		if after != "" && after[0] != ':' {
			return "", "", &URLError{URLHost, "something other than a port follows the address in brackets", "a host such as [2001:db8::1] or [2001:db8::1]:8443"}
		}
		port, err = parsePort(after, scheme)
		return host, port, err
	}
	name, number, hasPort := strings.Cut(authority, ":")
	if strings.Contains(number, ":") {
		return "", "", &URLError{URLAddress, "its host holds several colons", "an IPv6 address in brackets, such as [2001:db8::1]"}
	}
	if host, err = parseHostName(name); err != nil {
		return "", "", err
	}
	if hasPort {
		port, err = parsePort(":"+number, scheme)
	}
	return host, port, err
}

// parsePort takes "" or ":" and a decimal number without leading zeros.
func parsePort(text, scheme string) (string, error) {
	if text == "" {
		return "", nil
	}
	digits := text[1:]
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 || digits != strconv.FormatUint(n, 10) {
		return "", &URLError{URLPort, "its port is no number from 1 to 65535", "a port from 1 to 65535, or none"}
	}
	if scheme == "http" && n == 80 || scheme == "https" && n == 443 {
		return "", nil
	}
	return text, nil
}

func parseIPv6Literal(literal string, closed bool) (string, error) {
	addr, err := netip.ParseAddr(literal)
	switch {
	case !closed || err != nil || !addr.Is6():
		return "", &URLError{URLAddress, "what stands in brackets is no IPv6 address", "a host such as [2001:db8::1]"}
	case addr.Zone() != "":
		return "", &URLError{URLAddress, "its IPv6 address has a zone", "an address without %zone"}
	case addr.Is4In6():
		return "", &URLError{URLAddress, "its host is an IPv4 address written as an IPv6 one", "four decimal numbers, such as 192.0.2.1"}
	}
	return "[" + addr.String() + "]", nil
}

// parseHostName takes a name or a dotted quad.
func parseHostName(name string) (string, error) {
	const example = "a host name such as example.com"
	if name == "" {
		return "", &URLError{URLHost, "it has no host", example}
	}
	ascii, err := hostProfile().ToASCII(name)
	if err != nil || strings.Contains(ascii, "..") {
		return "", &URLError{URLHost, "its host is no valid name: letters, digits and hyphens in labels joined by single dots", example}
	}
	if strings.HasSuffix(ascii, ".") {
		return "", &URLError{URLTrailingDot, "its host ends with a dot", "the host without the dot at its end"}
	}
	if endsInNumber(ascii) {
		if addr, err := netip.ParseAddr(ascii); err != nil || !addr.Is4() || ascii != name {
			return "", &URLError{URLAddress, "its host looks like an IP address in an unusual form", "four decimal numbers from 0 to 255 joined by dots, without leading zeros, in plain digits"}
		}
		return ascii, nil
	}
	return ascii, checkLabels(ascii)
}

// hostProfile is IDNA 2008 for look-ups, non-transitional, with the letters of
// STD 3. Hyphens in third and fourth place are taken, as DNS has such names.
func hostProfile() *idna.Profile {
	return idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(true), idna.BidiRule(),
		idna.CheckJoiners(true), idna.CheckHyphens(false), idna.VerifyDNSLength(true))
}

// endsInNumber tells whether some reader could take the host for an IPv4
// address: its last label is decimal, octal or hexadecimal.
func endsInNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if digits, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

func checkLabels(ascii string) error {
	if len(ascii) > maxHostLength {
		return &URLError{URLHost, "its host is too long", "at most " + strconv.Itoa(maxHostLength) + " characters"}
	}
	for label := range strings.SplitSeq(ascii, ".") {
		if label == "" || len(label) > maxLabelLength {
			return &URLError{URLHost, "a label of its host is empty or too long", "labels of 1 to " + strconv.Itoa(maxLabelLength) + " characters, joined by single dots"}
		}
		if label[0] == '-' || label[len(label)-1] == '-' {
			return &URLError{URLHost, "a label of its host begins or ends with a hyphen", "hyphens only inside a label"}
		}
	}
	// A text that is not its own ASCII form would be stored under two names.
	if again, err := hostProfile().ToASCII(ascii); err != nil || again != ascii {
		return &URLError{URLHost, "its host is no valid international name", "the name in its own script, or in its xn-- form"}
	}
	return nil
}

// loopbackHost tells whether the stored form of a host names this machine.
func loopbackHost(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback()
}
