package app

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/posthorn/posthorn/internal/auth"
	"github.com/posthorn/posthorn/internal/config"
	"github.com/posthorn/posthorn/internal/seal"
	"github.com/posthorn/posthorn/internal/webhook"
)

// secretsKeyFile holds the key that encrypts secrets at rest, where the
// environment gives none.
const secretsKeyFile = "secrets.key"

// adminKey returns the admin key: the environment's, else the data folder's,
// else a new one that is kept there. made is true in the last case.
func adminKey(cfg *config.Server) (key webhook.SecretText, made bool, err error) {
	if !cfg.Secrets.AdminKey.IsZero() {
		return cfg.Secrets.AdminKey, false, nil
	}
	text, made, err := keptKey(cfg.AdminKeyPath(), func() (string, error) { return auth.NewAdminKey(rand.Reader) })
	if err != nil {
		return webhook.SecretText{}, false, fmt.Errorf("reading the admin key: %w", err)
	}
	if !webhook.ValidAdminKey(text) {
		return webhook.SecretText{}, false, config.NewFault(nil, "%s holds no admin key: it must be %s", cfg.AdminKeyPath(), webhook.AdminKeyForm)
	}
	return webhook.NewSecretText(text), made, nil
}

// keyring returns the keys that encrypt secrets at rest.
func keyring(cfg *config.Server) (*seal.Keyring, error) {
	text := cfg.Secrets.SecretsKey.Reveal()
	where := "POSTHORN_SECRETS_KEY"
	if text == "" {
		var err error
		where = filepath.Join(cfg.Data, secretsKeyFile)
		if text, _, err = keptKey(where, newSecretsKey); err != nil {
			return nil, fmt.Errorf("reading the secrets key: %w", err)
		}
	}
	current, err := seal.ParseKey(text)
	if err != nil {
		return nil, config.NewFault(err, "%s must be 32 bytes in base64", where)
	}
	var old [][]byte
	for _, o := range cfg.Secrets.SecretsKeyOld {
		key, err := seal.ParseKey(o.Reveal())
		if err != nil {
			return nil, config.NewFault(err, "POSTHORN_SECRETS_KEY_OLD must hold keys of 32 bytes in base64, separated by commas")
		}
		old = append(old, key)
	}
	return seal.New(current, old...)
}

func newSecretsKey() (string, error) {
	random := make([]byte, seal.KeySize)
	if _, err := rand.Read(random); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(random), nil
}

// keptKey reads a key from a file; without one it creates a key and keeps it
// there, readable to its owner alone.
func keptKey(path string, create func() (string, error)) (text string, made bool, err error) {
	have, err := os.ReadFile(path)
	if err == nil {
		return strings.TrimSpace(string(have)), false, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", false, err
	}
	if text, err = create(); err != nil {
		return "", false, err
	}
	err = writeKept(path, text)
	if errors.Is(err, fs.ErrExist) { // another process was faster: its key it is
		have, err := os.ReadFile(path)
		return strings.TrimSpace(string(have)), false, err
	}
	return text, true, err
}

// writeKept writes a key so that it is durable before anything is sealed with
// it: its name in the folder too, which a file's own sync does not promise. The
// name appears only with the whole key behind it, whenever the process dies, and
// never takes the place of another key.
func writeKept(path, text string) (err error) {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(folder, filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	if _, err := f.WriteString(text + "\n"); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil {
		return err
	}
	return syncFolder(folder)
}

func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
