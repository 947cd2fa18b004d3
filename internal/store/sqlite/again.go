package sqlite

import (
	"context"

	"github.com/posthorn/posthorn/internal/store"
)

// SendAgain implements store.Store.
func (d *DB) SendAgain(ctx context.Context, p store.SendAgainParams) ([]store.SentAgain, error) {
	return nil, errStub
}
