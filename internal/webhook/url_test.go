package webhook

import (
	"errors"
	"strings"
	"testing"
)

func anyScheme() []string { return []string{"https", "http"} }

// urlFault parses and returns the reason, "" if the URL is taken.
func urlFault(t *testing.T, raw string, schemes []string, plainLoopback bool) URLReason {
	t.Helper()
	got, err := ParseEndpointURL(raw, schemes, plainLoopback)
	if err == nil {
		return ""
	}
	if got != "" {
		t.Errorf("%q: both a URL and an error", raw)
	}
	var fault *URLError
	if !errors.As(err, &fault) {
		t.Fatalf("%q: the error is a %T", raw, err)
	}
	if fault.Detail == "" || fault.Allowed == "" {
		t.Errorf("%q: %+v lacks a text", raw, fault)
	}
	return fault.Reason
}

func checkURLs(t *testing.T, want map[string]URLReason) {
	t.Helper()
	for raw, reason := range want {
		if got := urlFault(t, raw, anyScheme(), false); got != reason {
			t.Errorf("%.80q: %q, want %q", raw, got, reason)
		}
	}
}

// checkCanonical expects each first text to be stored as the second.
func checkCanonical(t *testing.T, want map[string]string) {
	t.Helper()
	for raw, canonical := range want {
		got, err := ParseEndpointURL(raw, anyScheme(), false)
		if err != nil || got != canonical {
			t.Errorf("%q: %q, %v, want %q", raw, got, err, canonical)
		}
	}
}

func TestFault_B76_PathAndQueryByteForByte(t *testing.T) {
	t.Parallel()
	checkCanonical(t, map[string]string{
		"http://r.example:8081/a/b;v=1/?foo=123&bar=XYZ&foo=9&empty=&flag&q=a+b%20c#frag": "http://r.example:8081/a/b;v=1/?foo=123&bar=XYZ&foo=9&empty=&flag&q=a+b%20c",
		"https://r.example/%7e%2F%c3%A9/../x//y?":                                         "https://r.example/%7e%2F%c3%A9/../x//y?",
		"https://r.example?a=1":                 "https://r.example/?a=1",
		"https://r.example":                     "https://r.example/",
		"https://r.example#x":                   "https://r.example/",
		"https://r.example/?discount=10%&x=%zz": "https://r.example/?discount=10%&x=%zz",
		"https://r.example//double/{id}|^`\"<>": "https://r.example//double/{id}|^`\"<>",
		"https://r.example/a@b:c":               "https://r.example/a@b:c",
		"https://r.example/?u=http://x@y:1/":    "https://r.example/?u=http://x@y:1/",
	})
}

