package auth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posthorn/posthorn/internal/clock"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

const adminKey = "an admin key of forty printable letters!"

// fakeStore holds keys and tenants in memory and counts what is asked of it.
type fakeStore struct {
	store.Keys
	store.Tenants
	mu      sync.Mutex
	keys    map[string]webhook.APIKey
	tenants map[string]bool
	touched []map[string]time.Time
	finds   int
	looks   int
	broken  error
	// during runs while a key is being read.
	during func()
}

func (f *fakeStore) FindKey(_ context.Context, id string) (*webhook.APIKey, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.finds++
	k, ok := f.keys[id]
	if f.during != nil {
		f.during()
	}
	if f.broken != nil {
		return nil, f.broken
	}
	if !ok {
		return nil, store.ErrNotFound
	}
	return &k, nil
}

func (f *fakeStore) TouchKeys(_ context.Context, used map[string]time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return f.broken
	}
	f.touched = append(f.touched, used)
	return nil
}

func (f *fakeStore) GetTenant(_ context.Context, id string) (*webhook.Tenant, error) {
	f.looks++
	if f.broken != nil {
		return nil, f.broken
	}
	if !f.tenants[id] {
		return nil, store.ErrNotFound
	}
	return &webhook.Tenant{ID: id}, nil
}

func (f *fakeStore) SoleTenant(context.Context) (bool, error) {
	f.looks++
	return len(f.tenants) == 1 && f.tenants["default"], f.broken
}

// breakWith makes every call fail, nil mends it.
func (f *fakeStore) breakWith(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = err
}

// writes are the calls of TouchKeys so far.
func (f *fakeStore) writes() []map[string]time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.touched
}

func newAuth(t testing.TB) (*Authenticator, *fakeStore) {
	t.Helper()
	f := &fakeStore{keys: map[string]webhook.APIKey{}, tenants: map[string]bool{"default": true}}
	a, err := New(Config{Keys: f, Tenants: f, AdminKey: adminKey, Clock: clock.Start()})
	if err != nil {
		t.Fatal(err)
	}
	return a, f
}

// addKey stores a new key and returns its text.
func (f *fakeStore) addKey(t testing.TB, tenant string, scopes ...webhook.Scope) (string, webhook.APIKey) {
	t.Helper()
	text, key := makeKey(t, tenant, scopes...)
	f.keys[key.ID] = key
	return text, key
}

// denied expects a problem and returns its detail.
func denied(t *testing.T, err error, code webhook.Code) string {
	t.Helper()
	p, ok := webhook.AsProblem(err)
	if !ok || p.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	return p.Detail
}

func TestAuthenticate_GoodKeys(t *testing.T) {
	t.Parallel()
	a, f := newAuth(t)
	text, key := f.addKey(t, "acme", webhook.ScopePublish)
	want := Identity{Tenant: "acme", KeyID: key.ID, Scopes: []webhook.Scope{webhook.ScopePublish}}
	for _, header := range []string{"Bearer " + text, "bearer " + text, "BEARER   " + text + " "} {
		who, err := a.Authenticate(t.Context(), header)
		if err != nil || !cmp.Equal(who, want) {
			t.Fatalf("%+v, %v", who, err)
		}
	}
	if f.finds != 1 {
		t.Fatalf("the store was asked %d times", f.finds)
	}
	who, err := a.Authenticate(t.Context(), "Bearer "+adminKey)
	if err != nil || who.KeyID != AdminKeyID || !who.Operator() {
		t.Fatalf("%+v, %v", who, err)
	}
}

