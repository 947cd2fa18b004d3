package config

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/posthorn/posthorn/internal/webhook"
)

func TestParseSMTP(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": ":0  '' ''",
		"smtp://mail.example.com?from=hooks@example.com":                                "mail.example.com:587 starttls '' '' <hooks@example.com>",
		"smtp://u:p@mail.example.com?from=hooks@example.com":                            "mail.example.com:587 starttls 'u' 'p' <hooks@example.com>",
		"smtp://u:p@mail.example.com?from=hooks@example.com&tls=starttls":               "mail.example.com:587 starttls 'u' 'p' <hooks@example.com>",
		"smtps://u%40x:p%3Aq%2F@mail.example.com/?from=Hooks%20%3Ca%2Bb@example.com%3E": `mail.example.com:465 implicit 'u@x' 'p:q/' "Hooks" <a+b@example.com>`,
		"smtp://[::1]:25?tls=none&from=a@b.c":                                           "[::1]:25 none '' '' <a@b.c>",
		"smtp://u:p@127.0.0.1:25?tls=none&from=a@b.c":                                   "127.0.0.1:25 none 'u' 'p' <a@b.c>",
		"smtp://u:p@localhost?tls=none&from=a@b.c":                                      "localhost:587 none 'u' 'p' <a@b.c>",
		"smtp://relay:25?tls=none&from=a@b.c":                                           "relay:25 none '' '' <a@b.c>",
	} {
		s, err := ParseSMTP(webhook.NewSecretText(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		got := strings.TrimSuffix(fmt.Sprintf("%s %s '%s' '%s' %s", net.JoinHostPort(s.Host, strconv.Itoa(s.Port)), s.Security, s.User, s.Password.Reveal(), s.From), " ")
		if got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

// What can't be right is refused before the start, with a text that quotes nothing.
func TestParseSMTP_Refused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"mail.example.com":                                      "must have the form",
		"hunter2":                                               "must have the form",
		"smtp://u:hunter2@?from=a@b.c":                          "must have the form",
		"smtp://u:hunter2@h/path?from=a@b.c":                    "must have the form",
		"smtp://u:hunter2@h?from=a@b.c#x":                       "must have the form",
		"smtp://u:hunter2%zz@h?from=a@b.c":                      "must have the form",
		"http://u:hunter2@h?from=a@b.c":                         "must begin with smtp:// or smtps://",
		"smtp://u:hunter2@h":                                    "must say who sends",
		"smtp://u:hunter2@h?from=nobody":                        "must say who sends",
		"smtp://u:hunter2@h?from=a+b@c.d":                       "must say who sends",
		"smtp://u:hunter2@h?from=a@b.c&from=d@e.f":              "takes from and tls",
		"smtp://u:hunter2@h?from=a@b.c&sender=d@e.f":            "takes from and tls",
		"smtp://u:hunter2@h?from=a@b.c&tls=maybe":               "takes tls=starttls or tls=none",
		"smtps://u:hunter2@h?from=a@b.c&tls=none":               "takes tls only with smtp://",
		"smtp://u:hunter2@h?from=a@b.c&tls=none":                "would send the password unencrypted",
		"smtp://u:hunter2@127.0.0.1.nip.io?from=a@b.c&tls=none": "would send the password unencrypted",
		"smtp://u@h?from=a@b.c":                                 "must have both user and password",
		"smtp://:hunter2@h?from=a@b.c":                          "must have both user and password",
		"smtp://u:hunter2@h:0?from=a@b.c":                       "has no port",
		"smtp://u:hunter2@h:65536?from=a@b.c":                   "has no port",
	} {
		s := valid()
		s.Secrets.SMTPURL = webhook.NewSecretText(text)
		err := s.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), "POSTHORN_SMTP_URL "+want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
		if err != nil && strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), "hunter2") {
			t.Errorf("%q: the password is quoted: %v", text, err)
		}
	}
}

func TestParseSMTP_SecretFromTheEnvironmentOnly(t *testing.T) {
	t.Parallel()
	env := Lookup(func(name string) (string, bool) {
		return "smtp://u:hunter2@h?from=a@b.c", name == "POSTHORN_SMTP_URL"
	})
	s := ReadSecrets(env)
	if s.SMTPURL.IsZero() {
		t.Fatal("not read")
	}
	if text := fmt.Sprintf("%v %+v %#v", s, s, s); strings.Contains(text, "hunter2") {
		t.Errorf("printed: %s", text)
	}
	if _, err := parseFile([]byte("smtp_url: smtp://u:hunter2@h\n")); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("in the file: %v", err)
	}
}
