package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/ncruces/go-sqlite3"

	"github.com/posthorn/posthorn/internal/webhook"
)

// headersRow and secretRow are what sealed values are bound to, so that none can
// be moved to another row.
func headersRow(endpoint int64) []byte { return fmt.Appendf(nil, "endpoint-headers|%d", endpoint) }

func secretRow(endpoint int64, id string) []byte {
	return fmt.Appendf(nil, "endpoint-secret|%d|%s", endpoint, id)
}

func formatHeaders(headers []webhook.Header) ([]byte, error) {
	pairs := make([][2]string, len(headers))
	for i, h := range headers {
		pairs[i] = [2]string{h.Name, h.Value.Reveal()}
	}
	return json.Marshal(pairs)
}

func parseHeaders(plain []byte) ([]webhook.Header, error) {
	var pairs [][2]string
	if err := json.Unmarshal(plain, &pairs); err != nil {
		return nil, errors.New("the stored headers are damaged")
	}
	headers := make([]webhook.Header, len(pairs))
	for i, p := range pairs {
		headers[i] = webhook.Header{Name: p[0], Value: webhook.NewSecretText(p[1])}
	}
	return headers, nil
}

// readSecrets fills in the secrets of an endpoint, newest first.
func (d *DB) readSecrets(c *conn, e *webhook.Endpoint) error {
	return c.query(`SELECT id, sealed, created_at, expires_at FROM endpoint_secret WHERE endpoint = ? ORDER BY created_at DESC, id DESC`,
		[]any{int64(e.Key)}, func(s *sqlite3.Stmt) error {
			id := s.ColumnText(0)
			plain, err := d.cfg.Sealer.Open(s.ColumnBlob(1, nil), secretRow(int64(e.Key), id))
			if err != nil {
				return fmt.Errorf("opening a secret of endpoint %s: %w", e.ID, err)
			}
			e.Secrets = append(e.Secrets, webhook.SigningSecret{
				ID: id, Text: webhook.NewSecretText(string(plain)), CreatedAt: colTime(s, 2), ExpiresAt: colTime(s, 3),
			})
			return nil
		})
}

func (t *tx) storeSecrets(e *webhook.Endpoint) error {
	if err := t.exec(`DELETE FROM endpoint_secret WHERE endpoint = ?`, int64(e.Key)); err != nil {
		return err
	}
	for _, s := range e.Secrets {
		sealed, err := t.db.cfg.Sealer.Seal([]byte(s.Text.Reveal()), secretRow(int64(e.Key), s.ID))
		if err != nil {
			return err
		}
		err = t.exec(`INSERT INTO endpoint_secret (endpoint, id, sealed, created_at, expires_at) VALUES (?,?,?,?,?)`,
			int64(e.Key), s.ID, sealed, s.CreatedAt, s.ExpiresAt)
		if err != nil {
			return err
		}
	}
	return nil
}

// resealAll seals anew what an old key sealed.
func resealAll(c *conn, sealer Sealer) error {
	type row struct {
		endpoint int64
		id       string
		sealed   []byte
	}
	var secrets, headers []row
	err := c.query(`SELECT endpoint, id, sealed FROM endpoint_secret`, nil, func(s *sqlite3.Stmt) error {
		secrets = append(secrets, row{s.ColumnInt64(0), s.ColumnText(1), s.ColumnBlob(2, nil)})
		return nil
	})
	if err != nil {
		return err
	}
	err = c.query(`SELECT num, headers FROM endpoint WHERE headers IS NOT NULL`, nil, func(s *sqlite3.Stmt) error {
		headers = append(headers, row{endpoint: s.ColumnInt64(0), sealed: s.ColumnBlob(1, nil)})
		return nil
	})
	if err != nil {
		return err
	}
	stale := func(r row) bool { return !sealer.NeedsReseal(r.sealed) }
	for _, r := range slices.DeleteFunc(secrets, stale) {
		sealed, err := reseal(sealer, r.sealed, secretRow(r.endpoint, r.id))
		if err != nil {
			return err
		}
		if err := c.exec(`UPDATE endpoint_secret SET sealed = ? WHERE endpoint = ? AND id = ?`, sealed, r.endpoint, r.id); err != nil {
			return err
		}
	}
	for _, r := range slices.DeleteFunc(headers, stale) {
		sealed, err := reseal(sealer, r.sealed, headersRow(r.endpoint))
		if err != nil {
			return err
		}
		if err := c.exec(`UPDATE endpoint SET headers = ? WHERE num = ?`, sealed, r.endpoint); err != nil {
			return err
		}
	}
	return nil
}

func reseal(sealer Sealer, sealed, row []byte) ([]byte, error) {
	plain, err := sealer.Open(sealed, row)
	if err != nil {
		return nil, fmt.Errorf("opening a secret with an old key: %w", err)
	}
	return sealer.Seal(plain, row)
}
