package api

import (
	"encoding/base64"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
	"github.com/posthorn/posthorn/signature"
)

// mediaJWKS is the media type of RFC 7517.
const mediaJWKS = "application/jwk-set+json"

// jwksAge is how long receivers may keep a set, in seconds. It is far below any
// overlap of a rotation, so that a new key is known before the old one ends.
const jwksAge = "300"

type wireJWKS struct {
	Keys []wireJWK `json:"keys" doc:"The keys that sign now, newest first; none where the endpoint signs with shared secrets."`
}

// wireJWK is an Ed25519 public key (RFC 8037).
type wireJWK struct {
	Kty string `json:"kty" example:"OKP"`
	Crv string `json:"crv" example:"Ed25519"`
	X   string `json:"x" doc:"The public key, in base64url." example:"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"`
	Kid string `json:"kid" doc:"The secret's ID." example:"sec_01k8x3m5t2f4v9z7q1c6b8n0da"`
	Use string `json:"use" example:"sig"`
	Alg string `json:"alg" example:"EdDSA"`
}

func (a *API) jwksOperations() []*operation {
	return []*operation{{
		id: "getJWKS", method: http.MethodGet, path: "/jwks/{tenant}/{endpoint}", tag: "endpoints",
		summary: "Read the public keys that an endpoint's requests are signed with", handle: a.getJWKS,
		description: "For receivers: it needs no key, and its URL stays the same over rotations. Only Ed25519 keys are in it.",
		answers: []answer{{status: 200, description: "A JSON Web Key Set (RFC 7517).", schema: a.schemas.of(reflect.TypeFor[wireJWKS]()), mediaType: mediaJWKS,
			headers: []answerHeader{{"Cache-Control", "How long it may be kept.", &schema{Type: types{typeString}}}}}},
	}}
}

func (a *API) getJWKS(c *call) (reply, error) {
	tenant := c.r.PathValue("tenant")
	if !webhook.ValidCallerID(tenant) {
		// The store has names of its own, such as that of all tenants.
		return reply{}, store.ErrNotFound
	}
	e, err := a.cfg.Store.GetEndpoint(c.r.Context(), tenant, c.r.PathValue("endpoint"))
	if err != nil {
		return reply{}, err
	}
	text, err := encode(wireJWKS{Keys: a.publicKeys(e)})
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, raw: append(text, '\n'), mediaType: mediaJWKS, header: http.Header{"Cache-Control": {"public, max-age=" + jwksAge}}}, nil
}

// publicKeys are those of the endpoint's live Ed25519 secrets. Under a contract
// that does not sign so, no text is such a key, whatever it looks like.
func (a *API) publicKeys(e *webhook.Endpoint) []wireJWK {
	if !slices.Contains(a.rulesOf(e).Signature.Algorithms, string(signature.Ed25519)) {
		return nil
	}
	var keys []wireJWK
	for _, s := range liveSecrets(e.Secrets, a.cfg.Clock.Wall()) {
		_, text, ok := strings.Cut(publicKey(s.Text), "_")
		if !ok {
			continue
		}
		if raw, err := base64.StdEncoding.DecodeString(text); err == nil {
			keys = append(keys, wireJWK{Kty: "OKP", Crv: "Ed25519", X: base64.RawURLEncoding.EncodeToString(raw), Kid: s.ID, Use: "sig", Alg: "EdDSA"})
		}
	}
	return keys
}
