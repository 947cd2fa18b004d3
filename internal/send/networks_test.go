package send

import (
	"slices"
	"strings"
	"testing"
)

func TestFault_B103_EntriesInEveryForm(t *testing.T) {
	t.Parallel()
	tests := []struct {
		texts []string
		want  []string
	}{
		{nil, nil},
		{[]string{"", " , ,"}, nil},
		{[]string{" 10.0.0.0/8 , 192.168.3.207,"}, []string{"10.0.0.0/8", "192.168.3.207/32"}},
		{[]string{"10.0.0.0/8:443", "192.168.3.207:8443"}, []string{"10.0.0.0/8:443", "192.168.3.207/32:8443"}},
		{[]string{"::ffff:192.168.3.207", "[::ffff:192.168.3.207]:80", "::ffff:10.0.0.0/104"}, []string{"192.168.3.207/32", "192.168.3.207/32:80", "10.0.0.0/8"}},
		{[]string{"fd00::/8", "FD00::1", "[fd00::1]", "[fd00::]/8"}, []string{"fd00::/8", "fd00::1/128", "fd00::1/128", "fd00::/8"}},
		{[]string{"[fd00::]/8:443", "[::1]:8443"}, []string{"[fd00::]/8:443", "[::1]/128:8443"}},
		{[]string{"0.0.0.0/0", "::/0"}, []string{"0.0.0.0/0", "::/0"}},
	}
	for _, tt := range tests {
		got, err := ParseNetworks(tt.texts)
		if err != nil || !slices.Equal(got.Strings(), tt.want) {
			t.Errorf("%q: %q, %v, want %q", tt.texts, got.Strings(), err, tt.want)
		}
		// The uniform form reads back.
		if again, err := ParseNetworks(got.Strings()); err != nil || !slices.Equal(again.Strings(), tt.want) {
			t.Errorf("%q reads back as %q, %v", tt.want, again.Strings(), err)
		}
	}
}

func TestFault_B103_WrongEntriesAreNamed(t *testing.T) {
	t.Parallel()
	for entry, hint := range map[string]string{
		"10.1.2.3/8":          "10.0.0.0/8",
		"fd00::1/8":           "fd00::/8",
		"::ffff:10.1.2.3/104": "10.0.0.0/8",
		"*":                   "IP address",
		"GitLab.mydomain.com": "IP address",
		"localhost":           "IP address",
		"localhost:8080":      "IP address",
		"192.168.3.2077":      "IP address",
		"192.168.3":           "IP address",
		"192.168.03.7":        "IP address",
		"10.0.0.0/33":         "0 to 32",
		"fd00::/129":          "0 to 128",
		"10.0.0.0/-1":         "0 to 32",
		"10.0.0.0/x":          "0 to 32",
		"10.0.0.0/":           "IP address",
		"/8":                  "IP address",
		"10.0.0.0/8:0":        "1 to 65535",
		"10.0.0.0/8:65536":    "1 to 65535",
		"10.0.0.0/8:https":    "1 to 65535",
		"10.0.0.0/8:":         "1 to 65535",
		"fd00::/8:443":        "brackets",
		"[fd00::/8]:443":      "IP address",
		"[fd00::1":            "IP address",
		"[10.0.0.1]":          "IP address",
		"[fd00::1]x":          "IP address",
		"fe80::1%eth0":        "IP address",
		"http://10.0.0.1":     "IP address",
		"0.0.0.0":             "machine itself",
		"0.1.2.3":             "machine itself",
		"::":                  "machine itself",
		"10.0.0.1 10.0.0.2":   "IP address",
	} {
		got, err := ParseNetworks([]string{"192.168.0.0/16", " " + entry + " "})
		if err == nil || !strings.Contains(err.Error(), `"`+entry+`"`) || !strings.Contains(err.Error(), hint) {
			t.Errorf("%q: %v, want the entry and %q", entry, err, hint)
		}
		if got.Strings() != nil && len(got.Strings()) > 0 {
			t.Errorf("%q: some of the list is used: %q", entry, got.Strings())
		}
	}
	_, err := ParseNetworks([]string{"*, nonsense"})
	if err == nil || !strings.Contains(err.Error(), `"*"`) || !strings.Contains(err.Error(), `"nonsense"`) {
		t.Errorf("not every wrong entry is named: %v", err)
	}
}
