package api

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/webhook"
	"github.com/posthorn/posthorn/signature"
)

// apply validates the input against its contract and writes it into e. What the
// input leaves out gets its default, except the secret and the switch, which stay
// as they are. The returned secret is the one that e signs with afterwards if it
// is new, else "". filter is what checkFilter found before: this may run inside the
// store's change.
func (a *API) apply(e *webhook.Endpoint, in *endpointInput, fallback string, filter faults, now time.Time) (newSecret string, err error) {
	found := slices.Clone(filter)
	promise := a.contractFor(in.Contract, fallback, &found)
	if promise == nil {
		return "", found.problem()
	}
	address, err := webhook.ParseEndpointURL(in.URL, promise.URL.Schemes, a.cfg.Dev)
	if err != nil {
		found.urlFault("/url", err)
	}
	checkPatterns(in.Events, &found)
	headers := a.headers(in.Headers, e.Headers, promise, &found)
	checkMetadata(in.Metadata, &found)
	checkText("/description", in.Description, &found)
	if in.Secret != "" {
		checkSecret(in.Secret, promise, &found)
	} else {
		checkKept(e, promise, &found)
	}
	if err := found.problem(); err != nil {
		return "", err
	}
	e.Filter, e.Ordering = in.Filter, nil
	if in.Ordering != nil {
		e.Ordering = &webhook.Ordering{From: in.Ordering.From}
	}
	e.URL, e.Events, e.Headers, e.Metadata = address, in.Events, headers, in.Metadata
	e.Contract = promise.Name
	e.Description, e.MaxInFlight = in.Description, in.MaxInFlight
	if e.MaxInFlight == 0 {
		e.MaxInFlight = webhook.DefaultMaxInFlight
	}
	return a.settleSecret(e, in.Secret, promise, now)
}

func (a *API) contractFor(name, fallback string, found *faults) *contract.Contract {
	if name == "" {
		name = fallback
	}
	promise, ok := a.cfg.Contracts.Lookup(name)
	if !ok {
		found.invalid("/contract", "there is no contract of this name", "one of "+strings.Join(a.cfg.Contracts.Names(), ", "))
		return nil
	}
	return promise.Contract
}

func (f *faults) urlFault(pointer string, err error) {
	if bad, ok := errors.AsType[*webhook.URLError](err); ok {
		f.invalid(pointer, bad.Detail, bad.Allowed)
		return
	}
	f.invalid(pointer, "it is no URL that can be sent to", "a URL such as https://example.com/webhooks")
}

func checkPatterns(patterns []string, found *faults) {
	for i, p := range patterns {
		if !webhook.ValidPattern(p) {
			found.invalid("/events/"+strconv.Itoa(i), "it is no pattern", "a type such as link.created, a family such as link.*, or *; types are "+webhook.EventTypeForm)
		}
	}
}

// checkMetadata asks for texts that any store can keep.
func checkMetadata(metadata map[string]string, found *faults) {
	for name, text := range metadata {
		checkText(pointerTo("/metadata", name), name+text, found)
	}
}

func checkText(pointer, text string, found *faults) {
	if strings.ContainsRune(text, 0) {
		found.invalid(pointer, "it holds a NUL character", "a text without NUL")
	}
}

// headers makes the list of headers, sorted by name. A masked value keeps the one
// that is stored, so that what was read can be given back.
func (a *API) headers(given map[string]string, stored []webhook.Header, promise *contract.Contract, found *faults) []webhook.Header {
	list := make([]webhook.Header, 0, len(given))
	for name, text := range given {
		value := webhook.NewSecretText(text)
		if text == webhook.Redacted {
			i := slices.IndexFunc(stored, func(h webhook.Header) bool { return strings.EqualFold(h.Name, name) })
			if i < 0 {
				found.invalid(pointerTo("/headers", name), "its value is the mask, and there is no stored value for it to stand for", "the header's value")
				continue
			}
			value = stored[i].Value
		}
		list = append(list, webhook.Header{Name: name, Value: value})
	}
	slices.SortFunc(list, func(a, b webhook.Header) int { return strings.Compare(a.Name, b.Name) })
	for _, fault := range webhook.ValidateHeaders(list, promise.ReservedHeaders()) {
		at := "/headers"
		if fault.Index != webhook.AllHeaders {
			at = pointerTo(at, list[fault.Index].Name)
		}
		found.add(at, headerCode(fault.Reason), fault.Detail, fault.Allowed)
	}
	return list
}

