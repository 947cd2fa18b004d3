package api

import (
	"net/url"
	"time"

	"github.com/posthorn/posthorn/internal/webhook"
)

// endpointInput is what creating takes, and PUT.
type endpointInput struct {
	URL         string            `json:"url" doc:"Where events are sent, by POST. What is behind # is dropped, the host is stored in lower case; path and query stay as given." min:"1" max:"2048" form:"a URL such as https://example.com/webhooks, of at most 2048 bytes" example:"https://example.com/webhooks"`
	Events      []string          `json:"events" doc:"Patterns that choose events by their type: a type, a family such as link.*, or * for all but the server's own (webhook.failed, endpoint.*, replay.finished), which only patterns that name them or their family take. An event that several patterns match is delivered once." min:"1" max:"50" limit:"endpoint_patterns" items:"pattern=^(\\*|[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*(\\.\\*)?)$;max=130;form=a type such as link.created, a family such as link.*, or *" example:"[\"link.created\",\"click\"]"`
	Secret      string            `json:"secret,omitempty" secret:"in" doc:"The signing secret: whsec_ and the base64 of 24 to 64 random bytes, under the standard contract. Or an Ed25519 private key, where the contract signs with one (standard does): whsk_ and the base64 of its 32-byte seed, or of its 64 bytes. Signatures are v1a then, and receivers find the public keys at jwks_url. It is taken unchanged. Without one, a secret is made." min:"1" max:"512" example:"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"`
	Active      *bool             `json:"active,omitempty" doc:"false switches the endpoint off: it is paused, and its deliveries wait or are skipped, as the contract says. true switches it on from any state. Absent: on for a new endpoint, else as it is." example:"true"`
	Contract    string            `json:"contract,omitempty" doc:"The contract that its deliveries follow. Absent: the tenant's default." min:"1" max:"64" example:"standard"`
	Description string            `json:"description,omitempty" doc:"Free text for people." max:"500" example:"Orders to the warehouse"`
	Filter      string            `json:"filter,omitempty" doc:"A CEL expression over type, event (id, type, created_at, ordering_key, tenant) and data: of the events that the patterns choose, only those are delivered that fulfil it. POST /v1/filters/check tries one out." max:"2048" limit:"filter_bytes" example:"data.amount > 100"`
	Ordering    *orderingInput    `json:"ordering,omitempty" doc:"Deliveries of one key go out one after the other, each when the one before has ended. Absent: as the contract says."`
	Headers     map[string]string `json:"headers,omitempty" doc:"Fixed headers of each request. Values are secrets: they are stored encrypted and shown masked; a masked value given back keeps what is stored. Names that frame the request or that the contract sets are refused." max:"32" limit:"endpoint_headers" keys:"min=1;max=128" items:"min=1;max=8192" example:"{\"X-Api-Key\":\"s3cret\"}"`
	Metadata    map[string]string `json:"metadata,omitempty" doc:"Texts of your own; they are kept and shown, and never sent." max:"50" limit:"endpoint_metadata" keys:"min=1;max=64" items:"max=500" example:"{\"customer\":\"42\"}"`
	MaxInFlight int               `json:"max_in_flight,omitempty" doc:"How many requests may be under way to it at once." min:"1" max:"1000" default:"128" example:"16"`
}

// orderingInput makes an endpoint's deliveries strict by key.
type orderingInput struct {
	From []string `json:"from" doc:"Paths into the data; the first one present is an event's key where its publisher gave none." min:"1" max:"8" items:"pattern=^data(\\.[A-Za-z0-9_-]+){1,8}$;max=256;form=a path into the data such as data.link_id" example:"[\"data.link_id\"]"`
}

// wireOrdering is the same, shown.
type wireOrdering struct {
	From []string `json:"from" example:"[\"data.link_id\"]"`
}

// wireEndpoint is an endpoint as callers see it.
type wireEndpoint struct {
	ID               string                `json:"id" doc:"Ours begins with ep_; one given by PUT is the caller's." example:"ep_01k8x3m5t2f4v9z7q1c6b8n0da"`
	Tenant           string                `json:"tenant" example:"default"`
	URL              string                `json:"url" example:"https://example.com/webhooks"`
	Events           []string              `json:"events" example:"[\"link.created\",\"click\"]"`
	Contract         string                `json:"contract" example:"standard"`
	ContractRevision string                `json:"contract_revision" doc:"Which wording of the contract new deliveries follow." example:"5f0c2d9a7b31"`
	State            webhook.EndpointState `json:"state" doc:"active: events are sent. paused and disabled: deliveries wait, or are skipped, as the contract says." example:"active"`
	StateReason      *webhook.StateReason  `json:"state_reason" doc:"Why it is not active: paused by a person or switched_off; disabled by staff, because the server answered 410 (gone), or by the contract's health rules. null while active." example:"null"`
	StateSince       stamp                 `json:"state_since" doc:"When state last changed." example:"2026-05-22T14:32:18.847Z"`
	Banner           *string               `json:"banner" doc:"A text for the endpoint's owner about an endpoint that is off, in the language that lang or Accept-Language asks for (en, ja, ko); null when there is none." example:"null"`
	DegradedUntil    *stamp                `json:"degraded_until" doc:"Until then the endpoint is marked as degraded after failures in a row: what is made meanwhile gets fewer attempts. null without the mark." example:"null"`
	Description      string                `json:"description" example:"Orders to the warehouse"`
	Metadata         map[string]string     `json:"metadata" example:"{\"customer\":\"42\"}"`
	Headers          map[string]string     `json:"headers" doc:"Its own request headers; every value is masked." example:"{\"X-Api-Key\":\"[redacted]\"}"`
	Filter           *string               `json:"filter" doc:"A CEL expression that events must fulfil; null without one." example:"null"`
	Ordering         *wireOrdering         `json:"ordering" doc:"By which key its deliveries are strict; null leaves it to the contract."`
	MaxInFlight      int                   `json:"max_in_flight" example:"16"`
	Secrets          []wireSecret          `json:"secrets" doc:"The secrets that sign now, newest first. Their texts are never shown again."`
	JWKSURL          string                `json:"jwks_url,omitempty" doc:"Where receivers find the public keys, without a key of ours; only where a secret is an Ed25519 key." example:"https://hooks.example.com/jwks/default/ep_01k8x3m5t2f4v9z7q1c6b8n0da"`
	Health           wireHealth            `json:"health"`
	Waiting          *int                  `json:"waiting" doc:"How many deliveries wait; counted up to 10000. null in lists: read the endpoint itself." example:"0"`
	OldestDueAt      *stamp                `json:"oldest_due_at" doc:"When the oldest waiting delivery was due; null when none waits, and where waiting is null." example:"null"`
	Version          int64                 `json:"version" doc:"Rises with each change. Given back in If-Match, it protects against overwriting somebody else's." example:"3"`
	CreatedAt        stamp                 `json:"created_at" example:"2026-05-22T14:32:18.847Z"`
	UpdatedAt        stamp                 `json:"updated_at" example:"2026-05-22T14:32:18.847Z"`
}

