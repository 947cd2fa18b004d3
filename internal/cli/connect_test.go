package cli

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthorn/posthorn/internal/config"
)

// The key that lies in the usual folder is that of a server on this machine. It
// goes elsewhere only if somebody says that the folder is that server's.
func TestKey_OfTheFolderStaysOnThisMachine(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll(config.DefaultData, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(config.DefaultData, config.AdminKeyFile), []byte("the key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		server, data string
		sent         bool
	}{
		{"http://127.0.0.1:8080", "", true},
		{"http://127.9.9.9:1", "", true},
		{"https://[::1]:8080", "", true},
		{"http://[::ffff:127.0.0.1]:8080", "", true},
		{"http://localhost:9000", "", true},
		{"http://localhost.example.com", "", false},
		{"http://127.0.0.1.example.com", "", false},
		{"http://10.0.0.1:8080", "", false},
		{"https://hooks.example.com", "", false},
		{"https://hooks.example.com", "posthorn-data", true},
		{"https://hooks.example.com", "./posthorn-data/", true},
	} {
		u, err := url.Parse(test.server)
		if err != nil {
			t.Fatal(err)
		}
		c := connection{Server: test.server, Data: test.data}
		key, err := c.findKey(&Process{}, u)
		if sent := key == "the key" && err == nil; sent != test.sent {
			t.Errorf("%s with --data %q: key %q, %v", test.server, test.data, key, err)
		}
		var usage *usageError
		if !test.sent && (!errors.As(err, &usage) || !strings.Contains(err.Error(), "give a key with --key")) {
			t.Errorf("%s: %v", test.server, err)
		}
	}
}
