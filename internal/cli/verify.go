package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/posthorn/posthorn/signature"
)

// maxVerifyBody bounds what verify reads, in bytes.
const maxVerifyBody = 64 << 20

type verifyCommand struct {
	Scheme    string   `name:"scheme" required:"true" placeholder:"NAME" help:"How it is signed: ${schemes}."`
	Variant   string   `name:"variant" placeholder:"V" help:"Which of several schemes that the provider has."`
	Secrets   []string `name:"secret" required:"true" sep:"none" placeholder:"SECRET" help:"The signing secret; repeat it while a secret is being changed: any may match."`
	Headers   []string `name:"header" sep:"none" placeholder:"'NAME: VALUE'" help:"A header of the request; one that is given twice is a repeated header."`
	URL       string   `name:"url" placeholder:"URL" help:"The URL that was called, for schemes that sign it."`
	Method    string   `name:"method" placeholder:"M" default:"POST" help:"The method, for schemes that sign it."`
	Now       *int64   `name:"now" placeholder:"UNIX" help:"The time to judge the timestamp by, in Unix seconds; the present by default."`
	Tolerance *span    `name:"tolerance" placeholder:"D" help:"How far the timestamp may be off, such as 300s or 5m; by default what the scheme says."`
	JSON      bool     `name:"json" help:"Print JSON."`
}

// Help implements kong.HelpProvider.
func (verifyCommand) Help() string {
	return `Reads the body, byte for byte, from standard input. Exit code 0: the signature is valid; 1: it is not, and the reason is printed.

    posthorn verify --scheme standardwebhooks --secret "$SECRET" \
        --header 'webhook-id: evt_1' --header 'webhook-timestamp: 1767225600' \
        --header 'webhook-signature: v1,…' < body.json`
}

// Run verifies.
func (c *verifyCommand) Run(p *Process) error {
	scheme, err := findScheme(c.Scheme, c.Variant)
	if err != nil {
		return err
	}
	err = c.verify(p, scheme)
	if c.JSON {
		if err := p.printJSON(verdictOf(err)); err != nil {
			return err
		}
	} else if err == nil {
		p.printf("valid\n")
	} else {
		p.printf("not valid: %s\n", clean(err.Error()))
	}
	if err != nil {
		return exitError(exitFailed)
	}
	return nil
}

// findScheme looks a scheme up; a name that is not known is a usage error.
func findScheme(name, variant string) (signature.Scheme, error) {
	if s, ok := signature.Lookup(name, variant); ok {
		return s, nil
	}
	if variant != "" {
		return signature.Scheme{}, usagef("--variant: %s has no scheme %q; known are: %s", name, variant, schemeNames())
	}
	return signature.Scheme{}, usagef("--scheme: there is no scheme %q; known are: %s", name, schemeNames())
}

// schemeNames lists the schemes for people, each once, variants in brackets.
func schemeNames() string {
	var names []string
	for _, s := range signature.Schemes() {
		name := s.Name
		if s.Variant != "" {
			name += " (variant " + s.Variant + ")"
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

func (c *verifyCommand) verify(p *Process, scheme signature.Scheme) error {
	keys, err := parseKeys(scheme, c.Secrets)
	if err != nil {
		return err
	}
	header := http.Header{}
	for i, line := range c.Headers {
		name, value, ok := splitHeader(line)
		if !ok {
			return fmt.Errorf("header %d is not of the form 'Name: value'", i+1)
		}
		header.Add(name, value)
	}
	body, err := io.ReadAll(io.LimitReader(p.Stdin, maxVerifyBody+1))
	if err != nil {
		return fmt.Errorf("read the body: %w", err)
	}
	if len(body) > maxVerifyBody {
		return fmt.Errorf("the body is over %d MiB", maxVerifyBody>>20)
	}
	now, tolerance := p.Clock.Wall(), scheme.Tolerance
	if c.Now != nil {
		now = time.Unix(*c.Now, 0)
	}
	if c.Tolerance != nil {
		tolerance = c.Tolerance.std()
	}
	return scheme.Verify(signature.Request{Header: header, Body: body}, keys, now, tolerance)
}

func parseKeys(scheme signature.Scheme, secrets []string) ([]signature.Key, error) {
	keys := make([]signature.Key, len(secrets))
	for i, secret := range secrets {
		key, err := scheme.ParseKey(secret)
		if err != nil {
			return nil, err // it says what is wrong and never a part of the secret
		}
		keys[i] = key
	}
	return keys, nil
}

// verdict is the JSON form of the answer.
type verdict struct {
	Valid bool `json:"valid"`
	// Reason is the verifier's, or malformed for a secret or header that can't
	// be read.
	Reason string `json:"reason,omitempty"`
	Header string `json:"header,omitempty"`
	Detail string `json:"detail,omitempty"`
}

func verdictOf(err error) verdict {
	var refused *signature.VerifyError
	switch {
	case err == nil:
		return verdict{Valid: true}
	case errors.As(err, &refused):
		return verdict{Reason: string(refused.Reason), Header: refused.Header, Detail: refused.Error()}
	default:
		return verdict{Reason: "malformed", Detail: err.Error()}
	}
}
