package webhook

import (
	"fmt"
	"strings"
	"testing"
)

func headers(pairs ...string) []Header {
	var list []Header
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, Header{Name: pairs[i], Value: NewSecretText(pairs[i+1])})
	}
	return list
}

func TestFault_B84_OneHeader(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, value string
		want        HeaderReason // "" for a header that may stand
	}{
		{"X-A", "a\r\nX-Injected: 1", HeaderValue},
		{"X-A", "a\n b", HeaderValue},
		{"X-A", "\u0000", HeaderValue},
		{"X-A", "é", HeaderValue},
		{"X-A", "\x7f", HeaderValue},
		{"X-A", "", HeaderValue},
		{"X-A", " a", HeaderValue},
		{"X-A", "a\t", HeaderValue},
		{"X A", "a", HeaderName},
		{"X:A", "a", HeaderName},
		{"X-A\r\n", "a", HeaderName},
		{"", "a", HeaderName},
		{"é", "a", HeaderName},
		{"X-\u212a", "a", HeaderName}, // the Kelvin sign: "k" in lower case
		{"Host", "a", HeaderProtected},
		{"host", "a", HeaderProtected},
		{"Content-Length", "1", HeaderProtected},
		{"Content-Type", "a", HeaderProtected},
		{"Content-Encoding", "gzip", HeaderProtected},
		{"Transfer-Encoding", "chunked", HeaderProtected},
		{"Connection", "close", HeaderProtected},
		{"Keep-Alive", "1", HeaderProtected},
		{"Upgrade", "h2c", HeaderProtected},
		{"HTTP2-Settings", "a", HeaderProtected},
		{"TE", "trailers", HeaderProtected},
		{"Trailer", "X", HeaderProtected},
		{"Expect", "100-continue", HeaderProtected},
		{"Proxy-Authorization", "a", HeaderProtected},
		{"webhook-signature", "a", HeaderProtected},
		{"Webhook-Id", "a", HeaderProtected},
		{"webhook-anything", "a", HeaderProtected},
		{"signals-signature", "a", HeaderProtected}, // reserved by the contract
		{"X-A", "a", ""},
		{"Authorization", "Bearer a.b~c", ""},
		{"User-Agent", "mine/1.0 (\"x\")", ""},
		{"X_A", "a b\tc", ""},
	}
	for _, tt := range tests {
		faults := ValidateHeaders(headers(tt.name, tt.value), []string{"Signals-Signature"})
		if tt.want == "" {
			if faults != nil {
				t.Errorf("%q: %q is refused: %+v", tt.name, tt.value, faults)
			}
			continue
		}
		if len(faults) != 1 || faults[0].Reason != tt.want || faults[0].Index != 0 {
			t.Errorf("%q: %q gives %+v, want one fault %s at 0", tt.name, tt.value, faults, tt.want)
		}
	}
}

func TestFault_B84_AllHeaders(t *testing.T) {
	t.Parallel()
	many := func(n, length int) []Header {
		var list []Header
		for i := range n {
			name := fmt.Sprintf("X-%02d", i)
			list = append(list, headers(name, strings.Repeat("v", length-len(name)))...)
		}
		return list
	}
	tests := []struct {
		name    string
		headers []Header
		want    []HeaderFault
	}{
		{"none", nil, nil},
		{"as many as may be, as long as may be", many(MaxHeaders, MaxHeaderBytes/MaxHeaders), nil},
		{"one too many", many(MaxHeaders+1, 10), []HeaderFault{{Index: AllHeaders, Reason: HeadersTooMany}}},
		{"200", many(200, 10), []HeaderFault{{Index: AllHeaders, Reason: HeadersTooMany}}},
		{"64 KiB", headers("X-A", strings.Repeat("v", 64<<10)), []HeaderFault{{Index: AllHeaders, Reason: HeadersTooLarge}}},
		{"one byte too long", append(many(31, 256), headers("X-A", strings.Repeat("v", 254))...), []HeaderFault{{Index: AllHeaders, Reason: HeadersTooLarge}}},
		{"one name in two cases", headers("X-A", "1", "X-B", "2", "x-a", "3"), []HeaderFault{{Index: 2, Reason: HeaderRepeated}}},
		{"several faults", headers("Host", "\n", "X-A", "1"), []HeaderFault{{Index: 0, Reason: HeaderProtected}, {Index: 0, Reason: HeaderValue}}},
	}
	for _, tt := range tests {
		got := ValidateHeaders(tt.headers, nil)
		if len(got) != len(tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
			continue
		}
		for i, f := range got {
			if f.Index != tt.want[i].Index || f.Reason != tt.want[i].Reason {
				t.Errorf("%s: %+v, want %+v", tt.name, f, tt.want[i])
			}
			if f.Detail == "" || f.Allowed == "" {
				t.Errorf("%s: %+v lacks a text", tt.name, f)
			}
		}
	}
}
