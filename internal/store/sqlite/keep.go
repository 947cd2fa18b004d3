package sqlite

import (
	"context"
	"time"

	"github.com/posthorn/posthorn/internal/webhook"
)

// Retain implements store.Store.
func (d *DB) Retain(ctx context.Context, after webhook.Ref, now time.Time) (next webhook.Ref, removed int, done bool, err error) {
	return 0, 0, true, nil
}

// SkipHeld implements store.Store.
func (d *DB) SkipHeld(ctx context.Context, now time.Time) error {
	return nil
}