func headerCode(reason webhook.HeaderReason) webhook.Code {
	switch reason {
	case webhook.HeadersTooMany:
		return limitHeaders
	case webhook.HeadersTooLarge:
		return limitHeaderBytes
	case webhook.HeaderName, webhook.HeaderProtected, webhook.HeaderRepeated, webhook.HeaderValue:
		return webhook.CodeInvalidField
	default:
		return webhook.CodeInvalidField
	}
}

// checkSecret holds a caller's secret against the contract: its prefix and the
// number of bytes behind it, or an Ed25519 key where the contract signs with one.
// The contract's key form does not matter here: whichever bytes become the key,
// the text is made of prefix and base64 (E2).
func checkSecret(text string, promise *contract.Contract, found *faults) {
	rule := promise.Secret
	scheme := signature.Scheme{KeyForm: signature.KeyBase64, SecretPrefix: rule.Prefix}
	for _, name := range promise.Signature.Algorithms {
		scheme.Algorithms = append(scheme.Algorithms, signature.Algorithm(name))
	}
	if rule.From == secretMade {
		found.invalid("/secret", "the secrets of this contract are made by the server", "no secret")
		return
	}
	allowed := rule.Prefix + " and the base64 of " + strconv.Itoa(rule.MinBytes) + " to " + strconv.Itoa(rule.MaxBytes) + " bytes"
	if slices.Contains(scheme.Algorithms, signature.Ed25519) {
		allowed += ", or an Ed25519 private key: whsk_ and the base64 of its 32 or 64 bytes"
	}
	key, err := scheme.ParseKey(text)
	switch {
	case err != nil:
		found.invalid("/secret", "it is no signing secret of this contract", allowed)
	case key.Algorithm() == signature.Ed25519:
		if key.PublicText() == text {
			found.invalid("/secret", "a public key can verify but not sign", allowed)
		}
	case !strings.HasPrefix(text, rule.Prefix):
		found.invalid("/secret", "it does not begin with "+rule.Prefix, allowed)
	case key.Len() < rule.MinBytes || key.Len() > rule.MaxBytes:
		found.invalid("/secret", "it has too few or too many bytes", allowed)
	}
}

// secretMade as a contract's secret.from: callers give none. Under the other two, one
// is made where the caller gives none (E2).
const secretMade = "made"

// checkKept asks whether an endpoint's secrets can sign under a contract that it
// changes to: what an earlier one let in may be no key of this one.
func checkKept(e *webhook.Endpoint, promise *contract.Contract, found *faults) {
	if e.Contract == promise.Name {
		return
	}
	if !canSign(e, promise) {
		found.invalid("/contract", "the endpoint's secrets can't sign under this contract", "a contract that signs with such secrets, or this one once the secret was rotated to one that fits and the earlier ones were revoked")
	}
}

// canSign tells whether all secrets of an endpoint are keys under a contract. One
// that is not lets every delivery fail before it is sent.
func canSign(e *webhook.Endpoint, promise *contract.Contract) bool {
	scheme := signature.Scheme{KeyForm: signature.KeyForm(promise.Signature.Key), SecretPrefix: promise.Secret.Prefix}
	for _, name := range promise.Signature.Algorithms {
		scheme.Algorithms = append(scheme.Algorithms, signature.Algorithm(name))
	}
	return !slices.ContainsFunc(e.Secrets, func(s webhook.SigningSecret) bool {
		if publicKey(s.Text) != "" && !slices.Contains(scheme.Algorithms, signature.Ed25519) {
			return true // its text would sign as a shared secret, which no receiver has
		}
		_, err := scheme.ParseKey(s.Text.Reveal())
		return err != nil
	})
}

// publicKey is the text that receivers verify with; "" unless the secret is an
// Ed25519 key.
func publicKey(secret webhook.SecretText) string {
	key, err := signature.Scheme{Algorithms: []signature.Algorithm{signature.Ed25519}}.ParseKey(secret.Reveal())
	if err != nil {
		return ""
	}
	return key.PublicText()
}

// settleSecret gives e the caller's secret, or makes one if e has none.
func (a *API) settleSecret(e *webhook.Endpoint, given string, promise *contract.Contract, now time.Time) (string, error) {
	if len(e.Secrets) > 0 && (given == "" || e.Secrets[0].Text.Reveal() == given) {
		return "", nil
	}
	made, err := a.newSecret(given, nil, promise, now)
	if err != nil {
		return "", err
	}
	e.Secrets = []webhook.SigningSecret{made}
	return made.Text.Reveal(), nil
}

func (a *API) newID(prefix string, now time.Time) (string, error) {
	var random [10]byte
	if _, err := io.ReadFull(a.cfg.Rand, random[:]); err != nil {
		return "", fmt.Errorf("making an ID: %w", err)
	}
	return webhook.RandomID(prefix, now, random), nil
}
