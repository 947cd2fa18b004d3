package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/posthorn/posthorn/internal/store"
)

var errStub = errors.New("not built")

// PutContract implements store.Store.
func (d *DB) PutContract(ctx context.Context, r store.ContractRevision, adopt bool) (created bool, err error) {
	return false, errStub
}

// DeleteContract implements store.Store.
func (d *DB) DeleteContract(ctx context.Context, name string, now time.Time) error {
	return errStub
}

// ListContractRevisions implements store.Store.
func (d *DB) ListContractRevisions(ctx context.Context, name string) ([]store.ContractRevision, error) {
	return nil, errStub
}

// LoadContracts implements store.Store.
func (d *DB) LoadContracts(ctx context.Context) ([]store.ContractRevision, error) {
	return nil, nil
}
