package sqlite

import (
	"context"
	"time"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// CreateReplay implements store.Store.
func (d *DB) CreateReplay(ctx context.Context, r webhook.Replay) (*webhook.Replay, error) {
	return nil, errStub
}

// GetReplay implements store.Store.
func (d *DB) GetReplay(ctx context.Context, tenant, id string) (*webhook.Replay, error) {
	return nil, errStub
}

// ListReplays implements store.Store.
func (d *DB) ListReplays(ctx context.Context, tenant, endpoint string, p store.Page) (store.Listed[*webhook.Replay], error) {
	return store.Listed[*webhook.Replay]{}, errStub
}

// CancelReplay implements store.Store.
func (d *DB) CancelReplay(ctx context.Context, tenant, id string, now time.Time) (canceled bool, err error) {
	return false, errStub
}

// ListOpenReplays implements store.Store.
func (d *DB) ListOpenReplays(ctx context.Context) ([]*webhook.Replay, error) {
	return nil, nil
}

// StepReplay implements store.Store.
func (d *DB) StepReplay(ctx context.Context, p store.StepParams) (store.StepResult, error) {
	return store.StepResult{}, errStub
}

// CountReplay implements store.Store.
func (d *DB) CountReplay(ctx context.Context, p store.StepParams, after int64) (n int, next int64, done bool, err error) {
	return 0, 0, true, errStub
}
