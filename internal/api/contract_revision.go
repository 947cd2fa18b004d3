package api

import (
	"net/http"
	"reflect"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

type wireRevision struct {
	Name      string  `json:"name" example:"ours"`
	Revision  string  `json:"revision" example:"5f0c2d9a7b31"`
	Current   bool    `json:"current" doc:"New deliveries follow it." example:"true"`
	Follows   *string `json:"follows" doc:"The revision that its deliveries were asked to follow; null: their own." example:"null"`
	YAML      string  `json:"yaml" doc:"The contract's file." example:"apiVersion: 1\nname: ours\n"`
	CreatedAt *stamp  `json:"created_at" doc:"When it was stored; null for one that comes with the server." example:"2026-05-22T14:32:18.847Z"`
}

func (a *API) revisionOperation() *operation {
	return &operation{
		id: "listContractRevisions", method: http.MethodGet, path: "/v1/contracts/{name}/revisions", tag: "contracts", scope: webhook.ScopeRead,
		summary: "List a contract's revisions", handle: a.listRevisions,
		description: "All of them, newest first. Those of a deleted contract stay, since deliveries refer to them.",
		answers:     []answer{{status: 200, description: "The revisions.", schema: a.schemas.listOf(a.schemas.of(reflect.TypeFor[wireRevision]()), "RevisionList")}},
	}
}

func (a *API) listRevisions(c *call) (reply, error) {
	name := c.r.PathValue("name")
	if found, ok := a.cfg.Contracts.Lookup(name); ok && found.Builtin {
		only := store.ContractRevision{Name: name, Revision: found.Revision, Text: textOf(found), Current: true}
		return pageOf(a, c, store.Listed[store.ContractRevision]{Items: []store.ContractRevision{only}}, showRevision), nil
	}
	all, err := a.cfg.Store.ListContractRevisions(c.r.Context(), name)
	if err != nil {
		return reply{}, err
	}
	if len(all) == 0 {
		return reply{}, store.ErrNotFound
	}
	return pageOf(a, c, store.Listed[store.ContractRevision]{Items: all}, showRevision), nil
}

func showRevision(r store.ContractRevision) wireRevision {
	return wireRevision{
		Name: r.Name, Revision: r.Revision, Current: r.Current, Follows: orNull(r.Follows), YAML: r.Text, CreatedAt: stampOrNull(r.CreatedAt),
	}
}
