package sqlite

import (
	"context"
	"time"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// CreateRun implements store.Store.
func (d *DB) CreateRun(ctx context.Context, r webhook.Run) (*webhook.Run, error) {
	return nil, errStub
}

// GetRun implements store.Store.
func (d *DB) GetRun(ctx context.Context, tenant, id string) (*webhook.Run, error) {
	return nil, errStub
}

// ListRuns implements store.Store.
func (d *DB) ListRuns(ctx context.Context, tenant, project string, p store.Page) (store.Listed[*webhook.Run], error) {
	return store.Listed[*webhook.Run]{}, errStub
}

// AddRunEvents implements store.Store.
func (d *DB) AddRunEvents(ctx context.Context, tenant, id string, events []webhook.RunEvent) (added int, err error) {
	return 0, errStub
}

// FinishRun implements store.Store.
func (d *DB) FinishRun(ctx context.Context, tenant, id string, now time.Time, event func(webhook.Run) store.AcceptParams) (*webhook.Run, store.AcceptResult, error) {
	return nil, store.AcceptResult{}, errStub
}

// DeleteRun implements store.Store.
func (d *DB) DeleteRun(ctx context.Context, tenant, id string, now time.Time) error {
	return errStub
}

// DeleteProject implements store.Store.
func (d *DB) DeleteProject(ctx context.Context, tenant, project string, now time.Time) (int, error) {
	return 0, errStub
}

// ReadRunEvents implements store.Store.
func (d *DB) ReadRunEvents(ctx context.Context, tenant, run string, after int64, limit int) (events []webhook.RunEvent, next int64, err error) {
	return nil, 0, errStub
}

// ReadPageGrant implements store.Store.
func (d *DB) ReadPageGrant(ctx context.Context, ref webhook.Ref) (webhook.PageGrant, error) {
	return webhook.PageGrant{}, errStub
}
