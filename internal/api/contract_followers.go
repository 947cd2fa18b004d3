package api

import (
	"slices"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// followersPage is how many endpoints are looked at in one step.
const followersPage = 250

// checkFollowers refuses another wording of a contract under which the secrets of
// an endpoint that follows it could not sign: all that is made for it from then on
// would fail. It asks only where the wording signs otherwise, and before the commit:
// an endpoint that is given such a secret meanwhile is not seen.
func (a *API) checkFollowers(c *call, next *contract.Contract) error {
	had, ok := a.cfg.Contracts.Lookup(next.Name)
	if !ok || keyedAlike(had.Contract, next) {
		return nil
	}
	for page := (store.Page{Limit: followersPage}); ; {
		listed, err := a.cfg.Store.ListEndpoints(c.r.Context(), store.TenantAll, page)
		if err != nil {
			return err
		}
		for _, e := range listed.Items {
			if e.Contract == next.Name && !canSign(e, next) {
				return errFollower(e)
			}
		}
		if page.After = listed.Next; listed.Next == 0 {
			return nil
		}
	}
}

// keyedAlike tells whether the same secrets are keys under two contracts.
func keyedAlike(a, b *contract.Contract) bool {
	return a.Secret.Prefix == b.Secret.Prefix && a.Signature.Key == b.Signature.Key && slices.Equal(a.Signature.Algorithms, b.Signature.Algorithms)
}

func errFollower(e *webhook.Endpoint) error {
	which := "the secrets of endpoint " + e.ID + " of tenant " + e.Tenant
	return &webhook.Problem{
		Code:   webhook.CodeConflict,
		Detail: which + " can't sign under this wording, so all its deliveries would fail; nothing was stored",
		Fields: []webhook.FieldFault{{
			Pointer: "/signature", Code: webhook.CodeConflict, Detail: "with secret.prefix it makes no key of " + which,
			Allowed: "a secret.prefix, signature.key and signature.algorithms that fit the secrets of all endpoints under this contract, or another name for the contract",
		}},
	}
}
