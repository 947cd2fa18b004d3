package cli_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/posthorn/posthorn/internal/cli"
	"github.com/posthorn/posthorn/internal/config"
)

// The generated documents are what the code says now.
func TestReference_IsUpToDate(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	var settings, commands bytes.Buffer
	if err := config.WriteReference(&settings); err != nil {
		t.Fatal(err)
	}
	if err := cli.WriteReference(t.Context(), &commands); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"../../docs/configuration.md": settings.String(), "../../docs/cli.md": commands.String(),
	} {
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is not what the code says: run go generate ./internal/cli", path)
		}
	}
}
