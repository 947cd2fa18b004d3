package sqlite

import (
	"context"
	"time"

	"github.com/posthorn/posthorn/internal/store"
)

// DueNotices implements store.Store.
func (d *DB) DueNotices(ctx context.Context, now time.Time, limit int) (due []store.Notice, next time.Time, err error) {
	return nil, time.Time{}, nil
}

// SettleNotice implements store.Store.
func (d *DB) SettleNotice(ctx context.Context, id int64, again time.Time) error {
	return errStub
}
