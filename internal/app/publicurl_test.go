package app

import (
	"testing"

	"github.com/posthorn/posthorn/internal/config"
)

// TestLinks_BeginWithThePublicURL: paths are appended to it, so that one which was
// given with a / at its end leads to no page with two.
func TestLinks_BeginWithThePublicURL(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"https://hooks.example.com": "https://hooks.example.com", "https://hooks.example.com/": "https://hooks.example.com",
		"https://example.com/hooks//": "https://example.com/hooks",
	} {
		a := &App{cfg: config.Server{PublicURL: given}}
		if got := a.publicURL(); got != want {
			t.Errorf("under %s links begin with %s", given, got)
		}
	}
}
