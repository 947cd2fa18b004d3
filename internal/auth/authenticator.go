package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthorn/posthorn/internal/clock"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// maxCached bounds the keys, and the tenants, that are held in memory; beyond it
// any one makes room.
const maxCached = 10_000

// Config is what an Authenticator needs.
type Config struct {
	Keys    store.Keys
	Tenants store.Tenants
	// AdminKey is valid beside the stored keys; "" for none.
	AdminKey string
	Clock    *clock.Clock
	// Log is told when the times of last use can't be written; nil for nowhere.
	Log *slog.Logger
}

// Authenticator checks keys and settles tenants. Good keys are held in memory;
// Apply must be given every change of the store, so that a revoked one is refused
// at once (N2). It is safe for concurrent use.
type Authenticator struct {
	cfg       Config
	admin     [sha256.Size]byte
	adminOnly Identity

	mu      sync.RWMutex
	keys    map[string]*knownKey
	tenants map[string]struct{}
	// soleUntil is how long it is taken for granted that only the default tenant
	// exists. Changes that Apply sees end it at once; the time bounds what
	// another process may have changed.
	soleUntil time.Time
	// generation counts changes: what was read before one is not kept after it.
	generation uint64

	usage usage
}

// knownKey is a key that was good when it was read.
type knownKey struct {
	key      *webhook.APIKey
	identity Identity
	// usedAt is when it was last used, in Unix milliseconds; writtenAt what was
	// last taken of it to be written, under usage.mu.
	usedAt    atomic.Int64
	writtenAt int64
}

// New makes an authenticator. Start begins to write times of last use.
func New(cfg Config) (*Authenticator, error) {
	a := &Authenticator{
		cfg:       cfg,
		adminOnly: Identity{KeyID: AdminKeyID, Scopes: []webhook.Scope{webhook.ScopeOperator}},
		keys:      make(map[string]*knownKey),
		tenants:   make(map[string]struct{}),
		usage:     usage{pending: make(map[string]time.Time)},
	}
	if cfg.AdminKey != "" {
		if !webhook.ValidAdminKey(cfg.AdminKey) {
			return nil, errors.New("the admin key must be " + webhook.AdminKeyForm)
		}
		a.admin = sha256.Sum256([]byte(cfg.AdminKey))
	}
	return a, nil
}

// Authenticate says who sent an Authorization header. The error is a *Problem
// (unauthorized) unless the store failed.
func (a *Authenticator) Authenticate(ctx context.Context, header string) (Identity, error) {
	text, problem := bearer(header)
	if problem != nil {
		return Identity{}, problem
	}
	sum := sha256.Sum256([]byte(text))
	if a.cfg.AdminKey != "" && subtle.ConstantTimeCompare(sum[:], a.admin[:]) == 1 {
		return a.adminOnly, nil
	}
	id, form := readKey(text)
	switch form {
	case formKey:
	case formMistake:
		return Identity{}, unauthorized("The key is mistyped or cut: its checksum does not fit.")
	case formOther:
		return Identity{}, unauthorized("The key is not valid.")
	}
	known, err := a.find(ctx, id)
	if err != nil {
		return Identity{}, err
	}
	// One answer for an ID that does not exist and for a wrong secret.
	if known == nil || subtle.ConstantTimeCompare(sum[:], known.key.Hash[:]) != 1 {
		return Identity{}, unauthorized("The key is not valid, or was revoked.")
	}
	now := a.cfg.Clock.Wall()
	if !known.key.Live(now) {
		return Identity{}, unauthorized("The key has expired.")
	}
	known.usedAt.Store(now.UnixMilli())
	return known.identity, nil
}

// bearer takes the key out of a header.
func bearer(header string) (string, *webhook.Problem) {
	const scheme = "Bearer "
	if header == "" {
		return "", unauthorized("The request bears no key; send Authorization: Bearer KEY.")
	}
	if len(header) < len(scheme) || !strings.EqualFold(header[:len(scheme)], scheme) {
		return "", unauthorized("The header Authorization does not have the form Bearer KEY.")
	}
	text := strings.Trim(header[len(scheme):], " ")
	if text == "" || len(text) > 256 {
		return "", unauthorized("The key is not valid.")
	}
	return text, nil
}

func unauthorized(detail string) *webhook.Problem {
	return webhook.NewProblem(webhook.CodeUnauthorized, detail)
}

// find returns a key from memory, else from the store; nil when there is none.
// That there is none is not remembered: IDs can be made up without end.
func (a *Authenticator) find(ctx context.Context, id string) (*knownKey, error) {
	a.mu.RLock()
	known, generation := a.keys[id], a.generation
	a.mu.RUnlock()
	if known != nil {
		return known, nil
	}
	key, err := a.cfg.Keys.FindKey(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking up a key: %w", err)
	}
	known = &knownKey{key: key, identity: Identity{Tenant: key.Tenant, KeyID: key.ID, Scopes: key.Scopes}}
	a.mu.Lock()
	defer a.mu.Unlock()
	if other := a.keys[id]; other != nil {
		return other, nil
	}
	// A key that was revoked while it was being read must not stay.
	if a.generation == generation {
		a.makeRoom()
		a.keys[id] = known
	}
	return known, nil
}

// makeRoom lets any one key go when the memory for them is full.
func (a *Authenticator) makeRoom() {
	for id, known := range a.keys {
		if len(a.keys) < maxCached {
			return
		}
		a.usage.keep(id, known)
		delete(a.keys, id)
	}
}

// Apply takes over a committed change. It must be called before the change's
// caller is answered.
func (a *Authenticator) Apply(c store.Change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, known := a.tenants[c.Tenant]
	isNew := !known && c.Tenant != "" && c.Tenant != webhook.DefaultTenant
	if c.KeyRevoked == "" && !c.TenantDeleted && !isNew {
		return
	}
	a.generation++
	a.soleUntil = time.Time{}
	delete(a.keys, c.KeyRevoked)
	if c.TenantDeleted {
		delete(a.tenants, c.Tenant)
		for id, known := range a.keys {
			if known.key.Tenant == c.Tenant {
				delete(a.keys, id)
			}
		}
	}
}
