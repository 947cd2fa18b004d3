package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/catalog"
	"github.com/posthorn/posthorn/internal/send"
	"github.com/posthorn/posthorn/signature"
)

const docs = "../../../docs"

// The pages are what the contracts' files, the texts and docs/contracts.md say
// now, and there are no others.
func TestContractPages_AreUpToDate(t *testing.T) {
	t.Parallel()
	pages, err := contractPages(docs)
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(docs, "contracts", "*"))
	if err != nil || len(found) != len(pages) {
		t.Errorf("there are %v, want a page for each of %v", found, contract.BuiltinNames())
	}
	for name, want := range pages {
		got, err := os.ReadFile(filepath.Join(docs, "contracts", name+".md"))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("docs/contracts/%s.md is not what the contract says: run go generate ./internal/cli", name)
		}
	}
}

// The worked examples are right: a receiver verifies the headers, the signature
// is the HMAC of the text shown, and the body is the one that the sender makes.
func TestContractPages_ExamplesVerify(t *testing.T) {
	t.Parallel()
	for _, name := range contract.BuiltinNames() {
		c, _ := contract.Builtin(name)
		e, err := makeExample(c)
		if err != nil {
			t.Fatal(err)
		}
		verify(t, c, e)
		raw, key := []byte(exampleKey), []byte(e.secret)
		if c.Signature.Key == "base64" {
			key = raw
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(e.signed))
		want := "v1=" + hex.EncodeToString(mac.Sum(nil))
		if c.Signature.Form == "standard" {
			want = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		}
		if got := e.headers[len(e.headers)-1].value; !strings.HasSuffix(got, want) || !strings.Contains(e.openssl, hex.EncodeToString(key)) {
			t.Errorf("%s: the signature is %s, want %s", name, got, want)
		}
		sent := send.AppendBody(nil, c, send.Parts{
			TenantID: "default", EventID: exampleEvent, EventType: "order.paid", CreatedAt: time.Unix(exampleTime, 0),
			Data: []byte(exampleData), WebhookID: e.id,
		})
		if c.Delivers == contract.DeliversEvent && !bytes.Equal(sent, e.body) {
			t.Errorf("%s: the body is %s, the sender makes %s", name, e.body, sent)
		}
	}
}

func verify(t *testing.T, c *contract.Contract, e example) {
	t.Helper()
	scheme, err := send.SchemeOf(c)
	if err != nil {
		t.Fatal(err)
	}
	key, err := scheme.ParseKey(e.secret)
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{}
	for _, h := range e.headers {
		header.Set(h.name, h.value)
	}
	request := signature.Request{Header: header, Body: e.body}
	if err := scheme.Verify(request, []signature.Key{key}, time.Unix(exampleTime, 0), scheme.Tolerance); err != nil {
		t.Errorf("%s: %v", c.Name, err)
	}
}

// The sentences follow the file: another value, another sentence.
func TestContractPages_FollowTheFile(t *testing.T) {
	t.Parallel()
	texts, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		change func(c *contract.Contract)
		want   string
	}{
		"exact waits":       {func(c *contract.Contract) { c.Schedule.Jitter = 0 }, "it is exact"},
		"one attempt":       {func(c *contract.Contract) { c.Schedule.Waits = c.Schedule.Waits[:1] }, "One attempt, with 15 seconds"},
		"no gate":           {func(c *contract.Contract) { c.Gate = contract.Gate{} }, "does not hold others back"},
		"gate of a URL":     {func(c *contract.Contract) { c.Gate.Scope = "url" }, "at whichever endpoint of the tenant"},
		"strict order":      {func(c *contract.Contract) { c.Order.Mode = "strict" }, "The key is the publisher's `ordering_key`."},
		"no health rules":   {func(c *contract.Contract) { c.Stop, c.Disable.NoSuccessFor = nil, 0 }, "Failures never change an endpoint's state"},
		"skips while off":   {func(c *contract.Contract) { c.Off.Waiting = contract.FateSkip }, "| Ended as “Skipped” (`skipped`), in the log. |"},
		"enabling sends":    {func(c *contract.Contract) { c.OnEnable.Held = "none" }, "Enabling after a disabling: nothing goes out by itself."},
		"dead redelivered":  {func(c *contract.Contract) { c.Exhausted.Status, c.OnEnable.Dead = "dead", "redeliver" }, "that is no test is redelivered"},
		"nothing resent":    {func(c *contract.Contract) { c.Resend.From = nil }, "can't be resent under its own ID"},
		"resent one by one": {func(c *contract.Contract) { c.Resend.Attempts = "once" }, "It has a single attempt and ends"},
		"old one marked":    {func(c *contract.Contract) { c.Redeliver.MarksOld = "redelivered" }, "The old delivery becomes “Redelivered”"},
		"a new ID":          {func(c *contract.Contract) { c.WebhookID = contract.PerDelivery }, "a webhook ID of its own"},
		"tests unlogged":    {func(c *contract.Contract) { c.Test.Logged = false }, "It is not in the log."},
		"tests while on":    {func(c *contract.Contract) { c.Test.WhileOff = false }, "only while the endpoint is on"},
		"log goes too":      {func(c *contract.Contract) { c.History.OnEndpointDelete = "delete" }, "deletes its deliveries and its log"},
		"body unread":       {func(c *contract.Contract) { c.Response = contract.Response{} }, "is not read"},
		"secrets made":      {func(c *contract.Contract) { c.Secret.From = "made" }, "It is always made here."},
		"runs are read":     {func(c *contract.Contract) { c.Delivers = contract.DeliversRun }, "50 by default and 250 at most"},
		"text as key":       {func(c *contract.Contract) { c.Signature.Key = "text" }, "`whsec_` included"},
	} {
		c, _ := contract.Builtin(contract.Standard)
		flat := func() string {
			made, err := makeExample(c)
			if err != nil {
				t.Fatal(err)
			}
			return strings.Join(strings.Fields(page{c: c, english: texts.For(catalog.English), example: made}.text()), " ")
		}
		if before := flat(); strings.Contains(before, test.want) {
			t.Errorf("%s: %q stands there anyway", name, test.want)
		}
		if test.change(c); !strings.Contains(flat(), test.want) {
			t.Errorf("%s: %q is missing", name, test.want)
		}
	}
}

// What the engine applies is read from the list of rules.
func TestContractPages_StatesOfRules(t *testing.T) {
	t.Parallel()
	rules := "# Contracts\n\n## `standard`\n\n| a | b |\n\nStill missing of `standard`: the\ngate.\n\n## Elido\n\n| E1 | planned | Twelve. |\n| E2 | kept | Secrets. |\n| E3 | kept | Envelope. |\n\n## Petify\n\n| P1 | partly | HTTPS. |\n"
	for name, want := range map[string]string{
		contract.Standard: "Still missing of `standard`: the gate.",
		"elido":           "Kept by the engine: E2 and E3. Not kept yet: E1. [Contracts](../contracts.md)",
		"petify":          "Kept in part: P1. [Contracts]",
	} {
		if got := statesOf(rules, name).text(); !strings.Contains(got, want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
