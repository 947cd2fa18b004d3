package api

import (
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
	"github.com/posthorn/posthorn/signature"
)

// maxSecrets is how many secrets of an endpoint sign at once. A rotation that
// would leave more drops the oldest.
const maxSecrets = 3

// maxOverlap bounds how long an earlier secret goes on to sign.
const maxOverlap = 30 * 24 * time.Hour

type rotateInput struct {
	Secret  string `json:"secret,omitempty" secret:"in" min:"1" max:"512" doc:"The new signing secret, in a form that an endpoint's secret can have, Ed25519 private keys (whsk_) included. It is taken unchanged. Absent: one is made, of the same kind as the present one." example:"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"`
	Overlap string `json:"overlap,omitempty" min:"1" max:"16" doc:"How long the earlier secrets go on to sign beside the new one, such as 24h, 90m or 7d; 30d at most. Absent: what the contract says." example:"24h"`
	Revoke  bool   `json:"revoke,omitempty" doc:"Let the earlier secrets stop to sign at once." example:"false"`
}

func (a *API) rotateOperation() *operation {
	created := a.schemas.of(reflect.TypeFor[wireCreatedEndpoint]())
	return &operation{
		id: "rotateSecret", method: http.MethodPost, path: "/v1/endpoints/{id}/rotate-secret", tag: "endpoints", scope: webhook.ScopeManage, tenancy: tenantOne,
		summary: "Give an endpoint a new signing secret",
		description: "From now on requests are signed with the new secret, and for the overlap with the earlier ones too: a receiver can change over in its own time. " +
			"At most three secrets sign at once; another rotation drops the oldest. With revoke the earlier ones stop at once: for a secret that leaked.",
		body: a.schemas.bodyOf(reflect.TypeFor[rotateInput](), map[string]any{"overlap": "24h"}), handle: a.rotateSecret,
		refusals: []webhook.Code{webhook.CodeConflict},
		answers:  []answer{{status: 200, description: "The endpoint, with its new signing secret. The secret is shown here and never again.", schema: created}},
	}
}

func (a *API) rotateSecret(c *call) (reply, error) {
	in, err := bodyAs[rotateInput](c)
	if err != nil {
		return reply{}, err
	}
	var made webhook.SigningSecret
	rotated, err := a.changeEndpoint(c, func(e *webhook.Endpoint) (changed, error) {
		found, ok := a.cfg.Contracts.Lookup(e.Contract)
		promise := found.Contract
		if !ok {
			return changed{}, webhook.NewProblem(webhook.CodeConflict, "the endpoint's contract is not known to this server")
		}
		overlap, err := checkRotation(&in, promise)
		if err != nil {
			return changed{}, err
		}
		// The store may ask again: the secret is made once.
		if made.ID == "" {
			if made, err = a.newSecret(in.Secret, e.Secrets, promise, c.now); err != nil {
				return changed{}, err
			}
		}
		return changed{EndpointUpdate: store.EndpointUpdate{Action: "endpoint.secret_rotated"}}, rotate(e, made, overlap, c.now)
	})
	if err != nil {
		return reply{}, err
	}
	if shown, ok := rotated.value.(wireEndpoint); ok {
		rotated.value = wireCreatedEndpoint{shown, made.Text.Reveal()}
	}
	return rotated, nil
}

// checkRotation holds a rotation against the contract and returns the overlap;
// zero revokes.
func checkRotation(in *rotateInput, promise *contract.Contract) (time.Duration, error) {
	var found faults
	if in.Secret != "" {
		checkSecret(in.Secret, promise, &found)
	}
	overlap := promise.Signature.Overlap
	if in.Overlap != "" {
		if err := overlap.UnmarshalText([]byte(in.Overlap)); err != nil || overlap.Std() > maxOverlap {
			found.invalid("/overlap", "it is no length of time that an overlap can have", "a number and a unit such as 90m, 24h or 7d, 30d at most")
		}
		if in.Revoke {
			found.invalid("/revoke", "earlier secrets can't stop at once and overlap", "revoke or overlap, not both")
		}
	}
	if in.Revoke {
		overlap = 0
	}
	return overlap.Std(), found.problem()
}

// ed25519Prefix and ed25519Seed are the form of an Ed25519 private key.
const (
	ed25519Prefix = "whsk_"
	ed25519Seed   = 32 // bytes
)

// newSecret takes the caller's secret or makes one: of the kind of the present one,
// if there is one, since receivers that verify with a public key know no other.
func (a *API) newSecret(given string, present []webhook.SigningSecret, promise *contract.Contract, now time.Time) (webhook.SigningSecret, error) {
	if given == "" {
		prefix, size := promise.Secret.Prefix, promise.Secret.Bytes
		if len(present) > 0 && publicKey(present[0].Text) != "" {
			prefix, size = ed25519Prefix, ed25519Seed
		}
		text, err := signature.GenerateSecret(a.cfg.Rand, prefix, size)
		if err != nil {
			return webhook.SigningSecret{}, err
		}
		given = text
	}
	id, err := a.newID(webhook.PrefixSecret, now)
	return webhook.SigningSecret{ID: id, Text: webhook.NewSecretText(given), CreatedAt: now}, err
}

// rotate puts a secret first. Those that signed until now end after the overlap,
// or when they would have ended anyway.
func rotate(e *webhook.Endpoint, next webhook.SigningSecret, overlap time.Duration, now time.Time) error {
	end := now.Add(overlap)
	secrets := []webhook.SigningSecret{next}
	for _, s := range e.Secrets {
		if s.Text == next.Text {
			return webhook.InvalidField("/secret", "the endpoint signs with this secret already", "a new secret")
		}
		if s.ExpiresAt.IsZero() || s.ExpiresAt.After(end) {
			s.ExpiresAt = end
		}
		if s.ExpiresAt.After(now) && len(secrets) < maxSecrets {
			secrets = append(secrets, s)
		}
	}
	e.Secrets = secrets
	return nil
}

// liveSecrets are those that sign at now.
func liveSecrets(all []webhook.SigningSecret, now time.Time) []webhook.SigningSecret {
	return slices.DeleteFunc(slices.Clone(all), func(s webhook.SigningSecret) bool {
		return !s.ExpiresAt.IsZero() && !now.Before(s.ExpiresAt)
	})
}
