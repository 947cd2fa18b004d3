package sqlite

import (
	"context"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

const selectRevision = `SELECT name, revision, text, current, follows, created_at, num FROM contract_revision `

func scanRevision(s *sqlite3.Stmt) store.ContractRevision {
	return store.ContractRevision{
		Name: s.ColumnText(0), Revision: s.ColumnText(1), Text: s.ColumnText(2), Current: colBool(s, 3), Follows: s.ColumnText(4), CreatedAt: colTime(s, 5),
	}
}

// revisions reads stored revisions; tail ends the selection.
func revisions(c *conn, tail string, args ...any) ([]store.ContractRevision, error) {
	var all []store.ContractRevision
	err := c.query(selectRevision+tail, args, func(s *sqlite3.Stmt) error {
		all = append(all, scanRevision(s))
		return nil
	})
	return all, err
}

// PutContract implements store.Contracts.
func (d *DB) PutContract(ctx context.Context, r store.ContractRevision, adopt bool) (created bool, err error) {
	by := webhook.ActorOf(ctx)
	err = d.writer.do(ctx, func(t *tx) error {
		known, err := revisions(t.conn, `WHERE name = ? ORDER BY num`, r.Name)
		if err != nil {
			return err
		}
		present := currentOf(known)
		created = present == nil
		turned := present == nil || present.Revision != r.Revision
		adopted := adoptees(known, r.Revision, adopt)
		if !turned && len(adopted) == 0 {
			return nil
		}
		now := r
		now.Current, now.Follows = true, ""
		if turned {
			err = t.turnContract(&now)
		} else {
			now = *present
		}
		if err != nil {
			return err
		}
		for _, old := range adopted {
			if err := t.exec(`UPDATE contract_revision SET follows = ? WHERE name = ? AND revision = ?`, old.Follows, old.Name, old.Revision); err != nil {
				return err
			}
		}
		if err := t.tellContract(&now, adopted); err != nil {
			return err
		}
		return t.auditPut(by, present, &r, adopt)
	})
	return created, err
}

// currentOf finds the current one of a name's revisions; nil for none.
func currentOf(known []store.ContractRevision) *store.ContractRevision {
	for i := range known {
		if known[i].Current {
			return &known[i]
		}
	}
	return nil
}

// adoptees are the revisions beside the one that becomes current whose deliveries
// are to follow it and do not yet.
func adoptees(known []store.ContractRevision, current string, adopt bool) []store.ContractRevision {
	var all []store.ContractRevision
	for _, old := range known {
		if adopt && old.Revision != current && old.Follows != current {
			old.Current, old.Follows = false, current
			all = append(all, old)
		}
	}
	return all
}

// turnContract makes r the current revision of its name. One that was current
// before keeps the time at which it first came in.
func (t *tx) turnContract(r *store.ContractRevision) error {
	if err := t.exec(`UPDATE contract_revision SET current = 0 WHERE name = ?`, r.Name); err != nil {
		return err
	}
	err := t.exec(`INSERT INTO contract_revision (name, revision, text, current, follows, created_at) VALUES (?,?,?,1,'',?)
		ON CONFLICT (name, revision) DO UPDATE SET current = 1, follows = '', text = excluded.text`, r.Name, r.Revision, r.Text, r.CreatedAt)
	if err != nil {
		return err
	}
	_, err = t.one(`SELECT created_at FROM contract_revision WHERE name = ? AND revision = ?`, []any{r.Name, r.Revision},
		func(s *sqlite3.Stmt) { r.CreatedAt = colTime(s, 0) })
	return err
}

// tellContract raises the revision of every tenant with an endpoint under the
// contract (N2) and tells of it: the current one first, so that there is one at
// any moment, then those that follow it from now on. It is one piece of work however
// many tenants there are, some five milliseconds for a thousand of them: in slices,
// events could be matched by the old wording after the new one was told of.
func (t *tx) tellContract(r *store.ContractRevision, adopted []store.ContractRevision) error {
	var tenants []string
	err := t.query(`SELECT DISTINCT t.id FROM endpoint n JOIN tenant t ON t.num = n.tenant WHERE n.contract = ? AND n.deleted_at IS NULL`,
		[]any{r.Name}, func(s *sqlite3.Stmt) error {
			tenants = append(tenants, s.ColumnText(0))
			return nil
		})
	if err != nil {
		return err
	}
	revisions := map[string]int64{}
	for _, id := range tenants {
		if revisions[id], err = t.raise(id); err != nil {
			return err
		}
	}
	t.change(store.Change{Contract: r, Revisions: revisions})
	for i := range adopted {
		t.change(store.Change{Contract: &adopted[i]})
	}
	return nil
}

func (t *tx) auditPut(by webhook.Actor, present, r *store.ContractRevision, adopt bool) error {
	e := webhook.AuditEntry{At: r.CreatedAt, Action: "contract.put", Kind: "contract", Target: r.Name}
	var err error
	if present != nil {
		if e.Before, err = told(map[string]any{"revision": present.Revision}); err != nil {
			return err
		}
	}
	if e.After, err = told(map[string]any{"revision": r.Revision, "adopt": adopt}); err != nil {
		return err
	}
	return t.audit(by, e)
}

// DeleteContract implements store.Contracts.
func (d *DB) DeleteContract(ctx context.Context, name string, now time.Time) error {
	by := webhook.ActorOf(ctx)
	return d.writer.do(ctx, func(t *tx) error {
		known, err := revisions(t.conn, `WHERE name = ? AND current = 1`, name)
		if err != nil {
			return err
		}
		if len(known) == 0 {
			return refuse(store.ErrNotFound)
		}
		used, err := t.one(`SELECT 1 WHERE EXISTS (SELECT 1 FROM endpoint WHERE contract = ?1 AND deleted_at IS NULL)
			OR EXISTS (SELECT 1 FROM tenant WHERE default_contract = ?1 AND id NOT LIKE '~%')`, []any{name}, func(*sqlite3.Stmt) {})
		if err != nil {
			return err
		}
		if used {
			return refuse(store.ErrNotEmpty)
		}
		if err := t.exec(`UPDATE contract_revision SET current = 0 WHERE name = ?`, name); err != nil {
			return err
		}
		gone := known[0]
		gone.Current = false
		t.change(store.Change{Contract: &gone})
		before, err := told(map[string]any{"revision": gone.Revision})
		if err != nil {
			return err
		}
		return t.audit(by, webhook.AuditEntry{At: now, Action: "contract.deleted", Kind: "contract", Target: name, Before: before})
	})
}

// ListContractRevisions implements store.Contracts.
func (d *DB) ListContractRevisions(ctx context.Context, name string) (all []store.ContractRevision, err error) {
	err = d.read(ctx, func(c *conn) error {
		all, err = revisions(c, `WHERE name = ? ORDER BY num DESC`, name)
		return err
	})
	return all, err
}

// LoadContracts implements store.Contracts. The current ones come last, as they
// would be told of.
func (d *DB) LoadContracts(ctx context.Context) (all []store.ContractRevision, err error) {
	err = d.read(ctx, func(c *conn) error {
		all, err = revisions(c, `ORDER BY current, num`)
		return err
	})
	return all, err
}