func TestAuthenticate_Refusals(t *testing.T) {
	t.Parallel()
	a, f := newAuth(t)
	text, key := f.addKey(t, "acme", webhook.ScopePublish)
	stranger, _ := makeKey(t, "acme", webhook.ScopePublish)
	// The right ID with another secret and a checksum that fits.
	forged := text[:len(keyPrefix)+keyIDLength+1] + stranger[len(keyPrefix)+keyIDLength+1:len(stranger)-sumLength]
	forged += checksum(forged)
	mistyped := strings.Replace(text, text[30:31], map[bool]string{true: "b", false: "a"}[text[30] == 'a'], 1)
	for _, tt := range []struct{ header, says string }{
		{"", "bears no key"},
		{text, "the form Bearer KEY"},
		{"Basic " + text, "the form Bearer KEY"},
		{"Bearer", "the form Bearer KEY"},
		{"Bearer ", "not valid"},
		{"Bearer " + mistyped, "checksum"},
		{"Bearer " + text[:40], "checksum"},
		{"Bearer " + text + "," + text, "checksum"},
		{"Bearer " + stranger, "not valid, or was revoked"},
		{"Bearer " + forged, "not valid, or was revoked"},
		{"Bearer " + adminKey[:39], "not valid"},
		{"Bearer " + adminKey + "x", "not valid"},
		{"Bearer " + strings.Repeat("x", 1<<20), "not valid"},
	} {
		_, err := a.Authenticate(t.Context(), tt.header)
		detail := denied(t, err, webhook.CodeUnauthorized)
		if !strings.Contains(detail, tt.says) {
			t.Errorf("%.60q: %s", tt.header, detail)
		}
		if strings.Contains(err.Error(), text[25:40]) || strings.Contains(err.Error(), key.ID) {
			t.Errorf("%.60q: a key is in the error", tt.header)
		}
	}
	if f.finds > 2 {
		t.Errorf("the store was asked %d times; only a fitting checksum is worth asking for", f.finds)
	}
	f.broken = errors.New("disk on fire")
	unseen, _ := makeKey(t, "acme", webhook.ScopePublish)
	if _, err := a.Authenticate(t.Context(), "Bearer "+unseen); !errors.Is(err, f.broken) {
		t.Fatalf("a store that failed: %v", err)
	}

	none, err := New(Config{Keys: f, Tenants: f, Clock: clock.Start()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = none.Authenticate(t.Context(), "Bearer "+adminKey)
	denied(t, err, webhook.CodeUnauthorized)
	if _, err := New(Config{AdminKey: "short"}); err == nil || strings.Contains(err.Error(), "short") {
		t.Fatalf("a short admin key: %v", err)
	}
}

func TestAuthenticate_ExpiryIsCheckedEachTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, f := newAuth(t)
		text, key := f.addKey(t, "acme", webhook.ScopeRead)
		key.ExpiresAt = time.Now().Add(time.Hour)
		f.keys[key.ID] = key
		if _, err := a.Authenticate(t.Context(), "Bearer "+text); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		_, err := a.Authenticate(t.Context(), "Bearer "+text)
		if detail := denied(t, err, webhook.CodeUnauthorized); !strings.Contains(detail, "expired") {
			t.Fatal(detail)
		}
	})
}

func TestEngine_N2_ARevokedKeyIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	a, f := newAuth(t)
	text, key := f.addKey(t, "acme", webhook.ScopeRead)
	other, _ := f.addKey(t, "acme", webhook.ScopeRead)
	for _, k := range []string{text, other} {
		if _, err := a.Authenticate(t.Context(), "Bearer "+k); err != nil {
			t.Fatal(err)
		}
	}
	delete(f.keys, key.ID)
	a.Apply(store.Change{Tenant: "acme", KeyRevoked: key.ID})
	_, err := a.Authenticate(t.Context(), "Bearer "+text)
	denied(t, err, webhook.CodeUnauthorized)
	if _, err := a.Authenticate(t.Context(), "Bearer "+other); err != nil {
		t.Fatal(err)
	}
	clear(f.keys)
	a.Apply(store.Change{Tenant: "acme", TenantDeleted: true})
	_, err = a.Authenticate(t.Context(), "Bearer "+other)
	denied(t, err, webhook.CodeUnauthorized)
}

func TestEngine_N2_AKeyRevokedWhileItIsReadDoesNotStay(t *testing.T) {
	t.Parallel()
	a, f := newAuth(t)
	text, key := f.addKey(t, "acme", webhook.ScopeRead)
	f.during = func() {
		f.during = nil
		delete(f.keys, key.ID)
		a.Apply(store.Change{Tenant: "acme", KeyRevoked: key.ID})
	}
	if _, err := a.Authenticate(t.Context(), "Bearer "+text); err != nil {
		t.Fatalf("the request came before the revocation was answered: %v", err)
	}
	_, err := a.Authenticate(t.Context(), "Bearer "+text)
	denied(t, err, webhook.CodeUnauthorized)
}

