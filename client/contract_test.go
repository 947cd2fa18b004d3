package client_test

import (
	"encoding/json"
	"testing"

	"github.com/posthorn/posthorn/client"
)

// TestContracts: a file goes as it is, and what a contract makes of answers comes
// back step by step.
func TestContracts(t *testing.T) {
	t.Parallel()
	c, requests := serve(t, 200, nil, `{"name":"ours","revision":"5f0c2d9a7b31","builtin":false,"created_at":"2026-05-22T14:32:18.847Z","apiVersion":1}`)
	stored, err := c.PutContract(t.Context(), "ours", []byte("apiVersion: 1\n"), client.AdoptNew)
	if err != nil || stored.Revision != "5f0c2d9a7b31" || stored.CreatedAt.IsZero() {
		t.Fatalf("got %+v: %v", stored, err)
	}
	if r := (*requests)[0]; r.method != "PUT" || r.path != "/v1/contracts/ours" || r.query != "under_way=adopt" || r.body != "apiVersion: 1\n" || r.header.Get("Content-Type") != "application/yaml" {
		t.Errorf("request %+v", r)
	}
	if _, err := c.GetContract(t.Context(), "a/b"); err != nil || (*requests)[1].path != "/v1/contracts/a%2Fb" {
		t.Errorf("request %+v: %v", (*requests)[1], err)
	}
	c, requests = serve(t, 200, nil, `{"steps":[{"attempt":1,"at":0,"answer":"500","status_code":500,"failure_kind":"http_status","status":"pending","next_at":5,"endpoint_state":"active","degraded":false,"events":[]},
		{"attempt":2,"at":5,"answer":"200","status_code":200,"failure_kind":null,"status":"delivered","next_at":null,"endpoint_state":"active","degraded":false,"events":[]}]}`)
	steps, err := c.SimulateContract(t.Context(), client.Simulation{Contract: "ours", Answers: "500,200", Jitter: new(false)})
	if err != nil || len(steps) != 2 || steps[0].NextAt == nil || *steps[0].NextAt != 5 || steps[1].NextAt != nil || steps[1].FailureKind != "" {
		t.Fatalf("got %+v: %v", steps, err)
	}
	if r := (*requests)[0]; r.path != "/v1/contracts/simulate" || r.body != `{"contract":"ours","answers":"500,200","jitter":false}` {
		t.Errorf("request %+v", r)
	}
}

// TestEndpointPatch_Ordering: absent stays, without paths it is taken away.
func TestEndpointPatch_Ordering(t *testing.T) {
	t.Parallel()
	for want, patch := range map[string]client.EndpointPatch{
		`{}`:                               {},
		`{"ordering":null}`:                {Ordering: &client.Ordering{}},
		`{"ordering":{"from":["data.a"]}}`: {Ordering: &client.Ordering{From: []string{"data.a"}}},
		`{"active":true,"filter":""}`:      {Active: new(true), Filter: new("")},
	} {
		if got, err := json.Marshal(patch); err != nil || string(got) != want {
			t.Errorf("got %s, want %s: %v", got, want, err)
		}
	}
}
