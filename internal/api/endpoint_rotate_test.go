package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/internal/webhook"
)

// The earlier secrets sign on for the overlap, three at most, and stop at once
// when they are revoked.
func TestFault_B65_RotationLeavesTimeToChangeOver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	made := f.send(to("POST", "/v1/endpoints", plainEndpoint)).is(201)
	path := "/v1/endpoints/" + made.text("id")
	stored := func() []webhook.SigningSecret {
		t.Helper()
		e, err := f.db.GetEndpoint(t.Context(), "default", made.text("id"))
		if err != nil {
			t.Fatal(err)
		}
		return e.Secrets
	}
	first := made.text("secret")
	second := f.send(to("POST", path+"/rotate-secret", "")).is(200).text("secret")
	got := stored()
	if len(got) != 2 || got[0].Text.Reveal() != second || got[1].Text.Reveal() != first || !got[0].ExpiresAt.IsZero() {
		t.Fatalf("after one rotation: %d secrets", len(got))
	}
	if left := time.Until(got[1].ExpiresAt); left < 23*time.Hour || left > 24*time.Hour {
		t.Errorf("the first secret signs for another %s", left)
	}
	f.send(to("POST", path+"/rotate-secret", `{"overlap":"90m"}`)).is(200)
	f.send(to("POST", path+"/rotate-secret", `{"overlap":"7d"}`)).is(200)
	got = stored()
	if len(got) != maxSecrets || got[2].Text.Reveal() != second {
		t.Fatalf("after three rotations: %d secrets", len(got))
	}
	if left := time.Until(got[2].ExpiresAt); left > 90*time.Minute {
		t.Errorf("a later rotation gave an earlier secret %s more", left)
	}
	shown := f.send(to("POST", path+"/rotate-secret", `{"revoke":true}`)).is(200)
	if got = stored(); len(got) != 1 || got[0].Text.Reveal() != shown.text("secret") || len(shown.json["secrets"].([]any)) != 1 {
		t.Errorf("after revoking: %d secrets", len(got))
	}
	if again := f.send(to("GET", path, "")).is(200); strings.Contains(again.raw, shown.text("secret")) {
		t.Error("the secret is shown again")
	}
}

func TestEndpoints_RotationRefusals(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	made := f.send(to("POST", "/v1/endpoints", plainEndpoint)).is(201)
	path := "/v1/endpoints/" + made.text("id")
	for body, pointer := range map[string]string{
		`{"overlap":"soon"}`:                              "/overlap",
		`{"overlap":"-1h"}`:                               "/overlap",
		`{"overlap":"31d"}`:                               "/overlap",
		`{"overlap":"1h","revoke":true}`:                  "/revoke",
		`{"secret":"whsec_c2hvcnQ="}`:                     "/secret",
		fmt.Sprintf(`{"secret":%q}`, made.text("secret")): "/secret",
	} {
		got := f.send(to("POST", path+"/rotate-secret", body)).problem(422, "invalid_field")
		got.faultAt(pointer, "invalid_field")
		if strings.Contains(got.raw, made.text("secret")) {
			t.Errorf("the secret is repeated: %s", got.raw)
		}
	}
	f.send(to("POST", path+"/rotate-secret", `{"x":1}`)).problem(422, "unknown_field")
	f.send(to("POST", "/v1/endpoints/ep_none/rotate-secret", "")).problem(404, "not_found")
	if e, err := f.db.GetEndpoint(t.Context(), "default", made.text("id")); err != nil || len(e.Secrets) != 1 {
		t.Errorf("a refused rotation changed the secrets (%v)", err)
	}
}

func TestEndpoints_ExpiredSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	now := time.Now()
	secrets := []webhook.SigningSecret{{ID: "a"}, {ID: "b", ExpiresAt: now.Add(time.Second)}, {ID: "c", ExpiresAt: now}}
	if live := liveSecrets(secrets, now); len(live) != 2 || live[1].ID != "b" {
		t.Errorf("live: %+v", live)
	}
}

// Receivers that verify with a public key know no shared secret: a rotation makes a
// key of the same kind, and no contract without such keys can be chosen.
func TestEndpoints_Ed25519StaysEd25519(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const private = "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	f.send(to("PUT", "/v1/endpoints/e", `{"url":"https://example.com/","events":["*"],"secret":"`+private+`"}`)).is(201)
	made := f.send(to("POST", "/v1/endpoints/e/rotate-secret", `{"revoke":true}`)).is(200)
	if secret := made.text("secret"); !strings.HasPrefix(secret, "whsk_") || secret == private {
		t.Errorf("rotated to a secret that begins with %.5s", secret)
	}
	f.send(to("PATCH", "/v1/endpoints/e", `{"contract":"elido"}`)).is(422)
}
