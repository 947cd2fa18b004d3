package sqlite

import (
	"context"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// LoadWork implements store.Store.
func (d *DB) LoadWork(ctx context.Context, ref webhook.Ref) (w store.Work, found bool, err error) {
	return store.Work{}, false, errStub
}

// ListGates implements store.Store.
func (d *DB) ListGates(ctx context.Context) ([]store.Gate, error) {
	return nil, nil
}
