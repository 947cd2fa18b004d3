package api

import (
	"errors"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/signature"
)

// example reads an element of the page by its ID.
func example(t *testing.T, page, id string) string {
	t.Helper()
	m := regexp.MustCompile(`(?s) id="` + id + `">(.*?)</`).FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("the page has no %s", id)
	}
	return html.UnescapeString(m[1])
}

// TestDocs_ExampleIsGenuine: the request that the page shows is signed with the
// secret beside it, byte for byte.
func TestDocs_ExampleIsGenuine(t *testing.T) {
	t.Parallel()
	page := newFixture(t).send(to("GET", "/docs", "").with("Authorization", "")).is(200).raw
	head, body, found := strings.Cut(example(t, page, "example-request"), "\n\n")
	if !found {
		t.Fatal("the example has no body")
	}
	header := http.Header{}
	for _, line := range strings.Split(head, "\n")[1:] {
		name, value, _ := strings.Cut(line, ": ")
		header.Set(name, value)
	}
	scheme, ok := signature.Lookup("standardwebhooks", "")
	if !ok {
		t.Fatal("there is no such scheme")
	}
	key, err := scheme.ParseKey(example(t, page, "example-secret"))
	if err != nil {
		t.Fatal(err)
	}
	verify := func(body string) error {
		return scheme.Verify(signature.Request{Header: header, Body: []byte(body)}, []signature.Key{key}, time.Unix(1767225600, 0), scheme.Tolerance)
	}
	if err := verify(body); err != nil {
		t.Errorf("the example does not verify: %v", err)
	}
	if err, ok := errors.AsType[*signature.VerifyError](verify(body + " ")); !ok {
		t.Errorf("another body verifies: %v", err)
	}
}