func TestFault_B78_UnusableURLs(t *testing.T) {
	t.Parallel()
	checkURLs(t, map[string]URLReason{
		"":                                 URLMissing,
		"http:///x":                        URLHost,
		"http://":                          URLHost,
		"http://:80/":                      URLHost,
		"https://r.example:0/":             URLPort,
		"https://r.example:65536/":         URLPort,
		"https://r.example:99999999999/":   URLPort,
		"https://r.example:-1/":            URLPort,
		"https://r.example:+1/":            URLPort,
		"https://r.example:080/":           URLPort,
		"https://r.example:/":              URLPort,
		"https://r.example:8a/":            URLPort,
		"http:r.example":                   URLScheme,
		"//r.example/":                     URLScheme,
		"r.example":                        URLScheme,
		"/x":                               URLScheme,
		"ftp://r.example":                  URLScheme,
		"javascript:alert(1)":              URLScheme,
		"file:///etc/hostname":             URLScheme,
		`http://r.example\@127.0.0.1/`:     URLCharacter,
		`http://r.example/\`:               URLCharacter,
		"http://exa mple/":                 URLCharacter,
		"http://[::1":                      URLAddress,
		"http://[::1]x/":                   URLHost,
		"http://[r.example]/":              URLAddress,
		"http://[127.0.0.1]/":              URLAddress,
		"http://::1/":                      URLAddress,
		"http://2001:db8::1/":              URLAddress,
		" http://r.example/":               URLCharacter,
		"http://r.example/ ":               URLCharacter,
		"http://r.example/\t":              URLCharacter,
		"http://r.exa\nmple/":              URLCharacter,
		"http://r.example/\x00":            URLCharacter,
		"http://r.example/\u00a0x":         URLCharacter,
		"http://r.example/\u0085x":         URLCharacter,
		"http://r.example/\xff":            URLCharacter,
		"http://r.example/é":               URLCharacter,
		"http://r.example/?é":              URLCharacter,
		"http://r.example/%":               URLEscape,
		"http://r.example/%zz":             URLEscape,
		"http://r.example/%4":              URLEscape,
		"https://bob:S3CRET@r.example/":    URLCredentials,
		"https://token@r.example/":         URLCredentials,
		"https://@r.example/":              URLCredentials,
		"https://r.example:443@127.0.0.1/": URLCredentials,
		"https://r.example/" + strings.Repeat("a", 2_000):    "",
		"https://r.example/" + strings.Repeat("a", 2_031):    URLTooLong,
		"https://r.example/" + strings.Repeat("a", 100_000):  URLTooLong,
		"https://" + strings.Repeat("a", 63) + ".example/":   "",
		"https://" + strings.Repeat("a", 64) + ".example/":   URLHost,
		"https://" + strings.Repeat("abcdefgh.", 28) + "b/":  "",      // 253 characters
		"https://" + strings.Repeat("abcdefgh.", 28) + "bc/": URLHost, // 254
		"https://" + strings.Repeat("abcdefghi.", 26) + "/":  URLHost, // 260
		"https://r..example/":                                URLHost,
		"https://.r.example/":                                URLHost,
		"https://r_x.example/":                               URLHost,
		"https://-r.example/":                                URLHost,
		"https://r-.example/":                                URLHost,
		"https://r%2eexample/":                               URLHost,
		"https://r,example/":                                 URLHost,
		"https://ab--cd.example":                             "",
	})
}

// An IDNA form may be longer than what was given; the limit holds for both.
func TestFault_B78_LimitHoldsForTheStoredForm(t *testing.T) {
	t.Parallel()
	raw := "https://ü.example/" + strings.Repeat("a", MaxURLLength-len("https://ü.example/"))
	if got := urlFault(t, raw, anyScheme(), false); got != URLTooLong {
		t.Errorf("%d bytes that grow: %q", len(raw), got)
	}
}

func TestFault_B79_InternationalNames(t *testing.T) {
	t.Parallel()
	checkCanonical(t, map[string]string{
		"http://bücher.example/":        "http://xn--bcher-kva.example/",
		"http://xn--bcher-kva.example/": "http://xn--bcher-kva.example/",
		"http://XN--BCHER-KVA.example/": "http://xn--bcher-kva.example/",
		"HTTP://BÜCHER.example:80/":     "http://xn--bcher-kva.example/",
		"http://bu\u0308cher.example/":  "http://xn--bcher-kva.example/", // u and a combining diaeresis
		"http://faß.example/":           "http://xn--fa-hia.example/",
		"http://ex\u3002ample/":         "http://ex.ample/", // ideographic full stop
		"http://ＡＢＣ.example/":           "http://abc.example/",
		"http://ex\u0430mple.com/":      "http://xn--exmple-4nf.com/", // Cyrillic а: another name, and seen as one
		"https://R.Example:443/X":       "https://r.example/X",
		"https://r.example:80/":         "https://r.example:80/",
		"http://r.example:443/":         "http://r.example:443/",
		"https://[2001:DB8:0:0:0::1]/":  "https://[2001:db8::1]/",
		"https://[2001:db8::1]:443/":    "https://[2001:db8::1]/",
		"https://[2001:db8::1]:8443?a":  "https://[2001:db8::1]:8443/?a",
	})
	checkURLs(t, map[string]URLReason{
		"http://xn--zz--.example/":      URLHost,
		"http://xn--a/":                 URLHost,
		"http://xn--example-.com/":      URLHost,
		"http://a\u200db.example/":      URLHost, // a joiner where none can stand
		"http://\u202eelpmaxe.example/": URLHost,
		"http://☃.example/":             "",
	})
}

func TestFault_B80_TrailingDots(t *testing.T) {
	t.Parallel()
	checkURLs(t, map[string]URLReason{
		"http://localhost./":                URLTrailingDot,
		"http://127.0.0.1./":                URLTrailingDot,
		"http://169.254.169.254./":          URLTrailingDot,
		"http://metadata.google.internal./": URLTrailingDot,
		"http://r.example.:8080/":           URLTrailingDot,
		"http://r.example\u3002/":           URLTrailingDot,
		"http://r.example../":               URLHost,
		"http://./":                         URLHost,
		"http://LOCALHOST/":                 "",
		"http://a.localhost/":               "",
	})
}

func TestFault_B17_OddAddressForms(t *testing.T) {
	t.Parallel()
	for _, host := range []string{
		"0", "127.1", "127.0.1", "2130706433", "0x7f000001", "0X7F000001", "0x7f.1", "0177.0.0.1", "017700000001", "127.0.0.01",
		"127.0.0.0x1", "0x", "1.2.3.4.5", "256.1.1.1", "r.example.1", "r.example.0x1f", "１２７.0.0.1", "127\uff0e0\uff0e0\uff0e1", "127。0.0.1",
		"１２７．０．０．１", "⑫⑦.0.0.1",
	} {
		if got := urlFault(t, "http://"+host+"/", anyScheme(), false); got != URLAddress {
			t.Errorf("%q: %q", host, got)
		}
	}
	// Plain forms are the guard's to judge.
	for _, host := range []string{"0.0.0.0", "127.0.0.1", "169.254.169.254", "192.0.2.1", "255.255.255.255", "0x7g.example", "1.2.3.4a"} {
		if got := urlFault(t, "http://"+host+"/", anyScheme(), false); got != "" {
			t.Errorf("%q: %q", host, got)
		}
	}
}

func TestFault_B15_BracketedForms(t *testing.T) {
	t.Parallel()
	checkURLs(t, map[string]URLReason{
		"http://[::ffff:127.0.0.1]:8081/":      URLAddress,
		"http://[::ffff:7f00:1]:8081/":         URLAddress,
		"http://[0:0:0:0:0:ffff:7f00:1]:8081/": URLAddress,
		"http://[::1%25lo]:8081/":              URLAddress,
		"http://[::1%lo]:8081/":                URLAddress,
		"http://[]/":                           URLAddress,
		"http://[::1]:8081/":                   "", // the guard's to judge
		"http://[::]:8081/":                    "",
		"http://[::127.0.0.1]:8081/":           "",
	})
}

func TestContract_P1_SchemesOfTheContract(t *testing.T) {
	t.Parallel()
	secure := []string{"https"}
	tests := []struct {
		raw   string
		plain bool
		want  URLReason
	}{
		{"https://r.example/", false, ""},
		{"http://r.example/", false, URLScheme},
		{"http://localhost:8081/", false, URLScheme},
		{"http://localhost:8081/", true, ""},
		{"http://a.localhost/", true, ""},
		{"http://127.0.0.1/", true, ""},
		{"http://127.9.9.9/", true, ""},
		{"http://[::1]/", true, ""},
		{"http://r.example/", true, URLScheme},
		{"http://10.0.0.1/", true, URLScheme},
		{"http://localhost.example/", true, URLScheme},
		{"http://notlocalhost/", true, URLScheme},
	}
	for _, tt := range tests {
		if got := urlFault(t, tt.raw, secure, tt.plain); got != tt.want {
			t.Errorf("%q, plain loopback %v: %q, want %q", tt.raw, tt.plain, got, tt.want)
		}
	}
}

func TestFault_B81_URLErrorsNeverEcho(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"https://bob:S3CRET@r.example/", "S3CRET", "https://S3CRET..example/", "https://r.example/S3CRET%", "https://r.example/S3CRET é",
		"https://r.example:S3CRET/", "https://[S3CRET]/", "https://r.example/é?S3CRET", "S3CRET://r.example", "https://S3CRET./",
	} {
		if _, err := ParseEndpointURL(raw, anyScheme(), false); err == nil || strings.Contains(err.Error(), "S3CRET") {
			t.Errorf("%q: %v", raw, err)
		} else if fault := new(URLError); errors.As(err, &fault) && strings.Contains(fault.Allowed, "S3CRET") {
			t.Errorf("%q: %v", raw, fault.Allowed)
		}
	}
}

// FuzzParseEndpointURL: what is taken has one stable form, and that form can hold
// nothing that would split a request line.
func FuzzParseEndpointURL(f *testing.F) {
	for _, seed := range []string{
		"http://r.example:80/a/b;v=1/?foo=123&q=a+b%20c#frag", "https://bücher.example", "http://[2001:DB8::1]:443?x", "http://127.0.0.1/",
		"http://faß.example:8080", "http://ex\u3002ample/", "http://xn--zz--.example/", "http://１２７．1/", "https://u:p@h/", "HTTPS://A--B.example//x?",
		"http://xn--bcher-kva.example./", "http://\u1e9e.example/",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		canonical, err := ParseEndpointURL(raw, anyScheme(), true)
		if err != nil {
			return
		}
		again, err := ParseEndpointURL(canonical, anyScheme(), true)
		if err != nil || again != canonical {
			t.Fatalf("%q became %q, then %q, %v", raw, canonical, again, err)
		}
		for i := range len(canonical) {
			if canonical[i] <= ' ' || canonical[i] > '~' {
				t.Fatalf("%q became %q", raw, canonical)
			}
		}
	})
}