// wireCreatedEndpoint is the one answer that shows the secret.
type wireCreatedEndpoint struct {
	wireEndpoint
	Secret string `json:"secret" secret:"out" doc:"The signing secret. It is shown here and never again." example:"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"`
}

type wireSecret struct {
	ID        string `json:"id" example:"sec_01k8x3m5t2f4v9z7q1c6b8n0da"`
	CreatedAt stamp  `json:"created_at" example:"2026-05-22T14:32:18.847Z"`
	ExpiresAt *stamp `json:"expires_at" doc:"When it stops to sign after a rotation; null for the present one." example:"null"`
	PublicKey string `json:"public_key,omitempty" doc:"What receivers verify with, where the secret is an Ed25519 key." example:"whpk_MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE="`
}

type wireHealth struct {
	FailuresInRow  int    `json:"failures_in_row" doc:"Failed attempts since the last success; tests don't count." example:"0"`
	FirstFailureAt *stamp `json:"first_failure_at" doc:"The first failure since the last success, enabling or resuming." example:"null"`
	LastSuccessAt  *stamp `json:"last_success_at" example:"2026-05-22T14:32:18.847Z"`
	LastAttemptAt  *stamp `json:"last_attempt_at" example:"2026-05-22T14:32:18.847Z"`
}

// showEndpoints shows endpoints to a caller, in the language that it asks for.
func (a *API) showEndpoints(c *call) func(*webhook.Endpoint) wireEndpoint {
	texts := a.textsFor(c)
	return func(e *webhook.Endpoint) wireEndpoint {
		headers := make(map[string]string, len(e.Headers))
		for _, h := range e.Headers {
			headers[h.Name] = webhook.Redacted
		}
		shown := wireEndpoint{
			ID: e.ID, Tenant: e.Tenant, URL: e.URL, Events: e.Events, Contract: e.Contract, ContractRevision: a.revisionOf(e.Contract),
			State: e.State, StateReason: orNull(e.StateReason), StateSince: stamp(e.StateSince), DegradedUntil: markedUntil(e, c.now),
			Description: e.Description, Metadata: e.Metadata, Headers: headers, Filter: orNull(e.Filter), MaxInFlight: e.MaxInFlight,
			Health: wireHealth{
				FailuresInRow: e.Health.FailuresInRow, FirstFailureAt: stampOrNull(e.Health.FirstFailureAt),
				LastSuccessAt: stampOrNull(e.Health.LastSuccessAt), LastAttemptAt: stampOrNull(e.Health.LastAttemptAt),
			},
			Version: e.Version, CreatedAt: stamp(e.CreatedAt), UpdatedAt: stamp(e.UpdatedAt),
		}
		if e.Ordering != nil {
			shown.Ordering = &wireOrdering{From: e.Ordering.From}
		}
		promise, _ := a.cfg.Contracts.Lookup(e.Contract) // nil has texts too
		shown.Banner = orNull(texts.Banner(promise.Contract, e.StateReason))
		a.addSecrets(&shown, e)
		return shown
	}
}

func (a *API) addSecrets(shown *wireEndpoint, e *webhook.Endpoint) {
	live := liveSecrets(e.Secrets, a.cfg.Clock.Wall())
	shown.Secrets = make([]wireSecret, len(live))
	for i, s := range live {
		shown.Secrets[i] = wireSecret{ID: s.ID, CreatedAt: stamp(s.CreatedAt), ExpiresAt: stampOrNull(s.ExpiresAt), PublicKey: publicKey(s.Text)}
	}
	if len(a.publicKeys(e)) > 0 {
		shown.JWKSURL = a.cfg.PublicURL + "/jwks/" + url.PathEscape(e.Tenant) + "/" + url.PathEscape(e.ID)
	}
}

// markedUntil is the end of the mark degraded; nil once it is over.
func markedUntil(e *webhook.Endpoint, now time.Time) *stamp {
	if !now.Before(e.Health.DegradedUntil) {
		return nil
	}
	return stampOrNull(e.Health.DegradedUntil)
}

// revisionOf is the present revision of a contract.
func (a *API) revisionOf(name string) string {
	found, _ := a.cfg.Contracts.Lookup(name)
	return found.Revision
}