func TestAuthenticate_MemoryIsBounded(t *testing.T) {
	t.Parallel()
	a, f := newAuth(t)
	for range 100 { // keys that nobody has are not remembered
		text, _ := makeKey(t, "acme", webhook.ScopeRead)
		_, err := a.Authenticate(t.Context(), "Bearer "+text)
		denied(t, err, webhook.CodeUnauthorized)
	}
	if len(a.keys) != 0 {
		t.Fatalf("%d are remembered", len(a.keys))
	}
	for range maxCached + 10 {
		text, _ := f.addKey(t, "acme", webhook.ScopeRead)
		if _, err := a.Authenticate(t.Context(), "Bearer "+text); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.keys) != maxCached {
		t.Fatalf("%d keys are held", len(a.keys))
	}
	if err := a.runOnce(t.Context()); err != nil || len(f.touched[0]) != maxCached+10 {
		t.Fatalf("the use of %d keys was written, %v", len(f.touched[0]), err)
	}
}

func TestUsage_IsWrittenOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, f := newAuth(t)
		text, key := f.addKey(t, "acme", webhook.ScopeRead)
		use := func() {
			if _, err := a.Authenticate(t.Context(), "Bearer "+text); err != nil {
				t.Error(err)
			}
		}
		a.Start()
		for range 300 { // five minutes
			use()
			time.Sleep(time.Second)
		}
		if n := len(f.writes()); n < 4 || n > 5 {
			t.Fatalf("written %d times in five minutes", n)
		}
		time.Sleep(10 * time.Minute) // unused: nothing more after the last use was written
		if n := len(f.writes()); n != 5 {
			t.Fatalf("written %d times", n)
		}
		f.breakWith(errors.New("disk on fire"))
		use()
		last := time.Now().UTC()
		time.Sleep(2 * time.Minute)
		f.breakWith(nil)
		a.Stop()
		if got := f.writes()[len(f.writes())-1]; len(f.writes()) != 6 || !got[key.ID].Equal(last) {
			t.Fatalf("after a failed write and the stop: %v, want %v", got, last)
		}
	})
}

func TestIdentity_Scopes(t *testing.T) {
	t.Parallel()
	can := func(i Identity) string {
		var all []string
		for _, s := range webhook.Scopes() {
			if i.Can(s) {
				all = append(all, string(s))
			}
			if (i.Require(s) == nil) != i.Can(s) {
				t.Errorf("%+v: Require and Can differ for %s", i, s)
			}
		}
		return strings.Join(all, " ")
	}
	for _, tt := range []struct {
		who  Identity
		want string
	}{
		{Identity{}, ""},
		{Identity{Tenant: "a", Scopes: []webhook.Scope{"manage"}}, "manage"},
		{Identity{Tenant: "a", Scopes: []webhook.Scope{"read", "publish"}}, "publish read"},
		{Identity{Scopes: []webhook.Scope{"operator"}}, "publish read manage operator"},
		{Identity{Tenant: "a", Scopes: []webhook.Scope{"operator"}}, ""},
	} {
		if got := can(tt.who); got != tt.want {
			t.Errorf("%+v can %q, want %q", tt.who, got, tt.want)
		}
	}
	denied(t, Identity{}.Require(webhook.ScopeRead), webhook.CodeForbidden)
}

