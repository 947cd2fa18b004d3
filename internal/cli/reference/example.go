package main

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/send"
	"github.com/posthorn/posthorn/internal/webhook"
)

// What the worked examples are made of. The key is 32 bytes that nobody uses.
const (
	exampleKey   = "only an example, never in use..."
	exampleEvent = "evt_01hw3p6f9x2m4q8r7t5v"
	exampleTime  = 1767225600
	exampleData  = `{"order":42}`
)

// example is one signed request under a contract.
type example struct {
	secret, id string
	body       []byte
	headers    []named
	// signed is the text that the signature is of.
	signed string
	// openssl is a command that computes the same signature from it.
	openssl string
}

type named struct{ name, value string }

// makeExample composes and signs a first attempt as the server does.
func makeExample(c *contract.Contract) (example, error) {
	e := example{secret: c.Secret.Prefix + base64.StdEncoding.EncodeToString([]byte(exampleKey)), id: exampleEvent}
	if c.WebhookID == contract.PerDelivery {
		e.id = webhook.PrefixDelivery + "_01hw3p6g0c7n5s1k9d2b"
	}
	e.body = exampleBody(c, e.id)
	composer, err := send.NewComposer(c, "Posthorn", nil, []webhook.SigningSecret{{ID: "example", Text: webhook.NewSecretText(e.secret)}})
	if err != nil {
		return example{}, err
	}
	header, err := composer.Header(e.id, 1, time.Unix(exampleTime, 0), e.body)
	if err != nil {
		return example{}, err
	}
	for _, name := range append(c.ReservedHeaders()[1:], c.Signature.Header) {
		e.headers = append(e.headers, named{name, header[name][0]})
	}
	seconds := strconv.Itoa(exampleTime)
	e.signed = strings.NewReplacer("{id}", e.id, "{t}", seconds, "{body}", string(e.body)).Replace(c.Signature.Signed)
	e.openssl = opensslCommand(c)
	return e, nil
}

// opensslCommand computes the signature of the file signed.txt.
func opensslCommand(c *contract.Contract) string {
	key := []byte(exampleKey)
	if c.Signature.Key == "text" {
		key = []byte(c.Secret.Prefix + base64.StdEncoding.EncodeToString(key))
	}
	command := "openssl dgst -sha256 -mac HMAC -macopt hexkey:" + hex.EncodeToString(key)
	if c.Signature.Form == "standard" {
		return command + " -binary signed.txt | base64"
	}
	return command + " -r signed.txt"
}

// exampleBody is the contract's envelope around exampleData. Runs have their own
// values, which the sender's Parts do not carry yet; a test compares the others
// with what the sender makes.
func exampleBody(c *contract.Contract, webhookID string) []byte {
	members := make([]string, len(c.Body.Fields))
	for i, f := range c.Body.Fields {
		name, _ := json.Marshal(f.Name) // a string is always written
		members[i] = string(name) + ":" + exampleValue(f.From, webhookID)
	}
	return []byte("{" + strings.Join(members, ",") + "}")
}

func exampleValue(from contract.Source, webhookID string) string {
	at := time.Unix(exampleTime, 0).UTC().Format("2006-01-02T15:04:05.000Z")
	switch from {
	case contract.FromEventID:
		return strconv.Quote(exampleEvent)
	case contract.FromEventType:
		return `"order.paid"`
	case contract.FromEventCreatedAt, contract.FromSentAt:
		return strconv.Quote(at)
	case contract.FromEventData:
		return exampleData
	case contract.FromTenantID:
		return `"default"`
	case contract.FromWebhookID:
		return strconv.Quote(webhookID)
	case contract.FromRunID:
		return `"run_01hw3p5z8y6w4u2s0q9n"`
	case contract.FromRunCounts:
		return `{"total":3,"by_type":{"order.paid":2,"order.shipped":1}}`
	case contract.FromPageToken:
		return `"the-token-of-this-delivery"`
	case contract.FromPageURL:
		return `"https://hooks.example.com/v1/runs/run_01hw3p5z8y6w4u2s0q9n/events"`
	case contract.FromAttempt, contract.FromTimestamp: // headers only
	}
	return "null"
}

// meaning says what a source is, for the tables of members and headers.
func meaning(from contract.Source) string {
	switch from {
	case contract.FromEventID:
		return "the event's ID"
	case contract.FromEventType:
		return "the event's type"
	case contract.FromEventCreatedAt:
		return "the event's time: RFC 3339, UTC, with milliseconds"
	case contract.FromEventData:
		return "the event's data, byte for byte as it was posted"
	case contract.FromTenantID:
		return "the tenant's ID"
	case contract.FromWebhookID:
		return "the webhook ID"
	case contract.FromRunID:
		return "the run's ID"
	case contract.FromRunCounts:
		return "how many events the run has, in all and by type"
	case contract.FromPageToken:
		return "the token that opens the run's pages"
	case contract.FromPageURL:
		return "the address of the run's first page"
	case contract.FromSentAt:
		return "when this attempt was made: RFC 3339, UTC, with milliseconds"
	case contract.FromAttempt:
		return "the number of this attempt within its round, from 1"
	case contract.FromTimestamp:
		return "the time of this attempt in Unix seconds"
	}
	return fmt.Sprintf("`%s`", from)
}
