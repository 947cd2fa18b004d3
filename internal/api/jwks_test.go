package api

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
)

// keySet reads an endpoint's set as a receiver does, without a key.
func (f *fixture) keySet(path string) []map[string]string {
	f.Helper()
	got := f.send(to("GET", path, "").with("Authorization", "")).is(200)
	if got.header.Get("Cache-Control") != "public, max-age=300" || got.header.Get("Content-Type") != mediaJWKS {
		f.Errorf("headers are %v", got.header)
	}
	var set struct{ Keys []map[string]string }
	if err := json.Unmarshal([]byte(got.raw), &set); err != nil || set.Keys == nil {
		f.Fatalf("the set is %s: %v", got.raw, err)
	}
	return set.Keys
}

// TestFault_B65_PublicKeysOverlap: both keys of a rotation are in the set, a revoked
// one is gone at once, and the URL stays.
func TestFault_B65_PublicKeysOverlap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	secret := func(fill byte) (text, x string) {
		seed := make([]byte, ed25519.SeedSize)
		seed[0] = fill
		public, _ := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
		return "whsk_" + base64.StdEncoding.EncodeToString(seed), base64.RawURLEncoding.EncodeToString(public)
	}
	one, x1 := secret(1)
	two, x2 := secret(2)
	three, x3 := secret(3)
	const path = "/jwks/default/mine"
	made := f.send(to("PUT", "/v1/endpoints/mine", `{"url":"https://example.com/","events":["*"],"secret":"`+one+`"}`)).is(201)
	if made.text("jwks_url") != "http://127.0.0.1:8080"+path {
		t.Errorf("it is read at %s", made.text("jwks_url"))
	}
	keys := f.keySet(path)
	id := made.json["secrets"].([]any)[0].(map[string]any)["id"]
	if len(keys) != 1 || keys[0]["x"] != x1 || keys[0]["kid"] != id || keys[0]["kty"] != "OKP" || keys[0]["crv"] != "Ed25519" {
		t.Errorf("the set is %v", keys)
	}
	f.send(to("POST", "/v1/endpoints/mine/rotate-secret", `{"secret":"`+two+`"}`)).is(200)
	if keys = f.keySet(path); len(keys) != 2 || keys[0]["x"] != x2 || keys[1]["x"] != x1 {
		t.Errorf("after a rotation: %v", keys)
	}
	f.send(to("POST", "/v1/endpoints/mine/rotate-secret", `{"secret":"`+three+`","revoke":true}`)).is(200)
	if keys = f.keySet(path); len(keys) != 1 || keys[0]["x"] != x3 {
		t.Errorf("after revoking: %v", keys)
	}
	// Shared secrets are never there.
	f.send(to("POST", "/v1/endpoints/mine/rotate-secret", `{"secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw","revoke":true}`)).is(200)
	if keys = f.keySet(path); len(keys) != 0 {
		t.Errorf("a shared secret is shown: %v", keys)
	}
	if got := f.send(to("GET", "/v1/endpoints/mine", "")).is(200); got.json["jwks_url"] != nil {
		t.Errorf("it is read at %v", got.json["jwks_url"])
	}
	unknown := f.send(to("GET", "/jwks/default/none", "").with("Authorization", "")).problem(404, "not_found")
	if other := f.send(to("GET", "/jwks/nobody/mine", "").with("Authorization", "")).problem(404, "not_found"); other.raw != unknown.raw || strings.Contains(other.raw, "mine") {
		t.Errorf("what is missing differs: %s and %s", other.raw, unknown.raw)
	}
	// No name stands for several tenants.
	for _, path := range []string{"/jwks/*/mine", "/jwks/%2A/mine", "/jwks/%20/mine"} {
		if got := f.send(to("GET", path, "").with("Authorization", "")).problem(404, "not_found"); got.raw != unknown.raw {
			t.Errorf("%s answers %s", path, got.raw)
		}
	}
}