func TestResolveTenant(t *testing.T) {
	t.Parallel()
	operator := Identity{KeyID: AdminKeyID, Scopes: []webhook.Scope{webhook.ScopeOperator}}
	acme := Identity{Tenant: "acme", Scopes: []webhook.Scope{webhook.ScopeRead}}
	tests := []struct {
		name    string
		who     Identity
		header  string
		across  Across
		tenants string
		want    string
	}{
		{"a tenant's key", acme, "", OneTenant, "default acme", "acme"},
		{"names its own", acme, "acme", OneTenant, "default acme", "acme"},
		{"names another", acme, "default", OneTenant, "default acme", "not_found"},
		{"names a missing one", acme, "nobody", OneTenant, "default acme", "not_found"},
		{"wants all", acme, "*", AllTenants, "default acme", "not_found"},
		{"a key of nobody", Identity{Scopes: acme.Scopes}, "", OneTenant, "default", "not_found"},
		{"operator, one tenant", operator, "", OneTenant, "default", "default"},
		{"operator, several", operator, "", OneTenant, "default acme", "tenant_required"},
		{"operator, another one alone", operator, "", OneTenant, "acme", "tenant_required"},
		{"operator names one", operator, "acme", OneTenant, "default acme", "acme"},
		{"operator names a missing one", operator, "nobody", OneTenant, "default acme", "not_found"},
		{"operator names nonsense", operator, "../acme", OneTenant, "default acme", "not_found"},
		{"operator lists all", operator, "*", AllTenants, "default acme", store.TenantAll},
		{"operator writes to all", operator, "*", OneTenant, "default acme", "tenant_required"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, f := newAuth(t)
			clear(f.tenants)
			for id := range strings.FieldsSeq(tt.tenants) {
				f.tenants[id] = true
			}
			for range 2 { // the second time from memory
				got, err := a.ResolveTenant(t.Context(), tt.who, tt.header, tt.across)
				if p, ok := webhook.AsProblem(err); ok {
					if got != "" {
						t.Fatalf("an error and %q", got)
					}
					got = string(p.Code)
				}
				if got != tt.want {
					t.Fatalf("got %s, want %s", got, tt.want)
				}
			}
		})
	}
}

func TestResolveTenant_OthersAndMissingOnesLookTheSame(t *testing.T) {
	t.Parallel()
	a, f := newAuth(t)
	f.tenants["other"] = true
	acme := Identity{Tenant: "acme", Scopes: []webhook.Scope{webhook.ScopeRead}}
	_, there := a.ResolveTenant(t.Context(), acme, "other", OneTenant)
	_, missing := a.ResolveTenant(t.Context(), acme, "nobody", OneTenant)
	if fmt.Sprint(there) != fmt.Sprint(missing) || f.looks != 0 {
		t.Fatalf("%v and %v, after %d looks", there, missing, f.looks)
	}
}

func TestResolveTenant_ChangesHoldAtOnce(t *testing.T) {
	t.Parallel()
	a, f := newAuth(t)
	operator := Identity{KeyID: AdminKeyID, Scopes: []webhook.Scope{webhook.ScopeOperator}}
	resolve := func(header, want string) {
		t.Helper()
		got, err := a.ResolveTenant(t.Context(), operator, header, OneTenant)
		if p, ok := webhook.AsProblem(err); ok {
			got = string(p.Code)
		}
		if got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	resolve("", "default")
	resolve("", "default")
	if f.looks != 1 {
		t.Fatalf("%d looks at the store", f.looks)
	}
	f.tenants["acme"] = true
	a.Apply(store.Change{Tenant: "acme", Revision: 1})
	resolve("", "tenant_required")
	resolve("acme", "acme")
	a.Apply(store.Change{Tenant: "acme", Revision: 2}) // an endpoint's change
	f.looks = 0
	resolve("acme", "acme")
	if f.looks != 0 {
		t.Fatal("a change of an endpoint made it forget the tenant")
	}
	delete(f.tenants, "acme")
	a.Apply(store.Change{Tenant: "acme", TenantDeleted: true})
	resolve("acme", "not_found")
	resolve("", "default")
	f.broken = errors.New("disk on fire")
	if _, err := a.ResolveTenant(t.Context(), operator, "other", OneTenant); !errors.Is(err, f.broken) {
		t.Fatalf("a store that failed: %v", err)
	}
}

func TestAuthenticate_ManyAtOnce(t *testing.T) {
	t.Parallel()
	a, f := newAuth(t)
	text, key := f.addKey(t, "acme", webhook.ScopeRead)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 200 {
				if _, err := a.Authenticate(t.Context(), "Bearer "+text); err != nil {
					t.Error(err)
				}
				if i%50 == 0 {
					a.Apply(store.Change{Tenant: "acme", KeyRevoked: key.ID})
					_ = a.runOnce(t.Context())
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkAuthenticate(b *testing.B) {
	a, f := newAuth(b)
	text, _ := f.addKey(b, "acme", webhook.ScopeRead)
	for name, header := range map[string]string{"key": "Bearer " + text, "admin": "Bearer " + adminKey} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.Authenticate(b.Context(), header); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
