package sqlite

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

const (
	secretText = "whsec_c2VjcmV0IHRoYXQgbXVzdCBub3QgbGll"
	headerText = "Bearer header-value-that-must-not-lie"
)

// sealedEndpoint has secrets of every kind.
func sealedEndpoint(id string) *webhook.Endpoint {
	return &webhook.Endpoint{
		ID: id, Tenant: webhook.DefaultTenant, URL: "https://hooks.example.com/", Events: []string{"*"}, Contract: "standard",
		State: webhook.EndpointActive, CreatedAt: testStart(), StateSince: testStart(), MaxInFlight: 8,
		Headers: []webhook.Header{{Name: "Authorization", Value: webhook.NewSecretText(headerText + id)}},
		Secrets: []webhook.SigningSecret{{ID: "sec_" + id, Text: webhook.NewSecretText(secretText + id), CreatedAt: testStart()}},
	}
}

func create(t *testing.T, d *DB, e *webhook.Endpoint) {
	t.Helper()
	if _, err := d.CreateEndpoint(t.Context(), e); err != nil {
		t.Fatal(err)
	}
}

// findInFiles tells which files of a folder hold a text.
func findInFiles(t *testing.T, dir, text string) (found []string) {
	t.Helper()
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(dir, name.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(content, []byte(text)) {
			found = append(found, name.Name())
		}
	}
	return found
}

// Neither the database nor its log bears a secret in clear, whatever was done
// with it.
func TestStore_Secrets_LieSealed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, Config{Dir: dir})
	create(t, d, sealedEndpoint("a"))
	create(t, d, sealedEndpoint("b"))
	look := func(when string) {
		t.Helper()
		for _, secret := range []string{secretText, headerText, "must-not-lie"} {
			if files := findInFiles(t, dir, secret); files != nil {
				t.Errorf("%s: a secret lies in %v", when, files)
			}
		}
		if findInFiles(t, dir, "hooks.example.com") == nil {
			t.Errorf("%s: the search finds nothing, not even what lies in clear", when)
		}
	}
	look("created")
	_, err := d.UpdateEndpoint(t.Context(), webhook.DefaultTenant, "a", testStart(), func(e *webhook.Endpoint) (store.EndpointUpdate, error) {
		e.Secrets = append(e.Secrets, webhook.SigningSecret{ID: "sec_new", Text: webhook.NewSecretText(secretText + "new"), CreatedAt: testStart()})
		return store.EndpointUpdate{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	look("rotated")
	if err := d.DeleteEndpoint(t.Context(), webhook.DefaultTenant, "b", false, testStart()); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	look("closed")
	d = open(t, Config{Dir: dir})
	e, err := d.GetEndpoint(t.Context(), webhook.DefaultTenant, "a")
	if err != nil || len(e.Secrets) != 2 || e.Headers[0].Value.Reveal() != headerText+"a" {
		t.Fatalf("%v, %+v", err, e)
	}
	look("opened again")
	left := -1
	err = d.read(t.Context(), func(c *conn) error {
		_, err := c.one(`SELECT (SELECT count(*) FROM endpoint_secret WHERE endpoint = 2) + (SELECT count(headers) FROM endpoint WHERE num = 2)`, nil,
			func(s *sqlite3.Stmt) { left = s.ColumnInt(0) })
		return err
	})
	if err != nil || left != 0 {
		t.Errorf("%d secrets of the deleted endpoint are left (%v)", left, err)
	}
}

// A sealed value opens only in its own row.
func TestStore_Secrets_AreBoundToTheirRow(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"a secret of another endpoint":     `UPDATE endpoint_secret SET sealed = (SELECT sealed FROM endpoint_secret WHERE endpoint = 2) WHERE endpoint = 1`,
		"a secret under another ID":        `UPDATE endpoint_secret SET id = 'sec_b' WHERE endpoint = 1`,
		"headers of another endpoint":      `UPDATE endpoint SET headers = (SELECT headers FROM endpoint WHERE num = 2) WHERE num = 1`,
		"a secret in the place of headers": `UPDATE endpoint SET headers = (SELECT sealed FROM endpoint_secret WHERE endpoint = 1) WHERE num = 1`,
		"headers in the place of a secret": `UPDATE endpoint_secret SET sealed = (SELECT headers FROM endpoint WHERE num = 1) WHERE endpoint = 1`,
		"a secret that was cut":            `UPDATE endpoint_secret SET sealed = substr(sealed, 1, length(sealed) - 1) WHERE endpoint = 1`,
	} {
		t.Run(slug(name), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := open(t, Config{Dir: dir})
			create(t, d, sealedEndpoint("a"))
			create(t, d, sealedEndpoint("b"))
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			edit(t, dir, sql)
			d = open(t, Config{Dir: dir})
			_, err := d.GetEndpoint(t.Context(), webhook.DefaultTenant, "a")
			if err == nil || !strings.Contains(err.Error(), "of endpoint a") {
				t.Fatalf("error is %v", err)
			}
			if strings.Contains(err.Error(), secretText) || strings.Contains(err.Error(), headerText) {
				t.Fatal("the error bears the secret")
			}
			if _, err := d.GetEndpoint(t.Context(), webhook.DefaultTenant, "b"); err != nil {
				t.Fatalf("the other endpoint: %v", err)
			}
		})
	}
}

// With a new key and the old one beside it everything is sealed anew at the start;
// from then on the old key is not needed.
func TestStore_Secrets_AreResealed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	steps := []struct {
		keys []string
		want error
	}{
		{[]string{"key one"}, nil},
		{[]string{"key two"}, ErrWrongKey},
		{[]string{"key two", "key one"}, nil},
		{[]string{"key two", "key one"}, nil}, // again is harmless
		{[]string{"key one"}, ErrWrongKey},
		{[]string{"key two"}, nil},
		{[]string{"key three", "key zero", "key two"}, nil},
		{[]string{"key three"}, nil},
	}
	for i, step := range steps {
		d, err := Open(t.Context(), complete(Config{Dir: dir, Sealer: newTestSealer(step.keys...)}))
		if !errors.Is(err, step.want) {
			t.Fatalf("step %d: error is %v, want %v", i, err, step.want)
		}
		if err != nil {
			continue
		}
		if i == 0 {
			create(t, d, sealedEndpoint("a"))
		}
		e, err := d.GetEndpoint(t.Context(), webhook.DefaultTenant, "a")
		if err != nil || e.Secrets[0].Text.Reveal() != secretText+"a" || e.Headers[0].Value.Reveal() != headerText+"a" {
			t.Fatalf("step %d: %v, %+v", i, err, e)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A damaged secret keeps the key from being changed, and the change from being
// done half.
func TestStore_Secrets_ResealIsAllOrNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, Config{Dir: dir})
	create(t, d, sealedEndpoint("a"))
	create(t, d, sealedEndpoint("b"))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	edit(t, dir, `UPDATE endpoint_secret SET sealed = substr(sealed, 1, length(sealed) - 1) WHERE endpoint = 2`)
	err := refused(t, Config{Dir: dir, Sealer: newTestSealer("key two", "key one")})
	if !strings.Contains(err.Error(), "opening a secret with an old key") {
		t.Fatalf("error is %v", err)
	}
	d = open(t, Config{Dir: dir}) // the old key is still the key
	if _, err := d.GetEndpoint(t.Context(), webhook.DefaultTenant, "a"); err != nil {
		t.Fatal(err)
	}
}
