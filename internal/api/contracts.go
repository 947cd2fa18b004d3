package api

import (
	"net/http"
	"reflect"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

type wireContract struct {
	Name     string          `json:"name" example:"standard"`
	Revision string          `json:"revision" doc:"Changes exactly when the promise does." example:"5f0c2d9a7b31"`
	Builtin  bool            `json:"builtin" doc:"Built-in contracts can't be changed." example:"true"`
	Schemes  []string        `json:"schemes" doc:"What an endpoint's URL may begin with." example:"[\"https\",\"http\"]"`
	Headers  []string        `json:"headers" doc:"The headers that it sets, besides that of the signature." example:"[\"webhook-id\",\"webhook-timestamp\"]"`
	Sign     wireSigning     `json:"signature"`
	Timeout  float64         `json:"timeout_seconds" doc:"From the start of an attempt to complete headers." example:"15"`
	Waits    []float64       `json:"waits_seconds" doc:"The wait before each attempt, after the end of the one before." example:"[0,5,300]"`
	Jitter   float64         `json:"jitter" doc:"0.1: each wait is off by up to 10 %, both ways." example:"0.1"`
	After    wireRetry       `json:"retry_after"`
	Stops    []wireStop      `json:"stops" doc:"Answers that end a delivery at once."`
	Gives    contract.Status `json:"exhausted_status" doc:"The status of a delivery whose attempts are used up." example:"failed"`
	Keeps    float64         `json:"history_seconds" doc:"How long the log of a delivery is kept from its end." example:"2592000"`
}

type wireSigning struct {
	Header     string   `json:"header" example:"webhook-signature"`
	Form       string   `json:"form" example:"standard"`
	Signed     string   `json:"signed" doc:"The text that is signed." example:"{id}.{t}.{body}"`
	Algorithms []string `json:"algorithms" example:"[\"hmac-sha256\",\"ed25519\"]"`
	Key        string   `json:"key" doc:"base64: the bytes behind the prefix. text: the secret as it stands." example:"base64"`
	Prefix     string   `json:"secret_prefix" example:"whsec_"`
}

type wireRetry struct {
	Any bool    `json:"any" doc:"true: the header of any failed answer counts; else that of the statuses in on." example:"true"`
	On  []int   `json:"on" example:"[]"`
	Max float64 `json:"max_seconds" doc:"A longer one counts as this." example:"86400"`
}

type wireStop struct {
	On      contract.FailureKind `json:"on" example:"gone"`
	Status  contract.Status      `json:"status" example:"failed"`
	Disable bool                 `json:"disable" doc:"The endpoint is disabled too." example:"true"`
}

func (a *API) contractOperations() []*operation {
	one := a.schemas.of(reflect.TypeFor[wireContract]())
	return []*operation{
		{
			id: "listContracts", method: http.MethodGet, path: "/v1/contracts", tag: "contracts", scope: webhook.ScopeRead,
			summary: "List contracts", handle: a.listContracts,
			answers: []answer{{status: 200, description: "All contracts.", schema: a.schemas.listOf(one, "ContractList")}},
		},
		{
			id: "getContract", method: http.MethodGet, path: "/v1/contracts/{name}", tag: "contracts", scope: webhook.ScopeRead,
			summary: "Read a contract", handle: a.getContract,
			answers: []answer{{status: 200, description: "The contract.", schema: one}},
		},
	}
}

func (a *API) listContracts(c *call) (reply, error) {
	var all store.Listed[Contract]
	for _, name := range a.cfg.Contracts.Names() {
		if found, ok := a.cfg.Contracts.Lookup(name); ok {
			all.Items = append(all.Items, found)
		}
	}
	return pageOf(a, c, all, showContract), nil
}

func (a *API) getContract(c *call) (reply, error) {
	found, ok := a.cfg.Contracts.Lookup(c.r.PathValue("name"))
	if !ok {
		return reply{}, store.ErrNotFound
	}
	return reply{status: http.StatusOK, value: showContract(found)}, nil
}

func showContract(found Contract) wireContract {
	c := found.Contract
	shown := wireContract{
		Name: c.Name, Revision: found.Revision, Builtin: found.Builtin, Schemes: c.URL.Schemes, Timeout: c.Timeout.Std().Seconds(), Jitter: c.Schedule.Jitter,
		Sign: wireSigning{
			Header: c.Signature.Header, Form: c.Signature.Form, Signed: c.Signature.Signed, Algorithms: c.Signature.Algorithms,
			Key: c.Signature.Key, Prefix: c.Secret.Prefix,
		},
		After: wireRetry{Any: c.RetryAfter.Any, On: c.RetryAfter.On, Max: c.RetryAfter.Max.Std().Seconds()},
		Gives: c.Exhausted.Status, Keeps: c.History.Keep.Std().Seconds(),
	}
	for _, h := range c.Headers {
		shown.Headers = append(shown.Headers, h.Name)
	}
	for _, wait := range c.Schedule.Waits {
		shown.Waits = append(shown.Waits, wait.Std().Seconds())
	}
	for _, s := range c.Stop {
		shown.Stops = append(shown.Stops, wireStop{On: s.On, Status: s.Status, Disable: s.Disable})
	}
	return shown
}
